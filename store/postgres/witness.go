package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// The server knows when a process has died: its kernel closes the connection, and the session
// ends within milliseconds. So a process that takes leases has one session more, its witness,
// which holds an advisory lock in its name. The shards of a process whose witness is gone are
// taken at once; without it they would rest until their leases end.
//
// Safety does not depend on it. As at the end of a lease, whoever takes over raises the epochs
// and gives the boot another fence: a process that was wrongly believed to be dead can write
// nothing, and loses its shards. To make that rare
//
//   - a boot counts as dead when two looks at an interval of witnessGrace have found nobody
//     that holds its lock; a witness that was cut is made again long before;
//   - a process that loses its witness says so in its row first: then only its lease counts;
//   - who takes over holds the lock until its transaction ends, so that the witness cannot
//     come back in between.
//
// A server that was started, or promoted, after the witness was noted says nothing: all
// witnesses are gone then. A process that stands still keeps its session, so its lease
// counts, and so does that of one behind a pooler.

const (
	// witnessLook is the interval at which a process looks for others that have died.
	witnessLook = 800 * time.Millisecond
	// witnessGrace is how long a witness may be gone.
	witnessGrace = 300 * time.Millisecond
	// witnessAnswer bounds the wait for an answer.
	witnessAnswer = 5 * time.Second
	// witnessRetry is how long a witness that cannot be made rests.
	witnessRetry = time.Second
)

// witnessKey is the advisory lock of the boot n of the store $1. Only one of 2^64 others has
// the same: then the lease counts.
const witnessKey = `hashtextextended('stet witness '||$1::text||' '||n.node||' '||n.boot, 0)`

// witnessGone says that nobody holds the advisory lock of the boot n, which has held it since
// the server began.
const witnessGone = `n.witness=pg_postmaster_start_time() AND NOT EXISTS (SELECT FROM pg_locks k
	WHERE k.locktype='advisory' AND k.objsubid=1 AND k.granted
		AND k.database=(SELECT oid FROM pg_database WHERE datname=current_database())
		AND (k.classid::bigint<<32)+k.objid::bigint=` + witnessKey + `)`

// bootKey names one life of a node.
type bootKey struct{ node, boot string }

// witnesses are the witnesses of this process's boots, and what it knows of others'.
type witnesses struct {
	s *Store

	mu     sync.Mutex
	closed bool
	own    map[bootKey]context.CancelFunc
	gone   map[bootKey]absence // of boots that hold leases
	done   sync.WaitGroup
}

// absence is that of a witness.
type absence struct {
	since time.Time
	dead  bool // two looks at an interval of witnessGrace have found it
}

// keep has a witness for a boot from now on, unless there is one.
func (w *witnesses) keep(node, boot string) {
	s, k := w.s, bootKey{node, boot}
	if s.pooled || s.cfg.clock != nil || s.cfg.blind {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.own[k] != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if w.own == nil {
		w.own = map[bootKey]context.CancelFunc{}
	}
	w.own[k] = cancel
	w.done.Go(func() { w.witness(ctx, k) })
}

// end ends the witness of a boot that has given everything back.
func (w *witnesses) end(node, boot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := bootKey{node, boot}
	if cancel := w.own[k]; cancel != nil {
		cancel()
		delete(w.own, k)
	}
}

// close ends all witnesses, and waits for that.
func (w *witnesses) close() {
	w.mu.Lock()
	w.closed = true
	for _, cancel := range w.own {
		cancel()
	}
	w.mu.Unlock()
	w.done.Wait()
}

// witness keeps the session of a boot until ctx ends.
func (w *witnesses) witness(ctx context.Context, k bootKey) {
	for ctx.Err() == nil {
		noted, err := w.session(ctx, k)
		if ctx.Err() != nil {
			return
		}
		if code := sqlState(err); code == "42883" || code == "0A000" || code == "42P01" {
			w.s.log.Info("no witness: a takeover waits for the end of the lease", "error", err)
			return // a database of another kind
		}
		if noted {
			w.withdraw(ctx, k)
			continue // at once
		}
		w.s.log.Debug("making the witness again", "error", err)
		select {
		case <-time.After(witnessRetry):
		case <-ctx.Done():
		}
	}
}

// withdraw notes that a boot has no witness: its lease counts.
func (w *witnesses) withdraw(ctx context.Context, k bootKey) {
	ctx, cancel := context.WithTimeout(ctx, witnessAnswer) // it has the connection of leases meanwhile
	defer cancel()
	_ = w.s.single(on(ctx, w.s.leasing), "withdraw the witness of node "+k.node, func(t *tx) error {
		_, err := t.exec("UPDATE stet.nodes SET witness=NULL WHERE node=$1 AND boot=$2 AND witness IS NOT NULL", k.node,
			k.boot)
		return err
	}) // if that fails too, the node is cut off
}

// session is the life of one session. It reports whether it was noted.
func (w *witnesses) session(ctx context.Context, k bootKey) (noted bool, err error) {
	s := w.s
	conn, err := s.cfg.connect(ctx, s.hint.config)
	if err != nil {
		return false, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end) // it is not used any more
		w.forget()
	}()
	// A machine that is gone without a word is noticed by the server after some 10 s.
	asking, cancel := context.WithTimeout(ctx, witnessAnswer)
	defer cancel()
	if _, err := conn.Exec(asking, `SELECT set_config('tcp_keepalives_idle', '4', false),
		set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false),
		(SELECT set_config(name, '0', false) FROM pg_settings WHERE name='idle_session_timeout')`,
		pgx.QueryExecModeExec); err != nil {
		return false, err
	}
	for {
		waits, err := w.look(ctx, conn, k, &noted)
		if err != nil {
			return noted, err
		}
		next := witnessLook
		if waits {
			next = witnessGrace
		}
		// Reading, it learns at once that the connection has ended.
		rest, cancel := context.WithTimeout(ctx, next)
		_, err = conn.WaitForNotification(rest)
		over := rest.Err() != nil
		cancel()
		if err != nil && !over {
			return noted, err
		}
		if ctx.Err() != nil {
			return noted, ctx.Err()
		}
	}
}

