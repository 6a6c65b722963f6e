package queue

import (
	"fmt"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/store"
)

// Standing is the content of a queue's entity, for checks.
type Standing struct {
	Held map[string]string // keys of the permits that are held, by ticket
	// Recent is when the last units were granted that the rate counts: the first of a permit
	// by its number.
	Recent map[int64]store.Time

	units map[string]int // that the rate of each key counts, and of the queue by ""
}

// Units returns how many units the rate of a key counts, or that of the queue for "".
func (s *Standing) Units(key string) int { return s.units[key] }

// Read returns what stands. The error wraps store.ErrDamaged.
func Read(entries []store.Entry) (*Standing, error) {
	s := &Standing{Held: map[string]string{}, Recent: map[int64]store.Time{}, units: map[string]int{}}
	for i := range entries {
		loc, value := entries[i].Loc, entries[i].Value
		var err error
		if ticket, ok := strings.CutPrefix(loc, permitLoc); ok {
			var h holding
			err = cbor.Unmarshal(value, &h)
			s.Held[ticket] = h.Key
		} else if strings.HasPrefix(loc, rateLoc) {
			var b bucket
			b, _, err = readBucket(loc, value)
			s.units[""] += b.N
			for k := range b.N {
				s.Recent[b.no+int64(k)] = b.At
			}
		} else if strings.HasPrefix(loc, keyRateLoc) {
			var b bucket
			var key string
			b, key, err = readBucket(loc, value)
			s.units[key] += b.N
		}
		if err != nil {
			return nil, fmt.Errorf("%w: entry %q of a queue: %w", store.ErrDamaged, loc, err)
		}
	}
	return s, nil
}
