package payload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/stet-run/stet/store"
)

// View is a store whose values a policy seals when they are written and opens when they
// are read. A value that cannot be opened is returned as it is stored, so that a listing
// shows the others. There are three exceptions: Load leaves the run out and returns the
// error beside the other runs; Claim and Commit return the error; and if the store fails
// while the run of a value is looked up, every read returns that error and nothing else.
//
// An engine seals and opens on goroutines of its own. It uses SealTurn, SealCommands and
// OpenItems beside the store itself.
type View struct {
	store.Store
	p *Policy
}

// View returns a view of the store through the policy, which may be nil.
func (p *Policy) View(s store.Store) *View { return &View{s, p} }

// of returns an opener of the values of a run, of which the number is known.
func (v *View) of(ctx context.Context, run store.RunNo) *opener {
	return &opener{p: v.p, ctx: ctx, of: owner{no: run, find: findIn(v.Store)}}
}

// Apply implements store.Store.
func (v *View) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	sealed, err := v.p.SealCommands(ctx, commands)
	if err != nil {
		return nil, 0, err
	}
	answers, now, err := v.Store.Apply(ctx, sealed)
	v.p.OpenAnswers(ctx, answers)
	return answers, now, err
}

// OpenAnswers opens the values of the runs in answers, as far as they can be opened.
func (p *Policy) OpenAnswers(ctx context.Context, answers []store.Answer) {
	for i := range answers {
		p.holding(ctx, &answers[i].Run).run(&answers[i].Run)
	}
}

// Commit implements store.Store.
func (v *View) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	turns := make([]*store.Turn, len(b.Turns))
	var err error
	for i, t := range b.Turns {
		if turns[i] = t; t != nil {
			if turns[i], err = v.p.SealTurn(ctx, t); err != nil {
				return store.BatchResult{}, err
			}
		}
	}
	b.Turns = turns
	if b.Commands, err = v.p.SealCommands(ctx, b.Commands); err != nil {
		return store.BatchResult{}, err
	}
	result, err := v.Store.Commit(ctx, b)
	for i := range result.Turns {
		v.p.OpenAnswers(ctx, result.Turns[i].Sends)
	}
	v.p.OpenAnswers(ctx, result.Commands)
	return result, err
}

// Claim implements store.Store.
func (v *View) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	claims, err := v.Store.Claim(ctx, req)
	if err != nil {
		return claims, err
	}
	var failed error
	for i := range claims.Runs {
		c := &claims.Runs[i]
		o := v.of(ctx, c.Run.No)
		if c.New {
			o.of.run = &c.Run
			o.run(&c.Run)
		}
		if o.heads(c.Items); failed == nil {
			failed = o.err
		}
	}
	return claims, failed
}

// OpenItems opens the values of items of a run's claim. The error says why one of them
// cannot be opened.
func (p *Policy) OpenItems(ctx context.Context, run *store.Run, items []store.Item) error {
	o := p.holding(ctx, run)
	o.heads(items)
	return o.err
}

// OpenItem opens the value of an item, however large it is.
func (p *Policy) OpenItem(ctx context.Context, run *store.Run, it *store.Item) error {
	o := p.holding(ctx, run)
	o.item(it)
	return o.err
}

// OpenEntries opens the values of entries that were written as part of a run's turns. The
// error says why one of them cannot be opened.
func (p *Policy) OpenEntries(ctx context.Context, run store.RunNo, incarnation int, entries []store.Entry) error {
	o := &opener{p: p, ctx: ctx, of: owner{no: run}}
	o.entries(incarnation, entries, false)
	return o.err
}

// loads is how many snapshots are opened at the same time if objects are read.
const loads = 16

// Load implements store.Store.
func (v *View) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	return v.load(ctx, runs, v.openSnapshot)
}

// LoadOwned is Load for the owner of the runs. A run with a value that was changed, put
// here from another place, or is refused, is among the others: its Damage says which value.
// closed has a *ClosedError for each run that this process cannot open.
func (v *View) LoadOwned(ctx context.Context, runs []store.RunNo) (
	loaded []store.Snapshot, left []store.RunNo, closed map[store.RunNo]*ClosedError, err error,
) {
	loaded, left, err = v.load(ctx, runs, func(ctx context.Context, s *store.Snapshot) error {
		err := v.openSnapshot(ctx, s)
		if !Spoilt(err) {
			return err
		}
		if s.Run.Damage == "" {
			s.Run.Damage = err.Error()
		}
		return nil
	})
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return loaded, left, nil, err
	}
	var rest []error
	for _, err := range all.Unwrap() {
		c, ok := errors.AsType[*ClosedError](err)
		if !ok || !Closed(err) {
			rest = append(rest, err)
			continue
		}
		if closed == nil {
			closed = map[store.RunNo]*ClosedError{}
		}
		closed[c.Run] = c
	}
	return loaded, left, closed, errors.Join(rest...)
}

// ClosedError says why a run cannot be opened.
type ClosedError struct {
	Run store.RunNo
	ID  string
	Err error
}

