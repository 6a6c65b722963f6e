package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Store is an open store in a Postgres database. It is safe for concurrent use.
type Store struct {
	separator
	cfg    config
	schema string
	pool   *pgxpool.Pool
	// commits has the one connection of group commits: a server's session learns
	// their statement once, which takes longer than some hundred commits.
	commits *pgxpool.Pool
	leasing *pgxpool.Pool // of leases and heartbeats; nil: that of readers
	looking *pgxpool.Pool // of claims; nil: that of readers
	log     *slog.Logger

	id      string
	version int // of the schema
	slots   int
	durable string
	servers succession
	pooled  bool // behind a pooler that gives each transaction another session, but for hints and the witness

	// writing holds a token while an act changes rows that other acts of this process
	// change as well, so that they do not wait for each other's row locks.
	writing chan struct{}
	waiting chan struct{} // holds a token while a command that waits for a lock has a connection
	acts    atomic.Int64  // how many such acts have begun
	fence   known         // of group commits; guarded by writing
	claimed claimedRun    // of the last group commit, under fence; guarded by writing
	batches batches       // guarded by writing
	flat    flatBatch     // room for the next group commit; guarded by writing
	claims  atomic.Pointer[known]
	hint    hints
	scarce  scarcity

	promises promises

	beats beats
	ahead storekit.AheadLeases

	witnesses storekit.Witnesses

	committed, looked pulse // of commits; of claims

	registered atomic.Pointer[storekit.Life] // the latest; nil: none
	warming    sync.WaitGroup                // see warm

	latest *latest // shared by the databases of a store
	seat   *seat   // which one of several databases this is; nil: the only one

	texts     sync.Map // statements with the schema's name
	textCount atomic.Int64
	closed    atomic.Bool
	retired   atomic.Bool // the database has moved, and another Store has taken the place of this one
	missing   atomic.Bool // the server has said that the schema, or a table, is not there: it may have moved
}

var _ store.Store = (*Store)(nil)

type config struct {
	schema     string
	slots      int
	conns      int32
	pooled     bool
	several    bool   // it may be one of the databases of a store over several ones
	existing   bool   // the schema was seen: if it is gone it has moved, and none is made in its place
	direct     string // the server's own address; "": it is that of the store
	lossy      bool
	turnByTurn bool          // every batch is written turn by turn
	kept       int           // keptBatches, but in tests
	restAt     int64         // so many items that make no run ready are put to rest, see rest.go
	idle       time.Duration // idleLimit, but in tests
	snapshot   time.Duration // snapshotLimit, but in tests
	clock      func() time.Time
	log        *slog.Logger
	files      fs.FS                                        // with the migrations
	before     func(context.Context, *pgx.ConnConfig) error // nil: nothing is called
	password   string                                       // if the address has none
	moved      func(statement string) error                 // in tests: after each statement of Move
}

// Option is an option of Open.
type Option func(*config)

// Schema puts stet's tables into the schema of the name: 1 to 63 lower-case
// letters, digits and _, not beginning with a digit. It is made if it is not there.
// The default is "stet". Several stores may be in one database, each in a schema.
func Schema(name string) Option { return func(c *config) { c.schema = name } }

// Slots is the number of slots that a new store gets, 1 to 65,536; the default is
// 256. An existing store keeps its own, and Open ignores the option.
func Slots(n int) Option { return func(c *config) { c.slots = n } }

// Conns bounds the connections of the Store, besides the one that listens and the one by which
// the server knows that a node lives: from 2;
// the default is 8. One of them is for group commits, and from 5 on one for leases
// and heartbeats and one for claims; other acts wait for each other when all others are in
// use. If the server refuses some of them the Store works with the connections that it gets.
func Conns(n int) Option { return func(c *config) { c.conns = int32(n) } }