// lookText notes the witness of the boot $2, $3, if $4 says that it is there, and returns those
// boots with leases that have none any more.
const lookText = `WITH noted AS (UPDATE stet.nodes n SET witness=pg_postmaster_start_time()
	WHERE node=$2 AND boot=$3 AND $4::boolean AND witness IS DISTINCT FROM pg_postmaster_start_time())
	SELECT n.node, n.boot FROM stet.nodes n WHERE ` + witnessGone + `
		AND EXISTS (SELECT FROM stet.leases l WHERE l.node=n.node AND l.boot=n.boot)`

// look notes the own witness, and looks for boots that hold leases and have none any more. It
// reports whether one may be a witness that was cut.
func (w *witnesses) look(ctx context.Context, conn *pgx.Conn, own bootKey, noted *bool) (waits bool, err error) {
	s := w.s
	ctx, cancel := context.WithTimeout(ctx, witnessAnswer)
	defer cancel()
	if !*noted { // the lock of a former session may stand for a while
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(`+witnessKey+`)
			FROM (VALUES ($2::text, $3::text)) AS n(node, boot)`, pgx.QueryExecModeExec, s.id, own.node, own.boot).
			Scan(noted); err != nil {
			return false, err
		}
	}
	rows, err := conn.Query(ctx, s.sql(lookText), pgx.QueryExecModeExec, s.id, own.node, own.boot, *noted)
	if err != nil {
		return false, err
	}
	found := map[bootKey]bool{}
	for rows.Next() {
		var k bootKey
		if err := rows.Scan(&k.node, &k.boot); err != nil {
			rows.Close()
			return false, err
		}
		found[k] = true
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	now, news := time.Now(), false
	w.mu.Lock()
	defer w.mu.Unlock()
	former := w.gone
	w.gone = map[bootKey]absence{}
	for k := range found {
		a, ok := former[k]
		if !ok {
			a.since = now
		}
		if dead := now.Sub(a.since) >= witnessGrace; dead && !a.dead {
			a.dead, news = true, true
		}
		waits = waits || !a.dead
		w.gone[k] = a
	}
	if news {
		s.hint.heard.Add(store.Change{Nodes: true}) // leases have ended
	}
	return waits, nil
}

// forget forgets who was gone, as nobody looks.
func (w *witnesses) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = nil
}

// dead reports whether a boot has died.
func (w *witnesses) dead(node, boot string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone[bootKey{node, boot}].dead
}

// bury returns those of the boots that hold leases of shards and are dead: none of them can have
// a witness again before the transaction ends.
func (t *tx) bury(w *witnesses, shards []store.Shard) (map[bootKey]bool, error) {
	w.mu.Lock()
	nodes, boots := []string{}, []string{}
	for k, a := range w.gone {
		if a.dead {
			nodes, boots = append(nodes, k.node), append(boots, k.boot)
		}
	}
	w.mu.Unlock()
	if len(nodes) == 0 {
		return nil, nil
	}
	grps, slots := make([]string, len(shards)), make([]int64, len(shards))
	for i, shard := range shards {
		grps[i], slots[i] = shard.Group, int64(shard.Slot)
	}
	dead := map[bootKey]bool{}
	err := t.each(`SELECT n.node, n.boot FROM stet.nodes n
		JOIN unnest($2::text[], $3::text[]) AS q(node, boot) ON n.node=q.node AND n.boot=q.boot
		WHERE n.witness=pg_postmaster_start_time()
			AND EXISTS (SELECT FROM stet.leases l JOIN unnest($4::text[], $5::bigint[]) AS s(grp, slot)
				ON l.grp=s.grp AND l.slot=s.slot WHERE l.node=n.node AND l.boot=n.boot)
			AND pg_try_advisory_xact_lock(`+witnessKey+`)`, []any{w.s.id, nodes, boots, grps, slots},
		func(scan func(...any) error) error {
			var k bootKey
			err := scan(&k.node, &k.boot)
			dead[k] = true
			return err
		})
	return dead, err
}
