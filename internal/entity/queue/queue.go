package queue

import (
	"cmp"
	"container/heap"
	"fmt"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// Rules are those of one queue. They implement entity.Rules.
type Rules struct {
	name    string
	head    head
	waiting map[string]*request // by ticket, delayed ones too
	held    map[string]holding  // by ticket
	keys    map[string]*key
	levels  map[string][]*level // by priority, highest first; of each task, and of what is none
	delayed delays
	resting rests
	ready   int      // requests that are due
	recent  window   // the last permits, as many as the queue's rates count
	spans   []span   // what the rates of keys count, oldest first
	out     []*steps // what the turn grants to steps, by run
	turns   []turn   // the last permits and whom they were for, oldest first
	tasks   tasks
	rows    rows

	changed  bool       // of what the queue shows
	wake     store.Time // when the rate allows the next permit; 0: nobody waits for that
	missed   store.Time // when those that wait for a queue that does not exist are noted next; 0: none do
	locked   store.Time // when a lock is noted next; 0: there is none
	locks    []permit.Lock
	lockedAt store.Time     // since when the first request of a lock has been due
	above    map[string]int // how many asks name a run as an ancestor of theirs
}

// head is what stands of the queue itself.
type head struct {
	Declared permit.Settings  `cbor:"1,keyasint"`
	Exists   bool             `cbor:"2,keyasint,omitempty"`
	Paused   bool             `cbor:"3,keyasint,omitempty"`
	Granted  int64            `cbor:"4,keyasint,omitempty"` // permits, ever: the number of the last one
	Source   *permit.Source   `cbor:"5,keyasint,omitempty"` // of the declared settings
	Override *permit.Override `cbor:"6,keyasint,omitempty"`
	PausedBy *permit.Source   `cbor:"7,keyasint,omitempty"`
	// Asked are the names of tasks for which workers have asked, in the order in which they were noted.
	// Forgot says that there were more than are kept.
	Asked  []askedFor `cbor:"8,keyasint,omitempty"`
	Forgot bool       `cbor:"9,keyasint,omitempty"`
}

// limits returns the settings, with where they come from.
func (h *head) limits() *permit.Limits {
	return &permit.Limits{Declared: h.Declared, Source: h.Source, Override: h.Override}
}

// settings returns the settings that count.
func (h *head) settings() *permit.Settings {
	if h.Override != nil {
		return &h.Override.Settings
	}
	return &h.Declared
}

// request is a run that waits.
type request struct {
	ticket string
	queued bool        // in a line; else it is delayed
	index  int         // among the delayed
	row    store.RunNo // of a run that waits in its row; 0: it has asked
	asked
}

// asked is the stored form of a request.
type asked struct {
	No       store.ItemNo `cbor:"1,keyasint"` // of the ask
	RunID    string       `cbor:"2,keyasint"`
	Key      string       `cbor:"3,keyasint,omitempty"`
	Priority int          `cbor:"4,keyasint,omitempty"`
	Due      store.Time   `cbor:"5,keyasint"`
	Loc      string       `cbor:"6,keyasint,omitempty"`  // of a step; "": a run asks
	Nth      int          `cbor:"7,keyasint,omitempty"`  // of an item of several
	Cost     int          `cbor:"8,keyasint,omitempty"`  // 0: 1
	Task     *offer       `cbor:"9,keyasint,omitempty"`  // nil: the node of the run executes what has asked
	Above    []string     `cbor:"11,keyasint,omitempty"` // as in permit.Place
}

func (r *request) compare(o *request) int {
	return cmp.Or(cmp.Compare(r.Due, o.Due), cmp.Compare(r.No, o.No), cmp.Compare(r.Nth, o.Nth))
}

// holding is the stored form of a permit.
type holding struct {
	RunID string     `cbor:"1,keyasint"`
	Key   string     `cbor:"2,keyasint,omitempty"`
	At    store.Time `cbor:"3,keyasint"`
	No    int64      `cbor:"4,keyasint"` // counts the queue's permits
	Cost  int        `cbor:"5,keyasint,omitempty"`
	Lease *lease     `cbor:"6,keyasint,omitempty"` // of a task; nil: it is none

	row  store.RunNo // of a run that has it by its row; 0: it is an entry
	sure bool        // that the row has it: an Admit was answered, or a look has found it
}

// steps are the steps of a run that are granted permits in a turn.
type steps struct {
	runID  string
	grants []permit.StepGrant
}

// served is the stored form of when a key was served last.
type served struct {
	Key string `cbor:"1,keyasint,omitempty"`
	No  int64  `cbor:"2,keyasint"` // of the permit
}

// Where the entries stand.
const (
	headLoc    = "c"
	keyLoc     = "k" // and the key
	permitLoc  = "p" // and the ticket
	rateLoc    = "r" // and the permit's number
	keyRateLoc = "s" // and the permit's number, and the key
	requestLoc = "w" // and the ticket
)

// New returns the rules of a queue.
func New(run *store.Run) entity.Rules {
	name, _ := permit.Queue(run.ID)
	q := &Rules{name: name, waiting: map[string]*request{}, held: map[string]holding{}, keys: map[string]*key{},
		levels: map[string][]*level{}, above: map[string]int{}}
	q.tasks.init()
	return q
}

// Load implements entity.Rules.
func (q *Rules) Load(entries []store.Entry) error {
	for i := range entries {
		e := &entries[i]
		rest := e.Loc[1:]
		var err error
		switch e.Loc[:1] {
		case headLoc:
			err = cbor.Unmarshal(e.Value, &q.head)
		case keyLoc:
			var s served
			if err = cbor.Unmarshal(e.Value, &s); err == nil {
				q.key(s.Key).served = s.No
				q.turns = append(q.turns, turn{s.Key, s.No})
			}
		case permitLoc:
			var h holding
			if err = cbor.Unmarshal(e.Value, &h); err == nil {
				q.held[rest] = h
				q.key(h.Key).held++
				if h.Lease != nil {
					q.loadLease(rest, h.Lease)
				}
			}
		case cancelledLoc:
			c := new(cancelled)
			if err = cbor.Unmarshal(e.Value, c); err == nil {
				q.tasks.cancelled[rest] = c
				q.watch(c.Until, rest)
			}
		case rateLoc:
			var b bucket
			if b, _, err = readBucket(e.Loc, e.Value); err == nil {
				q.recent.buckets, q.recent.counted = append(q.recent.buckets, b), q.recent.counted+b.N
			}
		case keyRateLoc:
			var b bucket
			var name string
			if b, name, err = readBucket(e.Loc, e.Value); err == nil {
				c := &q.key(name).recent
				c.buckets, c.counted = append(c.buckets, b), c.counted+b.N
				q.spans = append(q.spans, span{name, b.no})
			}
		case requestLoc:
			r := &request{ticket: rest}
			if err = cbor.Unmarshal(e.Value, &r.asked); err == nil {
				q.expect(r)
				heap.Push(&q.delayed, r) // Tick looks which are due
				if r.Task != nil && r.Task.Former != "" {
					q.tasks.secrets[r.Task.Former] = rest
				}
			}
		default:
			err = fmt.Errorf("nobody writes such an entry")
		}
		if err != nil {
			return fmt.Errorf("entry %q: %w", e.Loc, err)
		}
	}
	q.sortTurns()
	return nil
}

// Take implements entity.Rules.
func (q *Rules) Take(it *store.Item, now store.Time, w *entity.Writer) {
	q.takeNews(now, w)
	switch it.Kind {
	case store.ItemAsk:
		q.ask(it, w)
	case store.ItemGiveBack:
		if permit.IsRecall(it) {
			q.recall(permit.Ticket(it), now, w)
			break
		}
		for _, g := range permit.GivenBack(it) {
			q.giveBack(g, w)
		}
	case store.ItemUpdate:
		if works(it.Name) {
			if answer, done := q.work(it, now, w); done {
				w.Consume(it.No, answer)
			}
			return
		}
		w.Consume(it.No, q.manage(it, now, w))
		return
	}
	w.Consume(it.No, nil)
}

func (q *Rules) ask(it *store.Item, w *entity.Writer) {
	a, err := permit.DecodeAsk(it.Value)
	if err != nil {
		panic(fmt.Sprintf("item %q: %v", it.ID, err))
	}
	due := max(it.Sent, a.At, it.Sent+store.Time(a.After))
	q.wait(permit.Ticket(it), w, asked{No: it.No, RunID: a.RunID, Loc: a.Loc, Key: a.Key, Priority: a.Priority, Due: due,
		Cost: a.Cost, Task: offerOf(a.Task), Above: a.Above})
	for i := range a.More {
		m := &a.More[i]
		q.wait(m.Ticket, w, asked{
			No: it.No, Nth: i + 1, RunID: a.RunID, Loc: m.Loc, Key: m.Key, Priority: m.Priority, Due: due,
			Cost: m.Cost, Task: offerOf(m.Task), Above: a.Above,
		})
	}
}

// wait lets what has asked with a ticket wait for its permit.
func (q *Rules) wait(ticket string, w *entity.Writer, a asked) {
	if _, has := q.held[ticket]; has || q.waiting[ticket] != nil {
		return // told twice
	}
	if a.Task != nil && !q.head.Exists && q.name == permit.TaskQueue {
		q.head.Exists, q.head.Declared = true, permit.Settings{Group: store.DefaultGroup}
		put(w, headLoc, q.head)
	}
	r := &request{ticket: ticket, asked: a}
	q.expect(r)
	q.delay(r)
	w.PutNew(requestLoc+ticket, encode(r.asked))
	q.changed = true
}

// delay puts a request among those that are not due, of which Tick takes the due ones.
func (q *Rules) delay(r *request) { heap.Push(&q.delayed, r) }

func (q *Rules) giveBack(g permit.Given, w *entity.Writer) {
	ticket := g.Ticket
	if h, ok := q.held[ticket]; ok {
		delete(q.held, ticket)
		q.spend(&h, g.Spent, w)
		if h.row == 0 {
			w.Delete(permitLoc + ticket)
		} else {
			q.rows.held--
		}
		k := q.key(h.Key)
		k.held--
		q.unblock(k)
		q.forget(h.Key, w)
		q.changed = true
		if h.Lease != nil {
			q.cancelLease(h.Lease, w)
		}
		return
	}
	r := q.waiting[ticket]
	if r == nil {
		return
	}
	q.remove(r, w)
	q.forget(r.Key, w)
}

// remove takes a request off the queue.
func (q *Rules) remove(r *request, w *entity.Writer) {
	q.unexpect(r)
	if r.row == 0 {
		w.Delete(requestLoc + r.ticket)
	} else {
		q.rows.waiting--
	}
	if r.Task != nil && r.Task.Former != "" {
		delete(q.tasks.secrets, r.Task.Former)
	}
	if r.queued {
		q.leave(r)
	} else {
		q.delayed.remove(r)
	}
	q.changed = true
}

// Tick implements entity.Rules.
func (q *Rules) Tick(now store.Time, w *entity.Writer) {
	q.takeNews(now, w)
	q.expire(now, w)
	for len(q.delayed) > 0 && q.delayed[0].Due <= now {
		q.enter(heap.Pop(&q.delayed).(*request))
		q.changed = true
	}
	q.wake = 0
	q.wakeKeys(now)
	q.miss(now, w)
	room := q.room(now)
	before := q.head.Granted
	names := q.tasks.wanted(q.levels)
	for {
		r := q.next(now, names)
		if r == nil {
			break
		}
		if units := q.fits(r); room < units {
			s := q.head.settings()
			q.wake = q.recent.when(now, s.Rate, s.Per, units)
			break
		}
		if w.Full() {
			w.More()
			break
		}
		room -= costs(r.Cost)
		q.grant(r, now, w)
		if r.Task != nil {
			names = q.tasks.wanted(q.levels)
		}
	}
	q.answerPolls(now, w)
	q.finish(before, now, w)
	q.forgetOld(w)
	q.forgetSpans(now, w)
	if q.changed {
		q.changed = false
		q.findLocks()
		w.Value(permit.StateValue, q.state().Encode())
	}
	q.noteLock(now, w)
}

// next returns the ask that gets the next permit if the rate allows one; nil: none can.
// Workers wait for the tasks with the names.
func (q *Rules) next(now store.Time, names []string) *request {
	s := q.head.settings()
	if !q.head.Exists || q.head.Paused || s.Concurrency > 0 && len(q.held) >= s.Concurrency {
		return nil
	}
	best := q.first("", now)
	for _, name := range names {
		if r := q.first(name, now); r != nil && (best == nil || q.before(r, best)) {
			best = r
		}
	}
	return best
}

// before reports whether a request has its turn before another one that is none of its line.
func (q *Rules) before(a, b *request) bool {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(q.keys[a.Key].served, q.keys[b.Key].served),
		a.compare(b)) < 0
}

