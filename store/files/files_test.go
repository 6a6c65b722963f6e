package files_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/files"
)

func open(t *testing.T) (*files.Objects, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "objects")
	o, err := files.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o, dir
}

func TestPutGetDelete(t *testing.T) {
	o, dir := open(t)
	ctx := t.Context()
	for _, content := range []string{"first", "again", ""} {
		if err := o.Put(ctx, "r1/ab-cd_e.f", []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := o.Get(ctx, "r1/ab-cd_e.f"); err != nil || string(got) != content {
			t.Errorf("got %q, %v; want %q", got, err, content)
		}
	}
	other, err := files.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 2 { // the second time it is not there
		if err := other.Delete(ctx, "r1/ab-cd_e.f"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Get(ctx, "r1/ab-cd_e.f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was deleted: %v", err)
	}
}

func TestList(t *testing.T) {
	o, dir := open(t)
	ctx := t.Context()
	var want []string
	for _, name := range []string{"a", "a-b/x", "a.b/x", "a/1", "a/2", "b/c/d", "b/c/e", "z"} {
		want = append(want, name)
		if err := o.Put(ctx, name+"/o", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, after := range []string{"", "a/1/o", "a/o", "b/", "zz"} {
		list, err := o.List(ctx, after)
		if err != nil {
			t.Fatal(err)
		}
		var last string
		n := 0
		for _, object := range list {
			if object.Name <= last || object.Name <= after || time.Since(object.Written) > time.Hour {
				t.Errorf("after %q: %+v comes after %q", after, object, last)
			}
			last = object.Name
		}
		for _, name := range want {
			if name+"/o" > after {
				n++
			}
		}
		if len(list) != n {
			t.Errorf("after %q: %d objects; want %d", after, len(list), n)
		}
	}
	// what a crash left of a file that was being written
	old, young := filepath.Join(dir, "a", ".tmp-1"), filepath.Join(dir, "a", ".tmp-2")
	for _, file := range []string{old, young} {
		if err := os.WriteFile(file, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Now(), time.Now().Add(-25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	list, err := o.List(ctx, "")
	if err != nil || len(list) != len(want) {
		t.Errorf("%d objects, %v; want %d", len(list), err, len(want))
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("the young one: %v", err)
	}
}

func TestPages(t *testing.T) {
	o, _ := open(t)
	ctx := t.Context()
	const count = 1100
	for i := range count {
		if err := o.Put(ctx, fmt.Sprintf("d%d/%04d", i%3, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	seen, after := map[string]bool{}, ""
	for {
		list, err := o.List(ctx, after)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, object := range list {
			seen[object.Name], after = true, object.Name
		}
	}
	if len(seen) != count {
		t.Errorf("listed %d of %d", len(seen), count)
	}
}

// TestNoNameLeavesTheFolder, and no other is misunderstood.
func TestNoNameLeavesTheFolder(t *testing.T) {
	o, dir := open(t)
	ctx := t.Context()
	if err := os.WriteFile(filepath.Join(dir, "..", "outside"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "../outside", "a/../../outside", "/etc/passwd", "a//b", "a/", "/a",
		"a\x00b", `a\b`, "ä",
		".hidden", "a/.tmp-x", strings.Repeat("x", 501), strings.Repeat("x", 256)} {
		if err := o.Put(ctx, name, []byte("y")); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("writing %q: %v", name, err)
		}
		if _, err := o.Get(ctx, name); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("reading %q: %v", name, err)
		}
		if err := o.Delete(ctx, name); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("deleting %q: %v", name, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "..", "outside")); err != nil || !bytes.Equal(got, []byte("x")) {
		t.Errorf("the file outside is %q, %v", got, err)
	}
}

func TestAFolderThatIsAway(t *testing.T) {
	if os.Getuid() == 0 {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Open(file); err == nil {
			t.Error("a file was opened as a folder")
		}
	}
	o, dir := open(t)
	if err := os.WriteFile(filepath.Join(dir, "r1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.Put(t.Context(), "r1/x", nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("where a file is in the way: %v", err)
	}
}
