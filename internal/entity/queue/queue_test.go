package queue

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// world is a queue with its store: what is committed, what its inbox holds, and the
// tickets that were granted.
type world struct {
	t       testing.TB
	now     store.Time
	last    store.ItemNo
	entries map[string]store.Entry
	inbox   []store.Item
	state   permit.State
	granted []string // tickets, by committed turns
	answers []string

	machine *entity.Machine
	model   model
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, now: 1000, entries: map[string]store.Entry{}}
	w.model.served = map[string]int64{}
	w.load()
	return w
}

// load makes a new activation of what is committed.
func (w *world) load() {
	entries := make([]store.Entry, 0, len(w.entries))
	for _, loc := range slices.Sorted(maps.Keys(w.entries)) {
		entries = append(entries, w.entries[loc])
	}
	w.machine = entity.New(entity.Config{Run: store.Run{No: 1}, Rules: New(&store.Run{ID: permit.EntityID("q")}),
		Entries: entries,
		Fetch:   func(string) ([]byte, error) { panic("nothing is left out") }})
	w.machine.Hear(entity.Lined.NoLine)
	w.machine.Deliver(w.inbox...)
}

func (w *world) put(it *store.Item) {
	w.last++
	it.No, it.State, it.Sent = w.last, store.New, w.now
	w.inbox = append(w.inbox, *it)
	w.machine.Resumed()
	w.machine.Deliver(*it)
}

func (w *world) ask(ticket, key string, priority int, after store.Delay) {
	p := permit.Place{Queue: "q", Key: key, Priority: priority, Ticket: ticket}
	w.put(p.AskFor(permit.Ask{RunID: "run " + ticket, Loc: stepOf(ticket), After: after}).Item)
}

// stepOf returns the location of the step that asks with a ticket: every other one is
// a run's.
func stepOf(ticket string) string {
	if (len(ticket)+int(ticket[len(ticket)-1]))%2 == 0 {
		return ""
	}
	return "step of " + ticket
}

func (w *world) back(ticket string) {
	p := permit.Place{Queue: "q", Ticket: ticket}
	w.put(p.GiveBack().Item)
}

func (w *world) manage(name string, s permit.Settings) {
	change := permit.Change{Settings: s, By: "ada"}
	w.put(&store.Item{Kind: store.ItemUpdate, Name: name, ID: fmt.Sprint("m", w.last), Value: change.Encode()})
}

func (w *world) turn() *store.Turn {
	w.machine.Resumed()
	w.machine.Advance(w.now, w.now)
	turn := w.machine.Take()
	if turn != nil && turn.Update != nil && turn.Update.Status == store.Stalled {
		w.t.Fatalf("the queue stalls: %s", turn.Update.Reason)
	}
	return turn
}

// commit writes a turn, and checks it against the model.
func (w *world) commit(turn *store.Turn) {
	w.t.Helper()
	for _, c := range turn.Consumed {
		i := slices.IndexFunc(w.inbox, func(it store.Item) bool { return it.No == c.Item })
		if verdict := w.model.take(&w.inbox[i]); w.inbox[i].Kind == store.ItemUpdate {
			if string(c.Verdict[:1]) != verdict {
				w.t.Fatalf("%s is answered %q; the model says %s", w.inbox[i].Name, c.Verdict, verdict)
			}
			w.answers = append(w.answers, string(c.Verdict))
		}
		w.inbox = slices.Delete(w.inbox, i, i+1)
	}
	w.write(turn)
	for _, c := range turn.Sends {
		if ticket := permit.Ticket(c.Item); c.Item.Loc != stepOf(ticket) || permit.OfStep(c.Item) && c.Item.Name != "q" {
			w.t.Fatalf("what is sent to step %q of queue %q: %+v", stepOf(ticket), "q", c.Item)
		}
		want := w.model.grant(w.now)
		if got := permit.Ticket(c.Item); got != want || c.RunID != "run "+got || c.Item.Kind != store.ItemGrant {
			w.t.Fatalf("granted %q to %s; the model says %q", got, c.RunID, want)
		}
		w.granted = append(w.granted, permit.Ticket(c.Item))
	}
	w.model.trim()
	full := len(turn.Entries)+len(turn.Prune)+len(turn.Sends)+len(turn.Consumed) >= 500
	if want := w.model.next(w.now); want != nil && !full {
		w.t.Fatalf("the turn grants %d permits; the model grants %q too", len(turn.Sends), want.ticket)
	}
	for _, v := range turn.Values {
		var err error
		if w.state, err = permit.DecodeState(v.Value); err != nil {
			w.t.Fatal(err)
		}
	}
	w.machine.Committed()
	w.check(full)
}

