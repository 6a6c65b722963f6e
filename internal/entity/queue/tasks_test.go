package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// labour is a world with tasks and workers. It knows the states of an attempt, and nothing of
// how the queue keeps them.
type labour struct {
	*world
	settings permit.Settings
	attempts map[string]*attempt // by ticket
	leases   map[string]*attempt // that were given out, by secret
	waits    map[store.ItemNo]*permit.Lease
	verdicts map[store.ItemNo][]byte
	counts   map[string]int // of what has happened
}

// attempt is one of a task, in one of its states.
type attempt struct {
	ticket, key string
	task        permit.Task
	state       string // offered, leased, ended, cancelled
	lease       string // that is current, or has expired and may still end it
	until, over store.Time
	lost        int
	tried       bool // a worker has had it
	recalled    bool
	worker      string
	told        store.Time // until when a cancelled lease is known
	no          int64      // of the lease whose items came last
	items       []string   // that the run has got, in their order
	sent        []string   // that were taken from workers
}

func newLabour(t testing.TB, s permit.Settings) *labour {
	w := &labour{world: newWorld(t), settings: s, attempts: map[string]*attempt{}, leases: map[string]*attempt{},
		waits: map[store.ItemNo]*permit.Lease{}, verdicts: map[store.ItemNo][]byte{}, counts: map[string]int{}}
	w.manage(permit.Create, s)
	w.settle()
	return w
}

func (w *labour) ask(key string, task permit.Task) {
	a := &attempt{ticket: fmt.Sprint("t", len(w.attempts)), key: key, task: task, state: "offered"}
	w.attempts[a.ticket] = a
	p := permit.Place{Queue: "q", Key: key, Ticket: a.ticket}
	w.put(p.AskFor(permit.Ask{RunID: "run", Loc: "at " + a.ticket, Task: &task}).Item)
	w.settle()
}

// request sends an update of a worker and returns its answer; nil: it waits.
func (w *labour) request(name string, value []byte) []byte {
	w.put(&store.Item{Kind: store.ItemUpdate, Name: name, ID: fmt.Sprint("u", w.last), Value: value})
	no := w.last
	w.settle()
	return w.verdicts[no]
}

func (w *labour) lease(worker string, l permit.Lease) {
	l.Worker, l.Seed = worker, fmt.Append(nil, w.last)
	w.waits[w.last+1] = &l
	w.request(permit.LeaseTasks, permit.Encode(l))
}

// settle commits turns until there is nothing to do, and looks at what they say.
func (w *labour) settle() {
	w.t.Helper()
	for turn := w.turn(); turn != nil; turn = w.turn() {
		w.apply(turn)
		w.expire(turn)
		for _, v := range turn.Values {
			var err error
			if w.state, err = permit.DecodeState(v.Value); err != nil {
				w.t.Fatal(err)
			}
		}
		for _, c := range turn.Sends {
			w.outcome(c.Item)
		}
		for _, c := range turn.Consumed {
			w.verdicts[c.Item] = c.Verdict
			if l := w.waits[c.Item]; l != nil {
				w.leased(l, c.Verdict)
				delete(w.waits, c.Item)
			}
		}
		if len(turn.Entries)+len(turn.Prune)+len(turn.Sends)+len(turn.Consumed)+len(turn.Seen)+len(turn.Values) == 0 {
			break
		}
	}
	for no := range w.waits {
		it := w.inbox[slices.IndexFunc(w.inbox, func(it store.Item) bool { return it.No == no })]
		if it.Sent+store.Time(w.waits[no].Wait) <= w.now {
			w.t.Fatalf("at %d lease %d of %d still waits", w.now, no, it.Sent)
		}
	}
	held := map[string]int{}
	all := 0
	for _, a := range w.attempts {
		if a.state == "leased" {
			held[a.key]++
			all++
		}
	}
	s := w.settings
	for key, n := range held {
		if s.PerKey > 0 && key != "" && n > s.PerKey {
			w.t.Fatalf("key %q has %d permits", key, n)
		}
	}
	if s.Concurrency > 0 && all > s.Concurrency {
		w.t.Fatalf("%d permits", all)
	}
	for _, a := range w.attempts { // nobody waits that could go on
		for _, l := range w.waits {
			if a.state == "offered" && slices.Contains(l.Names, a.task.Name) && (s.Concurrency == 0 || all < s.Concurrency) &&
				(s.PerKey == 0 || a.key == "" || held[a.key] < s.PerKey) {
				w.t.Fatalf("%s is offered, and worker %s waits", a.ticket, l.Worker)
			}
		}
	}
}

