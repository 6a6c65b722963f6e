package main

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"stet": func() {
			if os.Getenv(byServerVar) != "" {
				os.Exit(commandByServer())
			}
			os.Exit(command())
		},
		"app": func() { os.Exit(application()) },
	})
}

// TestScripts runs the command line as a user does, beside an application or
// without one.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: scriptCommands})
}

// scriptCommands are what scripts may use beside those of testscript.
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"code":    exitsWith,
	"soon":    soon,
	"sql":     runSQL,
	"garbage": writeGarbage,

	"unprivileged": unprivileged,
}

// exitsWith is the command `code N PROGRAM ARGUMENT...`: the program must end
// with the exit code N.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM ARGUMENT...")
	}
	err := ts.Exec(args[1], args[2:]...)
	found := "0"
	if err != nil {
		found = err.Error()
	}
	if found != args[0] && found != "exit status "+args[0] {
		ts.Fatalf("expected exit code %s, found %s", args[0], found)
	}
}

// soon is the command `soon PATTERN PROGRAM ARGUMENT...`: the program is executed until a line of
// what it prints matches. Nothing else tells when an entity has heard of something.
func soon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: soon PATTERN PROGRAM ARGUMENT...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	rest := 20 * time.Millisecond // longer each time: a program is a process more on a busy machine
	for limit := time.Now().Add(time.Minute); ; <-time.After(rest) {
		rest = min(2*rest, time.Second/2)
		ts.Check(ts.Exec(args[1], args[2:]...))
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(limit) {
			ts.Fatalf("expected %q within a minute", args[0])
		}
	}
}

// runSQL is the command `sql FILE STATEMENT`; `! sql` expects that it fails.
func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] sql FILE STATEMENT")
	}
	db, err := sqlite3.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	err = db.Exec(args[1])
	ts.Check(db.Close())
	if (err != nil) != neg {
		ts.Fatalf("%s: %v", args[1], err)
	}
}

// writeGarbage is the command `garbage FILE`: all but the first page is damaged.
func writeGarbage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: garbage FILE")
	}
	data := []byte(ts.ReadFile(args[0]))
	for i := 4096; i < len(data); i++ {
		data[i] = 0xa5
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o644))
}