// write changes the entries.
func (w *world) write(turn *store.Turn) {
	for _, s := range turn.Prune {
		maps.DeleteFunc(w.entries, func(loc string, _ store.Entry) bool { return s.Contains(loc) })
	}
	for _, e := range turn.Entries {
		w.entries[e.Loc] = e
	}
}

// apply writes a turn, without a look at the model.
func (w *world) apply(turn *store.Turn) {
	for _, c := range turn.Consumed {
		w.inbox = slices.DeleteFunc(w.inbox, func(it store.Item) bool { return it.No == c.Item })
	}
	w.write(turn)
	w.machine.Committed()
}

// check compares what stands with the model.
func (w *world) check(full bool) {
	w.t.Helper()
	var held, waiting []string
	for loc := range w.entries {
		switch loc[:1] {
		case permitLoc:
			held = append(held, loc[1:])
		case requestLoc:
			waiting = append(waiting, loc[1:])
		}
	}
	m := &w.model
	slices.Sort(held)
	slices.Sort(waiting)
	if want := tickets(m.held); !slices.Equal(held, want) {
		w.t.Fatalf("permits that stand: %q; want %q", held, want)
	}
	if want := tickets(m.waiting); !slices.Equal(waiting, want) {
		w.t.Fatalf("requests that stand: %q; want %q", waiting, want)
	}
	if s := m.limits(); m.exists && (s.Concurrency > m.most && len(held) > s.Concurrency) {
		w.t.Fatalf("%d permits of %d", len(held), s.Concurrency)
	}
	delayed := 0
	for _, r := range m.waiting {
		if r.due > w.now {
			delayed++
		}
	}
	if got := w.state; !full && (got.Held != len(held) || got.Waiting+got.Delayed != len(waiting) ||
		got.Delayed != delayed || got.Granted != m.granted ||
		got.Paused != m.paused || got.Exists != m.exists || got.Settings != *m.limits() || got.Limits.Declared != m.set ||
		(got.Limits.Override != nil) != (m.over != nil)) {
		w.t.Fatalf("it says of itself %+v; %d are held, %d wait, %d delayed, %+v", got, len(held), len(waiting), delayed, m)
	}
}

// settle commits turns until there is nothing to do.
func (w *world) settle() {
	w.t.Helper()
	for turn := w.turn(); turn != nil; turn = w.turn() {
		w.commit(turn)
		if len(turn.Entries)+len(turn.Prune)+len(turn.Sends)+len(turn.Consumed)+len(turn.Seen)+len(turn.Values) == 0 {
			return
		}
	}
}

// model is a queue as one would say it, without thinking of how long it takes.
type model struct {
	set            permit.Settings  // as declared
	over           *permit.Settings // nil: nobody has overridden them
	exists, paused bool
	waiting, held  []asking
	served         map[string]int64
	granted        int64
	times          []store.Time
	most           int // permits that were held when the limit was set
}

type asking struct {
	ticket, key string
	priority    int
	due         store.Time
	no          store.ItemNo
}

func tickets(list []asking) []string {
	var all []string
	for _, r := range list {
		all = append(all, r.ticket)
	}
	slices.Sort(all)
	return all
}

// limits returns the settings that count.
func (m *model) limits() *permit.Settings {
	if m.over != nil {
		return m.over
	}
	return &m.set
}

