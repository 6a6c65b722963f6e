package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// hold opens a stranger's connection on the file with a snapshot.
func hold(t *testing.T, path string) (release func()) {
	t.Helper()
	c, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Exec("BEGIN; SELECT count(*) FROM stet_runs"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := c.Exec("COMMIT"); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWALStaysSmallBesideReaders(t *testing.T) {
	s, run, b := one(t)
	s.cfg.wal = walBounds{owner: 20, stranger: 500, restart: 60, refusal: 1 << 30}
	value := make([]byte, 1000)
	largest, seq, restarts := int64(0), int64(0), 0
	write := func() {
		before := s.write.wal.pages
		turn := &store.Turn{Run: run, Shard: testShard}
		for range 5 {
			seq++
			turn.Entries = append(turn.Entries, doneEntry(seq, value))
		}
		b.commit(t, s, turn)
		largest = max(largest, s.walSize())
		if s.write.wal.pages < before {
			restarts++
		}
	}
	for range 20 {
		write()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range maxReaders { // so that mostly there is one
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.History(ctx, store.HistoryQuery{Run: run, Values: true}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	restarts = 0
	for range 80 {
		write()
	}
	cancel()
	readers.Wait()
	t.Logf("%d KiB of values written, the WAL had at most %d KiB and began anew %d times", seq*int64(len(value))>>10,
		largest>>10, restarts)
	if restarts < 3 {
		t.Error("expected the WAL to begin anew beside readers")
	}
}

func TestHugeWALRefusesStartsOnly(t *testing.T) {
	s, run, b := one(t)
	s.cfg.wal.refusal = 200 << 10
	release := hold(t, s.Path())
	for seq := range int64(300) {
		b.commit(t, s, done(run, seq+1, make([]byte, 1000)))
	}
	_, _, err := s.Apply(t.Context(), []store.Command{start("a")})
	wantErr(t, err, store.ErrUnavailable)
	apply(t, s, send("run-1", "m", nil))
	release()
	s.cfg.wal.owner = 1
	b.commit(t, s, done(run, 301, nil))
	b.commit(t, s, done(run, 302, nil)) // the log starts over and is cut
	s.cfg.wal.refusal = s.walSize()
	apply(t, s, start("a"))
}

// TestRoomInTheWAL is reserved ahead, is no part of what was committed, and is
// used by other processes as well.
func TestRoomInTheWAL(t *testing.T) {
	path := testPath(t)
	s := open(t, path)
	other := open(t, path)
	for i := range 100 {
		apply(t, s, start(fmt.Sprint("own-", i)))
		apply(t, other, start(fmt.Sprint("other-", i)))
	}
	frames := walHeader + int64(max(s.write.wal.pages, other.write.wal.pages))*walFrame
	size := s.walSize()
	if size <= frames {
		t.Errorf("expected room behind %d bytes, found a file of %d", frames, size)
	}
	data, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if rest := bytes.TrimLeft(data[frames:], "\x00"); len(rest) > 0 {
		t.Errorf("expected zeros behind the last frame, found %d other bytes", len(rest))
	}
	base, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A power cut leaves the reserved room, a part of it, or none.
	for _, left := range []int64{frames, frames + 1, frames + walFrame/2, frames + 3*walFrame, size} {
		copied := testPath(t)
		if err := errors.Join(os.WriteFile(copied, base, 0o600),
			os.WriteFile(copied+"-wal", data[:left], 0o600)); err != nil {
			t.Fatal(err)
		}
		if tallies, err := open(t, copied).Count(t.Context(), store.Filter{}); err != nil || len(tallies) != 1 ||
			tallies[0].Runs != 200 {
			t.Errorf("with %d of %d bytes: expected 200 runs, got %+v, %v", left, size, tallies, err)
		}
	}
}
