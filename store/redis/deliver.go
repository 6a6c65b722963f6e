package redis

import (
	"context"
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/relay"
)

// outgoing is a command that a turn has sent to another part. It stands in the outbox of
// its own part, for that part, under a number.
type outgoing struct {
	from, to int
	no       int64
	blob     string
	turn     int // index in the batch; -1: of no turn
	send     int // index among the sends of the turn
}

// post leaves to the relay what goes to other lanes, which are not waited for. It returns the
// others.
func (c *committing) post(items []outgoing) []outgoing {
	if c.lane == nil {
		return items
	}
	return slices.DeleteFunc(items, func(p outgoing) bool {
		if !c.elsewhere(p.to) {
			return false
		}
		if p.blob != "" {
			c.relay.Posted(p.from, p.to, relay.Post{No: p.no, Body: []byte(p.blob)})
		} else {
			c.relay.Later(p.from, p.to)
		}
		if p.turn >= 0 {
			c.result.Turns[p.turn].Sends[p.send].Outcome = store.Posted
		}
		return true
	})
}

// deliver delivers the outgoing commands of a stage, in their order, and puts their
// answers into the result. Commands that cannot be delivered now stay in the outbox for
// the relayer; their answers, and those after them, are left out. If one of these may
// claim its run, the outcome is unknown instead, and the caller repeats the batch:
// otherwise no activation would know of the claim.
func (c *committing) deliver(ctx context.Context, items []outgoing) error {
	if len(items) == 0 {
		return nil
	}
	for len(items) > 0 {
		next, err := c.round(ctx, items)
		if err != nil {
			// Others in the same outbox may have to come first.
			if err := c.flushAll(ctx, items); err != nil {
				c.putOff(items, err)
			}
			if slices.ContainsFunc(items, c.claims) {
				return fmt.Errorf("deliver to other slots: %w: %w", store.ErrUnknown, err)
			}
			break
		}
		items = next // answers of the store to the senders
	}
	for i := range c.result.Turns {
		sends := c.result.Turns[i].Sends
		for k := range sends {
			if sends[k].Outcome == 0 {
				c.result.Turns[i].Sends = sends[:k]
				break
			}
		}
	}
	return nil
}

// putOff leaves the delivery to the relayer.
func (c *committing) putOff(items []outgoing, why error) {
	for _, p := range items {
		c.relay.Later(p.from, p.to)
	}
	c.cfg.log.Warn("what was sent to other slots is delivered later", "error", why)
}

// claims reports whether an outgoing command asks for a claim of its run.
func (c *committing) claims(p outgoing) bool {
	if p.turn < 0 {
		return false
	}
	at := p.send
	for _, sends := range c.b.Turns[p.turn].Sent(c.result.Turns[p.turn].Verdict) {
		if at < len(sends) {
			return sends[at].Claim
		}
		at -= len(sends)
	}
	return false
}

// flushAll delivers all that is in the outboxes of items.
func (c *committing) flushAll(ctx context.Context, items []outgoing) error {
	seen := map[[2]int]bool{}
	for _, p := range items {
		if key := [2]int{p.from, p.to}; !seen[key] {
			seen[key] = true
			if err := c.relay.Flush(ctx, p.from, p.to); err != nil {
				return err
			}
		}
	}
	return nil
}

// round delivers commands, and returns those that they have put into outboxes in turn.
func (c *committing) round(ctx context.Context, items []outgoing) (next []outgoing, err error) {
	var calls []call
	var groups [][]outgoing
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].from == items[0].from && items[n].to == items[0].to {
			n++
		}
		calls = append(calls, call{items[0].to, c.deliveryArguments(items[:n])})
		groups = append(groups, items[:n])
		items = items[n:]
	}
	replies, err := c.run(ctx, deliverScript, "deliver", calls...)
	if err != nil {
		return nil, err
	}
	var r reader
	for i, m := range replies {
		group := groups[i]
		f := r.tuple(m, 4)
		c.result.Now = c.observe(r.time(f[0]))
		answers := r.tuple(f[1], len(group))
		for k, p := range group {
			if p.turn >= 0 {
				a := r.answer(answers[k], c.slots, nil)
				c.sawAnswer(&a)
				c.result.Turns[p.turn].Sends[p.send] = a
			}
		}
		last := group[len(group)-1]
		c.relay.Arrived(last.from, last.to, last.no)
		for _, to := range r.list(f[2]) {
			next = append(next, outgoing{from: group[0].to, to: int(r.int(to)), turn: -1})
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return c.fetch(ctx, c.post(next)), nil
}

// fetch reads outboxes. One that cannot be read is left to the relayer.
func (c *committing) fetch(ctx context.Context, boxes []outgoing) (items []outgoing) {
	seen := map[[2]int]bool{}
	for i, p := range boxes {
		if seen[[2]int{p.from, p.to}] {
			continue
		}
		seen[[2]int{p.from, p.to}] = true
		blobs, err := c.outbox(ctx, p.from, p.to, 0, maxChunk)
		if err != nil {
			c.putOff(boxes[i:], err)
			break
		}
		for _, blob := range blobs {
			items = append(items, outgoing{from: p.from, to: p.to, no: numberOf(blob), blob: blob, turn: -1})
		}
	}
	return items
}

func (c *committing) deliveryArguments(items []outgoing) []string {
	var a args
	a.count(items[0].to)
	a.count(c.parts)
	a.count(items[0].from)
	a.bool(false)
	var leases []int
	for i := range c.b.Leases {
		if c.partOf(c.b.Leases[i].Shard.Slot) == items[0].to {
			leases = append(leases, i)
		}
	}
	each(&a, leases, func(i int) {
		a.shard(c.b.Leases[i].Shard)
		a.int(c.b.Leases[i].Epoch)
	})
	each(&a, items, func(p outgoing) { a.text(p.blob) })
	return a.list
}