func (m *model) take(it *store.Item) string {
	ticket := permit.Ticket(it)
	named := func(r asking) bool { return r.ticket == ticket }
	switch it.Kind {
	case store.ItemAsk:
		a, err := permit.DecodeAsk(it.Value)
		if err != nil {
			panic(err)
		}
		if !slices.ContainsFunc(m.waiting, named) && !slices.ContainsFunc(m.held, named) {
			m.waiting = append(m.waiting, asking{
				ticket, a.Key, a.Priority, max(it.Sent, a.At, it.Sent+store.Time(a.After)), it.No,
			})
		}
		return ""
	case store.ItemGiveBack:
		m.waiting = slices.DeleteFunc(m.waiting, named)
		m.held = slices.DeleteFunc(m.held, named)
		return ""
	}
	c, _ := permit.DecodeChange(it.Value)
	s, changes := c.Settings, it.Name == permit.Create || it.Name == permit.Set
	switch {
	case it.Name != permit.Create && !m.exists:
		return "m"
	case changes && m.exists && s.Group != m.set.Group:
		return "n"
	case changes || it.Name == permit.Reset:
		switch it.Name {
		case permit.Create:
			m.exists, m.set = true, s
		case permit.Set:
			m.over = &s
		default:
			m.over = nil
		}
		m.most = len(m.held)
		m.trim()
	case it.Name == permit.Pause, it.Name == permit.Resume:
		m.paused = it.Name == permit.Pause
	case len(m.waiting)+len(m.held) > 0:
		return "n"
	default:
		m.exists, m.paused, m.set, m.over, m.times = false, false, permit.Settings{}, nil, nil
	}
	return "y"
}

// next returns the ask that gets the next permit now.
func (m *model) next(now store.Time) *asking {
	s := m.limits()
	if !m.exists || m.paused || s.Concurrency > 0 && len(m.held) >= s.Concurrency {
		return nil
	}
	if n := len(m.times); s.Rate > 0 && n >= s.Rate && m.times[n-s.Rate]+store.Time(s.Per) > now {
		return nil
	}
	first := map[string]*asking{} // of a priority and key
	for i := range m.waiting {
		r := &m.waiting[i]
		held := 0
		for _, h := range m.held {
			if h.key == r.key {
				held++
			}
		}
		if r.due > now || s.PerKey > 0 && r.key != "" && held >= s.PerKey {
			continue
		}
		line := fmt.Sprint(r.priority, " ", r.key)
		if f := first[line]; f == nil || cmp.Or(cmp.Compare(r.due, f.due), cmp.Compare(r.no, f.no)) < 0 {
			first[line] = r
		}
	}
	var best *asking
	for _, r := range first {
		if best == nil || cmp.Or(cmp.Compare(best.priority, r.priority), cmp.Compare(m.served[r.key], m.served[best.key]),
			cmp.Compare(r.due, best.due), cmp.Compare(r.no, best.no)) < 0 {
			best = r
		}
	}
	return best
}

func (m *model) mostRate() int {
	if m.over != nil {
		return max(m.set.Rate, m.over.Rate)
	}
	return m.set.Rate
}

// trim forgets the times that no rate counts. Those that are equal are kept together.
func (m *model) trim() {
	for len(m.times) > 0 {
		n := 1
		for n < len(m.times) && m.times[n] == m.times[0] {
			n++
		}
		if len(m.times)-n < m.mostRate() {
			return
		}
		m.times = m.times[n:]
	}
}

// grant grants a permit and returns the ticket; "": there is none to grant.
func (m *model) grant(now store.Time) string {
	r := m.next(now)
	if r == nil {
		return ""
	}
	got := *r
	m.waiting = slices.DeleteFunc(m.waiting, func(o asking) bool { return o.ticket == got.ticket })
	m.held = append(m.held, got)
	m.granted++
	m.served[got.key] = m.granted
	if m.mostRate() > 0 {
		m.times = append(m.times, now)
	}
	return got.ticket
}

