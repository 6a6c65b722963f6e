package queue

import (
	"cmp"
	"container/heap"
	"fmt"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/internal/entity"
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
	levels  []*level // by priority, highest first
	delayed delays
	ready   int     // requests that are due
	recent  []grant // the last permits, as many as the rate counts, oldest first
	turns   []turn  // the last permits and whom they were for, oldest first

	changed bool       // of what the queue shows
	wake    store.Time // when the rate allows the next permit; 0: nobody waits for that
	missed  store.Time // when those that wait for a queue that does not exist are noted next; 0: none do
}

// head is what stands of the queue itself.
type head struct {
	Declared permit.Settings  `cbor:"1,keyasint"`
	Exists   bool             `cbor:"2,keyasint,omitempty"`
	Paused   bool             `cbor:"3,keyasint,omitempty"`
	Granted  int64            `cbor:"4,keyasint,omitempty"` // permits, ever: the number of the last one
	Source   *permit.Source   `cbor:"5,keyasint,omitempty"` // of the declared settings
	Override *permit.Override `cbor:"6,keyasint,omitempty"`
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
	queued bool // in a line; else it is delayed
	index  int  // among the delayed
	asked
}

// asked is the stored form of a request.
type asked struct {
	No       store.ItemNo `cbor:"1,keyasint"` // of the ask
	RunID    string       `cbor:"2,keyasint"`
	Key      string       `cbor:"3,keyasint,omitempty"`
	Priority int          `cbor:"4,keyasint,omitempty"`
	Due      store.Time   `cbor:"5,keyasint"`
	Loc      string       `cbor:"6,keyasint,omitempty"` // of a step; "": a run asks
}

func (r *request) compare(o *request) int {
	return cmp.Or(cmp.Compare(r.Due, o.Due), cmp.Compare(r.No, o.No))
}

// holding is the stored form of a permit.
type holding struct {
	RunID string     `cbor:"1,keyasint"`
	Key   string     `cbor:"2,keyasint,omitempty"`
	At    store.Time `cbor:"3,keyasint"`
	No    int64      `cbor:"4,keyasint"` // counts the queue's permits
}

// grant is a permit of those that a rate counts.
type grant struct {
	loc string
	at  store.Time
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
	requestLoc = "w" // and the ticket
)

func rateLocOf(no int64) string { return fmt.Sprintf("%s%016x", rateLoc, no) }

// New returns the rules of a queue.
func New(run *store.Run) entity.Rules {
	name, _ := permit.Queue(run.ID)
	return &Rules{name: name, waiting: map[string]*request{}, held: map[string]holding{}, keys: map[string]*key{}}
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
			}
		case rateLoc:
			g := grant{loc: e.Loc}
			if err = cbor.Unmarshal(e.Value, &g.at); err == nil {
				q.recent = append(q.recent, g)
			}
		case requestLoc:
			r := &request{ticket: rest}
			if err = cbor.Unmarshal(e.Value, &r.asked); err == nil {
				q.waiting[rest] = r
				heap.Push(&q.delayed, r) // Tick looks which are due
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
	switch it.Kind {
	case store.ItemAsk:
		q.ask(it, w)
	case store.ItemGiveBack:
		q.giveBack(permit.Ticket(it), w)
	case store.ItemUpdate:
		w.Consume(it.No, q.manage(it, w))
		return
	}
	w.Consume(it.No, nil)
}

func (q *Rules) ask(it *store.Item, w *entity.Writer) {
	ticket := permit.Ticket(it)
	_, has := q.held[ticket]
	if q.waiting[ticket] != nil || has {
		return // told twice
	}
	a, err := permit.DecodeAsk(it.Value)
	if err != nil {
		panic(fmt.Sprintf("item %q: %v", it.ID, err))
	}
	r := &request{ticket: ticket, asked: asked{
		No: it.No, RunID: a.RunID, Loc: a.Loc, Key: a.Key, Priority: a.Priority,
		Due: max(it.Sent, a.At, it.Sent+store.Time(a.After)),
	}}
	q.waiting[ticket] = r
	heap.Push(&q.delayed, r)
	put(w, requestLoc+ticket, r.asked)
	q.changed = true
}

