package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/relay"
	"github.com/stet-run/stet/store/storekit"
)

// Wide is an open store over several Postgres databases. It is safe for concurrent use.
//
// Each slot is in one of the databases, and a run with all that belongs to it in that of its
// slot: Home says which. An engine works on each database by leases and group commits of its own,
// so the work that they take adds up, and one that is away stops its runs alone.
//
// An act on several databases is one act on each, as package store says under "Several servers".
// What a run sends to one in another database is noted in its own act, and arrives there once, in
// the order of sending. Lists and counts ask all databases, and fail if one is away.
type Wide struct {
	separator
	cfg       config
	databases []*database // by index
	place     *placement
	latest    *latest
	relay     *relay.Relay
	heard     *storekit.Changes
	lanes     []store.Store
	process   int64 // names this handle among all
	calls     atomic.Int64

	ctx    context.Context // ends with the store
	cancel context.CancelFunc
	done   sync.WaitGroup
	listen sync.Once
	closed atomic.Bool

	mu    sync.Mutex
	acked map[boot][]int64 // by database: the number of the last batch whose result the boot knows
	under map[int64]*call  // by number: calls that wait for answers
}

type boot struct{ node, boot string }

var (
	_ store.Store     = (*Wide)(nil)
	_ store.Laned     = (*Wide)(nil)
	_ store.Separator = (*lane)(nil)
)

// database is one of several of a store. It may be away when the store is opened.
type database struct {
	w    *Wide
	dsn  string
	opts []Option
	name string // for errors, without the password

	mu    sync.Mutex
	store *Store // nil: it was not there yet
	tried time.Time
	err   error
	id    string        // of what is in it, once it was open
	left  chan struct{} // closed when it was found elsewhere than store is
}

// maxDatabases bounds the databases of a store.
const maxDatabases = 64

// OpenAll opens the store over the databases that dsns name, each as for Open; they may be on
// several servers, or schemas of one database. If none of them has a store one is made, with its
// slots spread evenly; then all must be there. Afterwards some may be away: what is in them
// waits until they are back. The order of dsns is of no importance, but none may be missing or
// new. Options are those of Open, for each database; Conns too.
//
// It is younger than Open: docs/operations/databases.md says what is proved and what is not. A wrapper
// of it needs its lanes, see store.WrapLanes.
//
// Errors are those of Open. store.ErrInvalid also if the databases are not those of one store,
// or one of them has a store of its own.
func OpenAll(ctx context.Context, dsns []string, opts ...Option) (*Wide, error) {
	if len(dsns) < 2 || len(dsns) > maxDatabases {
		return nil, fmt.Errorf("open the store over several databases: %w: expected 2 to %d addresses, found %d; for one "+
			"database use Open", store.ErrInvalid, maxDatabases, len(dsns))
	}
	w := &Wide{
		latest: &latest{}, heard: storekit.NewChanges(), acked: map[boot][]int64{}, under: map[int64]*call{},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	var id [8]byte
	rand.Read(id[:])
	w.process = int64(binary.BigEndian.Uint64(id[:]) >> 1)
	opts = append(opts[:len(opts):len(opts)], func(c *config) { c.several = true })
	for i, dsn := range dsns {
		w.databases = append(w.databases, &database{w: w, dsn: dsn, opts: opts, name: fmt.Sprint("database ", i+1),
			left: make(chan struct{})})
	}
	if err := w.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the store over %d databases: %w", len(dsns), err), w.Close())
	}
	return w, nil
}

func (w *Wide) open(ctx context.Context) error {
	errs := make([]error, len(w.databases))
	var opening sync.WaitGroup
	for i, d := range w.databases {
		opening.Go(func() { _, errs[i] = d.open(ctx) })
	}
	opening.Wait()
	var away []error
	for i, err := range errs {
		switch {
		case errors.Is(err, store.ErrUnavailable):
			away = append(away, fmt.Errorf("%s: %w", w.databases[i].name, err))
		case err != nil:
			return fmt.Errorf("%s: %w", w.databases[i].name, err)
		}
	}
	if err := w.settle(ctx, errors.Join(away...)); err != nil {
		return err
	}
	w.cfg = w.first().cfg
	w.relay = relay.New(relay.Config{Port: outboxes{w}, Chunk: deliverChunk, Log: w.cfg.log,
		Away: func(err error) bool { return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) }})
	for i := range w.databases {
		w.lanes = append(w.lanes, &lane{w, i})
	}
	return nil
}

