package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet/store"
)

// A server that takes the place of another one, a standby that was promoted or a
// backup that was restored, writes its log on a new timeline. The store keeps the
// timeline that it was last used on, and whether commits then waited for every standby
// that there was. Each new connection reads both. If they did, every standby has all that
// was acknowledged, and the store goes on. Otherwise the last acknowledged commits may be
// lost: no connection is used until a person has confirmed that (ConfirmFailover).
//
// A standby that is far behind may be promoted with an old note of this kind. So a process
// also looks for its own last commit: if that is missing, it notes the loss, for all other
// processes too.
//
// A store may also come to a server that is no successor by its log: by logical replication,
// a dump, or pg_upgrade. The store therefore keeps the system identifier as well. On another
// system a person has to confirm too: nobody knows whether all was copied, and whether
// processes still work on the former server. The numbers of runs and items begin at 1 there,
// because logical replication copies rows, and not the state of sequences.

// The rows of meta about it.
const (
	timelineKey    = "timeline"
	replicationKey = "replication"
	systemKey      = "system"
	synchronous    = "synchronous" // the value of the latter, if commits wait for a standby
	notSynchronous = "none"        // otherwise
)

// place is where a store is in the succession of its servers.
type place struct {
	timeline    int64 // 0: unknown
	replication string
	system      string // the identifier that initdb has given; "": unknown
}

// replicationNow is whether commits wait for every standby: for as many as there are
// connections that might be promoted. Connections that copy a log or decode it cannot be; one
// of which the role may see no details might be. Each heartbeat of a node notes it as
// well, because settings and standbys change while a server runs.
const replicationNow = `CASE WHEN ` + commitsWait + `
	AND (SELECT count(*) FROM pg_stat_replication r
		WHERE coalesce(r.application_name, '') NOT IN ('pg_basebackup', 'pg_receivewal')
		AND NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid=r.pid AND s.slot_type='logical'))
		<= coalesce(substring(current_setting('synchronous_standby_names')
			FROM '^[[:space:]]*(?:[A-Za-z]+[[:space:]]+)?([0-9]+)[[:space:]]*[(]'), '1')::bigint
	THEN 'synchronous' ELSE 'none' END`

// commitsWait is whether commits wait for standbys at all. A new connection asks for it first: to plan a query of the
// views of replication takes the server longer than all else that a new connection does.
const commitsWait = `current_setting('synchronous_standby_names')<>''
	AND current_setting('synchronous_commit') NOT IN ('off', 'local')`

// readReplication returns replicationNow. waits is commitsWait.
func readReplication(ctx context.Context, c *pgx.Conn, waits bool) (replication string, err error) {
	if !waits {
		return notSynchronous, nil
	}
	err = c.QueryRow(ctx, "SELECT "+replicationNow, pgx.QueryExecModeExec).Scan(&replication)
	return replication, err
}

// placeText reads the name of a log file, which contains the timeline, commitsWait, and the system identifier.
const placeText = `SELECT CASE WHEN pg_is_in_recovery()
	THEN '' ELSE substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END, ` + commitsWait + `,
	CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
		THEN (SELECT system_identifier::text FROM pg_control_system()) ELSE '' END`

// placeOf returns where the server is.
func placeOf(ctx context.Context, c *pgx.Conn) (p place, err error) {
	var file string
	var waits bool
	err = c.QueryRow(ctx, placeText, pgx.QueryExecModeExec).Scan(&file, &waits, &p.system)
	switch code := sqlState(err); {
	case code == "42883" || code == "42704" || code == "0A000":
		return place{}, nil // a database of another kind, without timelines
	case err != nil:
		return p, err
	case file == "":
		return p, fmt.Errorf("%w: expected a primary, found a standby", store.ErrUnavailable)
	}
	if p.replication, err = readReplication(ctx, c, waits); err != nil {
		return p, err
	}
	p.timeline, err = strconv.ParseInt(file, 16, 64)
	return p, err
}

// succession knows on which server the store is, and which one may take its place. Its
// methods are safe for concurrent use.
type succession struct {
	sql      func(text string) string // names the schema
	log      *slog.Logger
	timeline atomic.Int64                 // the latest that a connection was to
	last     atomic.Pointer[acknowledged] // nil: nothing was acknowledged yet

	mu     sync.Mutex
	system string          // the latest that a connection was to
	former map[string]bool // those before
}

// on notes that a connection is to a system. It reports false if that is one from which the
// store has moved away.
func (s *succession) on(system string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.former[system]:
		return false
	case s.system != "" && s.system != system && system != "":
		if s.former == nil {
			s.former = map[string]bool{}
		}
		s.former[s.system] = true
		s.timeline.Store(0) // timelines of another system tell nothing
		fallthrough
	case s.system == "":
		s.system = system
	}
	return true
}

