package redis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// outbox reads the outbox of one part for another, without the commands that have arrived.
func (s *Store) outbox(ctx context.Context, from, to int, arrived int64,
	limit int) (blobs []string, err error) {
	m, err := s.one(ctx, outboxScript, "read an outbox", from, strconv.Itoa(to), strconv.FormatInt(arrived, 10),
		strconv.Itoa(limit))
	if err != nil {
		return nil, err
	}
	var r reader
	for _, blob := range r.list(m) {
		blobs = append(blobs, r.text(blob))
	}
	return blobs, r.err
}

// numberOf returns the number of a command that putOut has packed.
func numberOf(blob string) int64 {
	text, _, _ := strings.Cut(blob, ";")
	no, _ := strconv.ParseInt(text, 10, 64) // deliver.lua fails for one that cannot be read
	return no
}

// relayer delivers in the background the commands that stay in outboxes because the
// process of their turn ended or could not reach the receiving part. It also takes those
// out that have arrived.
type relayer struct {
	s    *Store
	wake chan struct{} // capacity 1
	stop chan struct{}
	once sync.Once // closes stop
	done sync.WaitGroup

	mu      sync.Mutex
	parts   map[int]bool // whose outboxes are to be read
	routes  map[[2]int]*route
	waiting map[int]map[int]int64 // by part, from the last call of noteWaiting
}

// route is the way from one part to another.
type route struct {
	arrived int64 // the highest number that is known to have been applied
	pending bool  // its outbox is to be delivered
}

func newRelayer(s *Store) *relayer {
	r := &relayer{
		s: s, wake: make(chan struct{}, 1), stop: make(chan struct{}),
		parts: map[int]bool{}, routes: map[[2]int]*route{}, waiting: map[int]map[int]int64{},
	}
	r.done.Go(r.run)
	return r
}

func (r *relayer) close() {
	r.once.Do(func() { close(r.stop) })
	r.done.Wait()
}

// noteOutboxes notes the outboxes of parts that are not empty: this process owns the parts now, and
// the last owner may have left commands there. Parts that cannot be read now are read
// later.
func (r *relayer) noteOutboxes(ctx context.Context, parts []int) error {
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
			r.later([]outgoing{{from: parts[i], to: to}})
		}
	}
	return read.err
}

// noteWaiting notes the number of the first command in each outbox of a part, by receiving
// part, whenever the part's leases are renewed. A command that was there at the last
// renewal is delivered: its sender has ended, or is a client that did not get the answer.
// A new one is mostly being delivered.
func (r *relayer) noteWaiting(part int, first map[int]int64) {
	r.mu.Lock()
	before := r.waiting[part]
	r.waiting[part] = first
	r.mu.Unlock()
	for to, no := range first {
		if before[to] == no {
			r.later([]outgoing{{from: part, to: to}})
		}
	}
}

// foremost reads the number of the first command in each outbox, see waiting.lua.
func (r *reader) foremost(m reply) map[int]int64 {
	first := map[int]int64{}
	for _, m := range r.list(m) {
		f := r.tuple(m, 2)
		first[int(r.int(f[0]))] = r.int(f[1])
	}
	return first
}

func (r *relayer) route(from, to int) *route {
	key := [2]int{from, to}
	if r.routes[key] == nil {
		r.routes[key] = &route{}
	}
	return r.routes[key]
}

// arrived notes the number up to which commands were applied.
func (r *relayer) arrived(from, to int, no int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.route(from, to)
	p.arrived = max(p.arrived, no)
	hint(r.wake)
}

// later notes outboxes that are to be delivered.
func (r *relayer) later(items []outgoing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range items {
		r.route(p.from, p.to).pending = true
	}
	hint(r.wake)
}

// run works until the relayer is closed. A delivery that fails is tried again after a
// pause.
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

// work delivers all outboxes that are noted. One that fails stays noted.
func (r *relayer) work(ctx context.Context) error {
	r.mu.Lock()
	parts, routes := r.parts, r.routes
	r.parts, r.routes = map[int]bool{}, map[[2]int]*route{}
	r.mu.Unlock()
	var failed error
	if len(parts) > 0 {
		failed = r.noteOutboxes(ctx, slices.Collect(maps.Keys(parts)))
	}
	for key, p := range routes {
		if err := r.flush(ctx, key[0], key[1], p); err != nil {
			failed = errors.Join(failed, err)
			r.arrived(key[0], key[1], p.arrived)
			if p.pending {
				r.later([]outgoing{{from: key[0], to: key[1]}})
			}
		}
	}
	return failed
}

// flush takes commands that have arrived out of an outbox, and delivers the others if the
// route is pending.
func (r *relayer) flush(ctx context.Context, from, to int, p *route) error {
	for {
		limit := 0
		if p.pending {
			limit = maxChunk
		}
		blobs, err := r.s.outbox(ctx, from, to, p.arrived, limit)
		if err != nil || len(blobs) == 0 {
			return err
		}
		var a args
		a.count(to)
		a.count(r.s.parts)
		a.count(from)
		a.bool(true)
		a.count(0)
		each(&a, blobs, func(b string) { a.text(b) })
		m, err := r.s.one(ctx, deliverScript, "deliver", to, a.list...)
		if err != nil {
			return err
		}
		p.arrived = numberOf(blobs[len(blobs)-1])
		var read reader
		f := read.tuple(m, 4)
		if last := read.text(f[3]); last != "" {
			r.s.cfg.log.Error("slots have lost messages that they had received: their server has lost writes that it had "+
				"acknowledged", "from part", from, "to part", to, "last", last, "next", numberOf(blobs[0]))
		}
		for _, next := range read.list(f[2]) {
			r.later([]outgoing{{from: to, to: int(read.int(next))}})
		}
		if read.err != nil {
			return read.err
		}
		what := store.Change{Ready: r.s.shardsOf(to)}
		r.s.hints.tell(what)
		r.s.hints.in.Add(what) // runs of this process may be ready
	}
}
