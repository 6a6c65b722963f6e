package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet/store"
)

// Kinds of messages.
const (
	Request byte = iota + 1
	Response
	Hint  // of a change, from the server
	Reset // in place of a response: the connection broke, and the request has arrived or not
	Gone  // to the server: the connections of this machine are closed
	Plan  // to a machine: what it is to do
)

type (
	acquireArgs struct {
		Node   store.Node
		Shards []store.Shard
		TTL    store.Delay
	}
	renewArgs struct {
		Leases []store.Lease
		TTL    store.Delay
	}
	inboxArgs struct {
		Run store.RunNo
		IDs []string
	}
	leases struct {
		Leases []store.Acquired
		Now    store.Time
	}
	answers struct {
		Answers []store.Answer
		Now     store.Time
	}
	loaded struct {
		Snapshots []store.Snapshot
		Left      []store.RunNo
	}
	nothing struct{}
)

// method is a method of a store, by its place in methods.
type method struct {
	name   string
	writes bool
	do     func(ctx context.Context, s store.Store, args []byte) ([]byte, error)
}

func of[In, Out any](
	name string, writes bool, do func(ctx context.Context, s store.Store, in In) (Out, error),
) method {
	return method{name, writes, func(ctx context.Context, s store.Store, args []byte) ([]byte, error) {
		var in In
		if err := Decode(args, &in); err != nil {
			return nil, err
		}
		out, err := do(ctx, s, in)
		if err != nil {
			return nil, err
		}
		return Encode(out), nil
	}}
}

const (
	describe = iota
	register
	acquire
	renew
	release
	apply
	commit
	claim
	load
	list
	count
	history
	inbox
	pending
	waiting
	feeds
	stream
	audit
	deadLetters
	discard
	sweep
)

var methods = [...]method{
	describe: of("Describe", false, func(ctx context.Context, s store.Store, _ nothing) (store.Description, error) {
		return s.Describe(ctx)
	}),
	register: of("Register", true, func(ctx context.Context, s store.Store, n store.Node) (store.Time, error) {
		return s.Register(ctx, n)
	}),
	acquire: of("Acquire", true, func(ctx context.Context, s store.Store, in acquireArgs) (leases, error) {
		l, now, err := s.Acquire(ctx, in.Node, in.Shards, in.TTL)
		return leases{l, now}, err
	}),
	renew: of("Renew", true, func(ctx context.Context, s store.Store, in renewArgs) (leases, error) {
		l, now, err := s.Renew(ctx, in.Leases, in.TTL)
		return leases{l, now}, err
	}),
	release: of("Release", true, func(ctx context.Context, s store.Store, in []store.Lease) (nothing, error) {
		return nothing{}, s.Release(ctx, in)
	}),
	apply: of("Apply", true, func(ctx context.Context, s store.Store, in []store.Command) (answers, error) {
		a, now, err := s.Apply(ctx, in)
		return answers{a, now}, err
	}),
	commit: of("Commit", true, func(ctx context.Context, s store.Store, in store.Batch) (store.BatchResult, error) {
		return s.Commit(ctx, in)
	}),
	claim: of("Claim", true, func(ctx context.Context, s store.Store, in store.ClaimRequest) (store.Claims, error) {
		return s.Claim(ctx, in)
	}),
	load: of("Load", false, func(ctx context.Context, s store.Store, in []store.RunNo) (loaded, error) {
		snapshots, left, err := s.Load(ctx, in)
		return loaded{snapshots, left}, err
	}),
	list: of("List", false, func(ctx context.Context, s store.Store, in store.Filter) (store.Page, error) {
		return s.List(ctx, in)
	}),
	count: of("Count", false, func(ctx context.Context, s store.Store, in store.Filter) ([]store.Tally, error) {
		return s.Count(ctx, in)
	}),
	history: of("History", false, func(ctx context.Context, s store.Store, in store.HistoryQuery) ([]store.Entry, error) {
		return s.History(ctx, in)
	}),
	inbox: of("Inbox", false, func(ctx context.Context, s store.Store, in inboxArgs) ([]store.Item, error) {
		return s.Inbox(ctx, in.Run, in.IDs...)
	}),
	waiting: of("Waiting", false, func(ctx context.Context, s store.Store, in store.WaitingQuery) ([]store.Waiter, error) {
		return s.Waiting(ctx, in)
	}),
	pending: of("Pending", false, func(ctx context.Context, s store.Store, in store.PendingQuery) (store.Pending, error) {
		return s.Pending(ctx, in)
	}),
	feeds: of("Feeds", false, func(ctx context.Context, s store.Store, in store.FeedQuery) ([]store.Feed, error) {
		return s.Feeds(ctx, in)
	}),
	stream: of("Stream", false, func(
		ctx context.Context, s store.Store, in store.StreamQuery,
	) ([]store.StreamItem, error) {
		return s.Stream(ctx, in)
	}),
	audit: of("Audit", false, func(ctx context.Context, s store.Store, in store.RunNo) ([]store.Audit, error) {
		return s.Audit(ctx, in)
	}),
	deadLetters: of("DeadLetters", false, func(
		ctx context.Context, s store.Store, in store.DeadFilter,
	) (store.DeadPage, error) {
		return s.DeadLetters(ctx, in)
	}),
	discard: of("Discard", true, func(ctx context.Context, s store.Store, in []store.ItemNo) ([]bool, error) {
		return s.Discard(ctx, in)
	}),
	sweep: of("Sweep", true, func(ctx context.Context, s store.Store, in store.SweepRequest) (store.Swept, error) {
		return s.Sweep(ctx, in)
	}),
}

