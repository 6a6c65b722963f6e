package runner

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// durable is what a store would hold of one run. It keeps the laws of package
// store that concern turns and remembers what has broken one.
type durable struct {
	run      store.Run
	entries  map[string]store.Entry
	items    []store.Item // item n has the number n+1
	turns    int
	prunings int // turns that pruned
	broken   []string
	out      outside
	topics   fakeTopics
	queues   queues
	values   map[string]string
	streams  map[string][]string
	sets     int // how often a value was set
	audit    []store.Audit
	retried  bool
}

// birth is the time at which the runs of the tests begin.
const birth store.Time = 1_000_000

func newDurable() *durable {
	return &durable{
		run: store.Run{
			No: 1, ID: "r", Shard: store.Shard{Group: store.DefaultGroup}, Status: store.Running,
			Claimed: true, Started: birth, Seed: store.Seed{7},
		},
		entries: map[string]store.Entry{}, values: map[string]string{}, streams: map[string][]string{},
	}
}

func (j *durable) violate(format string, args ...any) {
	j.broken = append(j.broken, fmt.Sprintf(format, args...))
}

// commit applies a turn. It reports false if an unexamined item holds back the
// suspension or the end (law 5).
func (j *durable) commit(t *store.Turn) bool {
	j.turns++
	j.run.Build = "b" // as the owner does, in the first turn
	j.check(t)
	if t.Prune != nil {
		j.prunings++
	}
	maps.DeleteFunc(j.entries, func(loc string, _ store.Entry) bool { return within(t.Prune, loc) })
	for _, e := range t.Entries {
		e.Value, e.Size = bytes.Clone(e.Value), len(e.Value)
		j.entries[e.Loc] = e
	}
	for _, no := range t.Seen {
		if it := j.item(no); it != nil && it.State == store.New {
			it.State = store.Seen
		}
	}
	j.consume(t.Consumed)
	j.carry(t.Sends)
	j.takes(t)
	for _, no := range t.Dead {
		if it := j.item(no); it != nil {
			it.State = store.Dead
		}
	}
	j.show(t)
	j.audit = append(j.audit, t.Audit...)
	u := t.Update
	if u == nil {
		return true
	}
	decides := u.Status.Terminal() || u.Marks&^j.run.Marks&store.Undoing != 0
	for _, it := range j.items {
		if slices.ContainsFunc(u.Consumed, consumes(it.No)) {
			continue
		}
		if it.State == store.New && (u.Status == store.Suspended || decides &&
			(it.Kind == store.ItemCancel || it.Kind == store.ItemTerminate)) {
			return false
		}
	}
	j.consume(u.Consumed)
	j.audit = append(j.audit, u.Audit...)
	if next := u.Continue; next != nil {
		if id := j.renew(); id != "" {
			j.violate("child %s goes on although its parent has continued as new", id)
		}
		j.run.Workflow, j.run.Input, j.run.Began, j.run.Incarnation = next.Workflow, next.Input, next.At, j.run.Incarnation+1
		j.run.Seed[0]++
		j.entries = map[string]store.Entry{}
	}
	j.run.Status, j.run.Marks, j.run.Reason, j.run.WakeAt, j.run.Waits = u.Status, u.Marks, u.Reason, u.WakeAt, u.Waits
	j.run.Claimed = u.Status == store.Running
	if u.Output != nil {
		j.run.Output = u.Output
	}
	j.carry(u.Sends)
	return true
}

func (j *durable) consume(list []store.Consumption) {
	for _, c := range list {
		if it := j.item(c.Item); it != nil {
			it.State, it.Verdict = store.Consumed, c.Verdict
		}
	}
}

func consumes(no store.ItemNo) func(store.Consumption) bool {
	return func(c store.Consumption) bool { return c.Item == no }
}

