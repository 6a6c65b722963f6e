package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listAll lists a folder page by page.
func listAll(t *testing.T, dir string) (pages int, files []File, unreadable []Unreadable) {
	t.Helper()
	for page := (Page{}); !page.Last; pages++ {
		var err error
		if page, err = listPage(dir, nil, page.End); err != nil {
			t.Fatal(err)
		}
		files = append(files, page.Files...)
		unreadable = append(unreadable, page.Unreadable...)
	}
	return pages, files, unreadable
}

// manyFiles is a tree of n files whose folders are neighbours in several orders.
func manyFiles(n int) map[string]string {
	files := make(map[string]string, n)
	for i := range n {
		folder := []string{"a", "a-b", "a/c", "a.d", "B", ""}[i%6]
		files[filepath.ToSlash(filepath.Join(folder, fmt.Sprintf("f%d.x%d", i, i%5)))] = strings.Repeat(fmt.Sprintln("line",
			i), i%17)
	}
	return files
}

func TestPagesListEveryFileOnce(t *testing.T) {
	tree := manyFiles(2*pageFiles + 1)
	pages, files, _ := listAll(t, writeTree(t, tree))
	if pages != 3 || len(files) != len(tree) {
		t.Fatalf("got %d files on %d pages, want %d on 3", len(files), pages, len(tree))
	}
	for _, f := range files {
		content, ok := tree[string(f.Path)]
		if !ok || int64(len(content)) != f.Size {
			t.Errorf("%q of %d bytes is not in the tree, or twice in the listing", f.Path, f.Size)
		}
		delete(tree, string(f.Path))
	}
}

// TestPageEndsBeforeItGrowsTooLarge has names that take six times their length
// in JSON.
func TestPageEndsBeforeItGrowsTooLarge(t *testing.T) {
	tree := map[string]string{}
	folder := strings.Repeat(strings.Repeat("<", 200)+"/", 10)
	for i := range 300 {
		tree[fmt.Sprint(folder, i)] = ""
	}
	dir := writeTree(t, tree)
	if pages, files, _ := listAll(t, dir); pages < 2 || len(files) != len(tree) {
		t.Errorf("got %d files on %d pages", len(files), pages)
	}
	page, err := listPage(dir, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(page); err != nil || len(data) > 2<<20 {
		t.Errorf("a page takes %d bytes, %v", len(data), err)
	}
}

func TestPathKeepsItsBytesInJSON(t *testing.T) {
	for _, name := range []Path{"", "a/b", "ä", `back\slash`, "new\nline", `"quoted"`, "\xff\xfe",
		"mixed \xff and \uFFFD",
		"<&>\u2028"} {
		data, err := json.Marshal(File{Path: name})
		if err != nil {
			t.Fatal(err)
		}
		var back File
		if err := json.Unmarshal(data, &back); err != nil || back.Path != name {
			t.Errorf("%q came back from %s as %q, %v", name, data, back.Path, err)
		}
	}
	var p Path
	if err := p.UnmarshalText([]byte(`"cut off`)); err == nil {
		t.Errorf("a quoted name without its end was read as %q", p)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	large := File{Path: "large", Size: 3 * batchBytes}
	small := File{Path: "small", Size: 1}
	half := File{Path: "half", Size: batchBytes / 2}
	for _, c := range []struct {
		files []File
		want  []int // files in each batch
	}{
		{nil, nil},
		{[]File{large}, []int{1}},
		{[]File{small, large, small}, []int{1, 1, 1}},
		{[]File{half, half, small}, []int{2, 1}},
		{slices.Repeat([]File{small}, 2*batchFiles+1), []int{batchFiles, batchFiles, 1}},
	} {
		var got []int
		for _, batch := range batches(c.files) {
			got = append(got, len(batch))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d files: got batches of %v, want %v", len(c.files), got, c.want)
		}
	}
}

func TestExtension(t *testing.T) {
	for name, want := range map[Path]string{
		"a.go": ".go", "dir.d/a": "", "a.tar.gz": ".gz", ".profile": "", "..x": "", ".x.go": ".go", "a.": ".", "a.\xff": ".\uFFFD",
	} {
		if got := extension(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
