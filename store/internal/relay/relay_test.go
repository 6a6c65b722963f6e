package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errAway = errors.New("away")

// world is places with outboxes, each on a server of its own.
type world struct {
	mu      sync.Mutex
	boxes   map[[2]int][]Post
	applied map[int][]string // bodies, by receiver, each once
	seen    map[string]bool
	away    map[int]bool // servers that stand still until the call ends
	server  func(place int) int
	takes   time.Duration // each call
	calls   int
	read    int // posts
	inOrder bool
	lost    int   // so many answers of Deliver are lost
	last    int64 // number of a post
}

func newWorld() *world {
	return &world{boxes: map[[2]int][]Post{}, applied: map[int][]string{}, seen: map[string]bool{},
		away: map[int]bool{}, server: func(place int) int { return place }}
}

func (w *world) relay(t *testing.T, inOrder bool) *Relay {
	w.inOrder = inOrder
	r := New(Config{Port: w, Chunk: 2, InOrder: inOrder, Away: func(err error) bool { return errors.Is(err, errAway) },
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(r.Close)
	return r
}

func (w *world) post(from, to int, bodies ...string) (posts []Post) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]int{from, to}
	for _, body := range bodies {
		w.last += 3
		posts = append(posts, Post{w.last, []byte(body)})
	}
	w.boxes[key] = append(w.boxes[key], posts...)
	return posts
}

func (w *world) call(ctx context.Context, server int) error {
	w.mu.Lock()
	w.calls++
	away, takes := w.away[server], w.takes
	w.mu.Unlock()
	if !away {
		time.Sleep(takes)
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
	}
	return errAway
}

func (w *world) Waiting(ctx context.Context, from []int) (list []map[int]int64, err error) {
	for _, place := range from {
		if err := w.call(ctx, place); err != nil {
			return nil, err
		}
		w.mu.Lock()
		first := map[int]int64{}
		for key, box := range w.boxes {
			if key[0] == place && len(box) > 0 {
				first[key[1]] = box[0].No
			}
		}
		w.mu.Unlock()
		list = append(list, first)
	}
	return list, nil
}

func (w *world) Read(ctx context.Context, from, to int, arrived []int64, limit int) ([]Post, error) {
	if err := w.call(ctx, from); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]int{from, to}
	w.boxes[key] = slices.DeleteFunc(w.boxes[key], func(p Post) bool {
		return slices.Contains(arrived, p.No) || w.inOrder && len(arrived) > 0 && p.No <= slices.Max(arrived)
	})
	posts := slices.Clone(w.boxes[key][:min(limit, len(w.boxes[key]))])
	w.read += len(posts)
	return posts, nil
}

// Deliver applies posts. One of the body "on" puts a post for place 9 into the receiver's box.
func (w *world) Deliver(ctx context.Context, from, to int, posts []Post, first bool) (next []int, err error) {
	if err := w.call(ctx, to); err != nil {
		return nil, err
	}
	w.mu.Lock()
	for _, p := range w.boxes[[2]int{from, to}] {
		if !first && p.No < posts[0].No && !w.seen[fmt.Sprint(from, "-", to, "-", p.No)] {
			w.mu.Unlock()
			return nil, errors.New("a gap")
		}
	}
	for _, p := range posts {
		if id := fmt.Sprint(from, "-", to, "-", p.No); !w.seen[id] {
			w.seen[id] = true
			w.applied[to] = append(w.applied[to], string(p.Body))
			if string(p.Body) == "on" {
				w.boxes[[2]int{to, 9}] = append(w.boxes[[2]int{to, 9}], Post{1, []byte("passed on")})
				next = append(next, 9)
			}
		}
	}
	lost := w.lost > 0
	if lost {
		w.lost--
	}
	w.mu.Unlock()
	if lost {
		return nil, errors.New("no answer")
	}
	return next, nil
}

func (w *world) Server(place int) int { return w.server(place) }

func (w *world) expect(t *testing.T, to int, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.applied[to], want) {
		t.Errorf("place %d has %q; want %q", to, w.applied[to], want)
	}
}

func (w *world) left() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, box := range w.boxes {
		n += len(box)
	}
	return n
}

// What stands in an outbox is delivered in its order, in chunks, and taken out; also what
// the receiver sends on.
func TestOutboxesAreEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.relay(t, false)
		w.post(1, 2, "a", "b", "on", "c", "d")
		w.post(1, 3, "e")
		w.post(2, 3, "f")
		r.Later(1, 2)
		r.Later(1, 3)
		if err := r.Look(t.Context(), 2); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		w.expect(t, 2, "a", "b", "on", "c", "d")
		w.expect(t, 9, "passed on")
		slices.Sort(w.applied[3])
		w.expect(t, 3, "e", "f")
		if n := w.left(); n > 0 || r.Pending() > 0 {
			t.Errorf("%d posts are left, %d outboxes are pending", n, r.Pending())
		}
		r.Close() // with the goroutines of the bubble
	})
}

