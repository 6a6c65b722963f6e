//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOddNames sums up names that sha256sum escapes, names that are not UTF-8, and entries other than regular files.
func TestOddNames(t *testing.T) {
	tree := map[string]string{
		"new\nline.txt": "n\n", `back\slash`: "b\n", "carriage\rreturn": "c\n", `\n`: "", `"quoted".x`: "q", " ": " ", "-x": "-\n",
		"Grüße.tex": "g\n", "*": "", "$(x)": "", "tab\tbed": "",
	}
	dir := writeTree(t, tree)
	files := len(tree)
	if err := os.WriteFile(filepath.Join(dir, "latin-\xe9.tex"), []byte("l\n"), 0o644); err == nil {
		files++ // some file systems hold UTF-8 alone
	}
	outside := writeTree(t, smallTree)
	for name, target := range map[string]string{"link": " ", "folder": outside, "nowhere": "none"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report")
	r := sumOf(t, "--db", filepath.Join(t.TempDir(), "x.db"), "--report", report, dir)
	if r.Files != files || len(r.Unreadable) > 0 {
		t.Errorf("got %d files and unreadable %v, want %d and none", r.Files, r.Unreadable, files)
	}
	if got := strings.Count(readFile(t, report), "\n"); got != 1+files {
		t.Errorf("the report has %d lines, want %d", got, 1+files)
	}
	checkDigest(t, dir, r.Digest)
}

// TestUnreadableIsReported shuts a file and a folder. The folder is the last that
// its page of the listing holds.
func TestUnreadableIsReported(t *testing.T) {
	const files = pageFiles - 1
	tree := manyFiles(files)
	tree["y/shut"], tree["z-shut"], tree["zz"] = "y\n", "z\n", "zz\n"
	dir := writeTree(t, tree)
	db := filepath.Join(t.TempDir(), "x.db")
	cmd := program(t, "--json", "--db", db, dir)
	runAsNobody(t, cmd, dir, filepath.Dir(db))
	for _, name := range []string{"y", "z-shut"} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := os.Chmod(filepath.Join(dir, "y"), 0o700); err != nil { // so that it can be removed
			t.Error(err)
		}
	})
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	r := parseResult(t, out)
	want := []Unreadable{{"y", "permission denied"}, {"z-shut", "permission denied"}}
	if r.Files != files+1 || !slices.Equal(r.Unreadable, want) {
		t.Errorf("got %d files and unreadable %v, want %d and %v", r.Files, r.Unreadable, files+1, want)
	}
}

// runAsNobody runs a command without the administrator's rights, which open every file. The user gets the rights to
// enter the folders.
func runAsNobody(t *testing.T, cmd *exec.Cmd, folders ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	const nobody = 65534
	bin := filepath.Join(t.TempDir(), "treesum")
	if err := os.Link(cmd.Path, bin); err != nil {
		program, err := os.ReadFile(cmd.Path)
		if err == nil {
			err = os.WriteFile(bin, program, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd.Path, cmd.Dir = bin, "/"
	for _, folder := range append(folders, filepath.Dir(bin)) {
		if err := errors.Join(os.Chmod(filepath.Dir(folder), 0o755), os.Chown(folder, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// TestWhatIsGoneIsReported removes files after they were listed.
func TestWhatIsGoneIsReported(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644),
		os.Symlink("/dev/null", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	sums, err := sumFiles(t.Context(), dir, []File{{Path: "gone"}, {Path: "pipe"}, {Path: "link"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []FileSum{
		{Path: "gone", Error: "no such file or directory"},
		{Path: "pipe", Error: "no longer a regular file"},
		{Path: "link", Error: "no longer a regular file"},
	}
	if !slices.Equal(sums, want) {
		t.Errorf("got %+v, want %+v", sums, want)
	}
}

// TestKilledInItsFirstStep kills the program as soon as its first step has begun,
// more often than an engine forgives a run by default.
func TestKilledInItsFirstStep(t *testing.T) {
	dir, base := writeTree(t, manyFiles(pageFiles)), t.TempDir()
	args := []string{"--db", filepath.Join(base, "x.db"), "--id", "r", "--json", dir}
	for range 8 {
		cmd := program(t, args...)
		begun := startAndAwaitStep(t, cmd)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		begun.Close()
		if err := cmd.Wait(); err == nil {
			t.Fatal("the program was faster than its end")
		}
	}
	if r := sumOf(t, args...); r.Files != pageFiles {
		t.Errorf("got %+v", r)
	}
}

// TestStoppedAndStartedAgain ends the program by the signals of terminals and
// service managers.
func TestStoppedAndStartedAgain(t *testing.T) {
	dir, base := writeTree(t, manyFiles(2*pageFiles)), t.TempDir()
	for i, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		args := []string{"--db", filepath.Join(base, fmt.Sprint(i)), "--id", "r", "--json", dir}
		cmd := program(t, args...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		begun := startAndAwaitStep(t, cmd)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 ||
			!strings.Contains(stderr.String(), `start it again with the same arguments, and run "r" goes on`) {
			t.Errorf("%s: got %v, %q; want exit code 1 and what to do", sig, err, stderr.String())
		}
		begun.Close()
		if r := sumOf(t, args...); r.Files != 2*pageFiles || r.Resumed == 0 {
			t.Errorf("%s: got %d files, resumed %d; want %d files, and that the step was recorded",
				sig, r.Files, r.Resumed, 2*pageFiles)
		}
	}
}

// startAndAwaitStep starts the program and waits until it notes the start of a
// step. The log of effects is a pipe, which the caller closes.
func startAndAwaitStep(t *testing.T, cmd *exec.Cmd) (log io.Closer) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "effects")
	if err := syscall.Mkfifo(name, 0o644); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(name, os.O_RDWR, 0) // with a writer of its own: it opens at once
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args = slices.Insert(cmd.Args, 1, "--effects", name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Read(make([]byte, 1)); err != nil {
		t.Fatal("no step has begun: ", err)
	}
	return pipe
}