// Pooler says that the server is reached through a pooler in transaction mode,
// such as PgBouncer: the Store then keeps nothing in a session (no prepared
// statements, no LISTEN). Open finds that out by itself where the pooler hides the
// process number of its server sessions, as PgBouncer does.
func Pooler() Option { return func(c *config) { c.pooled = true } }

// Direct names the server itself, as dsn does in Open, where the store is reached through a pooler in transaction
// mode. Two connections of the process go there: one listens for changes, and by one the server knows that the
// node lives, so that the runs of a process that was killed go on after about a second, and not when its leases
// end. All acts go through the pooler as before. Open fails if that server cannot be reached, is itself behind such
// a pooler, is a standby, or has another store. Default: none, and the pooler itself if it is in session mode; without
// a pooler it changes nothing.
func Direct(dsn string) Option { return func(c *config) { c.direct = dsn } }

// AllowLoss accepts a server whose settings say that a crash or a power cut may take
// back acknowledged acts, for example fsync=off. For tests, and for work that can be done
// again.
func AllowLoss() Option { return func(c *config) { c.lossy = true } }

// Logger receives events outside of calls. The default is slog.Default.
func Logger(log *slog.Logger) Option { return func(c *config) { c.log = log } }

// Clock makes the store read the time from now, which is safe for concurrent use,
// in place of the server's clock. The time that it returns may go back; the store's time
// does not. For tests.
func Clock(now func() time.Time) Option { return func(c *config) { c.clock = now } }

const (
	defaultSchema = "stet"
	defaultSlots  = 256
	defaultConns  = 8
	maxSlots      = 1 << 16
)

// schemaParam names the schema in the server's address.
const schemaParam = "stet_schema"

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Open opens the store in the database that dsn names: a URL like
// postgres://user:password@host:5432/database?sslmode=verify-full, or keywords and
// values as libpq has them; missing ones come from the environment (PGHOST,
// PGUSER, PGPASSWORD, …). Its parameter stet_schema has the effect of Schema.
//
// Open makes the schema if it does not exist, brings an older one up to date, and checks
// the settings that durability depends on. ctx bounds Open alone. Errors: store.ErrInvalid
// if dsn or an option is wrong, or a setting of the server would lose acknowledged acts;
// store.ErrSchema if the schema is newer than this binary; store.ErrUnavailable if the
// server cannot be reached or the role lacks a right.
func Open(ctx context.Context, dsn string, opts ...Option) (*Store, error) {
	s, pc, err := prepare(dsn, opts)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx, pc); err != nil {
		return nil, errors.Join(s.classify(ctx, "open the store in Postgres", err), s.Close())
	}
	return s, nil
}

// prepare returns a Store that is not yet open, and how its connections are made.
func prepare(dsn string, opts []Option) (*Store, *pgxpool.Config, error) {
	cfg := config{schema: defaultSchema, slots: defaultSlots, conns: defaultConns, idle: idleLimit,
		files: migrationFiles, snapshot: snapshotLimit, kept: keptBatches, restAt: restAt, log: slog.Default()}
	for _, opt := range opts {
		opt(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, nil, err
	}
	s := &Store{cfg: cfg, schema: cfg.schema, log: cfg.log, latest: &latest{}, writing: make(chan struct{}, 1),
		waiting: make(chan struct{}, 1)}
	s.claims.Store(&known{})
	s.servers.sql, s.servers.log = s.sql, s.log
	s.committed.others, s.looked.others = &s.beats, &s.beats
	s.hint.init(s.witnesses.Stir)
	pc, err := s.poolConfig(dsn)
	return s, pc, err
}

func (c *config) check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("open the store in Postgres: %w: %s", store.ErrInvalid, fmt.Sprintf(format, args...)))
	}
	if !schemaName.MatchString(c.schema) {
		bad("expected a schema of 1 to 63 lower-case letters, digits and _, found %q", c.schema)
	}
	if c.slots < 1 || c.slots > maxSlots {
		bad("expected 1 to %d slots, found %d", maxSlots, c.slots)
	}
	if c.conns < 2 {
		bad("expected 2 connections or more, found %d", c.conns)
	}
	return errors.Join(errs...)
}

