package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxCompressed is how many bytes a browser loads at most for the dashboard.
const maxCompressed = 60 << 10

func root(t *testing.T) string {
	t.Helper()
	root, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestDistIsWhatTheSourcesSay: nobody edits dist, and no change of src is forgotten in it.
func TestDistIsWhatTheSourcesSay(t *testing.T) {
	root := root(t)
	files, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadDir(filepath.Join(root, "dist"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range committed {
		names = append(names, f.Name())
	}
	if want := slices.Sorted(maps.Keys(files)); !slices.Equal(names, want) {
		t.Errorf("dist: expected %v, found %v", want, names)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(root, "dist", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("dist/%s is not what the sources say (%v): run GOWORK=off go -C tools run ./ui", name, err)
		}
	}
}

// TestBuildSaysTheSameElsewhere: no path of a machine, and nothing of chance, is in the files.
func TestBuildSaysTheSameElsewhere(t *testing.T) {
	here := root(t)
	there := filepath.Join(t.TempDir(), "other", "ui")
	for _, part := range []string{"src", "vendor"} {
		if err := os.CopyFS(filepath.Join(there, part), os.DirFS(filepath.Join(here, part))); err != nil {
			t.Fatal(err)
		}
	}
	first, err := build(here)
	if err != nil {
		t.Fatal(err)
	}
	second, err := build(there)
	if err != nil {
		t.Fatal(err)
	}
	for name := range first {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs when it is built in another folder", name)
		}
	}
}

func TestDistIsSmall(t *testing.T) {
	files, err := build(root(t))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, content := range files {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err == nil {
			_, err = w.Write(content)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		total += packed.Len()
		t.Logf("%s: %d bytes, %d compressed", name, len(content), packed.Len())
	}
	if total > maxCompressed {
		t.Errorf("expected at most %d bytes compressed, found %d", maxCompressed, total)
	}
}

// TestVendorIsUnchanged compares each vendored file with the sum that was written down when
// it was taken over.
func TestVendorIsUnchanged(t *testing.T) {
	vendor := filepath.Join(root(t), "vendor")
	list, err := os.ReadFile(filepath.Join(vendor, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{"README.md": "", "SHA256SUMS": ""}
	for line := range strings.Lines(string(list)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("SHA256SUMS: %q", line)
		}
		sums[name] = sum
	}
	err = filepath.WalkDir(vendor, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(vendor, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		want, known := sums[name]
		delete(sums, name)
		if !known {
			t.Errorf("%s is not in SHA256SUMS", name)
			return nil
		}
		content, err := os.ReadFile(file)
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); want != "" && got != want {
			t.Errorf("%s has changed: expected the sum %s, found %s", name, want, got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range sums {
		t.Errorf("%s is in SHA256SUMS and is missing", name)
	}
	for _, folder := range []string{"preact", "signals", "signals-core"} {
		if licence, err := os.ReadFile(filepath.Join(vendor, folder, "LICENSE")); err != nil ||
			!bytes.Contains(licence, []byte("MIT")) {
			t.Errorf("%s: expected its MIT licence, found %.40q (%v)", folder, licence, err)
		}
	}
}

// forbidden are ways of a page to make markup or code from text. The server's content
// security policy refuses them when they happen; here they are not even written.
var forbidden = regexp.MustCompile(
	`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|localStorage\.setItem\("token`)

func TestSourcesMakeNoMarkupFromText(t *testing.T) {
	src := filepath.Join(root(t), "src")
	err := filepath.WalkDir(src, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		for i, line := range strings.Split(string(content), "\n") {
			if found := forbidden.FindString(line); found != "" {
				t.Errorf("%s:%d: found %s", filepath.Base(file), i+1, found)
			}
			if ext := filepath.Ext(file); (ext == ".tsx" || ext == ".ts") && strings.Contains(line, "http://") ||
				strings.Contains(line, "https://") {
				t.Errorf("%s:%d: names a foreign address", filepath.Base(file), i+1)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