// A server that is away delays what is for it, and what is from it, and nothing else; once it
// is back that arrives, once.
func TestAServerThatIsAwayDelaysNoOther(t *testing.T) {
	for _, inOrder := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			r := w.relay(t, inOrder)
			w.away[2] = true
			for i := range 3 {
				w.post(1, 2, fmt.Sprint("to", i))
				w.post(2, 3, fmt.Sprint("from", i))
				w.post(1, 3, fmt.Sprint("beside", i))
				r.Later(1, 2)
				r.Later(2, 3)
				r.Later(1, 3)
				synctest.Wait()
			}
			w.expect(t, 3, "beside0", "beside1", "beside2")
			w.expect(t, 2)
			time.Sleep(time.Minute)
			w.mu.Lock()
			w.away[2], w.lost = false, 2
			w.mu.Unlock()
			time.Sleep(10 * time.Second)
			w.expect(t, 2, "to0", "to1", "to2")
			w.expect(t, 3, "beside0", "beside1", "beside2", "from0", "from1", "from2")
			if n := w.left(); n > 0 || r.Pending() > 0 {
				t.Errorf("%d posts are left, %d outboxes are pending", n, r.Pending())
			}
			r.Close()
		})
	}
}

// A post is delivered by its sender, mostly. One that stands there at a second look has none.
func TestWhatStaysIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.relay(t, false)
		w.post(1, 2, "a")
		look := func() {
			first, err := w.Waiting(t.Context(), []int{1})
			if err != nil {
				t.Fatal(err)
			}
			r.Noticed(1, first[0])
			synctest.Wait()
		}
		look()
		w.expect(t, 2)
		look()
		w.expect(t, 2, "a")
		r.Close()
	})
}

// What has arrived is taken out, also after failures, and nothing is delivered for that.
func TestWhatHasArrivedIsTakenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.relay(t, false)
		w.post(1, 2, "a", "b")
		w.away[1] = true
		r.Arrived(1, 2, 3)
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.away[1] = false
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		w.expect(t, 2)
		if n := w.left(); n != 1 {
			t.Errorf("%d posts are left; want the second", n)
		}
		if err := r.Flush(t.Context(), 1, 2); err != nil {
			t.Error(err)
		}
		w.expect(t, 2, "b")
		r.Close()
		r.Later(1, 2) // does nothing any more
	})
}

// Routes between two servers do not wait for each other; while the receiving server is away they are not all
// tried again and again.
func TestRoutesOfTwoServersGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.takes, w.server = time.Second, func(place int) int { return place / 100 }
		r := w.relay(t, true)
		const n = 100
		post := func(body string) {
			for i := range n {
				w.post(i, 100+i, body)
				r.Later(i, 100+i)
			}
		}
		post("a")
		time.Sleep(30 * time.Second) // one after the other would take five minutes
		if left := w.left(); left > 0 {
			t.Errorf("%d posts are left", left)
		}
		w.mu.Lock()
		for i := range n {
			w.away[100+i] = true
		}
		w.calls = 0
		w.mu.Unlock()
		post("b")
		time.Sleep(time.Minute)
		w.mu.Lock()
		if w.calls > 20*2*together {
			t.Errorf("%d calls in a minute while the server is away", w.calls)
		}
		clear(w.away)
		w.mu.Unlock()
		time.Sleep(time.Minute)
		for i := range n {
			w.expect(t, 100+i, "a", "b")
		}
		r.Close()
	})
}

// Posts that are handed over are delivered without being read, unless others come first, or their server is away.
func TestPostsThatAreHandedOverAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.relay(t, true)
		expect := func(read int, want ...string) {
			t.Helper()
			synctest.Wait()
			w.expect(t, 2, want...)
			if n := w.left(); w.read != read || n > 0 || r.Pending() > 0 {
				t.Errorf("%d posts were read, %d are left, %d outboxes are pending; want %d read", w.read, n, r.Pending(), read)
			}
		}
		r.Posted(1, 2, w.post(1, 2, "a", "b", "c")...)
		r.Posted(1, 2, w.post(1, 2, "d")...)
		expect(0, "a", "b", "c", "d")
		w.post(1, 2, "e") // by a process that has ended
		r.Posted(1, 2, w.post(1, 2, "f")...)
		expect(2, "a", "b", "c", "d", "e", "f")
		w.mu.Lock()
		w.away[2] = true
		w.mu.Unlock()
		for range 100 {
			r.Posted(1, 2, w.post(1, 2, "g")...)
			time.Sleep(time.Second)
		}
		r.mu.Lock()
		for key, p := range r.routes {
			if len(p.known) > 10 {
				t.Errorf("%d posts are kept for route %v whose server is away", len(p.known), key)
			}
		}
		r.mu.Unlock()
		w.mu.Lock()
		w.away[2], w.applied[2], w.read = false, nil, 0
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		expect(100, slices.Repeat([]string{"g"}, 100)...)
		r.Close()
	})
}
