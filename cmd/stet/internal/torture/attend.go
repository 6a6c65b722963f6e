package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stet-run/stet/store"
)

// alive returns how many of the known runs have not ended.
func (h *harness) alive() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live
}

// meet attends to a run, if it is not known yet: it sends what the run waits for,
// cancels some, pauses some, and waits for others to end.
func (h *harness) meet(id string) (known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs[id] != nil {
		return true
	}
	r := &run{program: newProgram(h.cfg.Seed, id), tokens: map[string]int{}}
	h.runs[id] = r
	h.live++
	h.attend(func(ctx context.Context) error { return h.client.sendAll(ctx, r.program, 300*time.Millisecond) })
	switch r.seed % 8 {
	case 0:
		r.asked = true
		h.attend(func(ctx context.Context) error {
			if err := pause(ctx, rand.N(3*time.Second)); err != nil {
				return err
			}
			return h.client.cancel(ctx, id, r.seed%32 == 0)
		})
	case 1:
		h.attend(func(ctx context.Context) error { return h.client.await(ctx, id) })
	case 2, 3:
		h.attend(func(ctx context.Context) error { return h.pause(ctx, id) })
	}
	return false
}

// follow watches the needs and states of the runs, until ctx ends.
func (h *harness) follow(ctx context.Context) (err error) {
	effects, err := openReader(h.effects)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, effects.close()) }()
	for {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		lines, err := effects.read()
		if err != nil {
			return err
		}
		for _, l := range lines {
			if l.Kind == lineToken {
				h.meet(l.Run) // one that was started by a worker
				h.settlePromise(l.line)
			}
		}
		if err := errors.Join(h.discover(ctx, false), h.look(ctx)); err != nil && !indefinite(err) {
			return err
		}
	}
}

// discover meets the runs that others have started: the newest, or all.
func (h *harness) discover(ctx context.Context, all bool) error {
	f := store.Filter{Workflows: []string{treeRef.Name()}, IDPrefix: fmt.Sprintf("%s%016x-", prefix, h.cfg.Seed),
		Limit: 200}
	for {
		page, err := h.db.List(ctx, f)
		if err != nil {
			return err
		}
		known := 0
		for i := range page.Runs {
			if h.meet(page.Runs[i].ID) {
				known++
			}
		}
		if known > 0 && !all || page.Next == "" { // the newest come first
			return nil
		}
		f.Cursor = page.Next
	}
}

// look reads the states of the live runs.
func (h *harness) look(ctx context.Context) error {
	h.mu.Lock()
	h.looks++
	var ids []string
	for id, r := range h.runs {
		if !r.ended && len(ids) < store.MaxPage {
			ids = append(ids, id)
		}
	}
	h.mu.Unlock()
	if len(ids) == 0 {
		ids = []string{prefix} // which names no run
	}
	page, err := h.db.List(ctx, store.Filter{IDs: ids, Limit: len(ids), Values: true})
	if err != nil {
		return err
	}
	ended := h.note(page.Runs)
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.deciding = false
	}()
	for _, found := range ended {
		if err := h.client.acknowledgeEnd(found.ID, found.Status, found.Output); err != nil {
			return err
		}
		h.repair(found)
	}
	return nil
}

// note keeps the states of the live runs, resumes paused ones, and returns those that have ended. Until the caller has
// decided what to do about these, they count as being decided.
func (h *harness) note(live []store.Run) (ended []*store.Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deciding = true
	for i := range live {
		r := &live[i]
		known := h.runs[r.ID]
		switch {
		case known.repairing || known.decided == h.looks: // it may stand otherwise by now
		case r.Marks&store.Paused != 0 && !known.resuming:
			known.resuming = true
			h.attend(func(ctx context.Context) error { return h.resume(ctx, r.ID) })
		case r.Status.Terminal() || r.Status == store.Stalled:
			known.ended = true
			h.live--
			h.ended = time.Now()
			ended = append(ended, r)
		}
	}
	return ended
}

// settlePromise resolves a promise whose token was handed out: some by two
// callers at once, with different values.
func (h *harness) settlePromise(l line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[l.Run]
	if r == nil {
		return
	}
	if _, known := r.tokens[l.Text]; known {
		return
	}
	r.tokens[l.Text] = l.Node
	n := r.nodes[l.Node]
	for which := range 1 + int(r.seedOf(n, 200)%3)/2 {
		h.attend(func(ctx context.Context) error {
			if err := pause(ctx, rand.N(200*time.Millisecond)); err != nil {
				return err
			}
			return h.client.resolve(ctx, r.program, n, l.Text, which)
		})
	}
}
