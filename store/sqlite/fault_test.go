package sqlite

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

func TestFullDiskRefusesAndGoesOnWithoutARestart(t *testing.T) {
	fs, opt := newTestFS(t)
	s, run, b := one(t, opt)
	fs.setFault(func(c change) error {
		if c.kind == "write" {
			return sqlite3.FULL
		}
		return nil
	})
	batch := b.next(done(run, 1, []byte("x")))
	_, err := s.Commit(t.Context(), batch)
	wantErr(t, err, store.ErrUnavailable)
	if errors.Is(err, store.ErrUnknown) {
		t.Errorf("expected that nothing happened, got %v", err)
	}
	_, _, err = s.Apply(t.Context(), []store.Command{start("a")})
	wantErr(t, err, store.ErrUnavailable)
	if n := len(history(t, s, run)); n != 0 {
		t.Errorf("expected reading to work and to find nothing, got %d entries", n)
	}
	fs.setFault(nil)
	if got, err := s.Commit(t.Context(), batch); err != nil || got.Turns[0].Verdict != store.Committed {
		t.Errorf("expected the batch to be committed now, got %+v, %v", got, err)
	}
	apply(t, s, start("a"))
}

// TestFullDiskIsNamed: the system's own error, which the driver reports as one of input and output, says what to do.
func TestFullDiskIsNamed(t *testing.T) {
	fs, opt := newTestFS(t)
	s, run, b := one(t, opt)
	fs.setFault(func(c change) error {
		if c.kind == "write" {
			return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
		}
		return nil
	})
	batch := b.next(done(run, 1, []byte("x")))
	_, err := s.Commit(t.Context(), batch)
	wantErr(t, err, store.ErrUnavailable)
	if err == nil || !strings.Contains(err.Error(), "free some room on the disk") {
		t.Errorf("expected the error to say what to do, found %v", err)
	}
	fs.setFault(nil)
	if got, err := s.Commit(t.Context(), batch); err != nil || got.Turns[0].Verdict != store.Committed {
		t.Errorf("expected the batch to be committed now, got %+v, %v", got, err)
	}
}

func TestFailedSyncLeavesTheOutcomeOpen(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(change) error
	}{
		{"sync", func(c change) error {
			if c.kind == "sync" && c.isWAL() {
				return sqlite3.IOERR_FSYNC
			}
			return nil
		}},
		{"write", func(c change) error {
			if c.kind == "write" && c.isWAL() {
				return sqlite3.IOERR_WRITE
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, opt := newTestFS(t)
			s, run, b := one(t, opt)
			before := s.write.c
			fs.setFault(c.fault)
			batch := b.next(done(run, 1, []byte("x")))
			batch.Commands = []store.Command{send("run-1", "m", nil)}
			_, err := s.Commit(t.Context(), batch)
			wantErr(t, err, store.ErrUnavailable, store.ErrUnknown)
			fs.setFault(nil)
			for range 2 {
				got, err := s.Commit(t.Context(), batch)
				if err != nil || got.Turns[0].Verdict != store.Committed || got.Commands[0].Outcome != store.Applied {
					t.Fatalf("expected the repeat to be committed, got %+v, %v", got, err)
				}
			}
			if s.write.c == before {
				t.Error("expected the connection to have been opened anew")
			}
			items, err := s.Inbox(t.Context(), run)
			if err != nil || len(items) != 1 || len(history(t, s, run)) != 1 {
				t.Errorf("expected one message and one entry, got %v, %v", items, err)
			}
		})
	}
}

func TestErrorsOfReadingAreUnavailable(t *testing.T) {
	fs, opt := newTestFS(t)
	s, run, b := one(t, opt)
	b.commit(t, s, done(run, 1, nil))
	fs.setFault(func(c change) error {
		if c.kind == "sync" {
			return sqlite3.IOERR_FSYNC
		}
		return nil
	})
	_, _, err := s.Acquire(t.Context(), otherNode, []store.Shard{{Group: "g"}}, testTTL)
	wantErr(t, err, store.ErrUnavailable, store.ErrUnknown)
	fs.setFault(nil)
	if s.owner.owns(store.Shard{Group: "g"}, 1) {
		t.Error("expected no lease to be noted")
	}
	if got, _, err := s.Acquire(t.Context(), otherNode, []store.Shard{{Group: "g"}}, testTTL); err != nil || !got[0].Held {
		t.Errorf("expected the lease, got %+v, %v", got, err)
	}
}

func TestFailedCheckpointIsNoFailureOfTheCommit(t *testing.T) {
	fs, opt := newTestFS(t)
	s, run, b := one(t, opt)
	s.cfg.wal.owner = 1
	failed := 0
	fs.setFault(func(c change) error {
		if c.kind == "sync" && !c.isWAL() {
			failed++
			return sqlite3.IOERR_FSYNC
		}
		return nil
	})
	for seq := range int64(5) {
		if got := b.commit(t, s, done(run, seq+1, nil)); got[0].Verdict != store.Committed {
			t.Fatalf("got %+v", got)
		}
	}
	if failed == 0 {
		t.Fatal("expected checkpoints to be tried")
	}
	fs.setFault(nil)
	b.commit(t, s, done(run, 6, nil))
	if n := len(history(t, s, run)); n != 6 {
		t.Errorf("expected 6 entries, got %d", n)
	}
}

func TestErrorsHaveAClass(t *testing.T) {
	for code, class := range map[error]error{
		sqlite3.FULL: store.ErrUnavailable, sqlite3.BUSY: store.ErrUnavailable, sqlite3.IOERR_READ: store.ErrUnavailable,
		sqlite3.CANTOPEN: store.ErrUnavailable, sqlite3.READONLY: store.ErrUnavailable,
		sqlite3.READONLY_DBMOVED: store.ErrUnavailable,
		sqlite3.CORRUPT:          store.ErrDamaged, sqlite3.CORRUPT_INDEX: store.ErrDamaged, sqlite3.NOTADB: store.ErrDamaged,
		sqlite3.IOERR_CORRUPTFS: store.ErrDamaged, sqlite3.TOOBIG: store.ErrInvalid,
	} {
		wantErr(t, classify("act", code), class, code)
	}
	if err := classify("act", sqlite3.CONSTRAINT_UNIQUE); errors.Is(err, store.ErrUnavailable) ||
		errors.Is(err, store.ErrInvalid) {
		t.Errorf("expected an unknown error to keep its class, got %v", err)
	}
	if classify("act", nil) != nil {
		t.Error("expected nil of nil")
	}
}
