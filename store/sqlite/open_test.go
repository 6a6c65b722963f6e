package sqlite

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	damaged := filepath.Join(dir, "damaged.db")
	s := open(t, damaged)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < len(image); i++ {
		image[i] = 0xa5
	}
	write("damaged.db", string(image))

	for _, c := range []struct {
		name, path string
		class      error
		says       string
	}{
		{"no path", "", store.ErrInvalid, "empty"},
		{"memory", ":memory:", store.ErrInvalid, "store/memory"},
		{"URI", "file:x.db", store.ErrInvalid, "expected a path, found a URI"},
		{"no folder", filepath.Join(dir, "no", "x.db"), store.ErrUnavailable, "to exist"},
		{"a folder", dir, store.ErrInvalid, "found a folder"},
		{"folder is a file", filepath.Join(damaged, "x.db"), store.ErrUnavailable, "folder"},
		{"text", write("notes.txt", strings.Repeat("not a database ", 100)), store.ErrDamaged, "expected an SQLite file"},
		{"damaged", damaged, store.ErrDamaged, "restore a backup"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(context.Background(), c.path)
			if err == nil {
				t.Fatal("expected an error", s.Close())
			}
			wantErr(t, err, c.class)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("expected the error to say %q, got %v", c.says, err)
			}
		})
	}
}

// foreign makes an SQLite file with a table of another application.
func foreign(t testing.TB) string {
	path := testPath(t)
	c, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Exec("CREATE TABLE runs (x); INSERT INTO runs VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFileOfAnotherApplicationIsSharedOnlyWhenAsked(t *testing.T) {
	path := foreign(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), path); err == nil {
		t.Fatal("expected an error")
	} else {
		wantErr(t, err, store.ErrSchema)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a file that was refused has changed: %v", err)
	}
	s := open(t, path, Shared())
	apply(t, s, start("a"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path) // stet's tables are there now
	if page, err := s.List(t.Context(), store.Filter{}); err != nil || len(page.Runs) != 1 {
		t.Fatalf("expected one run, got %v, %v", page.Runs, err)
	}
}

func TestCloseTwiceAndUseAfterwards(t *testing.T) {
	s := open(t, testPath(t))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Apply(t.Context(), nil)
	wantErr(t, err, store.ErrClosed)
	_, err = s.List(t.Context(), store.Filter{})
	wantErr(t, err, store.ErrClosed)
	_, err = s.Changed(t.Context())
	wantErr(t, err, store.ErrClosed)
	wantErr(t, s.Backup(t.Context(), testPath(t)), store.ErrClosed)
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		opts []Option
		sync int64
	}{{nil, 2}, {[]Option{AllowLoss()}, 1}} {
		s := open(t, testPath(t), c.opts...)
		var mode string
		var sync, mmap int64
		for query, into := range map[string]any{"PRAGMA journal_mode": &mode, "PRAGMA synchronous": &sync,
			"PRAGMA mmap_size": &mmap} {
			if _, err := s.write.c.row(query, nil, into); err != nil {
				t.Fatal(err)
			}
		}
		if mode != "wal" || sync != c.sync || mmap != 0 {
			t.Errorf("expected WAL, synchronous %d and no memory map, got %s, %d, %d", c.sync, mode, sync, mmap)
		}
	}
}

// What is cut short because the context has ended says so, not how SQLite puts it.
func TestOpenEndsWithTheContext(t *testing.T) {
	path := testPath(t)
	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if second, err := Open(ended, path); err == nil {
		t.Error("opened", second.Close())
	} else {
		wantErr(t, err, context.Canceled)
	}
	_, err = ReadSchema(ended, path)
	wantErr(t, err, context.Canceled)
	_, err = s.Describe(ended) // its reader has yet to be opened
	wantErr(t, err, context.Canceled)
	_, _, err = s.Apply(ended, nil)
	wantErr(t, err, context.Canceled)
}
