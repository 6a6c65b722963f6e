package redis

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/relay"
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

// newRelay returns what delivers in the background the commands that stay in outboxes because
// the process of their turn ended or could not reach the receiving part. It also takes those
// out that have arrived.
func newRelay(s *Store) *relay.Relay {
	return relay.New(relay.Config{Port: outboxes{s}, Chunk: maxChunk, InOrder: true, Away: away, Log: s.cfg.log})
}

// outboxes implements relay.Port. Its places are parts.
type outboxes struct{ s *Store }

// Waiting implements relay.Port.
func (o outboxes) Waiting(ctx context.Context, from []int) (list []map[int]int64, err error) {
	calls := make([]call, len(from))
	for i, part := range from {
		calls[i] = call{part, []string{"", "0", "0"}}
	}
	replies, err := o.s.run(ctx, outboxScript, "look at outboxes", calls...)
	if err != nil {
		return nil, err
	}
	var r reader
	for _, m := range replies {
		list = append(list, r.foremost(m))
	}
	return list, r.err
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

// Read implements relay.Port.
func (o outboxes) Read(ctx context.Context, from, to int, arrived []int64, limit int) ([]relay.Post, error) {
	highest := int64(0)
	if len(arrived) > 0 {
		highest = slices.Max(arrived)
	}
	blobs, err := o.s.outbox(ctx, from, to, highest, limit)
	if err != nil {
		return nil, err
	}
	posts := make([]relay.Post, len(blobs))
	for i, blob := range blobs {
		posts[i] = relay.Post{No: numberOf(blob), Body: []byte(blob)}
	}
	return posts, nil
}

// Deliver implements relay.Port.
func (o outboxes) Deliver(ctx context.Context, from, to int, posts []relay.Post, first bool) (next []int, err error) {
	var a args
	a.count(to)
	a.count(o.s.parts)
	a.count(from)
	a.bool(first)
	a.count(0)
	each(&a, posts, func(p relay.Post) { a.text(string(p.Body)) })
	m, err := o.s.one(ctx, deliverScript, "deliver", to, a.list...)
	if err != nil {
		return nil, err
	}
	var r reader
	f := r.tuple(m, 4)
	if last := r.text(f[3]); last != "" {
		o.s.cfg.log.Error("slots have lost messages that they had received: their server has lost writes that it had "+
			"acknowledged", "from part", from, "to part", to, "last", last, "next", posts[0].No)
	}
	for _, part := range r.list(f[2]) {
		next = append(next, int(r.int(part)))
	}
	if r.err != nil {
		return nil, r.err
	}
	what := store.Change{Ready: o.s.shardsOf(to)}
	o.s.hints.tell(what)
	o.s.hints.in.Add(what) // runs of this process may be ready
	return next, nil
}

// Server implements relay.Port. Of a lane it is one, though its parts may have moved.
func (o outboxes) Server(part int) int { return o.s.laneOf[part] }
