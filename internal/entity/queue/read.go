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
}

// Read returns what stands. The error wraps store.ErrDamaged.
func Read(entries []store.Entry) (*Standing, error) {
	s := &Standing{Held: map[string]string{}, Recent: map[int64]store.Time{}}
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
			for k := range b.N {
				s.Recent[b.no+int64(k)] = b.At
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: entry %q of a queue: %w", store.ErrDamaged, loc, err)
		}
	}
	return s, nil
}
