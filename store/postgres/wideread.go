package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Load implements store.Store. Each database has its share of the bytes of an answer, and may exceed that by a run.
func (w *Wide) Load(ctx context.Context, runs []store.RunNo) (list []store.Snapshot, left []store.RunNo, err error) {
	place := make(map[store.RunNo]int, len(runs))
	for i, no := range runs {
		place[no] = i
	}
	var mu sync.Mutex
	which, of := places(w, runs, func(no store.RunNo) int { return slot(w.place, no) })
	err = w.each(ctx, which, func(index int, s *Store) error {
		part, more, err := load(ctx, s, pick(runs, of[index]), store.LoadBytes/len(which))
		mu.Lock()
		defer mu.Unlock()
		list, left = append(list, part...), append(left, more...)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if len(which) > 1 {
		slices.SortStableFunc(list, func(a, b store.Snapshot) int { return cmp.Compare(place[a.Run.No], place[b.Run.No]) })
		slices.SortStableFunc(left, func(a, b store.RunNo) int { return cmp.Compare(place[a], place[b]) })
	}
	return list, left, nil
}

// Feeds implements store.Store.
func (w *Wide) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	return byRuns(ctx, w, q.Runs, func(s *Store, runs []store.RunNo) ([]store.Feed, error) {
		own := q
		own.Runs = runs
		return s.Feeds(ctx, own)
	}, func(a, b store.Feed) int { return cmp.Compare(a.Run, b.Run) })
}

// byRuns asks each database for its runs, and puts the answers in order.
func byRuns[T any](ctx context.Context, w *Wide, runs []store.RunNo, ask func(*Store, []store.RunNo) ([]T, error),
	order func(a, b T) int) (list []T, err error) {
	which, of := places(w, runs, func(no store.RunNo) int { return slot(w.place, no) })
	var mu sync.Mutex
	err = w.each(ctx, which, func(index int, s *Store) error {
		part, err := ask(s, pick(runs, of[index]))
		mu.Lock()
		defer mu.Unlock()
		list = append(list, part...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(which) > 1 {
		slices.SortStableFunc(list, order)
	}
	return list, nil
}

// home returns the database of a run.
func (w *Wide) home(ctx context.Context, run store.RunNo) (*Store, error) {
	if w.closed.Load() {
		return nil, store.ErrClosed
	}
	return w.at(ctx, ofNo(w.place, run))
}

// History implements store.Store.
func (w *Wide) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	s, err := w.home(ctx, q.Run)
	if err != nil {
		return nil, err
	}
	return s.History(ctx, q)
}

// Inbox implements store.Store.
func (w *Wide) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	s, err := w.home(ctx, run)
	if err != nil {
		return nil, err
	}
	return s.Inbox(ctx, run, ids...)
}

// Waiting implements store.Store: a store over several databases has no lines.
func (w *Wide) Waiting(ctx context.Context, q store.WaitingQuery) ([]store.Waiter, error) {
	return w.first().Waiting(ctx, q)
}

// Pending implements store.Store.
func (w *Wide) Pending(ctx context.Context, q store.PendingQuery) (store.Pending, error) {
	s, err := w.home(ctx, q.Run)
	if err != nil {
		return store.Pending{}, err
	}
	return s.Pending(ctx, q)
}

// Stream implements store.Store.
func (w *Wide) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	s, err := w.home(ctx, q.Run)
	if err != nil {
		return nil, err
	}
	return s.Stream(ctx, q)
}

// Audit implements store.Store.
func (w *Wide) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	s, err := w.home(ctx, run)
	if err != nil {
		return nil, err
	}
	return s.Audit(ctx, run)
}

