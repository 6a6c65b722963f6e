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
	Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error)
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

	mu   sync.Mutex
	runs map[string]*room
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
	return &Guard{reader: reader, limits: limits, runs: map[string]*room{}}
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
	r := g.runs[runID]
	switch {
	case r == nil && first == Blindly, r != nil && r.items > 0 && r.bytes > 0:
		g.mu.Unlock()
		return nil
	case r != nil && r.full != nil && time.Since(r.looked) < lookFor:
		defer g.mu.Unlock()
		return r.full
	}
	seen := room{}
	if r != nil {
		seen = *r
	}
	g.mu.Unlock()
	items, bytes, err := 0, 0, error(nil)
	if seen.no == 0 {
		seen.no, err = g.find(ctx, runID)
	}
	if err == nil && seen.no != 0 {
		items, bytes, err = g.look(ctx, seen.no)
	}
	if err != nil {
		return fmt.Errorf("how full the inbox of run %q is: %w", runID, err)
	}
	if seen.no == 0 {
		return nil // there is no such run: the sending says so
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r = g.of(runID, seen.no)
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

// look returns how many messages and updates of how many bytes the inbox of a run holds. It
// reads no large values.
func (g *Guard) look(ctx context.Context, no store.RunNo) (items, bytes int, err error) {
	inbox, err := g.reader.Inbox(ctx, no)
	if err != nil {
		return 0, 0, err
	}
	for i := range inbox {
		it := &inbox[i]
		if guards(it) {
			items, bytes = items+1, bytes+len(it.Value)+it.Size
		}
	}
	return items, bytes, nil
}
