package queue

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/entity"
	times "github.com/stet-run/stet/internal/heap"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// offer is what a request has that a worker is to execute. It is stored with the request, and
// with its permit while it is leased.
type offer struct {
	permit.Task
	Lost   int    `cbor:"5,keyasint,omitempty"` // leases of the attempt that have expired
	Detail []byte `cbor:"6,keyasint,omitempty"` // of the last heartbeat of these
	// Former is the secret of the lease that has expired last, while nobody else has the task.
	Former  string     `cbor:"7,keyasint,omitempty"`
	Begun   store.Time `cbor:"8,keyasint,omitempty"` // when the last lease began that has expired or was given back
	Worker  string     `cbor:"9,keyasint,omitempty"` // whose it was
	Recalls bool       `cbor:"10,keyasint,omitempty"`
	No      int64      `cbor:"11,keyasint,omitempty"` // of that lease's permit
	Tried   bool       `cbor:"12,keyasint,omitempty"` // a worker has given it back, and may have begun it
}

// untouched reports whether no worker can have begun the attempt. Otherwise only its end tells
// whether it had an effect.
func (o *offer) untouched() bool { return o.Lost == 0 && !o.Tried }

// lease is what a permit has that a worker holds.
type lease struct {
	Secret string     `cbor:"1,keyasint"`
	Worker string     `cbor:"2,keyasint,omitempty"`
	Begun  store.Time `cbor:"3,keyasint"`
	Until  store.Time `cbor:"4,keyasint"`           // of the lease
	Over   store.Time `cbor:"5,keyasint,omitempty"` // of the attempt's time; 0: it has no end
	Noted  store.Time `cbor:"6,keyasint,omitempty"` // when a detail was kept last
	Asked  asked      `cbor:"7,keyasint"`
	Told   bool       `cbor:"8,keyasint,omitempty"` // of a recalled one: the worker knows
}

// ends returns when something is to be done about the lease.
func (l *lease) ends() store.Time {
	if l.Over != 0 && l.Over < l.Until {
		return l.Over
	}
	return l.Until
}

// cancelled is the stored form of a lease that was cancelled, until it would have expired.
type cancelled struct {
	Worker string     `cbor:"1,keyasint,omitempty"`
	Until  store.Time `cbor:"2,keyasint"`
	Told   bool       `cbor:"3,keyasint,omitempty"`
}

// poll is a worker's lease that waits for a task.
type poll struct {
	no    store.ItemNo
	id    string
	until store.Time
	permit.Lease
	got []permit.Leased
}

func (p *poll) wants(name string) bool { return len(p.got) < p.Max && slices.Contains(p.Names, name) }

// deadline is when a lease, by its secret, is looked at.
type deadline struct {
	at     store.Time
	secret string
}

// tasks are what a queue knows of its tasks.
type tasks struct {
	secrets   map[string]string     // tickets of leases that are held, or have expired
	cancelled map[string]*cancelled // by secret
	ends      times.Min[deadline]   // of leases; those that do not hold any more are passed over
	polls     []*poll               // in the order of coming
	recalled  map[string]struct{}   // secrets of leases that are recalled
	counts    map[string]*permit.TaskCount
}

const (
	cancelledLoc = "x" // and the secret

	// detailEvery is how often a heartbeat's detail is kept.
	detailEvery = store.Time(time.Second / time.Microsecond)
	// maxToldWorkers bounds the workers that a queue shows as to be told of cancels.
	maxToldWorkers = 100
)

func (t *tasks) init() {
	t.secrets, t.cancelled = map[string]string{}, map[string]*cancelled{}
	t.counts, t.recalled = map[string]*permit.TaskCount{}, map[string]struct{}{}
	t.ends.Before = func(a, b deadline) bool { return a.at < b.at || a.at == b.at && a.secret < b.secret }
}

func (t *tasks) count(name string) *permit.TaskCount {
	c := t.counts[name]
	if c == nil {
		c = &permit.TaskCount{Name: name}
		t.counts[name] = c
	}
	return c
}

func (q *Rules) watch(at store.Time, secret string) {
	q.tasks.ends.Weed(func(d deadline) bool { return d.at == q.endsAt(d.secret) })
	q.tasks.ends.Push(deadline{at, secret})
}

// endsAt returns when something is to be done about a secret; 0: nothing is.
func (q *Rules) endsAt(secret string) store.Time {
	if c := q.tasks.cancelled[secret]; c != nil {
		return c.Until
	}
	if h, ok := q.held[q.tasks.secrets[secret]]; ok && h.Lease != nil && h.Lease.Secret == secret {
		return h.Lease.ends()
	}
	return 0
}

