package queue

import (
	"maps"
	"strconv"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// rows is what a queue knows of its line: of the runs that wait in their rows, or hold a permit by them. They stand
// among the other requests and permits, under tickets made from their numbers, and have no entries.
type rows struct {
	known   bool          // a look has ended, perhaps after the last turn
	shown   bool          // the queue's state was written since
	waiting int           // requests that stand for rows
	held    int           // permits that do
	read    int           // waiting runs that the last look has read
	last    *store.Waiter // the last of them, if others may wait behind it; nil: none do
	// heard are the runs of which the queue was told since the look under way began: there the look may be older.
	// nil: no look is under way.
	heard map[store.RunNo]struct{}
	news  []news
}

// news is something that the queue is told of its line between two turns.
type news func(now store.Time, w *entity.Writer)

// rowTicket returns the ticket under which the row of a run stands.
func rowTicket(no store.RunNo) string { return "#" + strconv.FormatInt(int64(no), 10) }

func (r *rows) add(n news) { r.news = append(r.news, n) }

func (r *rows) hear(no store.RunNo) {
	if r.heard != nil {
		r.heard[no] = struct{}{}
	}
}

func (r *rows) heardOf(no store.RunNo) bool {
	_, heard := r.heard[no]
	return heard
}

// takeNews acts on what the queue was told since the last turn.
func (q *Rules) takeNews(now store.Time, w *entity.Writer) {
	for _, n := range q.rows.news {
		n(now, w)
	}
	q.rows.news = nil
}

// NoLine implements entity.Lined.
func (q *Rules) NoLine() { q.rows.known = true }

// Forget implements entity.Lined.
func (q *Rules) Forget() { q.rows.known = false }

// LookBegins implements entity.Lined.
func (q *Rules) LookBegins() {
	q.rows.add(func(store.Time, *entity.Writer) { q.rows.heard = map[store.RunNo]struct{}{} })
}

// Joined implements entity.Lined.
func (q *Rules) Joined(waiter store.Waiter) {
	q.rows.add(func(_ store.Time, _ *entity.Writer) {
		q.rows.hear(waiter.No)
		if last := q.rows.last; last == nil || waiter.Compare(last) < 0 {
			q.join(&waiter)
		}
	})
}

// Left implements entity.Lined.
func (q *Rules) Left(run store.RunNo) {
	q.rows.add(func(_ store.Time, w *entity.Writer) {
		q.rows.hear(run)
		q.drop(run, w)
	})
}

// Answered implements entity.Lined.
func (q *Rules) Answered(run store.RunNo, outcome store.Outcome) {
	q.rows.add(func(_ store.Time, w *entity.Writer) {
		q.rows.hear(run)
		ticket := rowTicket(run)
		h, held := q.held[ticket]
		switch {
		case !held:
		case outcome == store.Applied:
			h.sure = true
			q.held[ticket] = h
		default: // it is claimed, paused, stalled or has ended; if it waits again, a look finds it
			q.drop(run, w)
		}
	})
}

// Look implements entity.Lined.
func (q *Rules) Look(waiting []store.Waiter, more bool, admitted []store.Waiter) {
	q.rows.known = true
	q.rows.add(func(_ store.Time, w *entity.Writer) {
		q.look(waiting, more, admitted, w)
		q.changed = q.changed || !q.rows.shown // what is shown may be of a former owner
		q.rows.shown = true
	})
}

// look corrects what the queue knows by what was read, except of runs of which it was told meanwhile.
func (q *Rules) look(waiting []store.Waiter, more bool, admitted []store.Waiter, w *entity.Writer) {
	q.rows.read, q.rows.last = len(waiting), nil
	if more {
		q.rows.last = &waiting[len(waiting)-1]
	}
	found := make(map[string]bool, len(waiting)+len(admitted))
	for i := range admitted {
		found[rowTicket(admitted[i].No)] = true
	}
	for ticket, h := range maps.Clone(q.held) {
		if h.row != 0 && h.sure && !found[ticket] && !q.rows.heardOf(h.row) {
			q.drop(h.row, w)
		}
	}
	for i := range admitted {
		if a := &admitted[i]; !q.rows.heardOf(a.No) {
			q.holds(a, w)
		}
	}
	clear(found)
	for i := range waiting {
		found[rowTicket(waiting[i].No)] = true
	}
	for ticket, r := range maps.Clone(q.waiting) {
		beyond := q.rows.last != nil && r.waiter().Compare(q.rows.last) > 0
		if r.row == 0 || found[ticket] || q.rows.heardOf(r.row) || beyond {
			continue
		}
		q.remove(r, w)
		q.forget(r.Key, w)
	}
	for i := range waiting {
		if !q.rows.heardOf(waiting[i].No) {
			q.join(&waiting[i])
		}
	}
	q.rows.heard = nil
}

// waiter returns the request as it stands in the line.
func (r *request) waiter() *store.Waiter {
	return &store.Waiter{No: r.row, Priority: r.Priority, Due: r.Due}
}

// join adds a request for a run that waits in its row.
func (q *Rules) join(waiter *store.Waiter) {
	ticket := rowTicket(waiter.No)
	if _, has := q.held[ticket]; has || q.waiting[ticket] != nil {
		return
	}
	r := &request{ticket: ticket, row: waiter.No, asked: asked{No: store.ItemNo(waiter.No), RunID: waiter.ID,
		Key: waiter.Key, Priority: waiter.Priority, Due: waiter.Due}}
	if p, _, err := permit.DecodePlace(waiter.Place); err == nil {
		r.Cost, r.Above = p.Cost, p.Above
	}
	q.expect(r)
	q.delay(r)
	q.rows.waiting++
	q.changed = true
}

// holds notes that a run has a permit by its row.
func (q *Rules) holds(waiter *store.Waiter, w *entity.Writer) {
	ticket := rowTicket(waiter.No)
	if _, has := q.held[ticket]; has {
		return
	}
	if r := q.waiting[ticket]; r != nil {
		q.remove(r, w)
	}
	h := holding{RunID: waiter.ID, Key: waiter.Key, row: waiter.No, sure: true}
	if p, _, err := permit.DecodePlace(waiter.Place); err == nil {
		h.Cost = p.Cost
	}
	q.held[ticket] = h
	q.key(h.Key).held++
	q.rows.held++
	q.changed = true
}

// drop notes that a run has no permit by its row.
func (q *Rules) drop(run store.RunNo, w *entity.Writer) {
	if h, held := q.held[rowTicket(run)]; held && h.row != 0 {
		q.giveBack(permit.Given{Ticket: rowTicket(run), Spent: permit.AsAsked}, w)
	}
}

// Wants implements entity.Lined.
func (q *Rules) Wants() (waiting, admitted bool) {
	return !q.rows.known || q.rows.waiting < entity.Window/2, !q.rows.known || q.rows.held > 0 && len(q.waiting) > 0
}

// Short implements entity.Lined.
func (q *Rules) Short() bool { return q.rows.last != nil && q.rows.waiting < q.rows.read/2 }

// Known implements entity.Lined.
func (q *Rules) Known() bool { return q.rows.known }

// Stays implements entity.Lined.
func (q *Rules) Stays() bool {
	return !q.rows.known || q.rows.waiting+q.rows.held+len(q.rows.news) > 0
}
