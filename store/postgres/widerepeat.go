package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// call is a call of Commit or Apply that waits for the answers to what it sends to other
// databases. A nil call is none.
type call struct {
	number int64
	own    int64 // the process
	leases []store.Lease

	mu      sync.Mutex
	wanted  []bool // by send: it may claim its run
	answers map[int64]store.Answer
}

func newCall(w *Wide, leases []store.Lease) *call {
	c := &call{number: w.calls.Add(1), own: w.process, leases: leases, answers: map[int64]store.Answer{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under[c.number] = c
	return c
}

func endCall(w *Wide, c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.under, c.number)
}

// claims lets a post of the call claim its run, if its sender wants that.
func (c *call) claims(a *arrival) {
	if c != nil && a.Process == c.own && a.Call == c.number {
		c.mu.Lock()
		defer c.mu.Unlock()
		a.Command.Claim = a.Send < int64(len(c.wanted)) && c.wanted[a.Send]
	}
}

func (c *call) answer(send int64, a store.Answer) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answers[send] = a
	}
}

// send returns the number of a send.
func (c *call) send(claim bool) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = append(c.wanted, claim)
	return int64(len(c.wanted) - 1)
}

// answered returns the answer to a send; one that is not known yet is Posted.
func (c *call) answered(send int64) store.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.answers[send]; ok {
		return a
	}
	return store.Answer{Outcome: store.Posted}
}

// ask finds out the answers to what was delivered before this call, by an earlier one of the same
// batch or by the relay: it may have claimed its run. An error says that one of those that may claim
// their run was not delivered: otherwise no activation would know of the claim.
func (c *wideBatch) ask(ctx context.Context) error {
	type asked struct {
		number  int64
		command store.Command
	}
	byHome := map[int][]asked{}
	for i, t := range c.b.Turns {
		k := 0
		for _, sends := range t.Sent(c.result.Turns[i].Verdict) {
			for j := range sends {
				s := c.sends[i][k]
				if k++; s.remote && c.call.answered(s.number).Outcome == store.Posted {
					home := c.w.place.of(&sends[j])
					byHome[home] = append(byHome[home], asked{s.number, sends[j]})
				}
			}
		}
	}
	for home, list := range byHome {
		claims := slices.ContainsFunc(list, func(a asked) bool { return a.command.Claim })
		if c.late[home] != nil {
			if claims {
				return c.late[home]
			}
			continue
		}
		commands := make([]store.Command, len(list))
		for i := range list {
			commands[i] = list[i].command
		}
		answers, err := reapply(ctx, c.w, home, commands, c.w.leasesIn(home, c.b.Leases))
		if err != nil && claims {
			return err
		}
		for i := range answers {
			c.call.answer(list[i].number, answers[i])
		}
	}
	return nil
}

// reapply carries out commands that were carried out before.
func reapply(ctx context.Context, w *Wide, home int, commands []store.Command, leases []store.Lease) (
	answers []store.Answer,
	err error) {
	s, err := w.at(ctx, home)
	if err != nil {
		return nil, err
	}
	err = s.write(ctx, "find what was delivered", lockLimit, func(t *tx, now store.Time) error {
		current, err := t.share(leases)
		if err != nil {
			return err
		}
		c := committing{rows: rows{t}, tx: t, now: now}
		answers, err = sqlstore.Under(&c, now, current, true).All(commands)
		return err
	})
	return answers, err
}

// told returns the number of the last batch of a boot that a database must have, if the boot
// knows the result of the batch Last.
func (w *Wide) told(b *store.Batch, index int) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	acked := w.acked[boot{b.Node, b.Boot}]
	if b.Last == 0 || acked == nil || acked[index] == 0 {
		return 0
	}
	return min(acked[index], (b.Last+1)<<stageBits-1)
}

// acknowledged notes that the result of a part is known. A boot that knows of no result begins
// again.
func (w *Wide) acknowledged(b *store.Batch, index int, no int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := boot{b.Node, b.Boot}
	if w.acked[key] == nil || b.Last == 0 {
		w.acked[key] = make([]int64, len(w.databases))
	}
	w.acked[key][index] = no
}

// checkNumber refuses a batch with a number below that of the last one of its boot: that may have been written
// by other databases than those that the batch concerns, which would then take it for a new one.
func (w *Wide) checkNumber(ctx context.Context, b *store.Batch) error {
	w.mu.Lock()
	acked, known := w.acked[boot{b.Node, b.Boot}]
	w.mu.Unlock()
	last := int64(0)
	if known {
		last = slices.Max(acked)
	} else {
		var mu sync.Mutex
		err := w.each(ctx, nil, func(_ int, s *Store) error {
			no, err := lastNumber(ctx, s, b.Node, b.Boot)
			mu.Lock()
			defer mu.Unlock()
			last = max(last, no)
			return err
		})
		if err != nil {
			return err
		}
	}
	if last >>= stageBits; b.No < last {
		return fmt.Errorf("%w: batch: expected a number from %d, found %d", store.ErrInvalid, last, b.No)
	}
	return nil
}

// lastNumber returns the number of the last batch of a boot in a database, or 0.
func lastNumber(ctx context.Context, s *Store, node, boot string) (last int64, err error) {
	err = s.single(ctx, "find the last batch", func(t *tx) error {
		_, err := t.row(`SELECT greatest(n.settled, coalesce((SELECT max(x.no) FROM stet.batches x WHERE x.life=n.life), 0))
			FROM stet.boots n WHERE n.node=$1 AND n.boot=$2`, []any{node, boot}, &last)
		return err
	})
	return last, err
}