// check notes the laws that a turn breaks.
func (j *durable) check(t *store.Turn) {
	shards(t)
	batch := store.Batch{Node: "n", Boot: "b", No: 1, Leases: []store.Lease{{Shard: t.Shard}}, Turns: []*store.Turn{t}}
	if err := batch.Validate(); err != nil {
		j.violate("turn %d: %v", j.turns, err)
	}
	if !j.run.Claimed {
		j.violate("turn %d of a run that is not claimed: %+v", j.turns, t)
	}
	if t.Update != nil && !j.run.Status.CanBecome(t.Update.Status) {
		j.violate("turn %d: a %s run becomes %s", j.turns, j.run.Status, t.Update.Status)
	}
	last := j.seq()
	var numbers []int64
	written := map[string]bool{}
	for _, e := range t.Entries {
		if within(t.Prune, e.Loc) {
			j.violate("turn %d writes %s, which it prunes", j.turns, location.Loc(e.Loc))
		}
		if old, ok := j.entries[e.Loc]; ok && !overwritable(old, e) {
			j.violate("entry %s is final and is written again: %+v, then %+v", location.Loc(e.Loc), old, e)
		}
		if written[e.Loc] {
			j.violate("turn %d has two entries at %s", j.turns, location.Loc(e.Loc))
		}
		written[e.Loc] = true
		if e.Seq > 0 {
			numbers = append(numbers, e.Seq)
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if want := last + int64(i) + 1; n < want || n > want && t.Prune == nil {
			j.violate("turn %d has completion %d, want %d", j.turns, n, want)
		}
	}
	for _, no := range t.Seen {
		if it := j.item(no); it == nil || it.State != store.New {
			j.violate("item %d is seen and was never sent, or was seen before", no)
		}
	}
	for _, c := range t.ConsumedBy(store.Committed) {
		if it := j.item(c.Item); it == nil || it.State == store.Consumed || it.State == store.Dead {
			j.violate("item %d is consumed and was never sent, or is consumed twice", c.Item)
		}
	}
}

func within(spans []store.Span, loc string) bool {
	return slices.ContainsFunc(spans, func(s store.Span) bool { return s.Contains(loc) })
}

// pruned reports whether a location is in an iteration whose history is gone.
func (j *durable) pruned(loc location.Loc) bool {
	for loop, n := range loc.Loops() {
		if e, ok := j.entries[string(loop)]; ok && e.Kind == store.KindLoop {
			if p, err := stored.DecodeLoop(e.Value); err != nil || n < p.Oldest {
				return true
			}
		}
	}
	return false
}

// show applies what a turn says to readers.
func (j *durable) show(t *store.Turn) {
	for _, a := range t.Answers {
		it := j.item(a.Item)
		if it == nil || it.Kind != store.ItemUpdate || it.State != store.Consumed || it.Verdict != nil {
			j.violate("item %d is answered and no update that was received, or twice", a.Item)
			continue
		}
		it.Verdict = a.Verdict
	}
	for _, v := range t.Values {
		j.values[v.Name] = string(v.Value)
		j.sets++
	}
	for _, a := range t.Appends {
		j.streams[a.Name] = append(j.streams[a.Name], string(a.Value))
	}
	j.run.Tags = store.MergeTags(j.run.Tags, t.Tags)
}

// overwritable is law 4.
func overwritable(old, next store.Entry) bool {
	if old.State != store.Done && old.State != store.FailedEntry {
		return true
	}
	if old.Seq == 0 && next.Seq != 0 {
		old.Seq, old.At = next.Seq, next.At
	}
	same := bytes.Equal(old.Value, next.Value) && (old.Value == nil) == (next.Value == nil)
	old.Value, next.Value, old.Size, next.Size = nil, nil, 0, 0
	return same && fmt.Sprint(old) == fmt.Sprint(next)
}

func (j *durable) item(no store.ItemNo) *store.Item {
	if no < 1 || int(no) > len(j.items) {
		return nil
	}
	return &j.items[no-1]
}

// send puts an item into the inbox and returns it as a claim would.
func (j *durable) send(it store.Item) store.Item {
	it.No, it.State = store.ItemNo(len(j.items)+1), store.New
	if it.ID == "" {
		it.ID = fmt.Sprint("i", it.No)
	}
	j.items = append(j.items, it)
	return it
}

// claim makes the run the owner's to work on.
func (j *durable) claim() {
	j.run.Claimed = true
	if j.run.Status == store.Suspended {
		j.run.Status = store.Running
	}
}

// snapshot is what a new activation is made from. Large values are left out.
func (j *durable) snapshot() (entries []store.Entry, items []store.Item) {
	for _, e := range j.entries {
		if e.Value = bytes.Clone(e.Value); len(e.Value) >= store.LargeValue {
			e.Value = nil
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Loc, b.Loc) })
	for _, it := range j.items {
		if it.State != store.Consumed && it.State != store.Dead || it.Kind == store.ItemUpdate && it.Verdict == nil {
			items = append(items, it)
		}
	}
	return entries, items
}

// fetch returns the value of an entry that the snapshot left out.
func (j *durable) fetch(loc string) ([]byte, error) {
	e, ok := j.entries[loc]
	if !ok {
		return nil, store.ErrDamaged
	}
	return bytes.Clone(e.Value), nil
}

// seq returns the number of the last completion that is durable.
func (j *durable) seq() (last int64) {
	for _, e := range j.entries {
		last = max(last, e.Seq)
	}
	return last
}

// at returns the entry at a location in text form.
func (j *durable) at(text string) (store.Entry, bool) {
	for loc, e := range j.entries {
		if location.Loc(loc).String() == text {
			return e, true
		}
	}
	return store.Entry{}, false
}

// order returns the text locations of the completions in the order of their
// numbers.
func (j *durable) order() []string {
	var done []store.Entry
	for _, e := range j.entries {
		if e.Seq > 0 {
			done = append(done, e)
		}
	}
	slices.SortFunc(done, func(a, b store.Entry) int { return int(a.Seq - b.Seq) })
	texts := make([]string, len(done))
	for i, e := range done {
		texts[i] = location.Loc(e.Loc).String()
	}
	return texts
}
