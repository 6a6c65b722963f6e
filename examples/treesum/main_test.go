package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// TestMain makes the test binary the program itself when it is asked to be.
func TestMain(m *testing.M) {
	if os.Getenv("TREESUM_MAIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program returns the program as a command.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "TREESUM_MAIN=1")
	cmd.Stderr = t.Output()
	return cmd
}

// result is what --json prints.
type result struct {
	Sum
	Resumed int
}

func sumOf(t *testing.T, args ...string) result {
	t.Helper()
	out, err := program(t, append([]string{"--json"}, args...)...).Output()
	if err != nil {
		t.Fatalf("treesum %q: %v", args, err)
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("output %q: %v", out, err)
	}
	return r
}

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shellDigest is the digest as the package comment reproduces it.
func shellDigest(t *testing.T, dir string) string {
	t.Helper()
	for _, tool := range []string{"find", "xargs", "sha256sum", "sort"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is needed to compare with", tool)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `find . -type f -printf '%P\0' | xargs -0 sha256sum | LC_ALL=C sort | sha256sum`)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the tools here differ from GNU's: %v", err)
	}
	return string(out[:64])
}

var oddTree = map[string]string{
	"a.txt": "one\ntwo\n", "b.TXT": "no newline at the end", "empty": "", ".profile": "x\n", "sub/.x.go": "package x\n",
	"sub/deep/with space.go": "package y\n", "new\nline.txt": "n\n", `back\slash`: "b\n", "carriage\rreturn": "c\n",
	"sub-1/first": "1\n", "sub/second": "2\n", "archive.tar.gz": "\x00\x01",
}

func TestExactResult(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the names of this tree are not possible on Windows")
	}
	dir := writeTree(t, oddTree)
	if err := os.Symlink("a.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	r := sumOf(t, "--db", filepath.Join(dir, "own.db"), "--effects", filepath.Join(dir, "own.effects"), "--report", filepath.Join(dir, "own.report"), dir)
	want := map[string]Ext{
		".txt": {2, 10, 3}, ".TXT": {1, 21, 0}, "": {6, 10, 5}, ".go": {2, 20, 2}, ".gz": {1, 2, 0},
	}
	if r.Files != len(oddTree) || r.Resumed != 0 || len(r.Unreadable) != 0 {
		t.Errorf("got %+v", r)
	}
	for ext, w := range want {
		if r.ByExt[ext] != w {
			t.Errorf("extension %q: got %+v, want %+v", ext, r.ByExt[ext], w)
		}
	}
	report, err := os.ReadFile(filepath.Join(dir, "own.report"))
	if err != nil || bytes.Count(report, []byte("\n")) != len(oddTree) {
		t.Errorf("report: %v\n%s", err, report)
	}
	for _, own := range []string{"own.db", "own.db-owner", "own.effects", "own.report"} {
		os.Remove(filepath.Join(dir, own))
	}
	if want := shellDigest(t, dir); r.Digest != want {
		t.Errorf("got digest %s, want %s", r.Digest, want)
	}
}

func TestUnreadableFileIsReported(t *testing.T) {
	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("every file can be read here")
	}
	dir := writeTree(t, map[string]string{"open": "1\n", "shut": "2\n"})
	if err := os.Chmod(filepath.Join(dir, "shut"), 0); err != nil {
		t.Fatal(err)
	}
	r := sumOf(t, "--db", filepath.Join(t.TempDir(), "x.db"), dir)
	if r.Files != 1 || len(r.Unreadable) != 1 || r.Unreadable[0].Path != "shut" {
		t.Errorf("got %+v", r)
	}
}

// manyFiles is a tree of several pages and many batches.
func manyFiles(n int) map[string]string {
	files := make(map[string]string, n)
	for i := range n {
		files[fmt.Sprintf("d%02d/f%d.x%d", i%23, i, i%5)] = strings.Repeat(fmt.Sprintln("line", i), i%17)
	}
	return files
}

