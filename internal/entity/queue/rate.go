package queue

import (
	"container/heap"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// A rate counts units: of each permit its cost. What it counts is kept in buckets: permits
// that were granted at nearly the same time are counted as if all had been granted at the
// latest of these times. So no interval has more than the rate, and what is kept is bounded,
// however many permits there are.

// The parts into which the time of a rate is divided: one bucket for each.
const (
	parts    = 10_000 // of the queue's rate
	keyParts = 64     // of the rate of a key
)

// bucket is permits that a rate counts as granted at the same time.
type bucket struct {
	no int64 // of the first one
	tally
}

// tally is the stored form of a bucket. One of a single unit may be stored as its time alone.
type tally struct {
	At store.Time `cbor:"1,keyasint"`
	N  int        `cbor:"2,keyasint"` // units
}

// window is what a rate counts, oldest first.
type window struct {
	buckets []bucket
	counted int  // units in them
	dirty   bool // the last bucket is not written as it is
}

// count counts a permit that is granted now. part is how far apart buckets are, at least. It
// reports whether the permit has a bucket of its own.
func (c *window) count(no int64, now store.Time, units int, part store.Delay) (fresh bool) {
	c.counted += units
	c.dirty = true
	if n := len(c.buckets); n > 0 {
		last := &c.buckets[n-1]
		if last.At == now || part > 1 && last.At/store.Time(part) == now/store.Time(part) {
			last.At, last.N = now, last.N+units
			return false
		}
	}
	c.buckets = append(c.buckets, bucket{no, tally{now, units}})
	return true
}

// free returns how many units a rate allows now. It may be negative.
func (c *window) free(now store.Time, rate int, per store.Delay) int {
	for i := len(c.buckets) - 1; i >= 0 && c.buckets[i].At+store.Time(per) > now; i-- {
		rate -= c.buckets[i].N
	}
	return rate
}

// when returns when a rate allows so many units, of at most all that it allows; 0: now.
func (c *window) when(now store.Time, rate int, per store.Delay, units int) store.Time {
	left := rate - units
	for i := len(c.buckets) - 1; i >= 0; i-- {
		b := &c.buckets[i]
		ends := b.At + store.Time(per)
		if ends <= now {
			break
		}
		if left -= b.N; left < 0 {
			return ends
		}
	}
	return 0
}

// correct counts more or fewer units of a permit. It returns its bucket as it is then, with
// N = 0 if it is gone; ok is false if the permit is not counted any more.
func (c *window) correct(h *holding, by int) (b bucket, ok bool) {
	i, found := slices.BinarySearchFunc(c.buckets, h.No, func(b bucket, no int64) int { return int(b.no - no) })
	if !found {
		i--
	}
	if i < 0 || c.buckets[i].At < h.At {
		return b, false // it was trimmed
	}
	by = max(by, -c.buckets[i].N)
	c.counted += by
	c.buckets[i].N += by
	if b = c.buckets[i]; b.N == 0 {
		c.buckets = slices.Delete(c.buckets, i, i+1)
	}
	return b, true
}

// dropFirst forgets the oldest bucket.
func (c *window) dropFirst() {
	c.counted -= c.buckets[0].N
	c.buckets = c.buckets[1:]
}

func rateLocOf(no int64) string { return fmt.Sprintf("%s%016x", rateLoc, no) }

func keyRateLocOf(no int64, key string) string { return fmt.Sprintf("%s%016x%s", keyRateLoc, no, key) }

// readBucket reads what rateLocOf(no) holds, or keyRateLocOf(no, key).
func readBucket(loc string, value []byte) (b bucket, key string, err error) {
	const digits = 16
	text := loc[len(rateLoc):]
	if strings.HasPrefix(loc, keyRateLoc) && len(text) > digits {
		text, key = text[:digits], text[digits:]
	}
	if b.no, err = strconv.ParseInt(text, 16, 64); err != nil {
		return b, key, err
	}
	if cbor.Unmarshal(value, &b.At) == nil {
		b.N = 1
		return b, key, nil
	}
	return b, key, cbor.Unmarshal(value, &b.tally)
}

// span is a bucket of a key.
type span struct {
	key string
	no  int64
}

// costs returns how many units a permit takes that was asked for with a cost.
func costs(cost int) int { return max(cost, 1) }

// room returns how many units the rate allows now.
func (q *Rules) room(now store.Time) int {
	s := q.head.settings()
	if s.Rate == 0 {
		return math.MaxInt
	}
	return q.recent.free(now, s.Rate, s.Per)
}

// fits returns how many units must be free for a request: all that the rate allows for one
// that costs more.
func (q *Rules) fits(r *request) int {
	if rate := q.head.settings().Rate; rate > 0 {
		return min(costs(r.Cost), rate)
	}
	return 0
}

// keyRests returns when the rate of its key allows a request; 0: now.
func (q *Rules) keyRests(k *key, r *request, now store.Time) store.Time {
	s := q.head.settings()
	if s.RatePerKey == 0 || k.name == "" {
		return 0
	}
	return k.recent.when(now, s.RatePerKey, s.Per, min(costs(r.Cost), s.RatePerKey))
}

// rest notes when a key is looked at again that its rate blocks.
func (q *Rules) rest(k *key, until store.Time) {
	switch {
	case k.until == 0:
		k.until = until
		heap.Push(&q.resting, k)
	case until < k.until:
		k.until = until
		heap.Fix(&q.resting, k.rests)
	}
}

// wakeKeys unblocks the keys whose rate allows a permit again.
func (q *Rules) wakeKeys(now store.Time) {
	for len(q.resting) > 0 && q.resting[0].until <= now {
		k := heap.Pop(&q.resting).(*key)
		k.until = 0
		q.unblock(k)
	}
}

// count counts a permit for the rates.
func (q *Rules) count(k *key, no int64, now store.Time, units int) {
	per := q.head.settings().Per
	if most, _ := q.most(rateOfQueue); most > 0 {
		q.recent.count(no, now, units, per/parts)
	}
	if most, _ := q.most(rateOfKey); most > 0 && k.name != "" && k.recent.count(no, now, units, per/keyParts) {
		q.spans = append(q.spans, span{k.name, no})
	}
}

func rateOfQueue(s *permit.Settings) int { return s.Rate }
func rateOfKey(s *permit.Settings) int   { return s.RatePerKey }

// most returns the largest rate of the declared settings and those that override them, and
// the longest time of one: so much is counted, whichever come to count.
func (q *Rules) most(of func(*permit.Settings) int) (rate int, per store.Delay) {
	all := []*permit.Settings{&q.head.Declared}
	if q.head.Override != nil {
		all = append(all, &q.head.Override.Settings)
	}
	for _, s := range all {
		if n := of(s); n > 0 {
			rate, per = max(rate, n), max(per, s.Per)
		}
	}
	return rate, per
}

// writeRates writes what the rates have counted in a turn.
func (q *Rules) writeRates(k *key, w *entity.Writer) {
	if k != nil && k.recent.dirty {
		k.recent.dirty = false
		last := &k.recent.buckets[len(k.recent.buckets)-1]
		put(w, keyRateLocOf(last.no, k.name), last.tally)
	}
	if k == nil && q.recent.dirty {
		q.recent.dirty = false
		last := &q.recent.buckets[len(q.recent.buckets)-1]
		put(w, rateLocOf(last.no), last.tally)
	}
}

// spend counts for a permit that is given back what it has spent in place of its cost.
func (q *Rules) spend(h *holding, spent int, w *entity.Writer) {
	by := spent - costs(h.Cost)
	if spent == permit.AsAsked || by == 0 {
		return
	}
	write := func(loc string, b bucket, ok bool) {
		switch {
		case ok && b.N > 0:
			put(w, loc, b.tally)
		case ok:
			w.Delete(loc)
		}
	}
	b, ok := q.recent.correct(h, by)
	write(rateLocOf(b.no), b, ok)
	b, ok = q.key(h.Key).recent.correct(h, by)
	write(keyRateLocOf(b.no, h.Key), b, ok)
}

// trim forgets permits that the queue's rate does not count any more: all but the last ones.
func (q *Rules) trim(now store.Time, w *entity.Writer) {
	most, per := q.most(rateOfQueue)
	for c := &q.recent; len(c.buckets) > 0; c.dropFirst() {
		first := &c.buckets[0]
		if c.counted-first.N < most && (len(c.buckets) <= parts || first.At+store.Time(per) > now) {
			return
		}
		w.Delete(rateLocOf(first.no))
	}
}

// forgetSpans forgets permits that the rates of keys do not count any more.
func (q *Rules) forgetSpans(now store.Time, w *entity.Writer) {
	most, per := q.most(rateOfKey)
	for len(q.spans) > 0 && !w.Full() {
		first := q.spans[0]
		if k := q.keys[first.key]; k != nil && len(k.recent.buckets) > 0 && k.recent.buckets[0].no == first.no {
			if most > 0 && k.recent.buckets[0].At+store.Time(per) > now {
				return
			}
			w.Delete(keyRateLocOf(first.no, first.key))
			k.recent.dropFirst()
			q.forget(first.key, w)
		}
		q.spans = q.spans[1:]
	}
}

// rests is a heap of the keys that a rate blocks, by when they are looked at again.
type rests []*key

func (h rests) Len() int           { return len(h) }
func (h rests) Less(i, j int) bool { return h[i].until < h[j].until }
func (h rests) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].rests, h[j].rests = i, j
}
func (h *rests) Push(x any) {
	k := x.(*key)
	k.rests = len(*h)
	*h = append(*h, k)
}
func (h *rests) Pop() any {
	old := *h
	last := len(old) - 1
	k := old[last]
	old[last] = nil
	*h = old[:last]
	return k
}
