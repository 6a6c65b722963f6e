package e2e_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

type payload struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
}

func steps(n int) *stet.Workflow[payload, payload] {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("step-%d", i)
	}
	return stet.Define("steps", func(ctx stet.Context, p payload) (payload, error) {
		for _, name := range names {
			var err error
			in := p
			if p, err = stet.Step(ctx, name, func(context.Context) (payload, error) { return in, nil }); err != nil {
				return p, err
			}
		}
		return p, nil
	})
}

// BenchmarkThroughput executes runs of ten steps, 100 at a time; one operation
// is one run.
func BenchmarkThroughput(b *testing.B) {
	for _, s := range testStores {
		b.Run(s.name, func(b *testing.B) {
			w := steps(10)
			e := serve(b, stet.Config{Store: s.open(b)(), Workflows: []stet.Definition{w},
				Logger: slog.New(slog.DiscardHandler)})
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			todo := make(chan int)
			for range 100 {
				wg.Go(func() {
					for i := range todo {
						r, err := w.Start(b.Context(), e, payload{i, strings.Repeat("x", 80)})
						if err != nil {
							b.Error(err)
							return
						}
						if _, err := r.Wait(b.Context()); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for i := range b.N {
				todo <- i
			}
			close(todo)
			wg.Wait()
			b.ReportMetric(float64(b.N)*12/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkChildren executes children of as many steps as the runs of
// BenchmarkThroughput have: one parent after the other starts 1,000 and awaits
// them; one operation is one child.
func BenchmarkChildren(b *testing.B) {
	const atOnce = 1000
	child := steps(10)
	parent := stet.Define("parent", func(ctx stet.Context, n int) (int, error) {
		others := make([]*stet.RunFuture[payload], n)
		var err error
		for i := range others {
			if others[i], err = child.Go(ctx, payload{i, strings.Repeat("x", 80)}); err != nil {
				return 0, err
			}
		}
		ended := 0
		for _, o := range others {
			if _, err := o.Await(ctx); err != nil {
				return ended, err
			}
			ended++
		}
		return ended, nil
	})
	for _, s := range testStores {
		b.Run(s.name, func(b *testing.B) {
			e := serve(b, stet.Config{Store: s.open(b)(), Workflows: []stet.Definition{parent, child},
				Logger: slog.New(slog.DiscardHandler)})
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += atOnce {
				n := min(atOnce, b.N-done)
				r, err := parent.Start(b.Context(), e, n)
				if err != nil {
					b.Fatal(err)
				}
				if ended, err := r.Wait(b.Context()); err != nil || ended != n {
					b.Fatalf("%d of %d children have ended: %v", ended, n, err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "children/s")
		})
	}
}

// BenchmarkRaw is what the driver can do with the rows of a store and no engine:
// a random run ID of 16 bytes for ten rows, a path, 100 bytes, three integers.
// One operation is one row.
func BenchmarkRaw(b *testing.B) {
	for _, rows := range []int{1, 1000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { raw(b, rows) })
	}
}

func raw(b *testing.B, rows int) {
	c, err := sqlite3.Open(filepath.Join(b.TempDir(), "raw.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-16384;
		CREATE TABLE rows (run BLOB, path TEXT, value BLOB, a INTEGER, b INTEGER, c INTEGER,
			PRIMARY KEY (run, path)) WITHOUT ROWID`); err != nil {
		b.Fatal(err)
	}
	insert, _, err := c.Prepare("INSERT INTO rows VALUES (?,?,?,?,?,?)")
	if err != nil {
		b.Fatal(err)
	}
	defer insert.Close()
	value, run := []byte(strings.Repeat("v", 100)), make([]byte, 16)
	b.ResetTimer()
	for i := range b.N {
		if i%rows == 0 {
			err = c.Exec("BEGIN IMMEDIATE")
		}
		if i%10 == 0 {
			rand.Read(run)
		}
		if err := errors.Join(err, insert.BindBlob(1, run), insert.BindText(2, fmt.Sprintf("some/path/step-%05d", i)),
			insert.BindBlob(3, value),
			insert.BindInt64(4, int64(i)), insert.BindInt64(5, 1), insert.BindInt64(6, 2), insert.Exec()); err != nil {
			b.Fatal(err)
		}
		if i%rows == rows-1 || i == b.N-1 {
			err = c.Exec("COMMIT")
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkLatency executes one run of ten steps at a time.
func BenchmarkLatency(b *testing.B) {
	for _, s := range testStores {
		b.Run(s.name, func(b *testing.B) {
			w := steps(10)
			e := serve(b, stet.Config{Store: s.open(b)(), Workflows: []stet.Definition{w},
				Logger: slog.New(slog.DiscardHandler)})
			b.ResetTimer()
			for i := range b.N {
				r, err := w.Start(b.Context(), e, payload{i, strings.Repeat("x", 80)})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFanOut executes one run of 10,000 parallel steps.
func BenchmarkFanOut(b *testing.B) {
	const n = 10_000
	w := stet.Define("fan", func(ctx stet.Context, p payload) (int, error) {
		got, err := stet.Map(ctx, "part", make([]int, n), func(ctx stet.Context, i int) (payload, error) {
			return stet.Step(ctx, "step", func(context.Context) (payload, error) { return p, nil })
		})
		return len(got), err
	})
	for _, s := range testStores {
		b.Run(s.name, func(b *testing.B) {
			e := serve(b, stet.Config{Store: s.open(b)(), Workflows: []stet.Definition{w},
				Logger: slog.New(slog.DiscardHandler)})
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				r, err := w.Start(b.Context(), e, payload{i, strings.Repeat("x", 80)})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkLoop is a loop of one step; one operation is one iteration. Beside it
// is what the same steps cost without a loop, one after the other in one run.
func BenchmarkLoop(b *testing.B) {
	for _, s := range testStores {
		for _, bench := range []struct {
			name string
			w    *stet.Workflow[int, int]
		}{{"loop", loopOf(func(int) {})}, {"steps", rowOf()}} {
			b.Run(s.name+"/"+bench.name, func(b *testing.B) {
				e := serve(b, stet.Config{Store: s.open(b)(), Workflows: []stet.Definition{bench.w}, MaxEntries: 1 << 30,
					MaxBytes: 1 << 40,
					Logger:   slog.New(slog.DiscardHandler)})
				b.ResetTimer()
				r, err := bench.w.Start(b.Context(), e, b.N)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
			})
		}
	}
}

// loopOf is a loop of n iterations with one step each. at is called with each iteration.
func loopOf(at func(i int)) *stet.Workflow[int, int] {
	return stet.Define("loop", func(ctx stet.Context, n int) (int, error) {
		return stet.Loop(ctx, "l", 0, func(ctx stet.Context, i int) (next stet.Next[int, int], err error) {
			at(i)
			if i == n {
				return next.Break(i), nil
			}
			i, err = stet.Step(ctx, "s", func(context.Context) (int, error) { return i + 1, nil })
			return next.Continue(i), err
		})
	})
}

func rowOf() *stet.Workflow[int, int] {
	return stet.Define("row", func(ctx stet.Context, n int) (i int, err error) {
		for i < n && err == nil {
			i, err = stet.Step(ctx, "s", func(context.Context) (int, error) { return i + 1, nil })
		}
		return i, err
	})
}

// BenchmarkContinueAsNew is a run that continues as new after each step; one
// operation is one incarnation.
func BenchmarkContinueAsNew(b *testing.B) {
	for _, s := range testStores {
		b.Run(s.name, func(b *testing.B) {
			w := stet.Define("again", func(ctx stet.Context, left int) (int, error) {
				left, err := stet.Step(ctx, "s", func(context.Context) (int, error) { return left - 1, nil })
				if err != nil || left <= 0 {
					return left, err
				}
				return 0, stet.ContinueAsNew(left)
			})
			var commits atomic.Int64
			g := &gated{Store: s.open(b)(), afterCommit: func(batch *store.Batch) {
				if len(batch.Turns) > 0 {
					commits.Add(1)
				}
			}}
			e := serve(b, stet.Config{Store: g, Workflows: []stet.Definition{w}, Logger: slog.New(slog.DiscardHandler)})
			b.ResetTimer()
			r, err := w.Start(b.Context(), e, b.N)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := r.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "incarnations/s")
			b.ReportMetric(float64(commits.Load())/float64(b.N), "commits/incarnation")
		})
	}
}

// BenchmarkMessage sends messages to suspended runs that have recorded so many operations; one operation is one
// message, until the step that follows it has been executed. "loaded" keeps no run in memory.
func BenchmarkMessage(b *testing.B) {
	const runs = 8
	for _, s := range testStores {
		for _, recorded := range []int{10, 1000} {
			for _, c := range []struct {
				name string
				room int
			}{{"parked", 0}, {"loaded", stet.None}} {
				b.Run(fmt.Sprintf("%s/%d/%s", s.name, recorded, c.name), func(b *testing.B) {
					heard := make(chan string, runs)
					w := stet.Define("talks", func(ctx stet.Context, _ int) (int, error) {
						for {
							text, err := word.Receive(ctx)
							if err != nil {
								return 0, err
							}
							if err := stet.Do(ctx, "answer", func(context.Context) error { heard <- text; return nil }); err != nil {
								return 0, err
							}
						}
					})
					e := serve(b, stet.Config{Store: s.open(b)(), Workflows: []stet.Definition{w}, MaxParkedBytes: c.room,
						Logger: slog.New(slog.DiscardHandler)})
					var ids []string
					say := func(id string, times int) {
						for range times {
							if err := word.Send(b.Context(), e, id, "hello"); err != nil {
								b.Fatal(err)
							}
						}
						for range times {
							<-heard
						}
					}
					for i := range runs {
						r, err := w.Start(b.Context(), e, 0, stet.ID(fmt.Sprint("r", i)))
						if err != nil {
							b.Fatal(err)
						}
						ids = append(ids, r.ID())
						say(r.ID(), recorded/2)
					}
					for _, id := range ids {
						waitStatus(b, e, id, store.Suspended)
					}
					b.ResetTimer()
					for i := range b.N {
						say(ids[i%runs], 1)
					}
				})
			}
		}
	}
}
