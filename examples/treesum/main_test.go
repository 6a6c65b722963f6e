package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
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

// printed is what --json prints.
type printed struct {
	Sum
	Resumed int `json:"resumed"`
}

func parseResult(t *testing.T, out []byte) printed {
	t.Helper()
	var r printed
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil || decoder.More() {
		t.Fatalf("expected one object, found %q: %v", out, err)
	}
	return r
}

func sumOf(t *testing.T, args ...string) printed {
	t.Helper()
	out, err := program(t, append([]string{"--json"}, args...)...).Output()
	if err != nil {
		t.Fatalf("treesum %q: %v", args, err)
	}
	return parseResult(t, out)
}

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		writeFile(t, filepath.Join(dir, filepath.FromSlash(name)), content)
	}
	return dir
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// checkDigest compares a digest with the one that the package comment's line for
// the shell gives.
func checkDigest(t *testing.T, dir, digest string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "sh", "-c",
		"find --version && sha256sum --version").Output(); err != nil || !bytes.Contains(out, []byte("GNU")) {
		t.Logf("the digest is not compared with the shell's: GNU find and sha256sum are needed: %v", err)
		return
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c",
		`find . -type f -printf '%P\0' | xargs -0r sha256sum -- | LC_ALL=C sort | sha256sum`)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want, _, _ := strings.Cut(string(out), " "); digest != want {
		t.Errorf("got digest %s, want %s", digest, want)
	}
}

var smallTree = map[string]string{
	"a.txt": "one\ntwo\n", "b.TXT": "no newline at the end", "empty": "", ".profile": "x\n", "sub/.x.go": "package x\n",
	"sub/deep/with space.go": "package y\n", "sub-1/first": "1\n", "sub/second": "2\n", "archive.tar.gz": "\x00\x01",
}

var smallTreeByExt = map[string]Ext{
	".txt": {1, 8, 2}, ".TXT": {1, 21, 0}, "": {4, 6, 3}, ".go": {2, 20, 2}, ".gz": {1, 2, 0},
}

func TestExactResult(t *testing.T) {
	dir := writeTree(t, smallTree)
	r := sumOf(t, "--db", filepath.Join(t.TempDir(), "x.db"), dir)
	want := Sum{Files: len(smallTree), Bytes: 57, Lines: 7, ByExt: smallTreeByExt, Digest: r.Digest}
	if !reflect.DeepEqual(r.Sum, want) || r.Resumed != 0 {
		t.Errorf("got %+v, want %+v", r, want)
	}
	checkDigest(t, dir, r.Digest)
}