// loadLease takes the lease of a permit that stands.
func (q *Rules) loadLease(ticket string, l *lease) {
	q.tasks.secrets[l.Secret] = ticket
	q.watch(l.ends(), l.Secret)
	q.tasks.count(l.Asked.Task.Name).Leased++
	if l.Asked.Task.Recalls {
		q.tasks.recalled[l.Secret] = struct{}{}
	}
}

// offerOf returns what a request has that is for a worker; nil: it is not.
func offerOf(t *permit.Task) *offer {
	if t == nil {
		return nil
	}
	return &offer{Task: *t}
}

// offered puts a task into its line, for which a former lease may still end it.
func (q *Rules) offered(r *request, w *entity.Writer) {
	q.waiting[r.ticket] = r
	heap.Push(&q.delayed, r)
	w.Put(requestLoc+r.ticket, encode(r.asked))
	if r.Task.Former != "" {
		q.tasks.secrets[r.Task.Former] = r.ticket
	}
	q.changed = true
}

// class returns the name of the task that a request is; "": the node of the run executes it.
func (a *asked) class() string {
	if a.Task == nil {
		return ""
	}
	return a.Task.Name
}

// work carries out what a worker requests. It reports false if that waits.
func (q *Rules) work(it *store.Item, now store.Time, w *entity.Writer) (answer []byte, done bool) {
	var err error
	switch it.Name {
	case permit.LeaseTasks:
		p := &poll{no: it.No, id: it.ID}
		if err = permit.Decode(it.Value, &p.Lease); err == nil {
			p.until = it.Sent + store.Time(p.Wait)
			q.noteAsked(p.Names, now, w)
			q.tasks.polls = append(q.tasks.polls, p)
			return nil, false
		}
	case permit.ForgetLease:
		return q.tasks.forgetPoll(string(it.Value), w), true
	case permit.BeatTasks:
		var b permit.Beat
		if err = permit.Decode(it.Value, &b); err == nil {
			return q.beat(&b, now, w), true
		}
	case permit.ReleaseTasks:
		var r permit.LeaseList
		if err = permit.Decode(it.Value, &r); err == nil {
			return q.release(r.Secrets, w), true
		}
	case permit.EndTask:
		var e permit.End
		if err = permit.Decode(it.Value, &e); err == nil {
			return q.end(&e, now, w), true
		}
	case permit.AppendTask:
		var a permit.Append
		if err = permit.Decode(it.Value, &a); err == nil {
			return sendItems(q, &a, w), true
		}
	}
	return no("%v", err), true
}

// askedFor is a name for which workers ask.
type askedFor struct {
	Name string     `cbor:"1,keyasint"`
	At   store.Time `cbor:"2,keyasint"` // when that was noted
}

const (
	maxAsked   = 200                                      // names that are kept
	askedEvery = store.Time(time.Hour / time.Microsecond) // how often it is noted that workers still ask
)

// noteAsked notes for which tasks workers ask. Screens say of the other tasks that no worker has asked for them.
func (q *Rules) noteAsked(names []string, now store.Time, w *entity.Writer) {
	noted := false
	for _, name := range names {
		i := slices.IndexFunc(q.head.Asked, func(a askedFor) bool { return a.Name == name })
		if i >= 0 && now < q.head.Asked[i].At+askedEvery {
			continue
		}
		kept := slices.Clone(q.head.Asked)
		if i >= 0 {
			kept = slices.Delete(kept, i, i+1)
		}
		if kept = append(kept, askedFor{name, now}); len(kept) > maxAsked {
			kept, q.head.Forgot = kept[1:], true
		}
		q.head.Asked, noted = kept, true
	}
	if noted && q.head.Exists { // otherwise with the queue
		put(w, headLoc, q.head)
	}
}

// works reports whether an update is a worker's.
func works(name string) bool {
	switch name {
	case permit.LeaseTasks, permit.ForgetLease, permit.BeatTasks, permit.ReleaseTasks, permit.EndTask,
		permit.AppendTask:
		return true
	}
	return false
}

// forgetPoll ends the waiting of a lease whose worker is gone.
func (t *tasks) forgetPoll(id string, w *entity.Writer) []byte {
	for i, p := range t.polls {
		if p.id == id {
			t.polls = slices.Delete(t.polls, i, i+1)
			w.Consume(p.no, permit.Answer(permit.Leases{}))
			break
		}
	}
	return []byte{permit.Yes}
}

