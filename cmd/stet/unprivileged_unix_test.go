//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// nobody is a user that owns no file of the tests.
const nobody = 65534

// unprivileged is the command `unprivileged PROGRAM ARGUMENT...`: the program,
// executed as a user whom permissions of files stop, must fail with exit code 1.
func unprivileged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: unprivileged PROGRAM ARGUMENT...")
	}
	if os.Getuid() != 0 {
		exitsWith(ts, false, append([]string{"1"}, args...))
		return
	}
	program := findProgram(ts, args[0])
	for _, path := range []string{program, ts.MkAbs(".")} {
		letOthersReach(ts, path)
	}
	cmd := exec.Command(program, args[1:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), []string{"HOME=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != exitFailed {
		ts.Fatalf("expected exit code %d, found %v", exitFailed, err)
	}
}

// findProgram looks for a program on the script's PATH.
func findProgram(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, name); isFile(path) {
			return path
		}
	}
	ts.Fatalf("%s is not on the PATH", name)
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// tempDir is where tests have their folders. Scripts set TMPDIR for a while, see inProcess.
var tempDir = os.TempDir()

// letOthersReach opens the folders of the tests on the way to a file.
func letOthersReach(ts *testscript.TestScript, path string) {
	for dir := path; strings.HasPrefix(dir, tempDir+string(filepath.Separator)); dir = filepath.Dir(dir) {
		ts.Check(os.Chmod(dir, 0o755))
	}
}
