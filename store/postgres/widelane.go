package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet/store"
)

// lane is one of the databases of a store as an engine works on it, see store.Laned.
type lane struct {
	*Wide
	index int
}

func (l *lane) own(ctx context.Context) (*Store, error) {
	if l.closed.Load() {
		return nil, store.ErrClosed
	}
	return l.at(ctx, l.index)
}

// Describe implements store.Store.
func (l *lane) Describe(ctx context.Context) (store.Description, error) {
	s, err := l.own(ctx)
	if err != nil {
		return store.Description{}, err
	}
	return s.Describe(ctx)
}

// numbered returns the number of a batch of the lane as its database has it: all are of one stage.
func numbered(no int64) int64 { return no << stageBits }

// Register implements store.Store.
func (l *lane) Register(ctx context.Context, n store.Node) (store.Time, error) {
	s, err := l.own(ctx)
	if err != nil {
		return 0, err
	}
	n.LastBatch = numbered(n.LastBatch)
	return s.Register(ctx, n)
}

// Acquire implements store.Store.
func (l *lane) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	s, err := l.own(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, shard := range shards {
		if l.checkSlots(shard.Slot) != nil || l.place.Slots[shard.Slot] != l.index {
			return nil, 0, fmt.Errorf("acquire leases: %w: expected shards of %s, found %s", store.ErrInvalid,
				l.Databases()[l.index], shard)
		}
	}
	got, now, err := s.Acquire(ctx, n, shards, ttl)
	if err == nil {
		_ = l.relay.Look(ctx, l.index) // tried again in the background
	}
	return got, now, err
}

// Renew implements store.Store.
func (l *lane) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
	error) {
	s, err := l.own(ctx)
	if err != nil {
		return nil, 0, err
	}
	got, now, err := s.Renew(ctx, leases, ttl)
	if err == nil {
		if first, failed := waitingPosts(ctx, s); failed == nil {
			l.relay.Noticed(l.index, first)
		}
	}
	return got, now, err
}

// Release implements store.Store.
func (l *lane) Release(ctx context.Context, leases []store.Lease) error {
	s, err := l.own(ctx)
	if err != nil {
		return err
	}
	return s.Release(ctx, leases)
}

// Claim implements store.Store.
func (l *lane) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	s, err := l.own(ctx)
	if err != nil {
		return store.Claims{}, err
	}
	return s.Claim(ctx, req)
}

// Sweep implements store.Store.
func (l *lane) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	if len(req.Runs) > 0 {
		return l.Wide.Sweep(ctx, req)
	}
	s, err := l.own(ctx)
	if err != nil {
		return store.Swept{}, err
	}
	return s.Sweep(ctx, req)
}

// Commit implements store.Store. What the turns send to other databases is delivered by the
// relay, at once.
func (l *lane) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := l.validate(&b); err != nil {
		return store.BatchResult{}, err
	}
	for _, t := range b.Turns {
		if l.place.Slots[t.Shard.Slot] != l.index {
			return store.BatchResult{}, fmt.Errorf("commit a batch: %w: expected turns in %s, found one in %s",
				store.ErrInvalid, l.Databases()[l.index], t.Shard)
		}
	}
	c := &wideBatch{w: l.Wide, b: &b, call: &call{}, sends: make([][]sent, len(b.Turns))}
	if err := l.resolveTurns(ctx, c); err != nil {
		return store.BatchResult{}, err
	}
	var st stage
	for i := range b.Turns {
		st.turns = append(st.turns, i)
	}
	out := store.BatchResult{Commands: make([]store.Answer, len(b.Commands))}
	for i := range b.Commands {
		cmd := &b.Commands[i]
		id := cmd.RunID
		if cmd.Start != nil {
			id = cmd.Start.ID
		}
		if l.place.of(cmd) != l.index || replaced(id) > 0 { // Apply knows where it is
			out.Commands[i] = store.Answer{Outcome: store.Undecided}
			continue
		}
		st.commands = append(st.commands, i)
	}
	p := c.parts(&st)[l.index]
	if p == nil {
		p = &part{}
	}
	p.Node, p.Boot, p.No, p.Last = b.Node, b.Boot, numbered(b.No), numbered(b.Last)
	p.Leases = l.leasesIn(l.index, b.Leases)
	result, err := l.write(ctx, l.index, p)
	if err != nil {
		return store.BatchResult{}, err
	}
	for to := range targets(p.posts) {
		l.relay.Later(l.index, to)
	}
	out.Turns, out.Now = result.Turns, result.Now
	for i := range out.Turns {
		c.gather(&out.Turns[i], c.sends[i], len(b.Turns[i].Sends))
	}
	for k, i := range p.commands {
		out.Commands[i] = result.Commands[k]
	}
	return out, nil
}

// otherLimit is how long a batch of a lane waits for another database.
const otherLimit = 2 * time.Second

// resolveTurns addresses what turns send to runs that were replaced, see Wide.resolve. If their database does not
// answer soon, a name of that form is taken to be that of such a run: its database finds it by the name.
func (l *lane) resolveTurns(ctx context.Context, c *wideBatch) error {
	limited, cancel := context.WithTimeout(ctx, otherLimit)
	defer cancel()
	turns := slices.Clone(c.b.Turns)
	for i, t := range turns {
		resolved, err := l.resolveTurn(limited, t)
		switch {
		case err == nil:
			turns[i] = resolved
		case ctx.Err() != nil:
			return err
		default:
			for _, sends := range [][]store.Command{t.Sends, sendsOf(t.Update)} {
				for k := range sends {
					if no := replaced(sends[k].RunID); no > 0 {
						if c.homes == nil {
							c.homes = map[string]int{}
						}
						c.homes[sends[k].RunID] = ofNo(l.place, no)
					}
				}
			}
		}
	}
	c.b.Turns = turns
	return nil
}