func (q *Rules) giveBack(ticket string, w *entity.Writer) {
	if h, ok := q.held[ticket]; ok {
		delete(q.held, ticket)
		w.Delete(permitLoc + ticket)
		k := q.key(h.Key)
		k.held--
		q.unblock(k)
		q.forget(h.Key, w)
		q.changed = true
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
	delete(q.waiting, r.ticket)
	w.Delete(requestLoc + r.ticket)
	if r.queued {
		q.leave(r)
	} else {
		q.delayed.remove(r)
	}
	q.changed = true
}

// Tick implements entity.Rules.
func (q *Rules) Tick(now store.Time, w *entity.Writer) {
	for len(q.delayed) > 0 && q.delayed[0].Due <= now {
		q.enter(heap.Pop(&q.delayed).(*request))
		q.changed = true
	}
	q.wake = 0
	q.miss(now, w)
	for {
		r := q.next()
		if r == nil {
			break
		}
		if at := q.allowedAt(); at > now {
			q.wake = at
			break
		}
		if w.Full() {
			w.More()
			break
		}
		q.grant(r, now, w)
	}
	q.forgetOld(w)
	if q.changed {
		q.changed = false
		w.Value(permit.StateValue, q.state().Encode())
	}
}

// next returns the ask that gets the next permit if the rate allows one; nil: none can.
func (q *Rules) next() *request {
	s := q.head.settings()
	if !q.head.Exists || q.head.Paused || s.Concurrency > 0 && len(q.held) >= s.Concurrency {
		return nil
	}
	for _, l := range q.levels {
		for l.Len() > 0 {
			k := l.lines[0].key
			if s.PerKey == 0 || k.name == "" || k.held < s.PerKey {
				return l.lines[0].requests[0]
			}
			heap.Pop(l) // it is blocked until a permit of the key comes back
		}
	}
	return nil
}

// allowedAt returns when the rate allows the next permit.
func (q *Rules) allowedAt() store.Time {
	s := q.head.settings()
	if s.Rate == 0 || len(q.recent) < s.Rate {
		return 0
	}
	return q.recent[len(q.recent)-s.Rate].at + store.Time(s.Per)
}

func (q *Rules) grant(r *request, now store.Time, w *entity.Writer) {
	q.remove(r, w)
	q.head.Granted++
	no := q.head.Granted
	h := holding{RunID: r.RunID, Key: r.Key, At: now, No: no}
	q.held[r.ticket] = h
	k := q.key(r.Key)
	k.held++
	q.serve(k, no)
	put(w, permitLoc+r.ticket, h)
	put(w, keyLoc+r.Key, served{r.Key, no})
	if rate := q.head.settings().Rate; rate > 0 {
		q.recent = append(q.recent, grant{rateLocOf(no), now})
		put(w, rateLocOf(no), now)
		q.trim(rate, w)
	}
	put(w, headLoc, q.head)
	if r.Loc == "" {
		w.Send(permit.Grant(r.RunID, r.ticket))
	} else {
		w.Send(permit.GrantStep(q.name, r.ticket, r.RunID, r.Loc))
	}
	q.changed = true
}

// trim keeps the last n of the permits that a rate counts.
func (q *Rules) trim(n int, w *entity.Writer) {
	for len(q.recent) > n {
		w.Delete(q.recent[0].loc)
		q.recent = q.recent[1:]
	}
}

// Wake implements entity.Rules.
func (q *Rules) Wake() store.Time {
	at := q.wake
	if q.missed != 0 && (at == 0 || q.missed < at) {
		at = q.missed
	}
	if len(q.delayed) > 0 && (at == 0 || q.delayed[0].Due < at) {
		at = q.delayed[0].Due
	}
	return at
}

func (q *Rules) state() *permit.State {
	return &permit.State{
		Settings: *q.head.settings(), Limits: q.head.limits(), Exists: q.head.Exists, Paused: q.head.Paused,
		Granted: q.head.Granted, Waiting: q.ready, Delayed: len(q.delayed), Held: len(q.held),
	}
}

// manage carries out an update and returns the answer.
func (q *Rules) manage(it *store.Item, w *entity.Writer) []byte {
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
		q.obey(w)
	case permit.Reset:
		q.head.Override = nil
		q.obey(w)
	case permit.Pause:
		q.head.Paused = true
	case permit.Resume:
		q.head.Paused = false
	case permit.Delete:
		if n := len(q.waiting) + len(q.held); n > 0 {
			return no("%d wait in it and %d hold a permit of it; cancel the runs or wait for their end",
				len(q.waiting), len(q.held))
		}
		granted := q.head.Granted // tickets of it may still be told of
		q.head = head{Granted: granted}
		q.trim(0, w)
	default:
		return no("nobody knows how to %s a queue", it.Name)
	}
	put(w, headLoc, q.head)
	q.changed = true
	return []byte{permit.Yes}
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
func (q *Rules) obey(w *entity.Writer) {
	q.trim(q.head.settings().Rate, w)
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

func put(w *entity.Writer, loc string, v any) {
	data, err := cbor.Marshal(v)
	if err != nil {
		panic(err) // plain values always encode
	}
	w.Put(loc, data)
}
