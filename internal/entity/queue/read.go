package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/internal/permit"
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

// TaskStanding is an attempt of a task that a queue has, for those that show it.
type TaskStanding struct {
	Ticket                        string
	Name, RunID, Loc, Key, Worker string
	Attempt, Priority, Lost       int
	Begun                         store.Time // when a worker has begun the attempt last; 0: none has
	Since                         store.Time
	Until                         store.Time // of its lease; 0: it is offered
	Recalled                      bool
}

// TaskLocs returns where the entries of a queue are that say how the task of a ticket stands.
// They are read with that of what workers have asked for.
func TaskLocs(ticket string) []string {
	return []string{headLoc, permitLoc + ticket, requestLoc + ticket}
}

// Unasked returns a function that reports whether no worker has asked for tasks of a name, as the entry of
// the queue itself says among the entries. Where that is not known it returns false.
func Unasked(entries []store.Entry) func(name string) bool {
	var h head
	for i := range entries {
		if entries[i].Loc == headLoc && cbor.Unmarshal(entries[i].Value, &h) == nil {
			return func(name string) bool {
				return !h.Forgot && !slices.ContainsFunc(h.Asked, func(a askedFor) bool { return a.Name == name })
			}
		}
	}
	return func(string) bool { return false }
}

// ReadTasks returns the tasks that a queue has: the leased ones by the end of their leases, then
// those that are offered: expired ones first, then by when they were. The error wraps store.ErrDamaged.
func ReadTasks(entries []store.Entry) ([]TaskStanding, error) {
	var all []TaskStanding
	add := func(ticket string, a *asked, worker string, begun, since, until store.Time) {
		all = append(all, TaskStanding{Ticket: ticket, Name: a.Task.Name, RunID: a.RunID, Loc: a.Loc, Key: a.Key,
			Worker: permit.WorkerName(worker), Attempt: a.Task.Attempt, Priority: a.Priority, Lost: a.Task.Lost,
			Begun: begun, Since: since, Until: until, Recalled: a.Task.Recalls})
	}
	for i := range entries {
		loc, value := entries[i].Loc, entries[i].Value
		var err error
		switch {
		case strings.HasPrefix(loc, permitLoc):
			var h holding
			if err = cbor.Unmarshal(value, &h); err == nil && h.Lease != nil {
				add(loc[len(permitLoc):], &h.Lease.Asked, h.Lease.Worker, h.Lease.Begun, h.Lease.Begun, h.Lease.Until)
			}
		case strings.HasPrefix(loc, requestLoc):
			var a asked
			if err = cbor.Unmarshal(value, &a); err == nil && a.Task != nil {
				add(loc[len(requestLoc):], &a, a.Task.Worker, a.Task.Begun, a.Due, 0)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: entry %q of a queue: %w", store.ErrDamaged, loc, err)
		}
	}
	slices.SortStableFunc(all, func(a, b TaskStanding) int {
		if (a.Until == 0) != (b.Until == 0) {
			return cmp.Compare(b.Until, a.Until)
		}
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.Since, b.Since))
	})
	return all, nil
}
