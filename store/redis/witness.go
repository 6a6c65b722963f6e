package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
)

// The server knows when a process has died: its kernel closes the connection. So a process that
// takes leases has one connection more, its witness. A field of the hash g says by which number
// the server knows it, and the number of the server's own life. The shards of a process whose
// witness is gone are taken at once; without it they would rest until their leases end.
//
// Safety does not depend on it: as at the end of a lease, whoever takes over raises the epochs.
// A process that was wrongly believed to be dead can write nothing, and loses its shards. To
// make that rare
//
//   - a boot counts as dead when two looks at an interval of witnessGrace have not found its
//     connection; a witness that was cut is made again long before;
//   - a process that loses its witness takes it back first: then only its lease counts;
//   - a lease is taken only if it was not renewed since it was seen.
//
// A server that was started, or promoted, since the witness was noted says nothing. A process
// that stands still keeps its connection, so its lease counts.

const (
	// witnessLook is the interval at which a process looks for others that have died.
	witnessLook = 800 * time.Millisecond
	// witnessGrace is how long a witness may be gone.
	witnessGrace = 300 * time.Millisecond
	// witnessRetry is how long a witness that cannot be made rests.
	witnessRetry = time.Second
	// witnessAnswer bounds the wait for an answer.
	witnessAnswer = 5 * time.Second
)

// witnesses are the witnesses of this process's boots, and what it knows of others'.
type witnesses struct {
	mu     sync.Mutex
	closed bool
	own    map[string]context.CancelFunc // by node, newline, boot
	gone   map[string]absence
	done   sync.WaitGroup
}

// absence is that of a witness.
type absence struct {
	number int64 // of the connection
	since  time.Time
	dead   bool // two looks at an interval of witnessGrace have found it
}

// keep has a witness for a boot from now on, unless there is one.
func (w *witnesses) keep(s *Store, boot string) {
	if s.cfg.now != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.own[boot] != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if w.own == nil {
		w.own = map[string]context.CancelFunc{}
	}
	w.own[boot] = cancel
	w.done.Go(func() { w.witness(ctx, s, boot) })
}

// end ends the witness of a boot that has given everything back.
func (w *witnesses) end(boot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cancel := w.own[boot]; cancel != nil {
		cancel()
		delete(w.own, boot)
	}
}

// close ends all witnesses, and waits for that.
func (w *witnesses) close() {
	w.mu.Lock()
	w.closed = true
	for _, cancel := range w.own {
		cancel()
	}
	w.mu.Unlock()
	w.done.Wait()
}

// dead reports whether a boot has died.
func (w *witnesses) dead(node, boot string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone[node+"\n"+boot].dead
}

// witness keeps the connection of a boot until ctx ends.
func (w *witnesses) witness(ctx context.Context, s *Store, boot string) {
	for ctx.Err() == nil {
		noted, err := w.session(ctx, s, boot)
		w.mu.Lock()
		w.gone = nil // nobody looks
		w.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if _, refused := rueidis.IsRedisErr(err); refused && !noted {
			s.cfg.log.Debug("no witness: a takeover waits for the end of the lease", "error", err)
		}
		if noted {
			limited, cancel := context.WithTimeout(ctx, witnessAnswer)
			_ = s.client.Do(limited, s.client.B().Hdel().Key(s.tag(0)+"g").Field(boot).Build()).Error() // or it is cut off
			cancel()
			continue // at once
		}
		pause(ctx, witnessRetry)
	}
}

// session is the life of one connection. It reports whether it was noted.
func (w *witnesses) session(ctx context.Context, s *Store, boot string) (noted bool, err error) {
	c, release := s.client.Dedicate()
	defer release()
	defer c.Close() // the connection must not serve others: it is a sign of life
	ask := func(cmd rueidis.Completed) rueidis.RedisResult {
		limited, cancel := context.WithTimeout(ctx, witnessAnswer)
		defer cancel()
		return c.Do(limited, cmd)
	}
	key := s.tag(0) + "g"
	// The first command has a key, which says which server of a cluster is meant.
	if err := ask(c.B().Hlen().Key(key).Build()).Error(); err != nil {
		return false, err
	}
	cut := c.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}}) // tells of the end at once
	number, err := ask(c.B().ClientId().Build()).AsInt64()
	if err != nil {
		return false, err
	}
	about, err := ask(c.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return false, err
	}
	life := field(about, "run_id")
	if life == "" {
		return false, fmt.Errorf("%w: expected a run_id in INFO, found none", store.ErrUnavailable)
	}
	sign := life + ";" + strconv.FormatInt(number, 10)
	if err := ask(c.B().Hset().Key(key).FieldValue().FieldValue(boot, sign).Build()).Error(); err != nil {
		return false, err
	}
	for {
		role, err := ask(c.B().Role().Build()).ToArray()
		if err != nil {
			return true, err
		}
		if name, err := role[0].ToString(); err != nil || name != "master" {
			return true, fmt.Errorf("%w: expected a master, found %q", store.ErrUnavailable, name)
		}
		signs, err := ask(c.B().Hgetall().Key(key).Build()).AsStrMap()
		if err != nil {
			return true, err
		}
		numbers := map[string]int64{} // by boot
		var list []int64
		for other, sign := range signs {
			at, number, _ := strings.Cut(sign, ";")
			if n, err := strconv.ParseInt(number, 10, 64); err == nil && at == life && other != boot {
				numbers[other], list = n, append(list, n)
			}
		}
		there := map[int64]bool{}
		if len(list) > 0 {
			clients, err := ask(c.B().ClientList().Id().ClientId(list...).Build()).ToString()
			if err != nil {
				return true, err
			}
			for line := range strings.Lines(strings.TrimPrefix(clients, "txt:")) { // of a verbatim string
				text, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
				if n, err := strconv.ParseInt(text, 10, 64); err == nil {
					there[n] = true
				}
			}
		}
		next := witnessLook
		if w.note(s, numbers, there) {
			next = witnessGrace
		}
		select {
		case err := <-cut:
			return true, err
		case <-ctx.Done():
			return true, ctx.Err()
		case <-time.After(next):
		}
	}
}

// note notes which connections of boots are there. It reports whether one may have been cut.
func (w *witnesses) note(s *Store, numbers map[string]int64, there map[int64]bool) (waits bool) {
	now, news := time.Now(), false
	w.mu.Lock()
	defer w.mu.Unlock()
	former := w.gone
	w.gone = map[string]absence{}
	for boot, number := range numbers {
		if there[number] {
			continue
		}
		a := former[boot]
		if a.number != number {
			a = absence{number: number, since: now}
		}
		if dead := now.Sub(a.since) >= witnessGrace; dead && !a.dead {
			a.dead, news = true, true
		}
		waits = waits || !a.dead
		w.gone[boot] = a
	}
	if news {
		s.hints.in.Add(store.Change{Nodes: true}) // leases have ended
	}
	return waits
}

// field returns a field of the answer to INFO, or "".
func field(about, name string) string {
	for line := range strings.Lines(about) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
