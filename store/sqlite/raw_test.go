package sqlite

import (
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
			if err := c.Exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-16384; PRAGMA wal_autocheckpoint=2000;" + list[0].sql); err != nil {
				b.Fatal(err)
			}
			insert := prepare("INSERT INTO stet_entries VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
			begin, commit := prepare("BEGIN IMMEDIATE"), prepare("COMMIT")
			value := []byte(strings.Repeat("v", 100))
			b.ResetTimer()
			for i := 0; i < b.N; i += size {
				if err := begin.Exec(); err != nil {
					b.Fatal(err)
				}
				loc := fmt.Sprintf("\x02step-%08d\x00\x01\x01", i)
				for k := range size {
					for n, v := range [...]int64{int64(k + 1), 0, 0, 1, 2, int64(i + 1), 0, 0, 0, 0, 0, 0, 0, 100} {
						if n == 2 {
							err = insert.BindBlob(3, bytesOf(loc))
						} else {
							err = insert.BindInt64(n+1, v)
						}
						if err != nil {
							b.Fatal(err)
						}
					}
					if err := insert.BindBlob(15, value); err != nil {
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
