package redis

import (
	"context"
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
)

// post is something that a turn has sent to another part: it stands in the outbox of
// the part from under a number of the pair.
type post struct {
	from, to int
	no       int64
	blob     string
	turn     int // index of the turn, and of the answer among its sends
	send     int
}

// deliver delivers what the turns of a stage have posted, in their order, and puts
// the answers where they belong. What cannot be delivered now stays in the outbox for
// the relayer; its answers and those after it are left out. If one of them would have
// told that a run is adopted, the outcome is unknown instead, and the caller repeats the
// batch: else nobody would know that the run is in hand.
func (c *committing) deliver(ctx context.Context, posts []post) error {
	if len(posts) == 0 {
		return nil
	}
	for len(posts) > 0 {
		next, err := c.round(ctx, posts)
		if err != nil {
			// Something else of a pair may have to come first.
			if err := c.flushAll(ctx, posts); err != nil {
				c.putOff(posts, err)
			}
			if slices.ContainsFunc(posts, c.adopts) {
				return fmt.Errorf("deliver to other slots: %w: %w", store.ErrUnknown, err)
			}
			break
		}
		posts = next // answers of the store to the senders
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

// putOff leaves posts to the relayer.
func (c *committing) putOff(posts []post, why error) {
	c.relay.later(posts)
	c.cfg.log.Warn("what was sent to other slots is delivered later", "error", why)
}

// adopts reports whether a post asks for its run to be adopted.
func (c *committing) adopts(p post) bool {
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

// flushAll delivers all that is in the outboxes of posts.
func (c *committing) flushAll(ctx context.Context, posts []post) error {
	seen := map[[2]int]bool{}
	for _, p := range posts {
		if key := [2]int{p.from, p.to}; !seen[key] {
			seen[key] = true
			if err := c.relay.flush(ctx, p.from, p.to, &pair{pending: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// round delivers posts and returns what that has posted.
func (c *committing) round(ctx context.Context, posts []post) (next []post, err error) {
	var calls []call
	var groups [][]post
	for len(posts) > 0 {
		n := 1
		for n < len(posts) && posts[n].from == posts[0].from && posts[n].to == posts[0].to && posts[n].no == posts[n-1].no+1 {
			n++
		}
		calls = append(calls, call{posts[0].to, c.deliveryArguments(posts[:n])})
		groups = append(groups, posts[:n])
		posts = posts[n:]
	}
	replies, err := c.run(ctx, deliverScript, "deliver", calls...)
	if err != nil {
		return nil, err
	}
	var r reader
	for i, m := range replies {
		group := groups[i]
		f := r.tuple(m, 3)
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
		c.relay.arrived(last.from, last.to, last.no)
		for _, to := range r.list(f[2]) {
			next = append(next, post{from: group[0].to, to: int(r.int(to)), turn: -1})
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return c.fetch(ctx, next), nil
}

// fetch reads from outboxes what was posted there. What cannot be read is left to the
// relayer.
func (c *committing) fetch(ctx context.Context, pairs []post) (posts []post) {
	seen := map[[2]int]bool{}
	for i, p := range pairs {
		if seen[[2]int{p.from, p.to}] {
			continue
		}
		seen[[2]int{p.from, p.to}] = true
		first, blobs, err := c.outbox(ctx, p.from, p.to, 0, maxChunk)
		if err != nil {
			c.putOff(pairs[i:], err)
			break
		}
		for i, blob := range blobs {
			posts = append(posts, post{from: p.from, to: p.to, no: first + int64(i), blob: blob, turn: -1})
		}
	}
	return posts
}

func (c *committing) deliveryArguments(posts []post) []string {
	var a args
	a.count(posts[0].to)
	a.count(c.parts)
	a.count(posts[0].from)
	a.int(posts[0].no)
	var leases []int
	for i := range c.b.Leases {
		if c.partOf(c.b.Leases[i].Shard.Slot) == posts[0].to {
			leases = append(leases, i)
		}
	}
	each(&a, leases, func(i int) {
		a.shard(c.b.Leases[i].Shard)
		a.int(c.b.Leases[i].Epoch)
	})
	each(&a, posts, func(p post) { a.text(p.blob) })
	return a.list
}
