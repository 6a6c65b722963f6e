package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// memory is what is known of the room on the servers.
type memory struct {
	mu    sync.Mutex
	asked map[int]time.Time // by part: when it had room
}

// roomFor is how long an answer that there is room stands.
const roomFor = time.Second

// fullAt is the share of maxmemory, in percent, from which starts are refused. The rest is
// for the runs that are there: an end makes a run one that can be deleted.
const fullAt = 90

// refuseStarts refuses starts in parts whose server has little room left.
func (m *memory) refuseStarts(ctx context.Context, s *Store, commands []store.Command) error {
	asked := map[int]bool{}
	var parts []int
	for i := range commands {
		if commands[i].Start == nil {
			continue
		}
		part := s.partOf(commands[i].Start.Shard.Slot)
		if !asked[part] && !m.hadRoom(part) {
			asked[part], parts = true, append(parts, part)
		}
	}
	calls := make([]call, len(parts))
	for i, part := range parts {
		calls[i] = call{part, nil}
	}
	replies, err := s.run(ctx, roomScript, "look for room", calls...)
	if err != nil {
		return err
	}
	var r reader
	for i, answer := range replies {
		f := r.tuple(answer, 2)
		used, most := r.int(f[0]), r.int(f[1])
		if r.err != nil {
			return r.err
		}
		if most > 0 && used/fullAt >= most/100 {
			return fmt.Errorf("start a run: %w: expected the server to use less than %d %% of its maxmemory, found %d of %d "+
				"MiB used: raise maxmemory, or let retention delete runs", store.ErrUnavailable, fullAt, used>>20, most>>20)
		}
		m.hasRoom(parts[i])
	}
	return nil
}

// hadRoom reports whether a part had room a moment ago.
func (m *memory) hadRoom(part int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.asked[part]
	return ok && time.Since(at) < roomFor
}

func (m *memory) hasRoom(part int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked == nil {
		m.asked = map[int]time.Time{}
	}
	m.asked[part] = time.Now()
}