// Error names the run.
func (e *ClosedError) Error() string { return fmt.Sprintf("run %q: %v", e.ID, e.Err) }

// Unwrap returns the reason.
func (e *ClosedError) Unwrap() error { return e.Err }

// Closed reports whether an error says that this process cannot open a value, because it lacks its key or its objects.
// Another process may.
func Closed(err error) bool {
	return errors.Is(err, ErrUnknownKey) || errors.Is(err, ErrNoObjects) || errors.Is(err, ErrSealed)
}

// Spoilt reports whether an error says that a value is not what was stored. An object that
// is not there may be missing here alone.
func Spoilt(err error) bool {
	return errors.Is(err, store.ErrDamaged) && !errors.Is(err, fs.ErrNotExist)
}

func (v *View) load(
	ctx context.Context, runs []store.RunNo, open func(context.Context, *store.Snapshot) error,
) ([]store.Snapshot, []store.RunNo, error) {
	snapshots, left, err := v.Store.Load(ctx, runs)
	if err != nil {
		return nil, nil, err
	}
	failed := make([]error, len(snapshots))
	var wg sync.WaitGroup
	room := make(chan struct{}, loads)
	for i := range snapshots {
		one := func() { failed[i] = open(ctx, &snapshots[i]) }
		if v.p == nil || v.p.cfg.Objects == nil {
			one()
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			one()
		})
	}
	wg.Wait()
	good := snapshots[:0]
	for i := range snapshots {
		if failed[i] == nil {
			good = append(good, snapshots[i])
		} else {
			failed[i] = &ClosedError{snapshots[i].Run.No, snapshots[i].Run.ID, failed[i]}
		}
	}
	return good, left, errors.Join(failed...)
}

func (v *View) openSnapshot(ctx context.Context, s *store.Snapshot) error {
	o := v.p.holding(ctx, &s.Run)
	o.run(&s.Run)
	o.entries(s.Run.Incarnation, s.Entries, true)
	o.heads(s.Items)
	return o.err
}

// List implements store.Store.
func (v *View) List(ctx context.Context, f store.Filter) (store.Page, error) {
	page, err := v.Store.List(ctx, f)
	for i := range page.Runs {
		v.p.holding(ctx, &page.Runs[i]).run(&page.Runs[i])
	}
	return page, err
}

// History implements store.Store. Sizes are those of the stored values, or of the opened
// values if they are stored in less than store.LargeValue.
func (v *View) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	entries, err := v.Store.History(ctx, q)
	o := v.of(ctx, q.Run)
	o.entries(q.Incarnation, entries, false)
	return found(entries, err, o)
}

// found returns what was read, unless the store failed while it was opened.
func found[T any](what T, err error, openers ...*opener) (T, error) {
	for _, o := range openers {
		if err == nil {
			err = o.unfound
		}
	}
	if err != nil {
		var none T
		return none, err
	}
	return what, nil
}

// Values returns entries of a run with their values, however large they are. An error says
// that one of them could not be read or opened.
func (v *View) Values(ctx context.Context, run store.RunNo, incarnation int, locs []string) ([]store.Entry, error) {
	q := store.HistoryQuery{Run: run, Incarnation: incarnation, Locs: locs, Values: true}
	entries, err := v.Store.History(ctx, q)
	if err != nil {
		return nil, err
	}
	o := v.of(ctx, run)
	o.entries(incarnation, entries, false)
	return entries, o.err
}

// Inbox implements store.Store.
func (v *View) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	items, err := v.Store.Inbox(ctx, run, ids...)
	o := v.of(ctx, run)
	o.items(items)
	return found(items, err, o)
}

// Feeds implements store.Store.
func (v *View) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	feeds, err := v.Store.Feeds(ctx, q)
	openers := make([]*opener, len(feeds))
	for i := range feeds {
		openers[i] = v.of(ctx, feeds[i].Run)
		openers[i].value(&feeds[i].Value, what{sort: settingOf, name: feeds[i].Name})
	}
	return found(feeds, err, openers...)
}

// Stream implements store.Store.
func (v *View) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	items, err := v.Store.Stream(ctx, q)
	o := v.of(ctx, q.Run)
	for i := range items {
		o.value(&items[i].Value, what{sort: streamItem, name: q.Name})
	}
	return found(items, err, o)
}

// Audit implements store.Store.
func (v *View) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	audit, err := v.Store.Audit(ctx, run)
	o := v.of(ctx, run)
	o.audit(audit)
	return found(audit, err, o)
}

// DeadLetters implements store.Store.
func (v *View) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	page, err := v.Store.DeadLetters(ctx, f)
	openers := map[store.RunNo]*opener{}
	for i := range page.Letters {
		l := &page.Letters[i]
		if openers[l.Run] == nil {
			openers[l.Run] = v.of(ctx, l.Run)
		}
		openers[l.Run].item(&l.Item)
	}
	return found(page, err, slices.Collect(maps.Values(openers))...)
}