// known returns the noted place of the store; the zero place if none is noted.
func (s *succession) known(ctx context.Context, c *pgx.Conn) (p place, err error) {
	rows, err := c.Query(ctx, s.sql("SELECT key, value FROM stet.meta WHERE key IN ('timeline', 'replication', 'system')"),
		pgx.QueryExecModeExec)
	if err == nil {
		err = eachRow(rows, func(scan func(...any) error) error {
			var key, value string
			if err := scan(&key, &value); err != nil {
				return err
			}
			switch key {
			case replicationKey:
				p.replication = value
			case systemKey:
				p.system = value
			case timelineKey:
				p.timeline, err = strconv.ParseInt(value, 10, 64)
			}
			return err
		})
	}
	if code := sqlState(err); code == "42P01" || code == "3F000" {
		return place{}, nil // there is no store yet
	}
	return p, err
}

// recognise returns an error unless a new connection is to the noted server, or to one that
// may take its place.
func (s *succession) recognise(ctx context.Context, c *pgx.Conn) error {
	p, err := placeOf(ctx, c)
	if err != nil || p.timeline == 0 {
		return err
	}
	was, err := s.known(ctx, c)
	if err != nil || was.timeline == 0 {
		return err
	}
	if was.system != "" && p.system != "" && p.system != was.system {
		return fmt.Errorf("%w: the store has come to another server (system identifier %s, before %s), by a dump, logical "+
			"replication or an upgrade: stop all that works on the former one, see that nothing is missing, then confirm it "+
			"with postgres.ConfirmFailover or stet confirm-failover", store.ErrUnavailable, p.system, was.system)
	}
	if !s.on(p.system) {
		return fmt.Errorf("%w: this is a former server: expected another one than the system with the identifier %s; name "+
			"the one that has taken its place", store.ErrUnavailable, p.system)
	}
	if seen := max(was.timeline, s.timeline.Load()); p.timeline < seen {
		return fmt.Errorf("%w: this is a former server: expected timeline %d or a later one, found %d; name the one that "+
			"has taken its place", store.ErrUnavailable, seen, p.timeline)
	}
	if p.timeline > was.timeline && was.replication == synchronous {
		if was.replication, err = s.seek(ctx, c); err != nil {
			return err
		}
	}
	if p.timeline > was.timeline && was.replication != synchronous {
		return fmt.Errorf("%w: another server has taken the place of the one that the store was on (timeline %d, after %d), "+
			"and commits did not wait for every standby: "+
			"what was acknowledged last may be lost; see what is, then confirm it with postgres.ConfirmFailover or stet "+
			"confirm-failover", store.ErrUnavailable, p.timeline, was.timeline)
	}
	if p.timeline > was.timeline {
		s.log.Warn("a synchronous standby has taken the server's place; nothing is lost", "timeline", p.timeline, "before",
			was.timeline)
	}
	s.timeline.Store(p.timeline)
	if p.system == "" {
		p.system = was.system
	}
	if p == was {
		return nil
	}
	return s.settle(ctx, c, p)
}

// acknowledged is the last batch that was acknowledged to this process.
type acknowledged struct {
	node, boot string
	no         int64
}

// seek looks for the last batch of this process on a server that has just taken the place of
// another one. If it is missing, seek notes that the standby was not synchronous.
func (s *succession) seek(ctx context.Context, c *pgx.Conn) (replication string, err error) {
	last := s.last.Load()
	if last == nil {
		return synchronous, nil
	}
	var no int64
	err = c.QueryRow(ctx, s.sql("SELECT "+lastBatch+" FROM stet.boots n WHERE node=$1 AND boot=$2"), pgx.QueryExecModeExec,
		last.node, last.boot).Scan(&no)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // the node has stopped, and was forgotten
		return synchronous, nil
	case err != nil || no >= last.no:
		return synchronous, err
	}
	s.log.Error("the server has not got what was acknowledged", "node", last.node, "batch", last.no, "found", no)
	_, err = c.Exec(ctx, s.sql("UPDATE stet.meta SET value='none' WHERE key='replication'"), pgx.QueryExecModeExec)
	return notSynchronous, err
}

// settle notes the place of the store.
func (s *succession) settle(ctx context.Context, c *pgx.Conn, p place) error {
	_, err := c.Exec(ctx, s.sql(`INSERT INTO stet.meta (key, value)
		VALUES ('timeline', $1), ('replication', $2), ('system', $3)
		ON CONFLICT (key) DO UPDATE SET value=excluded.value`),
		pgx.QueryExecModeExec, strconv.FormatInt(p.timeline, 10), p.replication, p.system)
	return err
}

// settleNew notes the place of a new store.
func (s *succession) settleNew(ctx context.Context, c *pgx.Conn) error {
	was, err := s.known(ctx, c)
	if err != nil || was.timeline != 0 {
		return err
	}
	p, err := placeOf(ctx, c)
	if err != nil || p.timeline == 0 {
		return err
	}
	s.timeline.Store(p.timeline)
	return s.settle(ctx, c, p)
}