// Discard implements store.Store.
func (w *Wide) Discard(ctx context.Context, items []store.ItemNo) ([]bool, error) {
	which, of := places(w, items, func(no store.ItemNo) int { return slot(w.place, no) })
	were := make([]bool, len(items))
	var mu sync.Mutex
	err := w.each(ctx, which, func(index int, s *Store) error {
		got, err := s.Discard(ctx, pick(items, of[index]))
		mu.Lock()
		defer mu.Unlock()
		for k := range got {
			were[of[index][k]] = got[k]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return were, nil
}

// concerned returns the databases that may have runs which a filter selects; nil: all may.
func (w *Wide) concerned(f *store.Filter) map[int]bool {
	which := map[int]bool{}
	switch {
	case len(f.Nos) > 0:
		for _, no := range f.Nos {
			which[ofNo(w.place, no)] = true
		}
	case len(f.IDs) > 0:
		for _, id := range f.IDs {
			which[w.Home(id)] = true
			if no := replaced(id); no > 0 {
				which[ofNo(w.place, no)] = true
			}
		}
	case len(f.Claimed) > 0:
		for _, shard := range f.Claimed {
			if shard.Slot >= 0 && shard.Slot < len(w.place.Slots) {
				which[w.place.Slots[shard.Slot]] = true
			}
		}
	default:
		return nil
	}
	if len(which) == 0 {
		which[0] = true
	}
	return which
}

// cursors are the places of a list in each database: "": its begin, over: its end.
type cursors []string

// over is the end of a list. The others begin the cursors of a list by numbers, by ends, and of
// dead letters.
const over, byNumber, byEnd, ofLetters = "-", "w", "e", "d"

func (c cursors) encode(kind string) string {
	if !slices.ContainsFunc(c, func(at string) bool { return at != over }) {
		return ""
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // texts
	}
	return kind + base64.RawURLEncoding.EncodeToString(text)
}

func (w *Wide) decodeCursors(kind, text string) (cursors, error) {
	c := make(cursors, len(w.databases))
	if text == "" {
		return c, nil
	}
	var read cursors
	encoded, _ := strings.CutPrefix(text, kind)
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil || len(read) != len(c) || read.encode(kind) != text {
		return nil, fmt.Errorf("%w: expected one that a list has returned, found %q", store.ErrBadCursor, text)
	}
	return read, nil
}

// page is a page of one database.
type page[T any] struct {
	rows []T
	next string
}

// merge asks databases for their pages, and returns the first rows of all.
func merge[T any](ctx context.Context, w *Wide, which map[int]bool, limit int, kind, cursor string,
	ask func(s *Store, cursor string) (page[T], error), before func(a, b *T) bool, cursorOf func(*T) string,
) (rows []T, next string, err error) {
	at, err := w.decodeCursors(kind, cursor)
	if err != nil {
		return nil, "", err
	}
	open := map[int]bool{}
	for i := range at {
		if which != nil && !which[i] {
			at[i] = over
		}
		if at[i] != over {
			open[i] = true
		}
	}
	pages := make([]page[T], len(w.databases))
	if err := w.each(ctx, open, func(index int, s *Store) (err error) {
		pages[index], err = ask(s, at[index])
		return err
	}); err != nil {
		return nil, "", err
	}
	taken := make([]int, len(pages))
	for len(rows) < limit {
		first := -1
		for i := range pages {
			if taken[i] < len(pages[i].rows) &&
				(first < 0 || before(&pages[i].rows[taken[i]], &pages[first].rows[taken[first]])) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		rows = append(rows, pages[first].rows[taken[first]])
		taken[first]++
	}
	for i := range pages {
		switch n := len(pages[i].rows); {
		case !open[i]:
		case taken[i] == n && pages[i].next == "":
			at[i] = over
		case taken[i] == n:
			at[i] = pages[i].next
		case taken[i] > 0:
			at[i] = cursorOf(&pages[i].rows[taken[i]-1])
		}
	}
	return rows, at.encode(kind), nil
}

// List implements store.Store. The newest is the one that was created last; runs of one moment
// come in the order of their numbers.
func (w *Wide) List(ctx context.Context, f store.Filter) (store.Page, error) {
	cursor := f.Cursor
	f.Cursor = ""
	limit, _, err := f.Bounds()
	if err != nil {
		return store.Page{}, err
	}
	kind := byNumber
	if f.ByEnded {
		kind = byEnd
	}
	ask := func(s *Store, cursor string) (page[store.Run], error) {
		own := f
		own.Cursor = cursor
		p, err := s.List(ctx, own)
		return page[store.Run]{p.Runs, p.Next}, err
	}
	rows, next, err := merge(ctx, w, w.concerned(&f), limit, kind, cursor, ask, func(a, b *store.Run) bool {
		if f.ByEnded {
			return store.PlaceOf(a).Before(store.PlaceOf(b))
		}
		return cmp.Or(cmp.Compare(b.Created, a.Created), cmp.Compare(b.No, a.No)) < 0
	}, func(r *store.Run) string {
		if f.ByEnded {
			return store.PlaceOf(r).Encode()
		}
		return store.EncodeCursor(r.No)
	})
	return store.Page{Runs: rows, Next: next}, err
}

// DeadLetters implements store.Store.
func (w *Wide) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	cursor := f.Cursor
	f.Cursor = ""
	limit, _, err := f.Bounds()
	if err != nil {
		return store.DeadPage{}, err
	}
	var which map[int]bool
	if len(f.Nos) > 0 {
		which = map[int]bool{}
		for _, no := range f.Nos {
			which[ofNo(w.place, no)] = true
		}
	}
	ask := func(s *Store, at string) (page[store.DeadLetter], error) {
		own := f
		own.Cursor = at
		p, err := s.DeadLetters(ctx, own)
		return page[store.DeadLetter]{p.Letters, p.Next}, err
	}
	rows, next, err := merge(ctx, w, which, limit, ofLetters, cursor, ask, func(a, b *store.DeadLetter) bool {
		return cmp.Or(cmp.Compare(b.Item.Sent, a.Item.Sent), cmp.Compare(b.Item.No, a.Item.No)) < 0
	}, func(l *store.DeadLetter) string { return store.EncodeCursor(store.RunNo(l.Item.No)) })
	return store.DeadPage{Letters: rows, Next: next}, err
}

// Count implements store.Store.
func (w *Wide) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	cursor := f.Cursor
	f.Cursor = ""
	if _, err := w.decodeCursors(byNumber, cursor); err != nil {
		return nil, err
	}
	if _, _, err := f.Bounds(); err != nil {
		return nil, err
	}
	counts := storekit.Counts{}
	var mu sync.Mutex
	err := w.each(ctx, w.concerned(&f), func(_ int, s *Store) error {
		tallies, err := s.Count(ctx, f)
		mu.Lock()
		defer mu.Unlock()
		for _, t := range tallies {
			counts[storekit.Counted{Workflow: t.Workflow, Status: t.Status}] += t.Runs
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return counts.Tallies(f.Most), nil
}

// Doctor checks each database, see Store.Doctor. One that is away is a finding.
func (w *Wide) Doctor(ctx context.Context) (all []Finding, err error) {
	for i := range w.databases {
		var findings []Finding
		s, err := w.at(ctx, i)
		if err == nil {
			findings, err = s.Doctor(ctx)
		}
		name := w.Databases()[i]
		there := Finding{What: name + ": the database is there", OK: err == nil, Detail: "it answers"}
		if err != nil {
			there.Detail = err.Error()
		}
		all = append(all, there)
		for _, f := range findings {
			f.What = name + ": " + f.What
			all = append(all, f)
		}
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			return all, err
		}
	}
	return all, nil
}

var (
	_ store.Transactor[pgx.Tx] = (*Wide)(nil)
	_ store.Recorder[pgx.Tx]   = (*Wide)(nil)
	_ store.Transactors        = (*Wide)(nil)
)

// on returns the index of the database that a transaction is on.
func (w *Wide) on(q func(s *Store) querier) (int, *Store, error) {
	var failed error
	for i, d := range w.databases {
		s := d.get()
		if s == nil {
			continue
		}
		var there bool
		if _, err := q(s).row("SELECT to_regclass($1) IS NOT NULL", []any{s.sql("stet.meta")}, &there); err != nil {
			failed = err
			continue
		}
		if !there {
			continue
		}
		var id string
		if _, err := q(s).row("SELECT value FROM stet.meta WHERE key='id'", nil, &id); err != nil {
			failed = err
		} else if id == s.id {
			return i, s, nil
		}
	}
	if failed != nil {
		return 0, nil, failed
	}
	return 0, nil, fmt.Errorf("%w: expected a transaction on one of the databases of the store %s, found one on another",
		store.ErrInvalid, w.place.Store)
}

// at checks that a run is at home where a transaction is.
func (w *Wide) here(what string, home, on int) error {
	if home == on {
		return nil
	}
	names := w.Databases()
	return fmt.Errorf("%w: %s is at home in database %d (%s), and the transaction is on database %d (%s): begin it "+
		"on the first, which Home names, or take an ID from NewID", store.ErrInvalid, what, home, names[home], on, names[on])
}

// ApplyTx is Store.ApplyTx. The runs that the commands start, or are for, must be at home in the
// database of the transaction, see Home.
func (w *Wide) ApplyTx(ctx context.Context, t pgx.Tx, commands []store.Command) ([]store.Answer, error) {
	return w.applyTx(func(s *Store) querier { return pgxQuerier{ctx, t, s} }, commands)
}

func (w *Wide) applyTx(q func(*Store) querier, commands []store.Command) ([]store.Answer, error) {
	if w.closed.Load() {
		return nil, store.ErrClosed
	}
	if err := storekit.ValidateCommands(commands); err != nil {
		return nil, err
	}
	if err := storekit.RefuseLines(commands); err != nil {
		return nil, err
	}
	if err := w.checkCommands(commands); err != nil {
		return nil, err
	}
	index, s, err := w.on(q)
	if err != nil {
		return nil, err
	}
	var posts []post
	for i := range commands {
		c := &commands[i]
		what := fmt.Sprintf("run number %d", c.RunNo)
		if c.Start != nil {
			what = fmt.Sprintf("the run %q", c.Start.ID)
		} else if c.RunNo == 0 {
			what = fmt.Sprintf("the run %q", c.RunID)
		}
		if err := w.here(what, w.place.of(c), index); err != nil {
			return nil, err
		}
		if ask := w.place.asks(c); ask != nil {
			ask.start = i
			posts = append(posts, *ask)
		}
	}
	answers, err := s.applyTx(q(s), commands)
	if err != nil {
		return nil, err
	}
	for _, p := range posts {
		if a := &answers[p.start]; a.Outcome != store.Applied || a.Run.Status != store.Queued {
			continue
		}
		if err := writeLoose(q(s), []post{p}); err != nil {
			return nil, fmt.Errorf("apply commands: %w", err)
		}
	}
	return answers, nil
}

// RecordTx is Store.RecordTx. The run must be at home in the database of the transaction.
func (w *Wide) RecordTx(ctx context.Context, t pgx.Tx, r *store.Recording) (store.Verdict, *store.Entry, error) {
	s, err := recordsOn(w, func(s *Store) querier { return pgxQuerier{ctx, t, s} }, r)
	if err != nil {
		return 0, nil, joinRollback(err, w.RollbackTx(ctx, t))
	}
	return s.RecordTx(ctx, t, r)
}

func recordsOn(w *Wide, q func(*Store) querier, r *store.Recording) (*Store, error) {
	if w.closed.Load() {
		return nil, store.ErrClosed
	}
	index, s, err := w.on(q)
	if err == nil {
		err = w.here(fmt.Sprintf("run number %d", r.Run), ofNo(w.place, r.Run), index)
	}
	return s, err
}

func joinRollback(err, rollback error) error {
	if rollback != nil {
		return fmt.Errorf("%w; %w", err, rollback)
	}
	return err
}

// RollbackTx is Store.RollbackTx.
func (w *Wide) RollbackTx(ctx context.Context, t pgx.Tx) error { return w.first().RollbackTx(ctx, t) }

// TransactorAs implements store.Transactors, as Store does.
func (w *Wide) TransactorAs(target any) bool {
	switch t := target.(type) {
	case *store.Transactor[*sql.Tx]:
		*t = wideTransactor{w}
	case *store.Recorder[*sql.Tx]:
		*t = wideTransactor{w}
	default:
		return false
	}
	return true
}

type wideTransactor struct{ w *Wide }

// ApplyTx implements store.Transactor.
func (t wideTransactor) ApplyTx(ctx context.Context, tx *sql.Tx, commands []store.Command) ([]store.Answer, error) {
	return t.w.applyTx(func(s *Store) querier { return sqlQuerier{ctx, tx, s} }, commands)
}

// RecordTx implements store.Recorder.
func (t wideTransactor) RecordTx(ctx context.Context, tx *sql.Tx, r *store.Recording) (store.Verdict, *store.Entry,
	error) {
	s, err := recordsOn(t.w, func(s *Store) querier { return sqlQuerier{ctx, tx, s} }, r)
	if err != nil {
		return 0, nil, joinRollback(err, t.RollbackTx(ctx, tx))
	}
	return sqlTransactor{s}.RecordTx(ctx, tx, r)
}

// RollbackTx implements store.Recorder.
func (t wideTransactor) RollbackTx(ctx context.Context, tx *sql.Tx) error {
	return sqlTransactor{t.w.first()}.RollbackTx(ctx, tx)
}
