package entity_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/store"
)

// toy is the rules of an entity that does a bit of everything. Its items are
// messages whose name is the verb.
type toy struct {
	entries map[string]string
	held    []store.ItemNo
	fan     int        // sends that are left
	alarm   store.Time // 0: none
	loads   *int
}

func (r *toy) Load(entries []store.Entry) error {
	*r.loads++
	r.entries = map[string]string{}
	last := ""
	for i := range entries {
		e := &entries[i]
		if e.Loc <= last {
			return fmt.Errorf("%q comes after %q", e.Loc, last)
		}
		if len(e.Value) != e.Size {
			return fmt.Errorf("%q has %d of %d bytes", e.Loc, len(e.Value), e.Size)
		}
		last = e.Loc
		r.entries[e.Loc] = string(e.Value)
	}
	if r.entries["damaged"] != "" {
		return errors.New("it is damaged")
	}
	r.fan, _ = strconv.Atoi(r.entries["fan"])
	at, _ := strconv.Atoi(r.entries["alarm"])
	r.alarm = store.Time(at)
	return nil
}

func (r *toy) put(w *entity.Writer, loc, value string) {
	r.entries[loc] = value
	w.Put(loc, []byte(value))
}

func (r *toy) delete(w *entity.Writer, loc string) {
	delete(r.entries, loc)
	w.Delete(loc)
}

func (r *toy) Take(it *store.Item, now store.Time, w *entity.Writer) {
	arg := string(it.Value)
	switch it.Name {
	case "put":
		loc, value, _ := strings.Cut(arg, "=")
		r.put(w, loc, value)
	case "both": // in one turn, the last call counts
		r.put(w, "a", arg)
		r.delete(w, "b")
		r.delete(w, "a")
		r.put(w, "b", arg)
	case "del":
		r.delete(w, arg)
	case "hold":
		r.held = append(r.held, it.No)
		w.Keep(it)
		return
	case "forget": // neither consumed nor kept
		return
	case "release":
		for _, no := range r.held {
			w.Consume(no, nil)
		}
		r.put(w, "released", strconv.Itoa(len(r.held)))
		r.held = nil
	case "fan":
		n, _ := strconv.Atoi(arg)
		r.fan += n
		r.put(w, "fan", strconv.Itoa(r.fan))
	case "alarm":
		after, _ := strconv.Atoi(arg)
		r.alarm = now + store.Time(after)
		r.put(w, "alarm", fmt.Sprint(int64(r.alarm)))
	case "ask":
		w.Consume(it.No, []byte("answer to "+arg))
		return
	case "panic":
		r.put(w, "half", "done")
		panic("a broken law")
	case "early":
		r.alarm = 1
	default:
		panic("nobody sent " + it.Name)
	}
	w.Consume(it.No, nil)
}

func (r *toy) Tick(now store.Time, w *entity.Writer) {
	if r.alarm != 0 && r.alarm > 1 && r.alarm <= now {
		r.put(w, "rang", fmt.Sprint(int64(r.alarm)))
		r.delete(w, "alarm")
		r.alarm = 0
	}
	if r.fan == 0 {
		return
	}
	for r.fan > 0 && !w.Full() {
		w.Send(store.Command{RunID: "receiver",
			Item: &store.Item{Kind: store.ItemMessage, Name: "fan", ID: fmt.Sprint("fan", r.fan)}})
		r.fan--
	}
	if r.fan > 0 {
		w.More()
		r.put(w, "fan", strconv.Itoa(r.fan))
	} else {
		r.delete(w, "fan")
	}
	w.Value("left", []byte(strconv.Itoa(r.fan)))
}

func (r *toy) Wake() store.Time { return r.alarm }

// journal is what a store would hold of the entity. It keeps the laws that concern
// it and reports what breaks one.
type journal struct {
	t       *testing.T
	run     store.Run
	now     store.Time
	entries map[string]store.Entry
	items   []store.Item
	sent    []string
	values  map[string]string
	turns   int
	loads   int
	largest int // rows of a turn
}

const second = store.Time(1_000_000)

func newJournal(t *testing.T) *journal {
	return &journal{
		t: t, now: 1000 * second, entries: map[string]store.Entry{}, values: map[string]string{},
		run: store.Run{No: 1, ID: "stet.toy/x", Workflow: "stet.toy", Status: store.Running, Claimed: true},
	}
}

// send puts an item into the inbox.
func (j *journal) send(name, value string) store.Item {
	no := store.ItemNo(len(j.items) + 1)
	it := store.Item{No: no, Kind: store.ItemMessage, State: store.New, Name: name, ID: fmt.Sprint(no),
		Value: []byte(value), Sent: j.now}
	j.items = append(j.items, it)
	return it
}

// open returns the items that a load or a claim returns.
func (j *journal) open(states ...store.ItemState) []store.Item {
	return slices.DeleteFunc(slices.Clone(j.items), func(it store.Item) bool { return !slices.Contains(states, it.State) })
}