// first returns the ask of a class that gets the next permit if none of the others does.
func (q *Rules) first(class string, now store.Time) *request {
	s := q.head.settings()
	for _, l := range q.levels[class] {
		for l.Len() > 0 {
			k, r := l.lines[0].key, l.lines[0].requests[0]
			if s.PerKey == 0 || k.name == "" || k.held < s.PerKey {
				until := q.keyRests(k, r, now)
				if until == 0 {
					return r
				}
				q.rest(k, until)
			}
			heap.Pop(l) // it is blocked until a permit of the key comes back, or its rate allows one
		}
	}
	return nil
}

func (q *Rules) grant(r *request, now store.Time, w *entity.Writer) {
	q.remove(r, w)
	q.head.Granted++
	no := q.head.Granted
	h := holding{RunID: r.RunID, Key: r.Key, At: now, No: no, Cost: r.Cost, row: r.row}
	if r.Task != nil {
		q.lend(r, &h, now)
	}
	q.held[r.ticket] = h
	k := q.key(r.Key)
	k.held++
	q.serve(k, no)
	q.count(k, no, now, costs(r.Cost))
	if r.row != 0 {
		q.rows.held++
		q.rows.hear(r.row)
		w.Send(store.Command{RunNo: r.row, RunID: r.RunID, Admit: permit.EntityID(q.name)})
	} else {
		w.PutNew(permitLoc+r.ticket, encode(h))
		if r.Task == nil {
			q.notify(r)
		}
	}
	q.changed = true
}