func TestEmptyFolder(t *testing.T) {
	const emptyDigest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	out, err := program(t, "--json", "--db", filepath.Join(t.TempDir(), "x.db"), t.TempDir()).Output()
	if want := `{"files":0,"bytes":0,"lines":0,"by_ext":{},"digest":"` + emptyDigest + `","resumed":0}` +
		"\n"; err != nil || string(out) != want {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
}

// TestOwnFilesAreLeftOut puts everything that the program writes into the tree:
// the second call sees the same tree as the first.
func TestOwnFilesAreLeftOut(t *testing.T) {
	dir := writeTree(t, smallTree)
	writeFile(t, filepath.Join(dir, "own.report.tmp"), "left by a killed program")
	args := []string{"--db", filepath.Join(dir, "own.db"), "--effects", filepath.Join(dir, "own.effects"), "--report",
		filepath.Join(dir, "own.report"), dir}
	for call := range 2 {
		if r := sumOf(t, args...); r.Files != len(smallTree) || (call == 1) != (r.Resumed > 0) {
			t.Errorf("call %d: got %d files, resumed %d; want %d files", call, r.Files, r.Resumed, len(smallTree))
		}
	}
}

func TestReportListsAllFiles(t *testing.T) {
	dir := writeTree(t, smallTree)
	report := filepath.Join(t.TempDir(), "report")
	sumOf(t, "--db", filepath.Join(t.TempDir(), "x.db"), "--report", report, dir)
	lines := strings.Split(strings.TrimSpace(readFile(t, report)), "\n")
	if len(lines) != 1+len(smallTree) {
		t.Fatalf("got %d lines, want a heading and %d:\n%s", len(lines), len(smallTree), strings.Join(lines, "\n"))
	}
	// printf 'one\ntwo\n' | sha256sum
	if want := "c3f9c8c283a2b1f2f1896f27a01cbe3cddc0c9d93f752e4639035a0f5b36f6e8\t8\t2\t\"a.txt\"\t"; lines[2] != want {
		t.Errorf("got %q, want %q", lines[2], want)
	}
}

func TestSecondRunPrintsTheStoredResult(t *testing.T) {
	dir, base := writeTree(t, smallTree), t.TempDir()
	db, effects, report := filepath.Join(base, "x.db"), filepath.Join(base, "effects"), filepath.Join(base, "report")
	first := sumOf(t, "--db", db, "--effects", effects, dir)
	log := readFile(t, effects)
	second := sumOf(t, "--db", db, "--effects", effects, "--report", report, "--parallel", "1", dir)
	if second.Resumed != strings.Count(log, "\n") || first.Resumed != 0 || !reflect.DeepEqual(first.Sum, second.Sum) {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if after := readFile(t, effects); after != log {
		t.Errorf("the second run has started steps:\n%s", after[len(log):])
	}
	if got := strings.Count(readFile(t, report), "\n"); got != 1+len(smallTree) {
		t.Errorf("the report of the stored result has %d lines", got)
	}
}

// TestChangedTreeIsAnotherRun changes the size of one file.
func TestChangedTreeIsAnotherRun(t *testing.T) {
	dir, db := writeTree(t, smallTree), filepath.Join(t.TempDir(), "x.db")
	first := sumOf(t, "--db", db, dir)
	writeFile(t, filepath.Join(dir, "a.txt"), "one\ntwo\nthree\n")
	if second := sumOf(t, "--db", db, dir); second.Resumed != 0 || second.Lines != first.Lines+1 {
		t.Errorf("first %+v, second %+v", first, second)
	}
}

// TestFailedRunBeginsAnew creates the missing folder between two starts.
func TestFailedRunBeginsAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "late")
	o := options{db: filepath.Join(t.TempDir(), "x.db"), id: "r", parallel: 1, json: true, dir: dir}
	var failed *stet.RunError
	if err := run(t.Context(), o, t.Output()); !errors.As(err, &failed) || failed.Status != store.Failed {
		t.Fatalf("expected a failed run, found %v", err)
	}
	writeFile(t, filepath.Join(dir, "a"), "1\n")
	var out bytes.Buffer
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	if r := parseResult(t, out.Bytes()); r.Files != 1 || r.Resumed != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestTableForPeople(t *testing.T) {
	dir := writeTree(t, smallTree)
	for i := range 20 {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("x.e%d", i)), "")
	}
	out, err := program(t, "--db", filepath.Join(t.TempDir(), "x.db"), dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"extension", "(none)", "(10 more)", "total", "digest ", "resumed after 0 operations"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("expected %q in the table, found:\n%s", want, out)
		}
	}
}

func TestBadCalls(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeFile(t, file, "not SQLite, and long enough to be looked at as a database file header")
	other := writeTree(t, smallTree)
	used := filepath.Join(t.TempDir(), "used.db")
	sumOf(t, "--db", used, "--id", "r", other)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "expected one folder"},
		{[]string{dir, "--json"}, 2, "flags come before it"},
		{[]string{filepath.Join(dir, "none")}, 2, "expected a folder"},
		{[]string{file}, 2, "found a file"},
		{[]string{"--parallel", "0", dir}, 2, "expected 1 or more, found 0"},
		{[]string{"--parallel", "many", dir}, 2, "invalid value"},
		{[]string{"--db", "", dir}, 2, "expected a file"},
		{[]string{"--unknown", dir}, 2, "flag provided but not defined"},
		{[]string{"--db", file, dir}, 1, "store damaged"},
		{[]string{"--db", filepath.Join(dir, "none", "x.db"), dir}, 1, "none"},
		{[]string{"--db", filepath.Join(dir, "x.db"), "--id", "a\nb", dir}, 1, "printable characters"},
		{[]string{"--db", filepath.Join(dir, "x.db"), "--effects", dir, dir}, 1, "is a directory"},
		{[]string{"--db", used, "--id", "r", dir}, 1, "choose another --id"},
		{[]string{"--help"}, 0, "usage: treesum"},
	} {
		var stderr bytes.Buffer
		cmd := program(t, c.args...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(stderr.String(), c.want) || len(out) > 0 {
			t.Errorf("treesum %q: got %v, %q, %q; want exit code %d and %q", c.args, err, out, stderr.String(), c.code, c.want)
		}
	}
}

// goSource returns Go's own source tree.
func goSource(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("not in -short: it sums up Go's whole source tree")
	}
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("a go command is needed to find the source tree: ", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src")
}

func TestGoSource(t *testing.T) {
	dir := goSource(t)
	r := sumOf(t, "--db", filepath.Join(t.TempDir(), "x.db"), "--parallel", fmt.Sprint(2*runtime.NumCPU()), dir)
	if r.Files < 9000 || r.ByExt[".go"].Files < 5000 || len(r.Unreadable) > 0 {
		t.Errorf("got %d files, %d of Go, %d unreadable", r.Files, r.ByExt[".go"].Files, len(r.Unreadable))
	}
	checkDigest(t, dir, r.Digest)
}