// TestQueueAgainstItsModel: random asks, returns, changes and crashes; each committed
// turn is what the model says.
func TestQueueAgainstItsModel(t *testing.T) {
	waited, overridden := 0, 0
	for seed := range uint64(150) {
		w := newWorld(t)
		rng := rand.New(rand.NewPCG(seed, 3))
		settings := func() permit.Settings {
			s := permit.Settings{Group: "g"}
			s.Concurrency, s.PerKey = rng.IntN(5), rng.IntN(3)
			if rng.IntN(3) == 0 {
				s.Rate, s.Per = 1+rng.IntN(4), store.Delay(1+rng.IntN(5_000_000))
			}
			if rng.IntN(20) == 0 {
				s.Group = "h"
			}
			return s
		}
		w.manage(permit.Create, settings())
		for step := range 120 {
			switch n := rng.IntN(20); {
			case n < 8:
				after := store.Delay(0)
				if rng.IntN(5) == 0 {
					after = store.Delay(rng.IntN(4_000_000))
				}
				w.ask(fmt.Sprint("t", step), []string{"", "a", "b", "c"}[rng.IntN(4)], rng.IntN(3)-1, after)
			case n < 14:
				held := append(tickets(w.model.held), tickets(w.model.waiting)...)
				if len(held) > 0 && rng.IntN(10) > 0 {
					w.back(held[rng.IntN(len(held))])
				} else {
					w.back("nobody's")
				}
			case n < 16:
				verbs := []string{permit.Set, permit.Reset, permit.Pause, permit.Resume, permit.Delete, permit.Create}
				w.manage(verbs[rng.IntN(len(verbs))], settings())
			default:
				w.now += store.Time(rng.IntN(3_000_000))
			}
			if rng.IntN(3) == 0 {
				continue
			}
			switch rng.IntN(6) {
			case 0: // the process ends before the commit
				w.turn()
				w.load()
			case 1: // after it
				if turn := w.turn(); turn != nil {
					w.commit(turn)
				}
				w.load()
			default:
				w.settle()
			}
			if !w.model.exists && len(w.model.waiting) > 0 {
				waited++
			}
			if w.model.over != nil {
				overridden++
			}
		}
		w.manage(permit.Reset, permit.Settings{})
		group := "g"
		if w.model.exists {
			group = w.model.set.Group
		}
		w.manage(permit.Create, permit.Settings{Group: group})
		w.manage(permit.Resume, permit.Settings{})
		w.now += store.Time(1 << 40)
		w.settle()
		if len(w.model.waiting) > 0 {
			t.Fatalf("seed %d: %d wait though nothing is limited", seed, len(w.model.waiting))
		}
	}
	if waited == 0 || overridden == 0 {
		t.Errorf("%d times something waited for a queue that does not exist; %d times settings were overridden",
			waited, overridden)
	}
}

func TestPermitsOfARateKeepTheirDistance(t *testing.T) {
	w := newWorld(t)
	w.manage(permit.Create, permit.Settings{Rate: 3, Per: 1_000_000})
	for i := range 10 {
		w.ask(fmt.Sprint("t", i), "", 0, 0)
	}
	var times []store.Time
	for len(times) < 10 {
		w.settle()
		for len(times) < len(w.granted) {
			times = append(times, w.now)
		}
		if at, _ := w.machine.NextTimer(); at > w.now {
			w.now = at
		} else if len(times) < 10 {
			t.Fatalf("nobody wakes the queue at %d, with %d permits granted", w.now, len(times))
		}
		w.load()
	}
	for i := 3; i < len(times); i++ {
		if d := times[i] - times[i-3]; d != 1_000_000 {
			t.Errorf("permit %d comes %d µs after the third one before it", i, d)
		}
	}
}

// TestWaitForAQueueThatDoesNotExist: those that wait are noted at once and every minute,
// until the queue is created and they have their permits.
func TestWaitForAQueueThatDoesNotExist(t *testing.T) {
	w := newWorld(t)
	w.ask("t1", "", 0, 0)
	w.ask("t2", "", 0, 0)
	for range 3 {
		w.settle()
		notes := w.machine.Notes()
		if len(notes) != 1 || !slices.Contains(notes[0].Attrs, any(2)) || !slices.Contains(notes[0].Attrs, any("q")) {
			t.Fatalf("it notes %v", notes)
		}
		at, _ := w.machine.NextTimer()
		if at != w.now+missEvery {
			t.Fatalf("at %d it is to be woken at %d", w.now, at)
		}
		w.now = at
	}
	w.manage(permit.Create, permit.Settings{Group: "g"})
	w.settle()
	if at, _ := w.machine.NextTimer(); len(w.granted) != 2 || len(w.machine.Notes()) != 0 || at != 0 {
		t.Errorf("once it is created %q are granted, and it is to be woken at %d", w.granted, at)
	}
}

