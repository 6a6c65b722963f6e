package main

import (
	"flag"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stet-run/stet/script"
)

// atATime is how many scripts are executed at a time: most of them wait, for a lease or a process.
const atATime = 6

func TestMain(m *testing.M) {
	script.Child()
	_ = flag.Set("test.parallel", strconv.Itoa(atATime)) // a flag of the command line comes later
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
// without one. In make faults each command is a process, see runScripts.
func TestScripts(t *testing.T) {
	runScripts(t, testscript.Params{Dir: "testdata/script"})
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
	soonPrints(ts, args[0], func() string {
		ts.Check(ts.Exec(args[1], args[2:]...))
		return ts.ReadFile("stdout")
	})
}

// soonPrints calls print until a line of what it returns matches.
func soonPrints(ts *testscript.TestScript, line string, print func() string) {
	pattern, err := regexp.Compile("(?m)" + line)
	ts.Check(err)
	rest := 20 * time.Millisecond // longer each time: a program is a process more on a busy machine
	for limit := time.Now().Add(5 * time.Minute); ; <-time.After(rest) {
		rest = min(2*rest, time.Second/2)
		if pattern.MatchString(print()) {
			return
		}
		if time.Now().After(limit) {
			ts.Fatalf("expected %q within five minutes", line)
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