// notify adds a permit to those that the turn grants: one item for all steps of a run.
func (q *Rules) notify(r *request) {
	g := permit.StepGrant{Ticket: r.ticket, Loc: r.Loc}
	for _, one := range q.out {
		if r.Loc != "" && one.runID == r.RunID && one.grants[0].Loc != "" {
			one.grants = append(one.grants, g)
			return
		}
	}
	q.out = append(q.out, &steps{r.RunID, []permit.StepGrant{g}})
}

// finish writes what the permits of a turn have in common; before is the number of the
// last permit before them.
func (q *Rules) finish(before int64, now store.Time, w *entity.Writer) {
	if q.head.Granted == before {
		return
	}
	put(w, headLoc, q.head)
	for i := len(q.turns) - 1; i >= 0 && q.turns[i].no > before; i-- {
		if t := &q.turns[i]; q.key(t.key).served == t.no {
			put(w, keyLoc+t.key, served{t.key, t.no})
			q.writeRates(q.key(t.key), w)
		}
	}
	q.writeRates(nil, w)
	q.trim(now, w)
	for _, one := range q.out {
		if first := &one.grants[0]; first.Loc == "" {
			w.Send(permit.Grant(one.runID, first.Ticket))
		} else {
			w.Send(permit.GrantSteps(q.name, one.runID, one.grants))
		}
	}
	q.out = nil
}