// TestOverriddenSettings count in place of those that are declared, also of later ones,
// until they are reset.
func TestOverriddenSettings(t *testing.T) {
	w := newWorld(t)
	expect := func(limit, declared int, by string) {
		t.Helper()
		w.load()
		w.manage(permit.Resume, permit.Settings{}) // changes nothing, and shows how it stands
		w.settle()
		s := w.state
		if s.Settings.Concurrency != limit || s.Limits.Declared.Concurrency != declared || s.Limits.Source.By != "ada" {
			t.Errorf("limit %d, declared %+v", s.Settings.Concurrency, s.Limits)
		}
		if o := s.Limits.Override; (o != nil) != (by != "") || o != nil && o.Source.By != by {
			t.Errorf("overridden by %+v", o)
		}
	}
	w.manage(permit.Create, permit.Settings{Concurrency: 5, Group: "g"})
	w.settle()
	expect(5, 5, "")
	w.manage(permit.Set, permit.Settings{Concurrency: 1, Group: "g"})
	w.settle()
	expect(1, 5, "ada")
	w.manage(permit.Create, permit.Settings{Concurrency: 7, Group: "g"})
	w.settle()
	expect(1, 7, "ada")
	w.manage(permit.Reset, permit.Settings{})
	w.settle()
	expect(7, 7, "")
	w.manage(permit.Set, permit.Settings{Concurrency: 1, Group: "g"})
	w.manage(permit.Delete, permit.Settings{})
	w.manage(permit.Create, permit.Settings{Concurrency: 3, Group: "h"})
	w.settle()
	expect(3, 3, "")
	w.manage(permit.Create, permit.Settings{Concurrency: 3, Group: "g"})
	w.settle()
	if notes := w.machine.Notes(); len(notes) != 1 || w.answers[len(w.answers)-1][0] != permit.No {
		t.Errorf("another group is answered %q and noted as %v", w.answers, notes)
	}
}

// TestManyKeysAreForgotten: what is kept of keys is bounded, and so is a turn.
func TestManyKeysAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.manage(permit.Create, permit.Settings{Concurrency: 10})
	n := 0
	for range 5 {
		for range 500 {
			w.ask(fmt.Sprint("t", n), fmt.Sprint("key", n), 0, 0)
			n++
		}
		w.settle()
		for len(w.model.held) > 0 {
			for _, ticket := range tickets(w.model.held) {
				w.back(ticket)
			}
			w.settle()
		}
	}
	keys := 0
	for loc := range w.entries {
		if strings.HasPrefix(loc, keyLoc) {
			keys++
		}
	}
	if keys > remembered || len(w.granted) != 2500 {
		t.Errorf("%d keys are remembered, of %d permits", keys, len(w.granted))
	}
}

func TestDamagedEntriesAreSaid(t *testing.T) {
	for _, loc := range []string{"c", "kx", "px", "rx", "sx", "wx", "?"} {
		if err := New(&store.Run{}).Load([]store.Entry{{Loc: loc, Value: []byte("\xff\xff")}}); err == nil ||
			!strings.Contains(err.Error(), loc) {
			t.Errorf("an entry %q that cannot be read: %v", loc, err)
		}
	}
}