// sequencesText raises the sequences of runs and items above the numbers that are there.
const sequencesText = `SELECT setval(pg_get_serial_sequence('stet.runs', 'run_no'),
		(SELECT greatest(max(run_no),
			pg_sequence_last_value(pg_get_serial_sequence('stet.runs', 'run_no')::regclass))
			FROM stet.runs)),
	setval(pg_get_serial_sequence('stet.inbox', 'item_no'),
		(SELECT greatest(max(item_no),
			pg_sequence_last_value(pg_get_serial_sequence('stet.inbox', 'item_no')::regclass))
			FROM stet.inbox))`

// strided returns a text about the counts of runs and items of a database.
func strided(text string, s *seat) string {
	if s == nil {
		return text
	}
	for _, column := range []string{"run_no", "item_no"} {
		text = strings.ReplaceAll(text, "max("+column+")", fmt.Sprintf("max(%s)/%d", column, s.stride()))
	}
	return text
}

// behindText reads whether the next number of a run or an item may be taken. A role that may not
// read sequences does not learn that.
const behindText = `SELECT q.name, q.highest, q.last FROM (
	SELECT 'runs', (SELECT max(run_no) FROM stet.runs),
		pg_get_serial_sequence('stet.runs', 'run_no')
	UNION ALL SELECT 'inbox', (SELECT max(item_no) FROM stet.inbox),
		pg_get_serial_sequence('stet.inbox', 'item_no')) AS s(name, highest, sequence), LATERAL (
	SELECT s.name, s.highest, CASE WHEN has_sequence_privilege(s.sequence, 'SELECT, USAGE')
		THEN coalesce(pg_sequence_last_value(s.sequence::regclass), 0) ELSE s.highest END AS last) q
	WHERE q.highest>q.last`

// numbered returns an error if new runs or items would get the numbers of those that are there.
func (t *tx) numbered() error {
	var table string
	var highest, last int64
	behind, err := t.row(strided(behindText, t.s.seat), nil, &table, &highest, &last)
	if err == nil && behind {
		err = fmt.Errorf("%w: expected the next number of %s.%s to be above %d, found %d, as after logical replication, "+
			"which copies no sequences: run stet confirm-failover", store.ErrDamaged, t.s.schema, table, highest, last+1)
	}
	return err
}

// confirmedEpochs is added to each epoch by ConfirmFailover, so that it is above all that
// the old server has given.
const confirmedEpochs = 1 << 20

// ConfirmFailover lets a store go on after its server was replaced by an asynchronous
// standby, by a restored backup, or by a server of another system that has a copy, as after
// logical replication, a dump, or pg_upgrade. The caller confirms that the last acknowledged
// acts may be lost, and that their loss was handled. Until then all acts on the store return
// store.ErrUnavailable with that reason. All leases are given back, with epochs above any
// that the old server has given, so that no node continues from its memory. Runs continue
// from the state on the new server, and new ones get numbers above those that are there.
// Without a failover it only makes all nodes take their shards again. Errors are those of Open.
func ConfirmFailover(ctx context.Context, dsn string, opts ...Option) error {
	s, pc, err := prepare(dsn, opts)
	if err != nil {
		return err
	}
	const act = "confirm a failover"
	s.cfg.several = true
	former := pc.AfterConnect
	pc.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		if err := former(ctx, c); !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		p, err := placeOf(ctx, c)
		if err != nil {
			return err
		}
		return s.servers.settle(ctx, c, p)
	}
	pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	if s.pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return s.classify(ctx, act, err)
	}
	err = s.write(ctx, act, lockLimit, func(t *tx, now store.Time) error {
		var shards []store.Shard
		err := t.each("SELECT grp, slot FROM stet.leases ORDER BY grp, slot", nil, func(scan func(...any) error) error {
			var shard store.Shard
			err := scan(&shard.Group, &shard.Slot)
			shards = append(shards, shard)
			return err
		})
		if err != nil {
			return err
		}
		held, err := t.lockLeases(now, shards, func(l *store.Lease) bool { return l.Node != "" })
		if err != nil {
			return err
		}
		given := newEnds()
		for shard := range held {
			given.add(shard, true)
		}
		if _, err := t.giveBack(given); err != nil {
			return err
		}
		if _, err = t.exec("UPDATE stet.leases SET node='', boot='', until_at=0, epoch=epoch+$1::bigint",
			confirmedEpochs); err != nil {
			return err
		}
		if err := t.sit(); err != nil {
			return err
		}
		_, err = t.exec(strided(sequencesText, t.s.seat))
		return err
	})
	return errors.Join(s.classify(ctx, act, err), s.Close())
}
