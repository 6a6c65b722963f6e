package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// BenchmarkRaw inserts the rows of BenchmarkCommit with the driver alone, for
// comparison within one run.
func BenchmarkRaw(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("rows=%d", size), func(b *testing.B) {
			c, err := sqlite3.Open(filepath.Join(b.TempDir(), "raw.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			prepare := func(sql string) *sqlite3.Stmt {
				s, _, err := c.Prepare(sql)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = s.Close() })
				return s
			}
			list, err := migrations()
			if err != nil {
				b.Fatal(err)
			}
			if err := c.Exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-16384; PRAGMA " +
				"wal_autocheckpoint=2000;" + list[0].SQL); err != nil {
				b.Fatal(err)
			}
			const loc, val = 3, 3 + entryWidth // parameters
			insert := prepare("INSERT INTO stet_entries (run_no, incarnation, " + entryColumns + ", val) VALUES (" +
				strings.Repeat("?,", val-1) + "?)")
			begin, commit := prepare("BEGIN IMMEDIATE"), prepare("COMMIT")
			value := []byte(strings.Repeat("v", 100))
			b.ResetTimer()
			for i := 0; i < b.N; i += size {
				if err := begin.Exec(); err != nil {
					b.Fatal(err)
				}
				at := fmt.Sprintf("\x02step-%08d\x00\x01\x01", i)
				for k := range size {
					for param := 1; param < val; param++ {
						if err := insert.BindInt64(param, int64(k+1)); err != nil {
							b.Fatal(err)
						}
					}
					if err := errors.Join(insert.BindBlob(loc, bytesOf(at)), insert.BindBlob(val, value)); err != nil {
						b.Fatal(err)
					}
					if err := insert.Exec(); err != nil {
						b.Fatal(err)
					}
				}
				if err := commit.Exec(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
