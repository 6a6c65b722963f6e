//go:build !unix

package main

import "github.com/rogpeppe/go-internal/testscript"

// unprivileged is the command `unprivileged PROGRAM ARGUMENT...`: the program
// must fail with exit code 1. Permissions of files hold for every user here.
func unprivileged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: unprivileged PROGRAM ARGUMENT...")
	}
	exitsWith(ts, false, append([]string{"1"}, args...))
}