// first returns a database that is there.
func (w *Wide) first() *Store {
	for _, d := range w.databases {
		if s := d.get(); s != nil {
			return s
		}
	}
	return nil
}

// settle finds out, or decides, which slots are in which database, and puts them in their order.
func (w *Wide) settle(ctx context.Context, away error) error {
	for _, d := range w.databases {
		s := d.get()
		if s == nil || s.seat == nil {
			continue
		}
		if w.place == nil {
			w.place = s.seat.placement.in(0)
		}
		if !w.place.equal(s.seat.placement) {
			return fmt.Errorf("%w: expected databases of one store, found %s of the store %s and another of the store %s",
				store.ErrInvalid, d.name, s.seat.Store, w.place.Store)
		}
	}
	switch {
	case w.place != nil && w.place.Count != len(w.databases):
		return fmt.Errorf("%w: expected the addresses of all %d databases of the store %s, found %d", store.ErrInvalid,
			w.place.Count, w.place.Store, len(w.databases))
	case w.place == nil && away != nil:
		return fmt.Errorf("expected all databases to be there when the store is made: %w", away)
	case w.place == nil:
		id := make([]byte, 16)
		rand.Read(id)
		w.place = newPlacement(hex.EncodeToString(id), len(w.databases), w.databases[0].get().slots)
	}
	if err := refuseEmpty(ctx, w); err != nil {
		return err
	}
	sorted := make([]*database, len(w.databases))
	var rest []*database
	for _, d := range w.databases {
		if s := d.get(); s == nil || s.seat == nil {
			rest = append(rest, d)
		} else if i := s.seat.Index; sorted[i] != nil {
			return fmt.Errorf("%w: expected each database once, found %s and %s to be the same", store.ErrInvalid,
				sorted[i].name, d.name)
		} else {
			sorted[i] = d
		}
	}
	for i := range sorted {
		if sorted[i] == nil {
			sorted[i], rest = rest[0], rest[1:]
		}
	}
	w.databases = sorted
	for i, d := range w.databases {
		if s := d.get(); s != nil {
			if err := takeSeat(ctx, w, d, s, i); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		}
	}
	return nil
}

