package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// The witness of a boot, see storekit.Witnesses, is a session that holds an advisory lock in its
// name. The boot's row says since which start of the server. Who takes over holds the lock until
// its transaction ends, so that the witness cannot come back in between. Behind a pooler no
// session belongs to a process, and there are no witnesses without a way around it: see Direct.

// witnessKey is the advisory lock of the boot n of the store $1. Only one of 2^64 others has
// the same: then the lease counts.
const witnessKey = `hashtextextended('stet witness '||$1::text||' '||n.node||' '||n.boot, 0)`

// lookText notes the witness of the boot $2, $3, if $4 says that it is there, and returns those
// boots that have none any more, though they had one since the server began: also without leases,
// because nothing is to be kept for them. A row without a name says that another one is there.
const lookText = `WITH noted AS (UPDATE stet.nodes n SET witness=pg_postmaster_start_time()
	WHERE node=$2 AND boot=$3 AND $4::boolean AND witness IS DISTINCT FROM pg_postmaster_start_time()),
	held AS MATERIALIZED (SELECT (k.classid::bigint<<32)+k.objid::bigint AS key FROM pg_locks k
		WHERE k.locktype='advisory' AND k.objsubid=1 AND k.granted
			AND k.database=(SELECT oid FROM pg_database WHERE datname=current_database())),
	all_boots AS MATERIALIZED (SELECT n.node, n.boot, ` + witnessKey + ` IN (SELECT key FROM held) AS there
		FROM stet.nodes n WHERE n.witness=pg_postmaster_start_time())
	SELECT a.node, a.boot, n.info FROM all_boots a JOIN stet.nodes n USING (node, boot) WHERE NOT there
	UNION ALL (SELECT '', '', NULL FROM all_boots WHERE there AND (node, boot)<>($2, $3) LIMIT 1)`

// witness is that of a boot.
type witness struct {
	s    *Store
	life storekit.Life
}

// keep keeps the session from now on, unless that is done.
func (w witness) keep() {
	if w.s.hint.listen && w.s.cfg.clock == nil { // it has sessions of its own
		w.s.witnesses.Keep(w.life.Boot, w.live)
	}
}

// live keeps the session until ctx ends.
func (w witness) live(ctx context.Context, stirred <-chan struct{}) {
	for ctx.Err() == nil {
		w.s.scarce.over(ctx)
		limited, cancel := w.s.scarce.unless(ctx)
		noted, err := w.session(limited, stirred)
		cancel()
		w.s.witnesses.Blind()
		if refused(err) {
			w.s.scarce.begin()
		}
		if ctx.Err() != nil {
			return
		}
		if code := sqlState(err); code == "42883" || code == "0A000" || code == "42P01" {
			w.s.log.Info("no witness: a takeover waits for the end of the lease", "error", err)
			return // a database of another kind
		}
		if noted {
			w.withdraw(ctx)
			continue // at once
		}
		w.s.log.Debug("making the witness again", "error", err)
		select {
		case <-time.After(storekit.WitnessRetry):
		case <-ctx.Done():
		}
	}
}

// withdraw notes that the boot has no witness: its lease counts.
func (w witness) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storekit.WitnessAnswer) // it has the connection of leases meanwhile
	defer cancel()
	_ = w.s.single(on(ctx, w.s.leasing), "withdraw the witness of node "+w.life.Node, func(t *tx) error {
		_, err := t.exec("UPDATE stet.nodes SET witness=NULL WHERE node=$1 AND boot=$2 AND witness IS NOT NULL",
			w.life.Node, w.life.Boot.Boot)
		return err
	}) // if that fails too, the node is cut off
}

// session is the life of one session. It reports whether it has held the lock.
func (w witness) session(ctx context.Context, stirred <-chan struct{}) (noted bool, err error) {
	conn, err := w.s.cfg.connect(ctx, w.s.hint.config)
	if err != nil {
		return false, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end) // it is not used any more
	}()
	if err := prepareWitness(ctx, conn); err != nil {
		return false, err
	}
	for told := false; ; {
		next, err := w.look(ctx, conn, &noted)
		if err != nil {
			return noted, err
		}
		if noted && !told {
			told = true
			w.s.hint.notify(store.Change{Nodes: true}, 1) // who was alone is not any more
		}
		if err := rest(ctx, conn, next, stirred); err != nil {
			return noted, err
		}
	}
}