// Wake implements entity.Rules.
func (q *Rules) Wake() store.Time {
	at := q.wake
	if next := q.nextWork(); next != 0 && (at == 0 || next < at) {
		at = next
	}
	for _, note := range []store.Time{q.missed, q.locked} {
		if note != 0 && (at == 0 || note < at) {
			at = note
		}
	}
	if len(q.delayed) > 0 && (at == 0 || q.delayed[0].Due < at) {
		at = q.delayed[0].Due
	}
	if len(q.resting) > 0 && (at == 0 || q.resting[0].until < at) {
		at = q.resting[0].until
	}
	return at
}

func (q *Rules) state() *permit.State {
	return &permit.State{
		Settings: *q.head.settings(), Limits: q.head.limits(), Exists: q.head.Exists, Paused: q.head.Paused,
		Granted: q.head.Granted, Waiting: q.ready, Delayed: len(q.delayed), Held: len(q.held),
		Tasks: q.tasks.shown(), Told: q.untold(), PausedBy: q.head.PausedBy,
		Locks: q.locks,
	}
}

// manage carries out an update and returns the answer.
func (q *Rules) manage(it *store.Item, now store.Time, w *entity.Writer) []byte {
	if it.Name != permit.Create && !q.head.Exists {
		return []byte{permit.Missing}
	}
	switch it.Name {
	case permit.Create, permit.Set:
		c, err := permit.DecodeChange(it.Value)
		if err != nil {
			return no("%v", err)
		}
		if why := q.change(it, &c); why != "" {
			w.Note("the settings of a queue are refused", "queue", q.name, "reason", why, "by", c.By)
			return no("%s", why)
		}
		q.obey(now, w)
	case permit.Reset:
		q.head.Override = nil
		q.obey(now, w)
	case permit.Pause:
		q.head.pause(it)
	case permit.Resume:
		q.head.Paused, q.head.PausedBy = false, nil
	case permit.Delete:
		if len(q.waiting)+len(q.held) > 0 {
			return no("%d wait in it and %d hold a permit of it; cancel the runs or wait for their end",
				len(q.waiting), len(q.held))
		}
		granted := q.head.Granted // tickets of it may still be told of
		q.head = head{Granted: granted}
		q.trim(now, w)
	default:
		return no("nobody knows how to %s a queue", it.Name)
	}
	put(w, headLoc, q.head)
	q.changed = true
	acts.CarriedOut(it, w)
	return []byte{permit.Yes}
}

