package redis

import (
	"strconv"

	"github.com/stet-run/stet/store"
)

// hasOnlyEntries reports whether a turn has entries and nothing else but an update.
func hasOnlyEntries(t *store.Turn) bool {
	return len(t.Prune)+len(t.Rewrites)+len(t.Seen)+len(t.Consumed)+len(t.Returned)+len(t.Answers)+len(t.Values)+
		len(t.Appends)+len(t.Tags)+len(t.Dead)+len(t.Refused)+len(t.Audit)+len(t.Sends) == 0 && !t.Rewound
}

// hasMore reports whether an update has parts that most do not have.
func hasMore(u *store.Update) bool {
	return u.Reason != "" || u.Waits != nil || u.Queue != nil || u.Keep != 0
}

// turnArguments adds a turn, see readTurn in commit.lua. at are the numbers that it may
// use.
func (c *committing) turnArguments(a *args, t *store.Turn, at floors) {
	entries := hasOnlyEntries(t)
	what := wholeTurn
	switch {
	case entries && t.Update == nil:
		what = entriesTurn
	case entries && t.Update.Continue == nil && len(t.Update.Sends)+len(t.Update.Consumed)+len(t.Update.Audit) == 0:
		what = updateTurn
	}
	a.text(what)
	a.int(int64(t.Run))
	a.shard(t.Shard)
	a.count(t.Incarnation)
	if what != wholeTurn {
		a.entries(t.Entries)
		if what == updateTurn {
			a.update(t.Update)
		}
		return
	}
	a.int(at.items)
	at.items += int64(len(t.Returned))
	each(a, t.Prune, func(s store.Span) { a.text(s.From, s.To) })
	a.entries(t.Rewrites)
	a.entries(t.Entries)
	a.items(t.Seen)
	consumptions := func(list []store.Consumption) {
		each(a, list, func(c store.Consumption) {
			a.int(int64(c.Item))
			a.value(c.Verdict)
		})
	}
	consumptions(t.Consumed)
	a.count(len(t.Returned))
	for i := range t.Returned {
		a.item(&t.Returned[i])
		a.int(int64(t.Returned[i].No))
		a.int(int64(t.Returned[i].Sent))
	}
	consumptions(t.Answers)
	each(a, t.Values, func(v store.Setting) { a.text(v.Name, value(v.Value)) })
	a.bool(t.Rewound)
	each(a, t.Appends, func(v store.Append) {
		a.text(v.Name, value(v.Value))
		a.int(v.Keep)
	})
	each(a, t.Tags, func(p store.Pair) { a.text(p.Key, p.Value) })
	a.items(t.Dead)
	each(a, t.Refused, func(x store.Refusal) {
		a.int(int64(x.Item))
		a.value(x.Reason)
	})
	a.audit(t.Audit)
	sends := func(list []store.Command) {
		a.count(len(list))
		for i := range list {
			c.command(a, &list[i], at)
			at = at.plus(uses(&list[i]))
		}
	}
	sends(t.Sends)
	a.bool(t.Update != nil)
	u := t.Update
	if u == nil {
		return
	}
	a.update(u)
	a.bool(u.Continue != nil)
	if n := u.Continue; n != nil {
		a.text(n.Workflow, value(n.Input))
		a.seed(n.Seed)
		a.int(int64(n.At))
		first := ""
		if n.First != (store.Origin{}) {
			first = origin(&n.First)
		}
		a.text(first)
	}
	consumptions(u.Consumed)
	a.audit(u.Audit)
	sends(u.Sends)
}

// update adds the changes of a run's row, see readUpdate in commit.lua.
func (a *args) update(u *store.Update) {
	a.text(updateText(u), u.Build)
	a.value(u.Output)
	if hasMore(u) {
		a.text(u.Reason)
		a.value(u.Waits)
		a.value(u.Queue)
		a.int(int64(u.Keep))
	}
}

// updateText returns the part of an update that many have in common, see updateOf in
// commit.lua.
func updateText(u *store.Update) string {
	b := strconv.AppendInt(make([]byte, 0, 16), int64(u.Status), 10)
	for _, n := range [...]int64{int64(u.Marks), int64(u.WakeAt), int64(u.Generation)} {
		b = strconv.AppendInt(append(b, ';'), n, 10)
	}
	b = append(b, ';')
	for _, f := range [...]struct {
		is   bool
		flag byte
	}{
		{u.Isolate, isolateFlag}, {u.EndIsolation, endIsolationFlag}, {u.Discard, discardFlag}, {u.Unclaim, unclaimFlag},
		{u.AnyBuild, anyBuildFlag},
		{hasMore(u), moreFlag},
	} {
		if f.is {
			b = append(b, f.flag)
		}
	}
	b = append(b, ';')
	for _, name := range u.DiscardNames {
		b = append(append(strconv.AppendInt(b, int64(len(name)), 10), ':'), name...)
	}
	return string(b)
}