// wanted returns the names of tasks for which a worker waits and that are offered, sorted.
func (t *tasks) wanted(levels map[string][]*level) []string {
	var names []string
	for _, p := range t.polls {
		for _, name := range p.Names {
			if len(p.got) < p.Max && levels[name] != nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lend gives a request that has a permit to the worker that has waited longest.
func (q *Rules) lend(r *request, h *holding, now store.Time) {
	i := slices.IndexFunc(q.tasks.polls, func(p *poll) bool { return p.wants(r.Task.Name) })
	p := q.tasks.polls[i]
	secret := p.Secret(fmt.Sprint(r.ticket, " ", r.Task.Lost))
	l := &lease{Secret: secret, Worker: p.Worker, Begun: now, Until: now + store.Time(p.For), Asked: r.asked}
	if t := r.Task.Timeout; t > 0 {
		l.Over = now + store.Time(t)
	}
	own := *r.Task // the former lease does not count any more
	delete(q.tasks.secrets, own.Former)
	own.Former, own.No = "", 0
	l.Asked.Task = &own
	h.Lease = l
	q.tasks.secrets[secret] = r.ticket
	q.watch(l.ends(), secret)
	q.tasks.count(own.Name).Leased++
	p.got = append(p.got, permit.Leased{Secret: secret, RunID: r.RunID, Loc: r.Loc, Name: own.Name, Attempt: own.Attempt,
		Until: l.Until, Detail: own.Detail, Ticket: r.ticket})
}

// answerPolls answers the workers that have got a task, that have waited long enough, or that
// are to be told of a cancel.
func (q *Rules) answerPolls(now store.Time, w *entity.Writer) {
	q.tasks.polls = slices.DeleteFunc(q.tasks.polls, func(p *poll) bool {
		told := q.tell(p.Worker, w)
		if len(p.got) == 0 && len(told) == 0 && now < p.until {
			return false
		}
		w.Consume(p.no, permit.Answer(permit.Leases{Tasks: p.got, Cancelled: told}))
		return true
	})
}

// tell returns the leases of a worker that were cancelled or recalled and of which it does not
// know.
func (q *Rules) tell(worker string, w *entity.Writer) (secrets []string) {
	if worker == "" {
		return nil
	}
	for secret, c := range q.tasks.cancelled {
		if c.Worker == worker && !c.Told {
			secrets = append(secrets, secret)
			q.told(secret, w)
		}
	}
	for secret := range q.tasks.recalled {
		ticket := q.tasks.secrets[secret]
		if h := q.held[ticket]; h.Lease.Worker == worker && !h.Lease.Told {
			secrets = append(secrets, secret)
			h.Lease.Told = true
			put(w, permitLoc+ticket, h)
		}
	}
	slices.Sort(secrets)
	q.changed = q.changed || len(secrets) > 0
	return secrets
}

func (q *Rules) told(secret string, w *entity.Writer) {
	c := q.tasks.cancelled[secret]
	if !c.Told {
		c.Told, q.changed = true, true
		put(w, cancelledLoc+secret, c)
	}
}

// untold returns the workers that are to be told of a cancel, sorted.
func (q *Rules) untold() (workers []string) {
	for _, c := range q.tasks.cancelled {
		if !c.Told && c.Worker != "" {
			workers = append(workers, c.Worker)
		}
	}
	for secret := range q.tasks.recalled {
		if l := q.held[q.tasks.secrets[secret]].Lease; !l.Told && l.Worker != "" {
			workers = append(workers, l.Worker)
		}
	}
	slices.Sort(workers)
	workers = slices.Compact(workers)
	return workers[:min(len(workers), maxToldWorkers)]
}

// beat renews leases.
func (q *Rules) beat(b *permit.Beat, now store.Time, w *entity.Writer) []byte {
	out := permit.Beats{Standing: make([]byte, len(b.Secrets)), Until: make([]store.Time, len(b.Secrets))}
	for i, secret := range b.Secrets {
		h, standing := q.standing(secret)
		if out.Standing[i] = standing; standing == permit.LeaseCancelled && h == nil {
			q.told(secret, w)
		}
		if h == nil {
			continue
		}
		l := h.Lease
		l.Until = max(l.Until, now+store.Time(b.For))
		if t := l.Asked.Task.Timeout; t > 0 {
			l.Over = now + store.Time(t)
		}
		if i < len(b.Details) && b.Details[i] != nil && now >= l.Noted+detailEvery {
			own := *l.Asked.Task
			own.Detail, l.Noted, l.Asked.Task = b.Details[i], now, &own
		}
		if standing == permit.LeaseCancelled && !l.Told {
			l.Told, q.changed = true, true
		}
		q.watch(l.ends(), secret)
		put(w, permitLoc+q.tasks.secrets[secret], *h)
		out.Until[i] = l.Until
	}
	return permit.Answer(out)
}

// standing returns how a lease stands, and its permit while it is held. One that is recalled is
// held, and to be cancelled.
func (q *Rules) standing(secret string) (*holding, byte) {
	if q.tasks.cancelled[secret] != nil {
		return nil, permit.LeaseCancelled
	}
	h, ok := q.held[q.tasks.secrets[secret]]
	switch {
	case !ok || h.Lease == nil || h.Lease.Secret != secret:
		return nil, permit.LeaseGone
	case h.Lease.Asked.Task.Recalls:
		return &h, permit.LeaseCancelled
	}
	return &h, permit.LeaseHeld
}

// release offers tasks again that a worker gives back, first in their lines. A worker that stops
// gives back what it executes, so a recalled one is offered again too.
func (q *Rules) release(secrets []string, w *entity.Writer) []byte {
	out := permit.Beats{Standing: make([]byte, len(secrets)), Until: make([]store.Time, len(secrets))}
	for i, secret := range secrets {
		h, standing := q.standing(secret)
		if out.Standing[i] = standing; h == nil {
			continue
		}
		ticket := q.tasks.secrets[secret]
		own := *h.Lease.Asked.Task
		own.Tried, own.Recalls, own.Begun = true, false, h.Lease.Begun
		h.Lease.Asked.Task = &own
		delete(q.tasks.secrets, secret)
		q.offerAgain(ticket, h, w)
	}
	return permit.Answer(out)
}

// offerAgain puts a leased task back into its place in the line.
func (q *Rules) offerAgain(ticket string, h *holding, w *entity.Writer) {
	q.dropPermit(ticket, h, w)
	q.offered(&request{ticket: ticket, asked: h.Lease.Asked}, w)
}

// dropPermit forgets the permit of a lease.
func (q *Rules) dropPermit(ticket string, h *holding, w *entity.Writer) {
	delete(q.held, ticket)
	w.Delete(permitLoc + ticket)
	k := q.key(h.Key)
	k.held--
	q.unblock(k)
	q.tasks.count(h.Lease.Asked.Task.Name).Leased--
	delete(q.tasks.recalled, h.Lease.Secret)
	q.changed = true
}

// settle ends the attempt of a lease, and says so to the run.
func (q *Rules) settle(ticket string, h *holding, o *permit.Outcome, w *entity.Writer) {
	delete(q.tasks.secrets, h.Lease.Secret)
	q.dropPermit(ticket, h, w)
	q.forget(h.Key, w)
	a := &h.Lease.Asked
	o.Detail, o.Worker = a.Task.Detail, permit.WorkerName(h.Lease.Worker)
	w.Send(o.Command(q.name, ticket, a.RunID, a.Loc))
}

// end takes the end of an attempt from its worker.
func (q *Rules) end(e *permit.End, now store.Time, w *entity.Writer) []byte {
	failed := e.Failure != nil
	o := &permit.Outcome{How: permit.TaskCompleted, Result: e.Result, Failure: e.Failure, Final: e.Final, After: e.After,
		Ended: now}
	if failed {
		o.How = permit.TaskFailed
	}
	ended := func(t *permit.Task, began store.Time) []byte {
		o.Started = began
		retry := failed && !e.Final && !t.Last
		return permit.Answer(permit.Ended{Standing: permit.LeaseHeld, Failed: failed, Retry: retry})
	}
	ticket := q.tasks.secrets[e.Secret]
	if h, standing := q.standing(e.Secret); h != nil {
		answer := ended(&h.Lease.Asked.Task.Task, h.Lease.Begun)
		q.settle(ticket, h, o, w)
		return answer
	} else if standing == permit.LeaseCancelled {
		q.told(e.Secret, w)
		return permit.Answer(permit.Ended{Standing: standing})
	}
	if r := q.waiting[ticket]; r != nil && r.Task != nil && r.Task.Former == e.Secret { // expired, and nobody else's
		answer := ended(&r.Task.Task, r.Task.Begun)
		o.Detail, o.Worker = r.Task.Detail, permit.WorkerName(r.Task.Worker)
		q.remove(r, w)
		q.forget(r.Key, w)
		w.Send(o.Command(q.name, ticket, r.RunID, r.Loc))
		return answer
	}
	return permit.Answer(permit.Ended{Standing: permit.LeaseGone})
}

// sendItems sends the items of a worker to the run, for its streams. Of an expired lease they
// count as its end does.
func sendItems(q *Rules, a *permit.Append, w *entity.Writer) []byte {
	ticket := q.tasks.secrets[a.Secret]
	var by *asked
	var no int64
	h, standing := q.standing(a.Secret)
	switch r := q.waiting[ticket]; {
	case standing == permit.LeaseHeld:
		by, no = &h.Lease.Asked, h.No
	case standing == permit.LeaseCancelled && h == nil:
		q.told(a.Secret, w)
	case standing == permit.LeaseGone && r != nil && r.Task != nil && r.Task.Former == a.Secret:
		by, no = &r.asked, r.Task.No
	}
	if by == nil {
		return permit.Answer(permit.Appended{Standing: standing})
	}
	w.Send(a.Add(q.name, ticket, by.RunID, by.Loc, no))
	return permit.Answer(permit.Appended{Standing: permit.LeaseHeld, RunID: by.RunID})
}

// cancelLease notes that the lease of a permit is wanted no more.
func (q *Rules) cancelLease(l *lease, w *entity.Writer) {
	q.tasks.count(l.Asked.Task.Name).Leased--
	delete(q.tasks.secrets, l.Secret)
	delete(q.tasks.recalled, l.Secret)
	c := &cancelled{Worker: l.Worker, Until: l.Until, Told: l.Told}
	q.tasks.cancelled[l.Secret] = c
	q.watch(c.Until, l.Secret)
	put(w, cancelledLoc+l.Secret, c)
}

// recall asks for the end of a task whose run is cancelled and has to know whether it had an
// effect.
func (q *Rules) recall(ticket string, now store.Time, w *entity.Writer) {
	if h, ok := q.held[ticket]; ok && h.Lease != nil {
		own := *h.Lease.Asked.Task
		own.Recalls = true
		h.Lease.Asked.Task = &own
		q.tasks.recalled[h.Lease.Secret] = struct{}{}
		put(w, permitLoc+ticket, h)
		q.changed = true
		return
	}
	r := q.waiting[ticket]
	if r == nil || r.Task == nil {
		return
	}
	if !r.Task.untouched() {
		return
	}
	q.remove(r, w)
	q.forget(r.Key, w)
	o := permit.Outcome{How: permit.TaskNever, Started: now, Ended: now}
	w.Send(o.Command(q.name, ticket, r.RunID, r.Loc))
}

// expire looks at the leases that are over.
func (q *Rules) expire(now store.Time, w *entity.Writer) {
	for q.tasks.ends.Len() > 0 && q.tasks.ends.Peek().at <= now {
		if w.Full() {
			w.More()
			return
		}
		d := q.tasks.ends.Pop()
		if q.endsAt(d.secret) != d.at {
			continue
		}
		if q.tasks.cancelled[d.secret] != nil {
			delete(q.tasks.cancelled, d.secret)
			w.Delete(cancelledLoc + d.secret)
			q.changed = true
			continue
		}
		ticket := q.tasks.secrets[d.secret]
		h := q.held[ticket]
		l := h.Lease
		o := &permit.Outcome{Started: l.Begun, Ended: now}
		switch {
		case l.Over != 0 && l.Over <= now:
			o.How = permit.TaskTimeout
			q.settle(ticket, &h, o, w)
		case l.Asked.Task.Lost+1 >= permit.MaxLost:
			o.How = permit.TaskLost
			q.settle(ticket, &h, o, w)
		default:
			own := *l.Asked.Task
			own.Lost, own.Former, own.Begun, own.Worker, own.No = own.Lost+1, d.secret, l.Begun, l.Worker, h.No
			own.Recalls = false
			l.Asked.Task = &own
			q.offerAgain(ticket, &h, w)
		}
	}
}

// nextWork returns when a worker has waited long enough, or a lease is over; 0: never.
func (q *Rules) nextWork() (at store.Time) {
	ends := &q.tasks.ends
	for ends.Len() > 0 && ends.Peek().at != q.endsAt(ends.Peek().secret) {
		ends.Pop()
	}
	if ends.Len() > 0 {
		at = ends.Peek().at
	}
	for _, p := range q.tasks.polls {
		if at == 0 || p.until < at {
			at = p.until
		}
	}
	return at
}

// shown returns what the queue shows of its tasks.
func (t *tasks) shown() []permit.TaskCount {
	var all []permit.TaskCount
	for name, c := range t.counts {
		if c.Offered+c.Leased == 0 {
			delete(t.counts, name)
			continue
		}
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b permit.TaskCount) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
