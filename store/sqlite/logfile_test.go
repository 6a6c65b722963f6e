package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/stet-run/stet/store"
)

// logChanges returns the kinds of the changes of the log during act.
func logChanges(t *testing.T, fs *testFS, act func()) (kinds []string) {
	t.Helper()
	fs.mu.Lock()
	fs.keep, fs.changes = true, nil
	fs.mu.Unlock()
	act()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, c := range fs.changes {
		if c.isWAL() {
			kinds = append(kinds, c.kind)
		}
	}
	return kinds
}

// A commit gives the log to the system in one piece, before it is synced. One that does not wait
// for the disk has no moment for that: the log is visible to others at once.
func TestACommitWritesTheLogOnce(t *testing.T) {
	for _, c := range []struct {
		opts []Option
		want func(writes, syncs int) bool
	}{
		{nil, func(writes, syncs int) bool { return writes == 1 && syncs == 1 }},
		{[]Option{AllowLoss()}, func(writes, syncs int) bool { return writes > 4 && syncs == 0 }},
	} {
		fs, on := newTestFS(t)
		s := open(t, testPath(t), append(c.opts, on)...)
		apply(t, s, start("before")) // the log begins with a header of its own
		kinds := logChanges(t, fs, func() { apply(t, s, start("a"), start("b")) })
		writes := len(slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return kind != "write" }))
		if !c.want(writes, len(kinds)-writes) || c.opts == nil && kinds[0] != "write" {
			t.Errorf("options %d: the changes of the log are %q", len(c.opts), kinds)
		}
	}
}

// What a transaction writes before its commit goes to the file at once, and nothing of it later:
// another process writes to the same place when it is taken back.
func TestATransactionThatIsTakenBackLeavesTheLog(t *testing.T) {
	fs, on := newTestFS(t)
	path := testPath(t)
	s := open(t, path, on)
	apply(t, s, start("before"))
	sentinel := errors.New("taken back")
	kinds := logChanges(t, fs, func() {
		err := s.write.do(t.Context(), "fill the cache", func(c *conn, _ store.Time) error {
			if err := c.Exec("CREATE TABLE large(v BLOB)"); err != nil {
				return err
			}
			for range 12 { // MiB, of which the cache holds 4
				if err := c.Exec("INSERT INTO large VALUES (randomblob(1048576))"); err != nil {
					return err
				}
			}
			return sentinel
		})
		if !errors.Is(err, sentinel) {
			t.Fatalf("expected %v, got %v", sentinel, err)
		}
	})
	if len(kinds) < 1000 {
		t.Fatalf("expected a cache that does not hold the transaction, found %d changes of the log", len(kinds))
	}
	other := open(t, path, on)
	for i := range 20 {
		apply(t, other, start(fmt.Sprint("other-", i)))
	}
	apply(t, s, start("after"))
	var verdict string
	if _, err := s.write.c.row("PRAGMA integrity_check", nil, &verdict); err != nil || verdict != "ok" {
		t.Errorf("the file is %q, %v", verdict, err)
	}
}

// A commit of which the log cannot be written has not happened, and nothing of it comes later.
func TestACommitThatTheLogRefuses(t *testing.T) {
	fs, on := newTestFS(t)
	s := open(t, testPath(t), on)
	apply(t, s, start("before"))
	fs.setFault(func(c change) error {
		if c.isWAL() && c.kind == "write" {
			return sqlite3.FULL
		}
		return nil
	})
	if _, _, err := s.Apply(t.Context(), []store.Command{start("refused")}); !errors.Is(err, store.ErrUnavailable) ||
		errors.Is(err, store.ErrUnknown) {
		t.Errorf("expected an error of a commit that has not happened, got %v", err)
	}
	if n := len(s.write.c.log.kept); n != 0 {
		t.Errorf("the log keeps %d bytes of it", n)
	}
	fs.setFault(nil)
	apply(t, s, start("after"))
	if page, err := s.List(t.Context(), store.Filter{}); err != nil || len(page.Runs) != 2 {
		t.Errorf("expected 2 runs, found %d, %v", len(page.Runs), err)
	}
}

