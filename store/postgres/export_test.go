package postgres

import (
	"context"
	"io/fs"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// ReadTime makes a store believe that it has just read a time from the server.
func ReadTime(s *Store, now store.Time) { s.observe(now) }

// TurnByTurn makes the Store write every batch turn by turn.
func TurnByTurn() Option { return func(c *config) { c.turnByTurn = true } }

// Patient lets transactions stand still for long: for tests that a slow machine is no
// part of, and that do not try again what was cut off.
func Patient() Option { return func(c *config) { c.idle = time.Minute } }

// OpenWatched is Open for connections with more settings, whose notices are handed to
// a function that may be called concurrently.
func OpenWatched(ctx context.Context, dsn string, settings map[string]string, notice func(*pgconn.Notice),
	opts ...Option) (*Store, error) {
	s, pc, err := prepare(dsn, opts)
	if err != nil {
		return nil, err
	}
	cc := pc.ConnConfig
	for key, value := range settings {
		cc.RuntimeParams[key] = value
	}
	told := cc.OnNotice
	cc.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		told(c, n)
		notice(n)
	}
	return s, s.open(ctx, pc)
}

// CanBecome is what statements ask about a change of status.
var CanBecome = canBecome

// Classify is what a store makes of an error of the server or the driver.
func Classify(ctx context.Context, err error) error { return new(Store).classify(ctx, "act", err) }

// SQLState is the code of an error.
var SQLState = sqlState

// HoldReaders takes all connections of readers until the test ends.
func HoldReaders(t testing.TB, s *Store) {
	t.Helper()
	for range s.pool.Config().MaxConns {
		conn, err := s.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Release)
	}
}

// SnapshotLimit sets how long somebody's transaction may be open before Doctor names it.
func SnapshotLimit(d time.Duration) Option { return func(c *config) { c.snapshot = d } }

// RestAt sets how many items that make no run ready are put to rest.
func RestAt(n int64) Option { return func(c *config) { c.restAt = n } }

// KeptBatches sets how many batches of a boot are kept.
func KeptBatches(n int) Option { return func(c *config) { c.kept = n } }

// MigrationFiles are those that the Store brings.
func MigrationFiles() fs.FS { return migrationFiles }

// Migrations puts other files in their place.
func Migrations(files fs.FS) Option { return func(c *config) { c.files = files } }

// Existing says that the schema was seen.
func Existing() Option { return func(c *config) { c.existing = true } }

// MoveSteps has Move call step after each statement. It ends as a killed process does when step returns an error.
func MoveSteps(step func(statement string) error) Option { return func(c *config) { c.moved = step } }

// SlotOfID returns the slot of a run's ID in a store over several databases.
func SlotOfID(w *Wide, id string) int { return w.place.slotOf(id) }

// RestAlone sets how long the witness of a process that has found no other rests. It is for a
// store that has no node yet.
func RestAlone(s *Store, d time.Duration) { s.witnesses.Alone = d }

// ProcessOfRow returns what a witness knows of a node's process, by the node's row.
func ProcessOfRow(ctx context.Context, s *Store, node string) (p storekit.Process, err error) {
	err = s.single(ctx, "read a node", func(t *tx) error {
		var info []byte
		_, err := t.row("SELECT info FROM stet.nodes WHERE node=$1", []any{node}, &info)
		p = processOf(info)
		return err
	})
	return p, err
}

// StartTogether is Apply for starts, written by sets or not at all.
func StartTogether(ctx context.Context, s *Store, commands []store.Command) error {
	q := s.newStartSet(commands)
	if q == nil {
		return errNotAtOnce
	}
	return s.writeAfter(ctx, "start together", waitLimit, q, func(*tx, store.Time) error { return nil })
}

// Warmed waits until the connections that a registration has requested are there: for tests that count what goes to the
// server.
func (s *Store) Warmed() { s.warming.Wait() }

// Connections returns how many connections for claims and for commits there are.
func (s *Store) Connections() (claims, commits int32) {
	return s.looking.Stat().TotalConns(), s.commits.Stat().TotalConns()
}
