package redis

import (
	"strconv"

	"github.com/stet-run/stet/store"
)

// floors are the numbers that a command may use up, above those that were seen.
type floors struct{ runs, items int64 }

func (f floors) plus(more floors) floors { return floors{f.runs + more.runs, f.items + more.items} }

// command adds a command. at are the numbers that it may use.
func (b *committing) command(a *args, c *store.Command, at floors) {
	if c.Start == nil {
		a.text(itemCommand, flag(c.Claim))
		a.count(b.slotOfCommand(c))
		a.int(at.runs)
		a.int(at.items)
		if c.RunNo != 0 {
			a.text(byNumber + strconv.FormatInt(int64(c.RunNo), 10))
		} else {
			a.text(byID + c.RunID)
		}
		a.item(c.Item)
		return
	}
	st := c.Start
	plain := st.At == 0 && st.After == 0 && st.Existing == store.KeepExisting && st.Parent == 0 && st.ParentLoc == "" &&
		st.Headers == nil &&
		len(st.Tags)+len(st.Items) == 0 && st.Fork == nil && st.Queue == nil
	if plain {
		a.text(smallStart)
	} else {
		a.text(startCommand)
	}
	a.bool(c.Claim)
	a.count(b.slotOfCommand(c))
	a.int(at.runs)
	a.int(at.items)
	if plain {
		a.text(st.ID, st.Shard.Group, st.Workflow)
		a.start(st)
		a.value(st.Input)
		a.text(st.Build)
		return
	}
	a.text(st.ID, st.Shard.Group)
	a.count(st.Shard.Slot)
	a.text(st.Workflow)
	a.start(st)
	a.value(st.Input)
	a.text(st.Build)
	a.int(int64(st.At))
	a.int(int64(st.After) / 1_000_000)
	a.int(int64(st.After) % 1_000_000)
	a.int(int64(st.Existing))
	a.int(int64(st.Parent))
	a.text(st.ParentLoc)
	a.value(st.Headers)
	each(a, store.MergeTags(nil, st.Tags), func(p store.Pair) { a.text(p.Key + "=" + p.Value) })
	a.count(len(st.Items))
	for i := range st.Items {
		a.item(&st.Items[i])
	}
	a.bool(st.Fork != nil)
	if f := st.Fork; f != nil {
		random := ""
		if f.Random != (store.Seed{}) {
			random = string(f.Random[:])
		}
		a.text(random)
		a.int(int64(f.Started))
		a.entries(f.Entries)
		a.count(len(f.Items))
		for i := range f.Items {
			a.item(&f.Items[i])
			a.int(int64(f.Items[i].State))
			a.int(int64(f.Items[i].Sent))
		}
		a.audit(f.Audit)
	}
	a.bool(st.Queue != nil)
	if q := st.Queue; q != nil {
		a.value(q.Data)
		ask := q.Ask
		ask.Claim = false
		b.command(a, &ask, floors{at.runs, at.items + uses(c).items - 1})
	}
}

// uses returns how many numbers a command may use up. A watch may be answered.
func uses(c *store.Command) floors {
	if c.Start == nil {
		return floors{0, 2}
	}
	f := floors{1, int64(len(c.Start.Items))}
	if c.Start.Fork != nil {
		f.items += int64(len(c.Start.Fork.Items))
	}
	if c.Start.Queue != nil {
		f.items++
	}
	return f
}
