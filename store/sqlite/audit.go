package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// Audit implements store.Store.
func (s *Store) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	var audit []store.Audit
	err := s.read.do(ctx, fmt.Sprintf("read what was done to run number %d", run), func(c *conn) error {
		return c.each("SELECT no, at, who, verb, why, detail FROM stet_audit WHERE run_no=? ORDER BY no", []any{int64(run)},
			func(r *sqlite3.Stmt) error {
				audit = append(audit, store.Audit{
					No: r.ColumnInt(0), Time: store.Time(r.ColumnInt64(1)), Who: r.ColumnText(2), Verb: r.ColumnText(3),
					Why: r.ColumnText(4), Detail: r.ColumnText(5),
				})
				return nil
			})
	})
	return audit, err
}