// pause pauses the queue, and keeps who has asked for it first. A request of an earlier
// version does not say so.
func (h *head) pause(it *store.Item) {
	if h.Paused {
		return
	}
	h.Paused = true
	if c, err := permit.DecodeChange(it.Value); err == nil {
		h.PausedBy = &permit.Source{By: c.By, Why: c.Why, At: it.Sent}
	}
}

// change takes over new settings. It returns why not; "": it has.
func (q *Rules) change(it *store.Item, c *permit.Change) string {
	h := &q.head
	if h.Exists && c.Settings.Group != h.Declared.Group {
		return "its runs belong to group " + h.Declared.Group + "; delete it and create it again, or create another"
	}
	source := permit.Source{By: c.By, Why: c.Why, Build: c.Build, At: it.Sent}
	if it.Name == permit.Set {
		h.Override = &permit.Override{Settings: c.Settings, Source: source}
		return ""
	}
	if !h.Exists || c.Settings != h.Declared {
		h.Source = &source
	}
	h.Declared, h.Exists = c.Settings, true
	return ""
}

// obey is called after the settings that count have changed.
func (q *Rules) obey(now store.Time, w *entity.Writer) {
	q.trim(now, w)
	q.unblockAll()
}

// missEvery is how often those that wait for a queue that does not exist are noted.
const missEvery = store.Time(time.Minute / time.Microsecond)

// miss notes, every minute, that somebody waits for a queue that does not exist.
func (q *Rules) miss(now store.Time, w *entity.Writer) {
	switch {
	case q.head.Exists || q.ready == 0:
		q.missed = 0
	case q.missed <= now:
		q.missed = now + missEvery
		w.Note("a queue does not exist, and runs or steps wait for it: create it, or correct its name",
			"queue", q.name, "waiting", q.ready)
	}
}

func no(format string, args ...any) []byte {
	var b strings.Builder
	b.WriteByte(permit.No)
	fmt.Fprintf(&b, format, args...)
	return []byte(b.String())
}

func put(w *entity.Writer, loc string, v any) { w.Put(loc, encode(v)) }

func encode(v any) []byte {
	data, err := cbor.Marshal(v)
	if err != nil {
		panic(err) // plain values always encode
	}
	return data
}
