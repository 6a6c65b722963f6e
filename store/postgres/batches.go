package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stet-run/stet/store"
)

// A commit adds its batch to a table, and changes no row: a row that each commit changed would
// have a version for each of them as long as somebody's transaction is open, and each commit
// would pass by all of these. From time to time the batches before the last one are deleted.
// They may be, because nothing below boots.settled is written any more: whoever raises that
// waits for all commits of the boot that are under way, and those that come later see it.

// keptBatches is how many batches of a boot are in the table at most, roughly. It is also how
// many commits there are to a new version of the boot's row.
const keptBatches = 4096

// addBoots adds the rows of boots that have none: their Register has failed, or they were
// forgotten.
func (t *tx) addBoots(now store.Time, nodes, boots []string) error {
	_, err := t.exec(`INSERT INTO stet.boots (node, boot, made_at)
		SELECT q.node, q.boot, $3::bigint FROM unnest($1::text[], $2::text[]) AS q(node, boot)
		ORDER BY q.node, q.boot ON CONFLICT DO NOTHING`, nodes, boots, now)
	return err
}

// lastBatch locks the row of a boot, and returns its last batch. No commit of the boot is then
// under way, and an act that takes a lease of it waits until the transaction ends.
func (t *tx) lastBatch(now store.Time, node, boot string) (last int64, verdicts []byte, err error) {
	for {
		batch := &pgx.Batch{}
		batch.Queue(t.s.sql("SELECT FROM stet.boots WHERE node=$1 AND boot=$2 FOR UPDATE"), node, boot)
		// A statement of its own, which sees what was waited for.
		batch.Queue(t.s.sql(`SELECT greatest(n.settled, x.no), x.verdicts FROM stet.boots n
			LEFT JOIN LATERAL (SELECT no, verdicts FROM stet.batches x WHERE x.life=n.life
				ORDER BY no DESC LIMIT 1) x ON true WHERE node=$1 AND boot=$2`), node, boot)
		results := t.conn.SendBatch(t.ctx, batch)
		locked, err := results.Exec()
		if err == nil && locked.RowsAffected() > 0 {
			err = results.QueryRow().Scan(&last, &verdicts)
		}
		if closed := results.Close(); err == nil {
			err = closed
		}
		if err != nil || locked.RowsAffected() > 0 {
			return last, verdicts, err
		}
		if err := t.addBoots(now, []string{node}, []string{boot}); err != nil {
			return 0, nil, err
		}
	}
}

// batches are those that this process has written. Guarded by Store.writing.
type batches struct {
	last   acknowledged // begun last
	unsure bool         // its outcome is not known
	since  int          // how many were written since the last settle
}

// begin begins a batch. If the outcome of another one is unknown, that may still be under way,
// and would be written after this one: it is waited for.
func (b *batches) begin(ctx context.Context, s *Store, next acknowledged) error {
	if b.unsure && b.last != next {
		if err := b.settle(ctx, s); err != nil {
			return err
		}
	}
	b.last, b.unsure = next, true
	return nil
}

// written notes that the batch is written, and settles it if there are many before it.
func (b *batches) written(ctx context.Context, s *Store) {
	b.unsure = false
	if b.since++; b.since < s.cfg.kept {
		return
	}
	b.since = 0
	if err := b.settle(ctx, s); err != nil {
		s.log.Warn("former batches could not be deleted; it is tried again later", "error", err)
	}
}

// settle makes sure that no batch up to one is written any more, and deletes those before it.
func (b *batches) settle(ctx context.Context, s *Store) error {
	return s.single(on(ctx, s.commits), "settle batches", func(t *tx) error {
		_, err := t.exec(`WITH n AS MATERIALIZED (
				SELECT life, settled FROM stet.boots WHERE node=$1 AND boot=$2 AND settled<$3::bigint FOR UPDATE),
			u AS (UPDATE stet.boots SET settled=$3::bigint FROM n WHERE node=$1 AND boot=$2)
			DELETE FROM stet.batches x USING n WHERE x.life=n.life AND x.no>=n.settled-$5::bigint AND x.no<$4::bigint`,
			b.last.node, b.last.boot, b.last.no, s.seat.first(b.last.no), b.last.no-s.seat.first(b.last.no))
		return err
	})
}

// forget deletes a node that has stopped.
func (t *tx) forget(n store.Node) error {
	if _, err := t.exec("DELETE FROM stet.nodes WHERE node=$1 AND boot=$2", n.ID, n.Boot); err != nil {
		return err
	}
	var life [16]byte
	found, err := t.row("DELETE FROM stet.boots WHERE node=$1 AND boot=$2 RETURNING life", []any{n.ID, n.Boot}, &life)
	if err == nil && found {
		_, err = t.exec("DELETE FROM stet.batches WHERE life=$1", pgtype.UUID{Bytes: life, Valid: true})
	}
	return err
}

// forgetOld deletes the nodes that were not heard of for long, and have no lease.
func (t *tx) forgetOld(now store.Time) error {
	before := now.Add(-forgetAfter)
	if _, err := t.exec(`DELETE FROM stet.nodes n
		WHERE seen_at<$1 AND NOT EXISTS (SELECT 1 FROM stet.leases l WHERE l.node=n.node AND l.boot=n.boot)`,
		before); err != nil {
		return err
	}
	_, err := t.exec(`WITH gone AS (DELETE FROM stet.boots b WHERE made_at<$1
			AND NOT EXISTS (SELECT 1 FROM stet.nodes n WHERE n.node=b.node AND n.boot=b.boot)
			AND NOT EXISTS (SELECT 1 FROM stet.leases l WHERE l.node=b.node AND l.boot=b.boot) RETURNING life)
		DELETE FROM stet.batches x USING gone WHERE x.life=gone.life`, before)
	return err
}
