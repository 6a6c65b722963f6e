package topic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/store"
)

// world is a topic with its store: what is committed, what its inbox holds, and what
// it has sent.
type world struct {
	t       interface{ Fatalf(string, ...any) }
	now     store.Time
	last    store.ItemNo
	entries map[string]store.Entry
	inbox   []store.Item
	stats   Stats
	sent    []event.Delivery       // by committed turns
	to      []store.RunNo          // of these
	runs    map[string]store.RunNo // that were given something, by key

	rules   *Rules
	machine *entity.Machine
}

func newWorld(t interface{ Fatalf(string, ...any) }) *world {
	w := &world{t: t, now: 1000, entries: map[string]store.Entry{}, runs: map[string]store.RunNo{}}
	w.load()
	return w
}

// load makes a new activation of what is committed.
func (w *world) load() {
	entries := make([]store.Entry, 0, len(w.entries))
	for _, loc := range slices.Sorted(maps.Keys(w.entries)) {
		entries = append(entries, w.entries[loc])
	}
	w.rules = New("orders")
	w.machine = entity.New(entity.Config{
		Run: store.Run{No: 1}, Rules: w.rules, Entries: entries,
		Fetch: func(string) ([]byte, error) { panic("nothing is left out") },
	})
	w.machine.Deliver(w.inbox...)
}

// put puts an item into the inbox.
func (w *world) put(c store.Command) store.ItemNo {
	w.last++
	it := *c.Item
	it.No, it.State, it.Sent = w.last, store.New, w.now
	w.inbox = append(w.inbox, it)
	w.machine.Resumed()
	w.machine.Deliver(it)
	return it.No
}

// turn lets the topic make a turn and returns it, nil if there is nothing to do.
func (w *world) turn() *store.Turn {
	w.machine.Resumed()
	w.machine.Advance(w.now, w.now)
	turn := w.machine.Take()
	if turn != nil && turn.Update != nil && turn.Update.Status == store.Stalled {
		w.t.Fatalf("the topic stalls: %s", turn.Update.Reason)
	}
	return turn
}

// commit writes a turn.
func (w *world) commit(turn *store.Turn) {
	for _, s := range turn.Prune {
		maps.DeleteFunc(w.entries, func(loc string, _ store.Entry) bool { return s.Contains(loc) })
	}
	for _, e := range turn.Entries {
		w.entries[e.Loc] = e
	}
	for _, c := range turn.Consumed {
		w.inbox = slices.DeleteFunc(w.inbox, func(it store.Item) bool { return it.No == c.Item })
	}
	for _, v := range turn.Values {
		stats, err := DecodeStats(v.Value)
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		w.stats = stats
	}
	for _, c := range turn.Sends {
		var d event.Delivery
		if err := event.Decode(c.Item.Value, &d); err != nil {
			w.t.Fatalf("%v", err)
		}
		w.sent, w.to = append(w.sent, d), append(w.to, c.RunNo)
	}
	w.machine.Committed()
	w.conserved()
}

// settle commits turns until there is nothing to do.
func (w *world) settle() (turns int) {
	for turn := w.turn(); turn != nil; turn = w.turn() {
		w.commit(turn)
		turns++
		if len(turn.Entries)+len(turn.Prune)+len(turn.Sends)+len(turn.Consumed)+len(turn.Seen)+len(turn.Values) == 0 {
			return turns
		}
	}
	return turns
}

// conserved checks the counts against what stands.
func (w *world) conserved() {
	s := newState()
	var entries []store.Entry
	for _, loc := range slices.Sorted(maps.Keys(w.entries)) {
		entries = append(entries, w.entries[loc])
	}
	if err := s.load(entries); err != nil {
		w.t.Fatalf("what is committed cannot be read: %v", err)
	}
	if got := s.Counts.Received + s.waiting() + s.inFlight + s.Counts.Expired; got != s.Counts.Accepted {
		w.t.Fatalf("accepted %d, but received %d, pending %d, in flight %d, expired %d",
			s.Counts.Accepted, s.Counts.Received, s.waiting(), s.inFlight, s.Counts.Expired)
	}
	if len(w.entries) > 0 && (w.stats.Counts != s.Counts || w.stats.Pending != s.waiting() ||
		w.stats.InFlight != s.inFlight || w.stats.Waiting != s.idleWaits || w.stats.Bytes != s.bytes) {
		w.t.Fatalf("it says %+v of itself; %d are pending, %d in flight, %d bytes, %d waits, %+v", w.stats, s.waiting(),
			s.inFlight, s.bytes, s.idleWaits, s.Counts)
	}
}

func (w *world) publish(mode event.Mode, s event.Settings, id string) store.ItemNo {
	s.Mode = mode
	if s.Expiry == 0 {
		s.Expiry = event.Never
	}
	if s.Retention == 0 {
		s.Retention = event.Never
	}
	return w.put(event.Publish("orders", id, id, &event.Publication{Settings: s, Value: []byte(id)}, nil))
}

func (w *world) wait(run store.RunNo, key string, since store.Time, open ...string) store.ItemNo {
	return w.put(event.Register("orders", key, &event.Registration{Run: run, Since: since, Open: open}))
}

// got returns which run got which event since the last call, in order.
func (w *world) got() string {
	var parts []string
	for i, d := range w.sent {
		parts = append(parts, fmt.Sprintf("%s←%s", d.Key, d.Event.ID))
		if w.to[i] <= 0 {
			w.t.Fatalf("a delivery to run number %d", w.to[i])
		}
	}
	w.sent, w.to = nil, nil
	return strings.Join(parts, " ")
}

func (w *world) expect(t *testing.T, want string) {
	t.Helper()
	w.settle()
	if got := w.got(); got != want {
		t.Fatalf("delivered %q; want %q", got, want)
	}
}
