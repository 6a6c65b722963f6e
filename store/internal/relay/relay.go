// Package relay delivers what one place of a store has sent to another that no act reaches
// together with it: a part of a Redis store, a database of a Postgres store.
//
// A turn puts what it sends elsewhere into the outbox of its own place, in its own act. What
// stands there is a [Post]. It is read, handed to the receiving place, which applies each post
// once, and then taken out. Any process may do so, several at once: what was delivered twice is
// applied once, because the receiver remembers what it has applied in the act that does so.
//
// A [Relay] does that in the background, for the outboxes that it is told of: those in which
// this process has put something ([Relay.Later], [Relay.Posted]), those of places that it has come to own
// ([Relay.Look]), and those in which something stands for long ([Relay.Noticed]). For each pair
// of servers it has a goroutine, so that a server which is away delays nothing between others.
package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Post is a command in an outbox. Numbers of one outbox grow.
type Post struct {
	No   int64
	Body []byte
}

// Port is what a relay needs of a store. Its methods may be called concurrently.
type Port interface {
	// Waiting returns for each place the number of the first post in each outbox that is not
	// empty, by receiver.
	Waiting(ctx context.Context, from []int) ([]map[int]int64, error)
	// Read takes the posts that have arrived out of an outbox, and returns the first of the
	// others, in their order.
	Read(ctx context.Context, from, to int, arrived []int64, limit int) ([]Post, error)
	// Deliver hands posts to their receiver. first says that they are the first ones of their outbox;
	// otherwise there may be others before them, without which they are refused by an error. It
	// returns the places for which the receiver has put something into its own outbox.
	Deliver(ctx context.Context, from, to int, posts []Post, first bool) (next []int, err error)
	// Server returns which of the store's servers a place is on, from 0.
	Server(place int) int
}

// Config is what a Relay is made from. All fields are required.
type Config struct {
	Port  Port
	Chunk int // posts that are delivered at once
	// InOrder says that posts of one outbox arrive in the order of their numbers, so that the
	// highest one that has arrived says all.
	InOrder bool
	// Away reports whether an error says that a server cannot be reached.
	Away func(error) bool
	Log  *slog.Logger
}

// Relay delivers in the background. It is safe for concurrent use.
type Relay struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	looks   map[int]bool // places whose outboxes are to be looked at
	routes  map[[2]int]*route
	noticed map[int]map[int]int64    // by place, from the last call of Noticed
	workers map[[2]int]chan struct{} // by the servers of sender and receiver: capacity 1, wakes it
}

// route is the way from one place to another.
type route struct {
	arrived []int64 // posts that are still to be taken out
	known   []Post  // to be delivered; nil while pending
	pending bool    // all others are to be read and delivered
}

const (
	shortPause, longPause = 100 * time.Millisecond, time.Second // after a failure
	logEvery              = 30 * time.Second
)

// New returns a relay, which works until it is closed.
func New(cfg Config) *Relay {
	r := &Relay{
		cfg: cfg, looks: map[int]bool{}, routes: map[[2]int]*route{}, noticed: map[int]map[int]int64{},
		workers: map[[2]int]chan struct{}{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close stops the deliveries. A second call does nothing.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.done.Wait()
}

// Later notes that an outbox is to be delivered.
func (r *Relay) Later(from, to int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.route(from, to)
	p.pending, p.known = true, nil
	r.wake(r.servers(from, to))
}

// Posted is Later for posts that were put into the outbox just now: they need not be read.
func (r *Relay) Posted(from, to int, posts ...Post) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.route(from, to); !p.pending {
		p.known = append(p.known, posts...)
	}
	r.wake(r.servers(from, to))
}

// Arrived notes that a post has arrived, and is to be taken out.
func (r *Relay) Arrived(from, to int, no int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.route(from, to).add(r.cfg.InOrder, no)
	r.wake(r.servers(from, to))
}

func (p *route) add(inOrder bool, nos ...int64) {
	p.arrived = append(p.arrived, nos...)
	if inOrder && len(p.arrived) > 1 {
		highest := p.arrived[0]
		for _, no := range p.arrived {
			highest = max(highest, no)
		}
		p.arrived = append(p.arrived[:0], highest)
	}
}

// Look notes the outboxes of places that are not empty: this process owns the places now, and
// the last owner may have left posts there. If they cannot be looked at now it returns the
// error, and looks again later.
func (r *Relay) Look(ctx context.Context, places ...int) error {
	if len(places) == 0 {
		return nil
	}
	first, err := r.cfg.Port.Waiting(ctx, places)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, from := range places {
			r.looks[from] = true
			r.wake(r.servers(from, from))
		}
		return err
	}
	for i, from := range places {
		for to := range first[i] {
			r.Later(from, to)
		}
	}
	return nil
}

// Noticed notes the number of the first post in each outbox of a place, by receiver, as it is
// read from time to time. What was there the last time is delivered: its sender has ended, or
// is a client that did not get the answer. A new one is mostly being delivered.
func (r *Relay) Noticed(from int, first map[int]int64) {
	r.mu.Lock()
	before := r.noticed[from]
	r.noticed[from] = first
	r.mu.Unlock()
	for to, no := range first {
		if before[to] == no {
			r.Later(from, to)
		}
	}
}

// Pending returns how many outboxes are to be delivered.
func (r *Relay) Pending() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.routes {
		if p.pending {
			n++
		}
	}
	return n
}