// expire has the leases end that are over by the time of the turn, as the queue does before it
// gives out others. Outcomes are compared where they are sent.
func (w *labour) expire(*store.Turn) {
	for _, a := range w.attempts {
		if a.state == "leased" && (a.over == 0 || a.over > w.now) && a.until <= w.now && a.lost+1 < permit.MaxLost {
			a.state, a.recalled = "offered", false
			a.lost++
			w.counts["expired"]++
		}
	}
}

// leased looks at what a worker has got.
func (w *labour) leased(l *permit.Lease, verdict []byte) {
	w.t.Helper()
	var got permit.Leases
	if _, ok, err := permit.ReadAnswer(verdict, &got); !ok || err != nil {
		w.t.Fatalf("a lease is answered %q", verdict)
	}
	if len(got.Tasks) > l.Max {
		w.t.Fatalf("%d of at most %d were leased", len(got.Tasks), l.Max)
	}
	for _, t := range got.Tasks {
		a := w.attempts[t.Ticket]
		if a == nil || a.state != "offered" || !slices.Contains(l.Names, a.task.Name) || t.Attempt != a.task.Attempt ||
			t.Loc != "at "+a.ticket || t.Until != w.now+store.Time(l.For) || w.leases[t.Secret] != nil {
			w.t.Fatalf("at %d %s has leased %+v, which is %+v", w.now, l.Worker, t, a)
		}
		a.state, a.lease, a.until, a.over, a.worker, a.tried = "leased", t.Secret, t.Until, 0, l.Worker, true
		if a.task.Timeout > 0 {
			a.over = w.now + store.Time(a.task.Timeout)
		}
		w.leases[t.Secret] = a
		w.counts["leased"]++
	}
	for _, secret := range got.Cancelled {
		a := w.leases[secret]
		if a == nil || a.worker != l.Worker || a.state != "cancelled" && !a.recalled {
			w.t.Fatalf("%s is told of a cancel of %+v", l.Worker, a)
		}
		w.counts["told"]++
	}
}

// outcome looks at what a run is told.
func (w *labour) outcome(it *store.Item) {
	w.t.Helper()
	if permit.Adds(it) {
		w.added(it)
		return
	}
	o, ok, err := permit.OutcomeOf(it)
	a := w.attempts[permit.Ticket(it)]
	if !ok || err != nil || a == nil || a.state == "ended" || a.state == "cancelled" {
		w.t.Fatalf("the run is told %+v, %v of %+v", o, err, a)
	}
	good := false
	switch o.How {
	case permit.TaskCompleted, permit.TaskFailed:
		good = true // request has said so
	case permit.TaskTimeout:
		good = a.state == "leased" && a.over != 0 && a.over <= w.now
	case permit.TaskLost:
		good = a.state == "leased" && a.until <= w.now && a.lost == permit.MaxLost-1
	case permit.TaskNever:
		good = a.state == "offered" && !a.tried
	}
	if !good {
		w.t.Fatalf("at %d the run is told %c of %+v", w.now, o.How, a)
	}
	a.state = "ended"
	w.counts["outcome "+string(o.How)]++
}