// Method names the method of a request, and says whether it writes.
func Method(request []byte) (name string, writes bool) {
	m := methods[request[0]]
	return m.name, m.writes
}

// Answer carries out a request.
func Answer(ctx context.Context, s store.Store, request []byte) []byte {
	out, err := methods[request[0]].do(ctx, s, request[1:])
	f := failureOf(err)
	return append(Encode(f), out...)
}

// failure is an error on the wire.
type failure struct {
	Kinds uint64 // which of the store's errors it wraps
	Text  string
}

var kinds = [...]error{
	store.ErrUnavailable, store.ErrUnknown, store.ErrWentBack, store.ErrTooLarge, store.ErrClosed,
	store.ErrBadCursor, store.ErrInvalid, store.ErrSchema, store.ErrDamaged,
}

func failureOf(err error) (f failure) {
	if err == nil {
		return f
	}
	f.Text = err.Error()
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			f.Kinds |= 1 << i
		}
	}
	return f
}

// Refusal returns the answer to a request that was not carried out, and may be repeated.
func Refusal(why string) []byte {
	return Encode(failureOf(fmt.Errorf("%s: %w", why, store.ErrUnavailable)))
}

// carried is an error of the other side.
type carried struct {
	text  string
	wraps []error
}

func (c *carried) Error() string   { return c.text }
func (c *carried) Unwrap() []error { return c.wraps }

func (f failure) err() error {
	if f.Text == "" {
		return nil
	}
	c := &carried{text: f.Text}
	for i, kind := range kinds {
		if f.Kinds&(1<<i) != 0 {
			c.wraps = append(c.wraps, kind)
		}
	}
	return c
}

// response returns the error and the value of an answer.
func response(b []byte, out any) error {
	var f failure
	d := decoder{b}
	if err := d.head(&f); err != nil {
		return err
	}
	if err := f.err(); err != nil {
		return err
	}
	return Decode(d.b, out)
}

func (d *decoder) head(f *failure) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decode an answer: %v", p)
		}
	}()
	f.Kinds = d.uvarint()
	f.Text = string(d.take(int(d.uvarint())))
	return nil
}

// Leases returns the leases in an answer to Acquire or Renew.
func Leases(answer []byte) ([]store.Acquired, error) {
	var l leases
	err := response(answer, &l)
	return l.Leases, err
}

// Released returns the leases of a request to Release that was carried out.
func Released(request, answer []byte) (released []store.Lease) {
	if response(answer, &nothing{}) != nil || Decode(request[1:], &released) != nil {
		return nil
	}
	return released
}

// Discarded returns the dead letters that a request to Discard has removed; of an error none.
func Discarded(request, answer []byte) (removed []store.ItemNo) {
	var were []bool
	var nos []store.ItemNo
	if response(answer, &were) != nil || Decode(request[1:], &nos) != nil {
		return nil
	}
	for i, was := range were {
		if was {
			removed = append(removed, nos[i])
		}
	}
	return removed
}

// Applied returns the commands of a request to Apply, and the answers to them; of an error none.
func Applied(request, answer []byte) (commands []store.Command, answers []store.Answer) {
	if answers = Answers(answer); len(answers) > 0 && Decode(request[1:], &commands) != nil {
		return nil, nil
	}
	return commands, answers
}

// Answers returns the answers to Apply; of an error none.
func Answers(answer []byte) []store.Answer {
	var a answers
	_ = response(answer, &a) // an error has no answers
	return a.Answers
}

// Claimed returns the runs in an answer to Claim; of an error none.
func Claimed(answer []byte) []store.Claimed {
	var claims store.Claims
	_ = response(answer, &claims) // an error has none
	return claims.Runs
}

// Snapshots returns the answer to Load; of an error none.
func Snapshots(answer []byte) []store.Snapshot {
	var all loaded
	_ = response(answer, &all) // an error has none
	return all.Snapshots
}

// Batch returns the batch that a request is to commit.
func Batch(request []byte) (b store.Batch, err error) { return b, Decode(request[1:], &b) }

// Committed returns a batch and what became of it.
func Committed(request, answer []byte) (b store.Batch, r store.BatchResult, err error) {
	if err := response(answer, &r); err != nil {
		return b, r, err
	}
	return b, r, Decode(request[1:], &b)
}