// Flush delivers all that stands in an outbox now.
func (r *Relay) Flush(ctx context.Context, from, to int) error {
	r.mu.Lock()
	p := r.take([2]int{from, to})
	r.mu.Unlock()
	p.pending = true
	err := r.flush(ctx, from, to, p)
	r.keep(from, to, p, err)
	return err
}

// route returns the way between places. r.mu is held.
func (r *Relay) route(from, to int) *route {
	key := [2]int{from, to}
	if r.routes[key] == nil {
		r.routes[key] = &route{}
	}
	return r.routes[key]
}

// take returns what is noted of a route, and forgets it. r.mu is held.
func (r *Relay) take(key [2]int) *route {
	p := r.routes[key]
	delete(r.routes, key)
	if p == nil {
		p = &route{}
	}
	return p
}

// keep notes what is left of a route after a flush.
func (r *Relay) keep(from, to int, p *route, err error) {
	if len(p.arrived) == 0 && err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	noted := r.route(from, to)
	noted.add(r.cfg.InOrder, p.arrived...)
	if noted.pending = noted.pending || (p.pending || len(p.known) > 0) && err != nil; noted.pending {
		noted.known = nil
	}
}

func (r *Relay) servers(from, to int) [2]int {
	return [2]int{r.cfg.Port.Server(from), r.cfg.Port.Server(to)}
}

// wake wakes the worker of a pair of servers, which it makes. r.mu is held.
func (r *Relay) wake(servers [2]int) {
	if r.closed {
		return
	}
	ch := r.workers[servers]
	if ch == nil {
		ch = make(chan struct{}, 1)
		r.workers[servers] = ch
		r.done.Go(func() { r.run(servers, ch) })
	}
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run works for a pair of servers. What fails is tried again after a pause.
func (r *Relay) run(servers [2]int, wake chan struct{}) {
	wait := shortPause
	var logged time.Time
	for {
		select {
		case <-wake:
		case <-r.ctx.Done():
			return
		}
		err := r.work(servers)
		if err == nil {
			wait, logged = shortPause, time.Time{}
			continue
		}
		if r.ctx.Err() == nil && time.Since(logged) >= logEvery {
			logged = time.Now()
			r.cfg.Log.Warn("delivering to other slots; trying again", "error", err)
		}
		select {
		case <-time.After(wait):
		case <-r.ctx.Done():
			return
		}
		wait = min(2*wait, longPause)
		r.mu.Lock()
		r.wake(servers)
		r.mu.Unlock()
	}
}

// work delivers what is noted for a pair of servers. A route that fails stays noted.
func (r *Relay) work(servers [2]int) error {
	routes := map[[2]int]*route{}
	var places []int
	r.mu.Lock()
	for key := range r.routes {
		if r.servers(key[0], key[1]) == servers {
			routes[key] = r.take(key)
		}
	}
	for from := range r.looks {
		if r.servers(from, from) == servers {
			places = append(places, from)
			delete(r.looks, from)
		}
	}
	r.mu.Unlock()
	first := r.Look(r.ctx, places...)
	var mu sync.Mutex
	var flushing sync.WaitGroup
	turns := make(chan struct{}, together)
	for key, p := range routes {
		turns <- struct{}{}
		mu.Lock()
		err := first
		mu.Unlock()
		if err != nil && r.cfg.Away(err) { // each of the others would wait for the same server
			r.keep(key[0], key[1], p, err)
			<-turns
			continue
		}
		flushing.Go(func() {
			err := r.flush(r.ctx, key[0], key[1], p)
			r.keep(key[0], key[1], p, err)
			mu.Lock()
			if first == nil || err != nil && r.cfg.Away(err) {
				first = err
			}
			mu.Unlock()
			<-turns
		})
	}
	flushing.Wait()
	return first
}

// together is how many routes between two servers are flushed at a time: of a store of many places each has a
// few posts, and the wait for the answers would bound what goes between the servers.
const together = 32

// flush takes posts that have arrived out of an outbox, and delivers the others if the route
// is pending. p keeps what is still to be done.
func (r *Relay) flush(ctx context.Context, from, to int, p *route) error {
	for len(p.known) > 0 && !p.pending {
		posts := p.known[:min(len(p.known), r.cfg.Chunk)]
		err := r.deliver(ctx, from, to, p, posts, false)
		if err != nil && r.cfg.Away(err) {
			return err
		}
		p.known, p.pending = p.known[len(posts):], err != nil
	}
	for p.known = nil; p.pending || len(p.arrived) > 0; {
		limit := 0
		if p.pending {
			limit = r.cfg.Chunk
		}
		posts, err := r.cfg.Port.Read(ctx, from, to, p.arrived, limit)
		if err != nil {
			return err
		}
		if p.arrived = nil; len(posts) == 0 {
			return nil
		}
		if err := r.deliver(ctx, from, to, p, posts, true); err != nil {
			return err
		}
	}
	return nil
}

// deliver delivers posts of a route.
func (r *Relay) deliver(ctx context.Context, from, to int, p *route, posts []Post, first bool) error {
	next, err := r.cfg.Port.Deliver(ctx, from, to, posts, first)
	if err != nil {
		return err
	}
	for i := range posts {
		p.add(r.cfg.InOrder, posts[i].No)
	}
	for _, place := range next {
		r.Later(to, place)
	}
	return nil
}