// poolConfig returns how connections are made.
func (s *Store) poolConfig(dsn string) (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("open the store in Postgres: %w: the address of the server: %w", store.ErrInvalid, err)
	}
	pc.MaxConns, pc.BeforeConnect = s.cfg.conns, s.cfg.before
	// By default the pool pings the server before each act of an idle process.
	pc.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > pingAfter }
	cc := pc.ConnConfig
	if cc.Password == "" {
		cc.Password = s.cfg.password
	}
	if name, ok := cc.RuntimeParams[schemaParam]; ok {
		delete(cc.RuntimeParams, schemaParam)
		if !schemaName.MatchString(name) {
			return nil, fmt.Errorf("open the store in Postgres: %w: expected a %s of 1 to 63 lower-case letters, digits and _, "+
				"found %q", store.ErrInvalid, schemaParam, name)
		}
		s.schema = name
	}
	prepareDial(cc, s.log)
	pc.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		c.PgConn().CustomData()[warningsKey] = new(atomic.Int64)
		if err := s.servers.recognise(ctx, c); err != nil {
			return err
		}
		return s.confirm(ctx, c)
	}
	return pc, nil
}

// prepareDial gives a connection what all have.
func prepareDial(cc *pgx.ConnConfig, log *slog.Logger) {
	cc.DialFunc = dialer().DialContext
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "stet"
	}
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectLimit
	}
	cc.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if n.Severity != "WARNING" {
			return
		}
		if count, ok := c.CustomData()[warningsKey].(*atomic.Int64); ok {
			count.Add(1)
		}
		log.Warn("the Postgres server warns", "message", n.Message, "code", n.Code)
	}
}

// readCommitted is the isolation of all transactions: a stricter one would take heartbeats
// and commits back, which wait for each other's rows.
const readCommitted = "read committed"

// pingAfter is how long a connection rests until it is tried before it is used. It is
// longer than the pauses between two polls of an idle engine, and two renewals of its leases.
const pingAfter = 5 * time.Second

// connectLimit bounds the making of a connection.
const connectLimit = 5 * time.Second

// open connects and prepares the schema.
func (s *Store) open(ctx context.Context, pc *pgxpool.Config) error {
	probe, err := s.cfg.connect(ctx, pc.ConnConfig)
	if err != nil {
		return err
	}
	about, err := readServer(ctx, probe)
	if err == nil {
		err = about.readStandbys(ctx, probe)
	}
	if err == nil {
		err = transacts(ctx, probe)
	}
	s.pooled = s.cfg.pooled || err == nil && about.pid != int64(probe.PgConn().PID())
	if err := errors.Join(err, probe.Close(ctx)); err != nil {
		return err
	}
	if s.durable, err = about.durable(s.cfg.lossy); err != nil {
		return err
	}
	if s.pooled && about.isolation != readCommitted {
		return fmt.Errorf("%w: expected default_transaction_isolation=%s behind a pooler, which keeps no settings of a "+
			"session; found %s: set it with ALTER ROLE … SET default_transaction_isolation='%[2]s'",
			store.ErrInvalid, readCommitted, about.isolation)
	}
	if s.pooled {
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		pc.ConnConfig.StatementCacheCapacity, pc.ConnConfig.DescriptionCacheCapacity = 0, 0
	}
	s.beats.reads = about.syncNames == ""
	s.hint.listen = !s.pooled
	s.hint.config, s.hint.connect = pc.ConnConfig.Copy(), s.cfg.connect
	s.hint.schema, s.hint.log, s.hint.scarce = s.schema, s.log, &s.scarce
	recognise := pc.AfterConnect
	one := pc.Copy()
	one.MaxConns, one.MinConns = 1, 0
	one.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		if err := recognise(ctx, c); err != nil || s.pooled {
			return err
		}
		_, err := c.Exec(ctx, sessionText("false", busyLimit), pgx.QueryExecModeExec)
		return err
	}
	pc.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		if err := recognise(ctx, c); err != nil || s.pooled {
			return err
		}
		_, err := c.Exec(ctx, steadyText("false"), pgx.QueryExecModeExec)
		return err
	}
	pc.MaxConns--
	for _, pool := range []**pgxpool.Pool{&s.leasing, &s.looking} {
		if s.cfg.conns <= fewConns {
			break
		}
		pc.MaxConns--
		own := pc.Copy()
		own.MaxConns, own.MinConns = 1, 0
		if *pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), own); err != nil {
			return err
		}
	}
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), pc); err != nil {
		return err
	}
	s.hint.pool = s.pool
	if s.commits, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), one); err != nil {
		return err
	}
	if err := errors.Join(s.migrate(ctx), s.settleNew(ctx)); err != nil {
		return err
	}
	if err := s.single(ctx, "read what the store is", func(t *tx) error {
		var slots string
		if _, err := t.row("SELECT value FROM stet.meta WHERE key='id'", nil, &s.id); err != nil {
			return err
		}
		if _, err := t.row("SELECT value FROM stet.meta WHERE key='slots'", nil, &slots); err != nil {
			return err
		}
		if s.slots, err = strconv.Atoi(slots); err != nil || s.slots < 1 {
			return fmt.Errorf("%w: expected a number of slots in %s.meta, found %q", store.ErrDamaged, s.schema, slots)
		}
		if err := t.sit(); err != nil {
			return err
		}
		return t.numbered()
	}); err != nil {
		return err
	}
	return openDirect(ctx, s)
}