// refuseEmpty returns an error if a database is empty, and others have been used: what was in it would be missing.
func refuseEmpty(ctx context.Context, w *Wide) error {
	var empty *database
	used := false
	for _, d := range w.databases {
		s := d.get()
		switch {
		case s == nil:
		case s.seat == nil:
			empty = d
		case !used:
			err := s.single(ctx, "look whether the store was used", func(t *tx) error {
				_, err := t.row("SELECT EXISTS (SELECT FROM stet.leases) OR EXISTS (SELECT FROM stet.runs)", nil, &used)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	if empty != nil && used {
		return fmt.Errorf("%w: expected a database of the store %s, found an empty one, %s, beside others that were used: "+
			"name the address at which it is, or restore it", store.ErrInvalid, w.place.Store, empty.name)
	}
	return nil
}

// takeSeat gives a database its place, if it has none yet, and checks it.
func takeSeat(ctx context.Context, w *Wide, d *database, s *Store, index int) error {
	if s.slots != len(w.place.Slots) {
		return fmt.Errorf("%w: expected %d slots, found %d", store.ErrInvalid, len(w.place.Slots), s.slots)
	}
	if s.seat == nil {
		stands, err := makeSeat(ctx, s, w.place.in(index))
		if err != nil {
			return err
		}
		if index == 0 { // another process may make the store too: the first database decides
			w.place = stands.in(0)
		}
		s.seat = &seat{placement: stands}
	}
	if !w.place.equal(s.seat.placement) || s.seat.Index != index {
		return fmt.Errorf("%w: expected database %d of the store %s, found number %d of the store %s", store.ErrInvalid,
			index+1, w.place.Store, s.seat.Index+1, s.seat.Store)
	}
	s.seat.parents = w.parents
	return nil
}

// makeSeat makes an empty database one of several, and returns the place that it has then.
func makeSeat(ctx context.Context, s *Store, p *placement) (stands *placement, err error) {
	err = s.write(ctx, "make a store over several databases", lockLimit, func(t *tx, _ store.Time) error {
		if _, err := t.exec("LOCK TABLE stet.migrations IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		var text string
		there, err := t.row("SELECT value FROM stet.meta WHERE key=$1", []any{placementKey}, &text)
		if err != nil {
			return err
		}
		if there {
			stands, err = decodePlacement(text, s.slots)
			return err
		}
		var used bool
		if _, err := t.row("SELECT EXISTS (SELECT FROM stet.leases) OR EXISTS (SELECT FROM stet.runs)", nil,
			&used); err != nil {
			return err
		}
		if used {
			return fmt.Errorf("%w: expected an empty store, found one in schema %s that was used by itself: a store in one "+
				"database stays there; give the new one another schema", store.ErrInvalid, s.schema)
		}
		stands = p
		if _, err := t.exec("INSERT INTO stet.meta (key, value) VALUES ($1, $2)", placementKey, p.encode()); err != nil {
			return err
		}
		// A binary that does not know of several databases must not open it.
		if _, err := t.exec("UPDATE stet.migrations SET oldest=number WHERE name='0002_databases.sql'"); err != nil {
			return err
		}
		return t.numberBySlots(s.slots)
	})
	return stands, err
}

// numberBySlots makes the triggers by which numbers tell their slot.
func (t *tx) numberBySlots(slots int) error {
	for _, of := range [][2]string{{"runs", "number_run"}, {"inbox", "number_item"}} {
		if _, err := t.exec(fmt.Sprintf("CREATE TRIGGER number BEFORE INSERT ON stet.%s FOR EACH ROW "+
			"EXECUTE FUNCTION stet.%s('%d')", of[0], of[1], slots)); err != nil {
			return err
		}
	}
	return nil
}

// get returns the open database, or nil.
func (d *database) get() *Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.store
}

const (
	// reopenPause is how long there is between two tries to open a database that is away.
	reopenPause = time.Second
	// reopenLimit bounds one of them.
	reopenLimit = 5 * time.Second
)

// open opens the database, where it is now.
func (d *database) open(ctx context.Context) (*Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.store != nil && !d.store.missing.Load() {
		return d.store, nil
	}
	s, pc, err := prepare(d.dsn, d.opts)
	if err != nil {
		return nil, err
	}
	d.name = fmt.Sprintf("%s at %s, schema %s", pc.ConnConfig.Database, pc.ConnConfig.Host, s.schema)
	dsn, opts, id, err := follow(ctx, d.dsn, d.opts)
	switch {
	case err != nil:
		return nil, err
	case d.id != "" && id != d.id:
		return nil, fmt.Errorf("%w: expected the database with the ID %s of the store, found %q", store.ErrUnavailable,
			d.id, id)
	case d.store != nil && dsn == d.dsn:
		d.store.missing.Store(false) // another table was missing
		return d.store, nil
	}
	if s, pc, err = prepare(dsn, opts); err != nil {
		return nil, err
	}
	s.cfg.existing = id != "" // otherwise an empty one would be made in the place of one that moves now
	s.latest = d.w.latest
	d.name = fmt.Sprintf("%s at %s, schema %s", pc.ConnConfig.Database, pc.ConnConfig.Host, s.schema)
	if err := s.open(ctx, pc); err != nil {
		return nil, errors.Join(s.classify(ctx, "open", err), s.Close())
	}
	if d.store != nil {
		s.log.Warn("a database of the store has moved", "to", d.name)
		retire(d.w, d.store)
		close(d.left)
		d.left = make(chan struct{})
	}
	d.store, d.dsn, d.opts, d.id = s, dsn, opts, s.id
	return s, nil
}

// retire closes a store whose database has moved. Acts on it may be under way.
func retire(w *Wide, s *Store) {
	s.retired.Store(true)
	w.done.Go(func() {
		if err := s.Close(); err != nil {
			s.log.Warn("the connections to a database that has moved", "error", err)
		}
	})
}

// moved returns a channel that is closed when the database is found elsewhere.
func (d *database) moved() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left
}

// at returns a database. One that was away when the store was opened, or has moved since, is opened now.
func (w *Wide) at(ctx context.Context, index int) (*Store, error) {
	d := w.databases[index]
	if s := d.get(); s != nil && !s.missing.Load() {
		return s, nil
	}
	if w.closed.Load() {
		return nil, store.ErrClosed
	}
	d.mu.Lock()
	if time.Since(d.tried) < reopenPause {
		defer d.mu.Unlock()
		return nil, d.err
	}
	d.tried = time.Now()
	d.err = fmt.Errorf("%s: %w: it is being opened", d.name, store.ErrUnavailable)
	d.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, reopenLimit)
	defer cancel()
	s, err := d.open(limited)
	if err == nil {
		err = takeSeat(limited, w, d, s, index)
	}
	if err == nil && w.closed.Load() {
		err = errors.Join(store.ErrClosed, s.Close())
	}
	if err != nil {
		if limited.Err() != nil && !errors.Is(err, store.ErrClosed) { // others get the error, too
			err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.err = fmt.Errorf("%s: %w", d.name, err); s != nil { // it is another one
			d.store = nil
			retire(w, s)
		}
		return nil, d.err
	}
	w.heard.Add(store.Anything())
	return s, nil
}

// Close closes the connections. Leases that are held stay until they end.
func (w *Wide) Close() error {
	if w.closed.Swap(true) {
		return nil
	}
	w.cancel()
	if w.relay != nil {
		w.relay.Close()
	}
	var errs []error
	for _, d := range w.databases {
		if s := d.get(); s != nil {
			errs = append(errs, s.Close())
		}
	}
	w.done.Wait()
	return errors.Join(errs...)
}

// Home returns the index of the database that has, or would have, the run with an ID, and
// Databases their names by index. A transaction that starts a run, or in which a step of a run
// is executed, must be on that database.
func (w *Wide) Home(runID string) int { return w.place.Slots[w.place.slotOf(runID)] }

// Databases returns for each database, by index, its name, server and schema.
func (w *Wide) Databases() []string {
	names := make([]string, len(w.databases))
	for i, d := range w.databases {
		d.mu.Lock()
		names[i] = d.name
		d.mu.Unlock()
	}
	return names
}

// NewID returns a random ID of a run that is at home in the database with an index, for a start
// in a transaction on that.
func (w *Wide) NewID(database int) string {
	for {
		var id [16]byte
		rand.Read(id[:])
		if text := hex.EncodeToString(id[:]); w.Home(text) == database {
			return text
		}
	}
}

// Lanes implements store.Laned.
func (w *Wide) Lanes() []store.Store { return w.lanes }

// LaneOf implements store.Laned.
func (w *Wide) LaneOf(slot int) int { return w.place.Slots[slot] }

// SlotOf implements store.Laned.
func (w *Wide) SlotOf(run store.RunNo) int { return slot(w.place, run) }

// each calls fn for the databases with these indices, at the same time; nil: for all.
func (w *Wide) each(ctx context.Context, which map[int]bool, fn func(index int, s *Store) error) error {
	if w.closed.Load() {
		return store.ErrClosed
	}
	errs := make([]error, len(w.databases))
	var asked sync.WaitGroup
	for i := range w.databases {
		if which != nil && !which[i] {
			continue
		}
		asked.Go(func() {
			s, err := w.at(ctx, i)
			if err == nil {
				err = fn(i, s)
			}
			errs[i] = err
		})
	}
	asked.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Changed implements store.Store.
func (w *Wide) Changed(ctx context.Context) (store.Change, error) {
	w.listen.Do(func() {
		for i := range w.databases {
			w.done.Go(func() { w.hear(i) })
		}
	})
	if w.closed.Load() {
		return store.Change{}, store.ErrClosed
	}
	select {
	case <-w.heard.Some():
		return w.heard.Take(), nil
	case <-w.ctx.Done():
		return store.Change{}, store.ErrClosed
	case <-ctx.Done():
		return store.Change{}, ctx.Err()
	}
}

// hear listens to one database, wherever it is.
func (w *Wide) hear(index int) {
	for w.ctx.Err() == nil {
		moved := w.databases[index].moved()
		if s, err := w.at(w.ctx, index); err == nil {
			hearAt(w, s, moved)
		}
		select {
		case <-time.After(reopenPause):
		case <-w.ctx.Done():
		}
	}
}

// hearAt listens until that fails, or the database has moved.
func hearAt(w *Wide, s *Store, moved <-chan struct{}) {
	ctx, cancel := context.WithCancel(w.ctx)
	w.done.Go(func() {
		select {
		case <-moved:
			cancel()
		case <-ctx.Done():
		}
	})
	defer cancel()
	for {
		what, err := s.Changed(ctx)
		if err != nil {
			return
		}
		w.heard.Add(what)
	}
}

// parents asks the databases of parents which of some runs these need. The runs of one that does
// not answer soon count as needed.
func (w *Wide) parents(ctx context.Context, of []child) (kept []int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, idleLimit/2)
	defer cancel()
	byHome := map[int][]child{}
	for _, c := range of {
		home := ofNo(w.place, c.parent)
		byHome[home] = append(byHome[home], c)
	}
	for home, list := range byHome {
		var needed []int64
		s, err := w.at(ctx, home)
		if err == nil {
			needed, err = childrenOf(ctx, s, list)
		}
		if err != nil {
			for _, c := range list {
				needed = append(needed, c.run)
			}
		}
		kept = append(kept, needed...)
	}
	return kept, nil
}

// deliverChunk is how many posts are delivered in one act.
const deliverChunk = 256

// outboxes implements relay.Port. Its places are databases.
type outboxes struct{ w *Wide }

// portLimit bounds the calls of a relay.
const portLimit = 15 * time.Second

// Waiting implements relay.Port.
func (o outboxes) Waiting(ctx context.Context, from []int) (list []map[int]int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, portLimit)
	defer cancel()
	for _, index := range from {
		s, err := o.w.at(ctx, index)
		if err != nil {
			return nil, err
		}
		first, err := waitingPosts(ctx, s)
		if err != nil {
			return nil, err
		}
		list = append(list, first)
	}
	return list, nil
}

// Read implements relay.Port.
func (o outboxes) Read(ctx context.Context, from, to int, arrived []int64, limit int) ([]relay.Post, error) {
	ctx, cancel := context.WithTimeout(ctx, portLimit)
	defer cancel()
	s, err := o.w.at(ctx, from)
	if err != nil {
		return nil, err
	}
	return readPosts(ctx, s, to, arrived, limit)
}

// Deliver implements relay.Port.
func (o outboxes) Deliver(ctx context.Context, from, to int, posts []relay.Post, _ bool) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, portLimit)
	defer cancel()
	return o.w.deliver(ctx, from, to, posts, nil)
}

// Server implements relay.Port.
func (o outboxes) Server(index int) int { return index }

func (w *Wide) deliver(ctx context.Context, from, to int, posts []relay.Post, caller *call) ([]int, error) {
	s, err := w.at(ctx, to)
	if err != nil {
		return nil, err
	}
	list, next, err := deliver(ctx, s, from, posts, caller)
	for i := range list {
		if a := &list[i]; err == nil && a.fresh && a.Process == w.process {
			w.mu.Lock()
			c := w.under[a.Call]
			w.mu.Unlock()
			c.answer(a.Send, a.answer)
		}
	}
	return next, err
}