// added looks at items that a run gets for its streams: those of the one lease that counts.
func (w *labour) added(it *store.Item) {
	w.t.Helper()
	items, no, err := permit.AddedOf(it)
	a := w.attempts[permit.Ticket(it)]
	if err != nil || a == nil || a.state == "ended" || a.state == "cancelled" || no < a.no || it.Loc != "at "+a.ticket {
		w.t.Fatalf("the run is told %+v, %d, %v of %+v", items, no, err, a)
	}
	a.no = no
	for _, one := range items {
		a.items = append(a.items, string(one.Value))
	}
	w.counts["added"]++
}

// append adds an item by a lease, with what it must be answered.
func (w *labour) append(a *attempt, secret string) {
	w.t.Helper()
	want := w.standing(a, secret)
	if a.state == "offered" && a.lost > 0 && a.lease == secret {
		want = permit.LeaseHeld // late, and nobody else has it
	}
	text := fmt.Sprint(secret, len(a.sent))
	value := permit.Encode(permit.Append{Secret: secret, Number: int64(len(a.sent) + 1),
		Items: permit.EncodeItems([]permit.Item{{Stream: "s", Value: []byte(text)}})})
	var got permit.Appended
	_, _, err := permit.ReadAnswer(w.request(permit.AppendTask, value), &got)
	if err != nil || got.Standing != want || (got.RunID == "run") != (want == permit.LeaseHeld) {
		w.t.Fatalf("an append says %+v, %v of %+v, want %c", got, err, a, want)
	}
	if want == permit.LeaseHeld {
		a.sent = append(a.sent, text)
	}
	if !slices.Equal(a.items, a.sent) {
		w.t.Fatalf("the run has got %q, and the workers have sent %q", a.items, a.sent)
	}
}

// standing returns how a lease stands.
func (w *labour) standing(a *attempt, secret string) byte {
	switch {
	case a.lease != secret:
		return permit.LeaseGone
	case a.state == "cancelled" && w.now < a.told:
		return permit.LeaseCancelled
	case a.state == "leased" && a.recalled:
		return permit.LeaseCancelled
	case a.state == "leased":
		return permit.LeaseHeld
	}
	return permit.LeaseGone
}