// transacts returns an error unless a session has transactions: a pooler in statement mode lets
// it have none.
func transacts(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "BEGIN", pgx.QueryExecModeSimpleProtocol)
	if err == nil {
		_, err = c.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol)
	}
	if code := sqlState(err); code == "08P01" || code == "0A000" {
		return fmt.Errorf("%w: expected a server that takes transactions: set pool_mode=transaction or session for this "+
			"database if the address is that of a pooler: %w", store.ErrInvalid, err)
	}
	return err
}

// settleNew notes on which server a new store is.
func (s *Store) settleNew(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return s.servers.settleNew(ctx, conn.Conn())
}

// Close closes the connections. Leases that are held stay, as those of a process
// that has died.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.hint.close()
	s.witnesses.Close()
	for _, pool := range []*pgxpool.Pool{s.pool, s.commits, s.leasing, s.looking} {
		if pool != nil {
			pool.Close()
		}
	}
	return nil
}

// enter waits until no other act of this process that changes runs is under way.
func (s *Store) enter(ctx context.Context) error {
	if s.closed.Load() {
		return s.gone()
	}
	if err := errors.Join(ctx.Err(), s.promises.refuse()); err != nil {
		return err
	}
	select {
	case s.writing <- struct{}{}:
		s.acts.Add(1)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) leave() { <-s.writing }

// times returns the time that the next act is not before, and the time of a test or nil.
func (s *Store) times() (floor int64, test any) {
	l := s.latest
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.cfg.clock != nil {
		l.now = max(l.now, store.TimeOf(s.cfg.clock()))
		return int64(l.now), int64(l.now)
	}
	return int64(floorOf(l.now, l.at)), nil
}

// latest is the latest time that says how the server's clock goes, see observe.
type latest struct {
	mu  sync.Mutex
	now store.Time
	at  time.Time // when it was read
}

// observe notes the time of an act. A time that is not after the floor says nothing new of the server's clock: to go on
// from it would lose the time that the answer took, with each answer.
func (s *Store) observe(now store.Time) {
	l := s.latest
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.now; s.cfg.clock == nil && now > floorOf(last, l.at) || s.cfg.clock != nil && now > last {
		l.now, l.at = now, time.Now()
	}
}