// rest waits until it is time to look again, for longer than WitnessLook at most until it is
// stirred. Reading, it learns at once that the connection has ended. A deadline of the
// connection wakes one goroutine, where one of ctx wakes three.
func rest(ctx context.Context, conn *pgx.Conn, d time.Duration, stirred <-chan struct{}) error {
	if err := conn.PgConn().Conn().SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	until := ctx
	if d > storekit.WitnessLook {
		var stop context.CancelFunc
		until, stop = context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-stirred:
				stop()
			case <-until.Done():
			}
		}()
	}
	_, err := conn.WaitForNotification(until)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && until.Err() == nil && !pgconn.Timeout(err):
		return err
	}
	return conn.PgConn().Conn().SetReadDeadline(time.Time{})
}

// prepareWitness makes the server notice after some 10 s that a machine is gone without a word.
func prepareWitness(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, storekit.WitnessAnswer)
	defer cancel()
	_, err := conn.Exec(ctx, `SELECT set_config('tcp_keepalives_idle', '4', false),
		set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false),
		set_config('tcp_user_timeout', '10000', false), -- if an answer is on its way, keepalives do not count
		(SELECT set_config(name, '0', false) FROM pg_settings WHERE name='idle_session_timeout')`,
		pgx.QueryExecModeExec)
	return err
}

// look takes and notes the lock, and looks for those of others. It returns when to look again.
func (w witness) look(ctx context.Context, conn *pgx.Conn, noted *bool) (next time.Duration, err error) {
	s, own := w.s, w.life.Boot
	ctx, cancel := context.WithTimeout(ctx, storekit.WitnessAnswer)
	defer cancel()
	if !*noted { // the lock of a former session may stand for a while
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(`+witnessKey+`)
			FROM (VALUES ($2::text, $3::text)) AS n(node, boot)`, pgx.QueryExecModeExec, s.id, own.Node, own.Boot).
			Scan(noted); err != nil {
			return 0, err
		}
	}
	rows, err := conn.Query(ctx, s.sql(lookText), pgx.QueryExecModeExec, s.id, own.Node, own.Boot, *noted)
	if err != nil {
		return 0, err
	}
	gone := map[storekit.Boot]storekit.Sign{} // the server does not say which session it was
	var b storekit.Boot
	var info []byte
	if _, err := pgx.ForEachRow(rows, []any{&b.Node, &b.Boot, &info}, func() error {
		gone[b] = storekit.Sign{Process: processOf(info)}
		return nil
	}); err != nil {
		return 0, err
	}
	_, others := gone[storekit.Boot{}]
	delete(gone, storekit.Boot{})
	next, died := s.witnesses.Look(w.life, gone, others)
	if died {
		s.hint.heard.Add(store.Change{Nodes: true}) // leases have ended
	}
	return next, nil
}

// processOf returns the process of a node by its row. If that is damaged nothing is known of the process: its death
// takes longer to see.
func processOf(info []byte) storekit.Process {
	var n store.Node
	if json.Unmarshal(info, &n) != nil {
		return storekit.Process{}
	}
	return storekit.LifeOf(&n).Process
}

// bury returns those of the boots that hold leases of shards and are dead: none of them can have
// a witness again before the transaction ends.
func (t *tx) bury(s *Store, shards []store.Shard) (map[storekit.Boot]bool, error) {
	nodes, boots := []string{}, []string{}
	for _, b := range s.witnesses.AllDead() {
		nodes, boots = append(nodes, b.Node), append(boots, b.Boot)
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	grps, slots := make([]string, len(shards)), make([]int64, len(shards))
	for i, shard := range shards {
		grps[i], slots[i] = shard.Group, int64(shard.Slot)
	}
	dead := map[storekit.Boot]bool{}
	err := t.each(`SELECT n.node, n.boot FROM stet.nodes n
		JOIN unnest($2::text[], $3::text[]) AS q(node, boot) ON n.node=q.node AND n.boot=q.boot
		WHERE n.witness=pg_postmaster_start_time()
			AND EXISTS (SELECT FROM stet.leases l JOIN unnest($4::text[], $5::bigint[]) AS s(grp, slot)
				ON l.grp=s.grp AND l.slot=s.slot WHERE l.node=n.node AND l.boot=n.boot)
			AND pg_try_advisory_xact_lock(`+witnessKey+`)`, []any{s.id, nodes, boots, grps, slots},
		func(scan func(...any) error) error {
			var b storekit.Boot
			err := scan(&b.Node, &b.Boot)
			dead[b] = true
			return err
		})
	return dead, err
}