// TestStatesOfTasks: random asks, leases, heartbeats, items, ends, releases, cancels and recalls,
// late and repeated ones too, with crashes. Each attempt has one outcome at most, and none once it is
// cancelled, and its run has the items of the lease that counts, in their order and before the
// outcome; leases, limits and answers are as the states say.
func TestStatesOfTasks(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 79))
		s := permit.Settings{Group: "g", Concurrency: rng.IntN(4), PerKey: rng.IntN(3)}
		w := newLabour(t, s)
		secrets := func() []string { return slices.Sorted(maps.Keys(w.leases)) }
		pick := func() (string, *attempt) {
			all := secrets()
			if len(all) == 0 {
				return "", nil
			}
			secret := all[len(all)-1-rng.IntN(min(len(all), 6))]
			return secret, w.leases[secret]
		}
		for range 200 {
			if rng.IntN(5) == 0 { // the process ends, before or after a commit
				w.turn()
				w.load()
			}
			secret, a := pick()
			switch n := rng.IntN(14); {
			case n < 3:
				task := permit.Task{Name: []string{"a", "b"}[rng.IntN(2)], Attempt: 1 + rng.IntN(3), Last: rng.IntN(2) == 0}
				if rng.IntN(3) == 0 {
					task.Timeout = store.Delay(1000 * (1 + rng.IntN(20)))
				}
				w.ask([]string{"", "x", "y"}[rng.IntN(3)], task)
			case n < 6:
				w.lease(fmt.Sprint("w", rng.IntN(3)), permit.Lease{Names: []string{"a", "b"}[rng.IntN(2):], Max: 1 + rng.IntN(3),
					Wait: store.Delay(rng.IntN(4000)), For: store.Delay(1000 + rng.IntN(5000))})
			case n == 6 || a == nil:
				w.now += store.Time(rng.IntN(4000))
				w.settle()
			case n == 7:
				want := w.standing(a, secret)
				length := store.Delay(1000 + rng.IntN(9000))
				var got permit.Beats
				_, _, err := permit.ReadAnswer(w.request(permit.BeatTasks,
					permit.Encode(permit.Beat{Secrets: []string{secret}, For: length})), &got)
				if err != nil || got.Standing[0] != want {
					t.Fatalf("seed %d: a heartbeat says %+v, %v of %+v, want %c", seed, got, err, a, want)
				}
				if a.state == "leased" && a.lease == secret {
					a.until = max(a.until, w.now+store.Time(length))
					if a.task.Timeout > 0 {
						a.over = w.now + store.Time(a.task.Timeout)
					}
				}
			case n > 11:
				w.append(a, secret)
			case n < 10:
				want := w.standing(a, secret)
				if a.state == "leased" && want == permit.LeaseCancelled ||
					a.state == "offered" && a.lost > 0 && a.lease == secret {
					want = permit.LeaseHeld // its end is awaited, or late
				}
				e := permit.End{Secret: secret, Final: rng.IntN(2) == 0}
				if rng.IntN(2) == 0 {
					e.Failure = []byte("f")
				}
				was := a.state
				var got permit.Ended
				_, _, err := permit.ReadAnswer(w.request(permit.EndTask, permit.Encode(e)), &got)
				retry := e.Failure != nil && !e.Final && !a.task.Last
				if err != nil || got.Standing != want || want == permit.LeaseHeld && (got.Retry != retry || a.state != "ended") ||
					want != permit.LeaseHeld && a.state != was {
					t.Fatalf("seed %d: an end says %+v, %v of %+v, want %c, %t", seed, got, err, a, want, retry)
				}
			case n == 10:
				want := w.standing(a, secret)
				current := a.state == "leased" && a.lease == secret
				if current {
					a.state, a.lease, a.recalled = "offered", "", false
				}
				var got permit.Beats
				_, _, err := permit.ReadAnswer(w.request(permit.ReleaseTasks,
					permit.Encode(permit.LeaseList{Secrets: []string{secret}})), &got)
				if err != nil || got.Standing[0] != want {
					t.Fatalf("seed %d: a release says %+v, %v of %+v, want %c", seed, got, err, a, want)
				}
			default:
				all := slices.Sorted(maps.Keys(w.attempts))
				a := w.attempts[all[rng.IntN(len(all))]]
				p := permit.Place{Queue: "q", Ticket: a.ticket}
				if a.state != "offered" && a.state != "leased" || a.recalled {
					continue
				}
				if rng.IntN(2) == 0 {
					a.recalled = a.state == "leased"
					w.put(p.Recall().Item)
				} else {
					if a.state == "leased" {
						a.told = a.until
					} else {
						a.lease = ""
					}
					a.state = "cancelled"
					w.put(p.GiveBack().Item)
				}
				w.settle()
			}
		}
		for _, a := range w.attempts { // everything is cancelled, and forgotten in time
			if a.state == "offered" || a.state == "leased" {
				a.told, a.state = a.until, "cancelled"
				w.put((&permit.Place{Queue: "q", Ticket: a.ticket}).GiveBack().Item)
			}
		}
		w.settle()
		w.now += 20_000_000
		w.settle()
		if n := w.kept(permitLoc) + w.kept(requestLoc) + w.kept(cancelledLoc); n > 0 || len(w.inbox) > 0 {
			t.Errorf("seed %d: %d entries and %d items are kept of what is over", seed, n, len(w.inbox))
		}
		if at, _ := w.machine.NextTimer(); at != 0 || len(w.state.Tasks)+len(w.state.Told) > 0 {
			t.Errorf("seed %d: nothing is left, and it is woken at %d, with %+v", seed, at, w.state)
		}
		for what, n := range w.counts {
			counts[what] += n
		}
	}
	for _, what := range []string{"leased", "expired", "told", "added", "outcome c", "outcome f", "outcome t", "outcome l",
		"outcome n"} {
		if counts[what] == 0 {
			t.Errorf("nothing was %s: %v", what, counts)
		}
	}
}