// TestKilledAndStartedAgain kills the program at random moments until it comes
// to its end: the result is that of an undisturbed run, and no step that was
// recorded when the program was killed has run again.
func TestKilledAndStartedAgain(t *testing.T) {
	dir := writeTree(t, manyFiles(5000))
	base := t.TempDir()
	undisturbed := sumOf(t, "--db", filepath.Join(base, "a.db"), "--id", "r", dir)
	db, effects := filepath.Join(base, "b.db"), filepath.Join(base, "effects")
	args := []string{"--db", db, "--id", "r", "--effects", effects, "--json", dir}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	recorded := map[string]int{} // location: effects until it was seen recorded
	var last result
	kills := 0
	for ; ; kills++ {
		if kills == 200 {
			t.Fatal("it does not come to its end")
		}
		var out bytes.Buffer
		cmd := program(t, args...)
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(random.IntN(60+5*kills))*time.Millisecond, func() { cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if err == nil {
			if err := json.Unmarshal(out.Bytes(), &last); err != nil {
				t.Fatal(err)
			}
			break
		}
		for location, n := range recordedSteps(t, db, effects) {
			if former, ok := recorded[location]; ok && former != n {
				t.Errorf("step %s had been recorded and was started again", location)
			}
			recorded[location] = n
		}
	}
	t.Logf("killed %d times; resumed after %d operations", kills, last.Resumed)
	if fmt.Sprint(last.Sum) != fmt.Sprint(undisturbed.Sum) {
		t.Errorf("got %+v, want %+v", last.Sum, undisturbed.Sum)
	}
}

// recordedSteps returns how often each recorded step has been started.
func recordedSteps(t *testing.T, db, effects string) map[string]int {
	t.Helper()
	if _, err := os.Stat(db); err != nil {
		return nil
	}
	s, err := sqlite.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e, err := stet.New(stet.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := e.History(context.Background(), "r", stet.HistoryQuery{})
	if err != nil {
		return nil // not started yet
	}
	log, err := os.ReadFile(effects)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	steps := map[string]int{}
	for _, entry := range entries {
		if entry.Kind == store.KindStep && entry.State == store.Done {
			steps[entry.Location] = strings.Count(string(log), "r "+entry.Location+" ")
		}
	}
	return steps
}

func TestSecondRunPrintsTheStoredResult(t *testing.T) {
	dir := writeTree(t, oddTreePortable())
	db, effects := filepath.Join(t.TempDir(), "x.db"), filepath.Join(t.TempDir(), "effects")
	first := sumOf(t, "--db", db, "--effects", effects, dir)
	log, err := os.ReadFile(effects)
	if err != nil {
		t.Fatal(err)
	}
	second := sumOf(t, "--db", db, "--effects", effects, dir)
	if second.Resumed == 0 || first.Resumed != 0 || fmt.Sprint(first.Sum) != fmt.Sprint(second.Sum) {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if after, err := os.ReadFile(effects); err != nil || !bytes.Equal(log, after) {
		t.Errorf("the second run has started steps: %v\n%s", err, after[len(log):])
	}
}

func oddTreePortable() map[string]string {
	files := map[string]string{}
	for name, content := range oddTree {
		if !strings.ContainsAny(name, "\\\n\r") {
			files[name] = content
		}
	}
	return files
}

func TestGoSource(t *testing.T) {
	if testing.Short() {
		t.Skip("sums up Go's whole source tree")
	}
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go command here: ", err)
	}
	src := filepath.Join(strings.TrimSpace(string(out)), "src")
	r := sumOf(t, "--db", filepath.Join(t.TempDir(), "x.db"), src)
	if r.Files < 9000 || r.ByExt[".go"].Files < 5000 {
		t.Errorf("got %d files, %d of Go", r.Files, r.ByExt[".go"].Files)
	}
	if want := shellDigest(t, src); r.Digest != want {
		t.Errorf("got digest %s, want %s", r.Digest, want)
	}
}

func TestBadCalls(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("not SQLite, and long enough to be looked at as a database file header"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "expected one folder"},
		{[]string{dir, dir}, 2, "expected one folder"},
		{[]string{filepath.Join(dir, "none")}, 2, "expected a folder"},
		{[]string{file}, 2, "found a file"},
		{[]string{"--parallel", "0", dir}, 2, "expected 1 or more, found 0"},
		{[]string{"--db", file, dir}, 1, "store damaged"},
		{[]string{"--db", filepath.Join(dir, "x.db"), "--id", "a\nb", dir}, 1, "printable characters"},
	} {
		var stderr bytes.Buffer
		cmd := program(t, c.args...)
		cmd.Stderr = &stderr
		err := cmd.Run()
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("treesum %q: got %v, exit code %d, %q; want exit code %d and %q", c.args, err, cmd.ProcessState.ExitCode(), stderr.String(), c.code, c.want)
		}
	}
}

func TestOrderOfWalk(t *testing.T) {
	dir := writeTree(t, manyFiles(300))
	whole, err := listFiles(dir, nil, "", 1000)
	if err != nil || !whole.Last || len(whole.Files) != 300 {
		t.Fatalf("got %d files, last %v, %v", len(whole.Files), whole.Last, err)
	}
	var paged []string
	for after := ""; ; {
		page, err := listFiles(dir, nil, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		paged = append(paged, page.Files...)
		if page.Last {
			break
		}
		after = page.Files[len(page.Files)-1]
	}
	if !slices.Equal(paged, whole.Files) {
		t.Errorf("pages give another listing than one page")
	}
}
