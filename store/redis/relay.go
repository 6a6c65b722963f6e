package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

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

// outbox reads what one part has for another, after forgetting what has arrived.
func (s *Store) outbox(ctx context.Context, from, to int, arrived int64, limit int) (first int64, blobs []string, err error) {
	m, err := s.one(ctx, outboxScript, "read an outbox", from, strconv.Itoa(to), strconv.FormatInt(arrived, 10), strconv.Itoa(limit))
	if err != nil {
		return 0, nil, err
	}
	var r reader
	f := r.tuple(m, 2)
	first = r.int(f[0])
	for _, blob := range r.list(f[1]) {
		blobs = append(blobs, r.text(blob))
	}
	return first, blobs, r.err
}

// relayer delivers in the background what is left in outboxes: of turns whose process
// ended or could not reach the receiving part; and it forgets what has arrived.
type relayer struct {
	s    *Store
	wake chan struct{} // capacity 1
	stop chan struct{}
	once sync.Once // closes stop
	done sync.WaitGroup

	mu      sync.Mutex
	parts   map[int]bool // whose outboxes are to be looked at
	pairs   map[[2]int]*pair
	waiting map[int]map[int]int64 // by part, what left was told last
}

// pair is a sending and a receiving part.
type pair struct {
	arrived int64 // the highest number that is known to be applied
	pending bool  // something is to be delivered
}

func newRelayer(s *Store) *relayer {
	r := &relayer{s: s, wake: make(chan struct{}, 1), stop: make(chan struct{}), parts: map[int]bool{}, pairs: map[[2]int]*pair{}, waiting: map[int]map[int]int64{}}
	r.done.Go(r.run)
	return r
}

func (r *relayer) close() {
	r.once.Do(func() { close(r.stop) })
	r.done.Wait()
}

// look looks at the outboxes of parts: their owner is another one now, and the former
// one may have left something. What cannot be looked at now is looked at later.
func (r *relayer) look(ctx context.Context, parts []int) error {
	calls := make([]call, len(parts))
	for i, part := range parts {
		calls[i] = call{part, []string{"", "0", "0"}}
	}
	replies, err := r.s.run(ctx, outboxScript, "look at outboxes", calls...)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, part := range parts {
			r.parts[part] = true
		}
		hint(r.wake)
		return err
	}
	var read reader
	for i, m := range replies {
		for to := range read.foremost(m) {
			r.later([]post{{from: parts[i], to: to}})
		}
	}
	return read.err
}

// left is told what waits in the outboxes of a part, by receiver the number of the first,
// whenever the part's leases are extended. What waited then as well is delivered: who has
// sent it has ended, or is a client that has not had the answer. What is new is mostly on
// its way.
func (r *relayer) left(part int, first map[int]int64) {
	r.mu.Lock()
	before := r.waiting[part]
	r.waiting[part] = first
	r.mu.Unlock()
	for to, no := range first {
		if before[to] == no {
			r.later([]post{{from: part, to: to}})
		}
	}
}

// foremost reads what waits in outboxes: see waiting.lua.
func (r *reader) foremost(m reply) map[int]int64 {
	first := map[int]int64{}
	for _, pair := range r.list(m) {
		f := r.tuple(pair, 2)
		first[int(r.int(f[0]))] = r.int(f[1])
	}
	return first
}

func (r *relayer) pair(from, to int) *pair {
	key := [2]int{from, to}
	if r.pairs[key] == nil {
		r.pairs[key] = &pair{}
	}
	return r.pairs[key]
}

// arrived notes what was applied.
func (r *relayer) arrived(from, to int, no int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pair(from, to)
	p.arrived = max(p.arrived, no)
	hint(r.wake)
}

// later notes what is to be delivered.
func (r *relayer) later(posts []post) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range posts {
		r.pair(p.from, p.to).pending = true
	}
	hint(r.wake)
}

// run works until the relayer is closed. What fails is tried again after a pause.
func (r *relayer) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.done.Go(func() {
		<-r.stop
		cancel()
	})
	for {
		select {
		case <-r.wake:
		case <-r.stop:
			return
		}
		if err := r.work(ctx); err != nil && ctx.Err() == nil {
			r.s.cfg.log.Warn("delivering between slots; trying again", "error", err)
			pause(ctx, 100*time.Millisecond)
			hint(r.wake)
		}
	}
}

// work does what is noted. What fails stays noted.
func (r *relayer) work(ctx context.Context) error {
	r.mu.Lock()
	parts, pairs := r.parts, r.pairs
	r.parts, r.pairs = map[int]bool{}, map[[2]int]*pair{}
	r.mu.Unlock()
	var failed error
	if len(parts) > 0 {
		failed = r.look(ctx, slices.Collect(maps.Keys(parts)))
	}
	for key, p := range pairs {
		if err := r.flush(ctx, key[0], key[1], p); err != nil {
			failed = errors.Join(failed, err)
			r.arrived(key[0], key[1], p.arrived)
			if p.pending {
				r.later([]post{{from: key[0], to: key[1]}})
			}
		}
	}
	return failed
}

// flush forgets what has arrived, and delivers what is pending.
func (r *relayer) flush(ctx context.Context, from, to int, p *pair) error {
	for {
		limit := 0
		if p.pending {
			limit = maxChunk
		}
		first, blobs, err := r.s.outbox(ctx, from, to, p.arrived, limit)
		if err != nil || len(blobs) == 0 {
			return err
		}
		var a args
		a.count(to)
		a.count(r.s.parts)
		a.count(from)
		a.int(first)
		a.count(0)
		each(&a, blobs, func(b string) { a.text(b) })
		m, err := r.s.one(ctx, deliverScript, "deliver", to, a.list...)
		if err != nil {
			return err
		}
		p.arrived = first + int64(len(blobs)) - 1
		var read reader
		f := read.tuple(m, 3)
		for _, next := range read.list(f[2]) {
			r.later([]post{{from: to, to: int(read.int(next))}})
		}
		if read.err != nil {
			return read.err
		}
		what := store.Change{Ready: r.s.shardsOf(to)}
		r.s.hints.tell(what)
		r.s.hints.in.Add(what) // runs of this process may be ready
	}
}