// TestAncestorsThatHoldWhatTheirDescendantsWaitFor are shown at once and noted after a minute, and then every minute.
// They hold all permits, or all of the descendant's key, whatever the number of generations. Another holder, a higher
// limit, a pause and the end of the holder or of the descendant end the lock.
func TestAncestorsThatHoldWhatTheirDescendantsWaitFor(t *testing.T) {
	one, two, keyed := permit.Settings{Concurrency: 1}, permit.Settings{Concurrency: 2},
		permit.Settings{Concurrency: 9, PerKey: 1}
	for name, c := range map[string]struct {
		settings permit.Settings
		asks     string // ticket:key<ancestors, in their order
		then     func(w *world)
		locks    string // key:holders<waiting
	}{
		"the only permit":                  {one, "p c<p", nil, ":p<c"},
		"that of the key":                  {keyed, "p:k c:k<p", nil, "k:p<c"},
		"another key":                      {keyed, "p:k c:l<p", nil, ""},
		"no key":                           {keyed, "p c<p", nil, ""},
		"another holder":                   {two, "p o c<p", nil, ""},
		"several generations":              {two, "g p<g c<p,g", nil, ":g,p<c"},
		"one of them is on no queue":       {one, "g c<g", nil, ":g<c"},
		"two trees":                        {two, "p o c<p d<o", nil, ":o,p<c,d"},
		"a tree waits for another's":       {permit.Settings{PerKey: 1}, "p:k o:l c:l<p d:k<o", nil, "l:o<c k:p<d"},
		"only one of them":                 {permit.Settings{PerKey: 1}, "p:k o:l c:l<p d:k", nil, ""},
		"the key, and the queue by others": {permit.Settings{Concurrency: 2, PerKey: 1}, "p:k o c:k<p", nil, "k:p<c"},
		"no ancestor holds a permit":       {one, "o c<p", nil, ""},
		"the holder ends":                  {one, "p c<p", func(w *world) { w.back("p") }, ""},
		"the descendant ends":              {one, "p c<p", func(w *world) { w.back("c") }, ""},
		"a higher limit":                   {one, "p c<p", func(w *world) { w.manage(permit.Set, two) }, ""},
		"a pause":                          {one, "p c<p", func(w *world) { w.manage(permit.Pause, one) }, ""},
	} {
		w := newWorld(t)
		w.manage(permit.Create, c.settings)
		for ask := range strings.FieldsSeq(c.asks) {
			ask, above, _ := strings.Cut(ask, "<")
			ticket, key, _ := strings.Cut(ask, ":")
			p := permit.Place{Queue: "q", Key: key, Ticket: ticket}
			for _, a := range strings.Split(above, ",") {
				if a != "" {
					p.Above = append(p.Above, "run "+a)
				}
			}
			w.put(p.AskFor(permit.Ask{RunID: "run " + ticket, Loc: stepOf(ticket)}).Item)
			w.settle()
		}
		if c.then != nil {
			if w.settle(); len(w.state.Locks) != 1 {
				t.Errorf("%s: before: %+v; want a lock", name, w.state.Locks)
			}
			c.then(w)
			w.settle()
		}
		var locks []string
		for _, l := range w.state.Locks {
			locks = append(locks, l.Key+":"+strings.Join(l.Holders, ",")+"<"+strings.Join(l.Waiting, ","))
			if l.Held != len(l.Holders) {
				t.Errorf("%s: %+v", name, l)
			}
		}
		if got := strings.ReplaceAll(strings.Join(locks, " "), "run ", ""); got != c.locks {
			t.Errorf("%s: the locks are %q; want %q", name, got, c.locks)
		}
		if n := len(w.machine.Notes()); n > 0 {
			t.Errorf("%s: %d notes at once", name, n)
		}
		noted := 0
		for range 3 {
			w.now += missEvery
			w.load()
			w.settle()
			noted += len(w.machine.Notes())
		}
		if (noted > 0) != (c.locks != "") {
			t.Errorf("%s: %d notes in three minutes; want some: %t", name, noted, c.locks != "")
		}
	}
}

// TestAQueueShowsABoundedPartOfItsLocks however many keys, holders and runs that wait there are.
func TestAQueueShowsABoundedPartOfItsLocks(t *testing.T) {
	for _, c := range []struct {
		settings                  permit.Settings
		keys, waiting             int
		locks, holders, descended int // that are shown
	}{
		{permit.Settings{Concurrency: 25}, 25, 3, 1, permit.MaxLockHolders, permit.MaxLockWaiting},
		{permit.Settings{PerKey: 1}, 25, 1, permit.MaxLocks, 1, 1},
	} {
		w := newWorld(t)
		w.manage(permit.Create, c.settings)
		ask := func(run, key int, above ...string) {
			p := permit.Place{Queue: "q", Key: fmt.Sprint("k", key), Ticket: fmt.Sprintf("%d-%d", key, run), Above: above}
			w.put(p.AskFor(permit.Ask{RunID: "run " + p.Ticket, Loc: stepOf(p.Ticket)}).Item)
		}
		for k := range c.keys {
			ask(0, k)
			w.settle()
		}
		for k := range c.keys {
			for i := range c.waiting {
				ask(1+i, k, fmt.Sprintf("run %d-0", k))
			}
		}
		w.settle()
		if len(w.state.Locks) != c.locks {
			t.Fatalf("%+v: %d locks; want %d", c.settings, len(w.state.Locks), c.locks)
		}
		for _, l := range w.state.Locks {
			if l.Held*c.locks < 20 || len(l.Holders) != c.holders || len(l.Waiting) != c.descended {
				t.Errorf("%+v: %d permits, %d holders, %d wait", c.settings, l.Held, len(l.Holders), len(l.Waiting))
			}
		}
	}
}