// load makes a machine of what stands, large values left out.
func (j *journal) load() *entity.Machine {
	entries := slices.SortedFunc(maps.Values(j.entries), func(a, b store.Entry) int { return cmp.Compare(a.Loc, b.Loc) })
	for i := range entries {
		if entries[i].Size >= store.LargeValue {
			entries[i].Value = nil
		}
	}
	m := entity.New(entity.Config{
		Run: j.run, Rules: &toy{loads: &j.loads}, Entries: entries,
		Fetch: func(loc string) ([]byte, error) { return bytes.Clone(j.entries[loc].Value), nil },
	})
	m.Deliver(j.open(store.New, store.Seen)...)
	return m
}

// commit applies a turn. It reports whether the entity is suspended or stalled.
func (j *journal) commit(t *store.Turn) bool {
	j.t.Helper()
	j.turns++
	j.now += 1000
	if j.run.Status != store.Running {
		j.t.Fatalf("a turn of an entity that is %s: %+v", j.run.Status, t)
	}
	j.largest = max(j.largest, len(t.Entries)+len(t.Sends)+len(t.Prune)+len(t.Consumed))
	locs := map[string]bool{}
	for _, s := range t.Prune {
		if s.To != s.From+"\x00" {
			j.t.Errorf("expected a span of one location, got %q", s)
		}
		delete(j.entries, s.From)
	}
	for _, e := range t.Entries {
		if locs[e.Loc] || e.State != store.Open || e.Kind != store.KindEntity || e.Size != len(e.Value) {
			j.t.Errorf("expected one open entry of an entity at %q, got %+v", e.Loc, e)
		}
		locs[e.Loc] = true
		j.entries[e.Loc] = e
	}
	for _, no := range t.Seen {
		if it := &j.items[no-1]; it.State == store.New {
			it.State = store.Seen
		}
	}
	for _, c := range t.Consumed {
		it := &j.items[c.Item-1]
		if it.State == store.Consumed {
			j.t.Errorf("item %d was consumed twice", c.Item)
		}
		it.State, it.Value, it.Verdict = store.Consumed, nil, c.Verdict
	}
	for _, c := range t.Sends {
		j.sent = append(j.sent, c.Item.ID)
	}
	for _, v := range t.Values {
		j.values[v.Name] = string(v.Value)
	}
	u := t.Update
	if u == nil || u.Status == store.Suspended && len(j.open(store.New)) > 0 {
		return false
	}
	j.run.Status, j.run.WakeAt, j.run.Reason = u.Status, u.WakeAt, u.Reason
	return true
}

// settle drives the machine until it stands still. after is called when a turn was
// made, and may commit it in its own way and return another machine.
func (j *journal) settle(m *entity.Machine, after func(*entity.Machine, *store.Turn) *entity.Machine) *entity.Machine {
	j.t.Helper()
	for range 1000 {
		m.Advance(j.now, j.now)
		if m.Broken() != nil {
			return m
		}
		turn := m.Take()
		switch {
		case turn == nil && m.Suspended(), turn == nil && j.run.Status == store.Stalled:
			return m
		case turn == nil:
			at, _ := m.NextTimer()
			if at == 0 || at < j.now {
				j.t.Fatalf("the entity neither waits nor works: timer at %d, now %d", at, j.now)
			}
			j.now = at
			continue
		}
		m = after(m, turn)
	}
	j.t.Fatal("the entity does not come to rest")
	return nil
}

// plain commits and goes on.
func (j *journal) plain(m *entity.Machine, turn *store.Turn) *entity.Machine {
	j.tell(m, turn, j.commit(turn))
	return m
}

func (j *journal) tell(m *entity.Machine, turn *store.Turn, done bool) {
	if turn.Update != nil && !done {
		m.StillReady()
		m.Deliver(j.open(store.New)...)
		return
	}
	m.Committed()
}

// claim takes a suspended entity in hand, if there is a reason.
func (j *journal) claim() bool {
	due := j.run.WakeAt != 0 && j.run.WakeAt <= j.now
	if j.run.Status != store.Suspended || !due && len(j.open(store.New)) == 0 {
		return false
	}
	j.run.Status, j.run.WakeAt = store.Running, 0
	return true
}

// state is what stands, without what depends on when it was done.
func (j *journal) state() string {
	var b strings.Builder
	for _, loc := range slices.Sorted(maps.Keys(j.entries)) {
		value := string(j.entries[loc].Value)
		if loc == "alarm" || loc == "rang" {
			value = "…"
		}
		fmt.Fprintf(&b, "%s=%.20s(%d) ", loc, value, len(value))
	}
	sent := slices.Clone(j.sent)
	slices.Sort(sent)
	fmt.Fprintf(&b, "sent %d of which different %d; ", len(sent), len(slices.Compact(sent)))
	for _, it := range j.items {
		fmt.Fprintf(&b, "%d%s:%d%s ", it.No, it.Name, it.State, it.Verdict)
	}
	return b.String()
}
