package ownership

import (
	"context"
	"time"
)

// Handover gives shards back while others wait for the runs in them as short as possible. All
// fields are required, except for Grace and Cut.
//
// A shard in which a body has been executing for long goes on as before: its other runs need
// not wait for that body. A shard in which nothing has been executing for long is closed: what
// is under way ends within Window, and the shard is released. Otherwise it is opened again, and
// tried later.
type Handover struct {
	Set    *Set
	Grace  time.Duration // until all is cancelled. Negative: that never happens
	Last   time.Duration // after the cancel, until a shard is released all the same
	Window time.Duration // how long a shard may be closed, and when a body counts as long
	Pause  time.Duration // after which a shard that could not be released is closed again
	// Busy returns the shards in which something is under way, and for how long the oldest
	// body has been executing in each.
	Busy    func() map[*Shard]time.Duration
	Opened  func(again []*Shard) // these go on
	Release func(quiet []*Shard)
	Cut     func(shards []*Shard) // their bodies are cancelled, as the grace is over; nil: nobody asks

	closed map[*Shard]time.Time // since when
	next   map[*Shard]time.Time // when it is tried again
}

// Run returns when all shards are released, lost, or taken over by a handover that must end;
// with those in which something is under way at the very end. It returns early if ctx ends.
func (g *Handover) Run(ctx context.Context, shards []*Shard) (stuck []*Shard) {
	g.closed, g.next = map[*Shard]time.Time{}, map[*Shard]time.Time{}
	must := g.Grace >= 0
	var limit <-chan time.Time
	if must {
		limit = time.After(g.Grace)
	}
	cancelled := false
	begun := time.Now()
	for _, h := range shards {
		if h.Draining() { // by a handover that this one takes over from
			g.closed[h] = begun
		}
	}
	for {
		pause := 50 * time.Millisecond
		switch {
		case len(g.closed) > 0, time.Since(begun) < time.Second:
			pause = time.Millisecond
		case must:
			pause = 5 * time.Millisecond
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		case <-limit:
			if cancelled {
				return shards
			}
			cancelled = true
			g.cancel(shards)
			limit = time.After(g.Last)
		}
		shards = g.step(shards, must, cancelled)
		if len(shards) == 0 {
			return nil
		}
	}
}

// step looks at the shards once, and returns the shards that are still to be given back.
func (g *Handover) step(shards []*Shard, must, cancelled bool) (rest []*Shard) {
	now, busy := time.Now(), g.Busy()
	var quiet, opens, closes []*Shard
	for _, h := range shards {
		age, works := busy[h]
		since, closed := g.closed[h]
		switch {
		case h.Lost(), h.Must() && !must:
			delete(g.closed, h)
			continue
		case closed && !works:
			quiet = append(quiet, h)
			delete(g.closed, h)
			continue
		case cancelled:
		case closed && now.Sub(since) >= g.Window:
			opens = append(opens, h)
			delete(g.closed, h)
			g.next[h] = now.Add(g.Pause)
		case !closed && (!works || age < g.Window && !now.Before(g.next[h])):
			closes = append(closes, h)
			g.closed[h] = now
		}
		rest = append(rest, h)
	}
	g.Release(quiet)
	g.Set.Close(closes...)
	if len(opens) > 0 {
		g.Set.Open(opens...)
		g.Opened(opens)
	}
	return rest
}

// cancel ends what is under way.
func (g *Handover) cancel(shards []*Shard) {
	g.Set.Close(shards...)
	for _, h := range shards {
		g.closed[h] = time.Now()
	}
	if g.Cut != nil {
		g.Cut(shards)
	}
	for _, h := range shards {
		h.Cancel()
	}
}