// A log that gathers is, by what its methods return, the file below it.
func TestALogIsItsFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	plain, below := &memoryFile{}, &memoryFile{}
	log := &logFile{File: below}
	end := int64(0)
	for i := range 5_000 {
		switch n := rng.IntN(100); {
		case n < 70:
			off := end
			if rng.IntN(4) == 0 {
				off = rng.Int64N(end + 100)
			}
			p := bytes.Repeat([]byte{byte(i)}, 1+rng.IntN(60))
			if rng.IntN(20) == 0 {
				p = bytes.Repeat(p, mostGathered*2/3/len(p))
			}
			_, _ = plain.WriteAt(p, off) // is memory
			if n, err := log.WriteAt(p, off); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			end = off + int64(len(p))
		case n < 80:
			want, got := make([]byte, 50), make([]byte, 50)
			off := rng.Int64N(end + 1)
			n, end := plain.ReadAt(want, off)
			if m, err := log.ReadAt(got, off); m != n || err != end || !bytes.Equal(want, got) {
				t.Fatalf("act %d: read %x, %d, %v, want %x, %d, %v", i, got, m, err, want, n, end)
			}
		case n < 85:
			want, _ := plain.Size()
			if got, err := log.Size(); got != want || err != nil {
				t.Fatalf("act %d: %d bytes, %v, want %d", i, got, err, want)
			}
		case n < 90:
			size := rng.Int64N(2000)
			_ = plain.Truncate(size) // is memory
			if err := log.Truncate(size); err != nil {
				t.Fatal(err)
			}
			end = size
		default:
			if err := log.Sync(0); err != nil || !bytes.Equal(below.data, plain.data) {
				t.Fatalf("act %d: synced, the file has %d bytes, %v, want %d", i, len(below.data), err, len(plain.data))
			}
			if log.settle(); rng.IntN(3) > 0 {
				log.gather()
			}
		}
		if !log.gathers && !bytes.Equal(below.data, plain.data) {
			t.Fatalf("act %d: it does not gather, and the file is behind", i)
		}
		if len(log.kept) > mostGathered {
			t.Fatalf("act %d: it keeps %d bytes", i, len(log.kept))
		}
	}
	if below.writes > plain.writes*2/3 {
		t.Errorf("%d writes have become %d", plain.writes, below.writes)
	}
}

// What is kept at the end of a commit was not synced, so the commit has failed.
func TestALogForgetsAFailedCommit(t *testing.T) {
	below := &memoryFile{}
	log := &logFile{File: below}
	log.gather()
	if _, err := log.WriteAt([]byte("a frame"), 0); err != nil {
		t.Fatal(err)
	}
	log.settle()
	if err := log.Sync(0); err != nil || len(below.data) > 0 {
		t.Errorf("the file has %q, %v", below.data, err)
	}
}

// memoryFile is a file in memory.
type memoryFile struct {
	vfs.File
	data   []byte
	writes int
}

func (f *memoryFile) WriteAt(p []byte, off int64) (int, error) {
	f.writes++
	if end := int(off) + len(p); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	return copy(f.data[off:], p), nil
}

func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) Truncate(size int64) error {
	f.data = f.data[:min(int(size), len(f.data))]
	return nil
}

func (f *memoryFile) Size() (int64, error) { return int64(len(f.data)), nil }

func (f *memoryFile) Sync(vfs.SyncFlag) error { return nil }

// A path is given to SQLite within a URI, whatever it consists of.
func TestAPathMayHaveAnyCharacters(t *testing.T) {
	for _, name := range []string{"a b.db", "a?mode=ro.db", "a#b.db", "ü%20.db", "a&vfs=none.db"} {
		path := filepath.Join(t.TempDir(), name)
		apply(t, open(t, path), start("a"))
		for _, file := range []string{path, path + "-wal"} {
			if info, err := os.Stat(file); err != nil || info.Size() == 0 {
				t.Errorf("%s: expected the file with a run: %v", name, err)
			}
		}
	}
}
