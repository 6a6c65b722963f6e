// Package inboxes bounds what a process sends to one run: a run that takes nothing must not
// fill the store.
package inboxes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// ErrFull says that an inbox holds as much as it may.
var ErrFull = errors.New("the inbox is full")

// Limits bound the messages and updates in one inbox that nobody has received, and what workers of
// tasks have sent for streams.
type Limits struct {
	Items int // negative: without limit
	Bytes int // of values; negative: without limit
}

const (
	// maxBlind and maxBlindBytes are how much a process sends to a run before it looks.
	maxBlind      = 200
	maxBlindBytes = 16 << 20
	// lookFor is how long a look at a full inbox counts.
	lookFor = time.Second
	// maxRuns bounds the runs that are remembered.
	maxRuns = 4096
)

// Reader reads runs. A store.Store is one.
type Reader interface {
	List(ctx context.Context, f store.Filter) (store.Page, error)
	Pending(ctx context.Context, q store.PendingQuery) (store.Pending, error)
}

// First says what a sender does that has sent nothing to a run yet.
type First bool

const (
	// Blindly: it sends. It is for a process that sends much and lives long.
	Blindly First = false
	// Looks: it looks into the inbox first, which costs two reads.
	Looks First = true
)

// Guard remembers how much room the inboxes have to which this process sends, so that not
// every message has to look. It is exact for one sender. Several processes may exceed a
// limit by what each sends before it looks, and by what was in the inbox before. Safe for
// concurrent use.
type Guard struct {
	reader Reader
	limits Limits

	mu    sync.Mutex
	runs  map[string]*room
	looks map[string]*look // by run, under way
}

// look is a look into an inbox, for which other senders to the run wait.
type look struct {
	done chan struct{} // is closed at its end
	err  error         // set before: it has found nothing out
}

// room is the memory of one inbox.
type room struct {
	no           store.RunNo // 0: not known
	items, bytes int         // that may be sent before the next look
	full         error       // what the last look has found; nil: there was room
	looked       time.Time   // when it was
}

// New returns a Guard that knows nothing yet.
func New(reader Reader, limits Limits) *Guard {
	return &Guard{reader: reader, limits: limits, runs: map[string]*room{}, looks: map[string]*look{}}
}

// guards reports whether items of the kind are bounded.
func guards(it *store.Item) bool {
	return it.Kind == store.ItemMessage || it.Kind == store.ItemUpdate || permit.Adds(it)
}

// Admit reports with an error that wraps ErrFull that a run's inbox has no room for an item.
func (g *Guard) Admit(ctx context.Context, runID string, it *store.Item, first First) error {
	if !guards(it) {
		return nil
	}
	g.mu.Lock()
	for alone := false; ; {
		r := g.runs[runID]
		switch {
		case r == nil && first == Blindly, r != nil && r.items > 0 && r.bytes > 0:
			g.mu.Unlock()
			return nil
		case r != nil && r.full != nil && time.Since(r.looked) < lookFor:
			defer g.mu.Unlock()
			return r.full
		}
		no := store.RunNo(0)
		if r != nil {
			no = r.no
		}
		under := g.looks[runID]
		if under == nil || alone {
			own := &look{done: make(chan struct{})}
			if under == nil {
				g.looks[runID] = own
			}
			g.mu.Unlock()
			err := g.look(ctx, runID, no, it)
			g.mu.Lock()
			if own.err = err; g.looks[runID] == own {
				delete(g.looks, runID)
			}
			g.mu.Unlock()
			close(own.done)
			return err
		}
		g.mu.Unlock()
		select {
		case <-under.done:
		case <-ctx.Done():
			return fmt.Errorf("how full the inbox of run %q is: %w", runID, context.Cause(ctx))
		}
		// One that has failed, perhaps because its sender has left, says nothing to others.
		alone = under.err != nil && !errors.Is(under.err, ErrFull)
		g.mu.Lock()
	}
}

// look counts the messages and updates in the inbox of a run, whose number is 0 if it is not known, and notes how much
// room there is for more. The error wraps ErrFull if there is none.
func (g *Guard) look(ctx context.Context, runID string, no store.RunNo, it *store.Item) (err error) {
	var sum store.Pending
	if no == 0 {
		no, err = g.find(ctx, runID)
	}
	if err == nil && no != 0 {
		// A grant that the run has not taken counts as one message.
		sum, err = g.reader.Pending(ctx, store.PendingQuery{Run: no, Kinds: []store.ItemKind{store.ItemMessage,
			store.ItemUpdate, store.ItemGrant}})
	}
	if err != nil {
		return fmt.Errorf("how full the inbox of run %q is: %w", runID, err)
	}
	if no == 0 {
		return nil // there is no such run: the sending says so
	}
	items, bytes := sum.Items, int(sum.Bytes)
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.of(runID, no)
	r.items, r.bytes = g.blind(items, bytes)
	r.looked, r.full = time.Now(), nil
	if r.items <= 0 || r.bytes <= 0 {
		what := it.Kind.String()
		if permit.Adds(it) {
			what = "items of a task"
		}
		r.full = fmt.Errorf("%s to run %q: its inbox holds %d messages of %d bytes that it has not received: %w",
			what, runID, items, bytes, ErrFull)
	}
	return r.full
}

// Sent notes that an item was put into the inbox of a run, or is about to be. no is 0 if
// that is not known.
func (g *Guard) Sent(runID string, no store.RunNo, it *store.Item) {
	if !guards(it) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.of(runID, no)
	r.items--
	r.bytes -= len(it.Value)
}

// of returns the memory of a run's inbox, which is empty for a run that is new under its ID.
func (g *Guard) of(runID string, no store.RunNo) *room {
	r := g.runs[runID]
	switch {
	case r == nil || r.no != 0 && no != 0 && r.no != no:
		if len(g.runs) >= maxRuns {
			clear(g.runs)
		}
		r = &room{no: no}
		r.items, r.bytes = g.blind(0, 0)
		g.runs[runID] = r
	case r.no == 0:
		r.no = no
	}
	return r
}

// find returns the number of a run, or 0.
func (g *Guard) find(ctx context.Context, runID string) (store.RunNo, error) {
	page, err := g.reader.List(ctx, store.Filter{IDs: []string{runID}, Limit: 1})
	if err != nil || len(page.Runs) == 0 {
		return 0, err
	}
	return page.Runs[0].No, nil
}

// blind returns how much may be sent to an inbox that holds so much before the next look.
func (g *Guard) blind(items, bytes int) (moreItems, moreBytes int) {
	moreItems, moreBytes = maxBlind, maxBlindBytes
	if g.limits.Items >= 0 {
		moreItems = min(moreItems, g.limits.Items-items)
	}
	if g.limits.Bytes >= 0 {
		moreBytes = min(moreBytes, g.limits.Bytes-bytes)
	}
	return moreItems, moreBytes
}
