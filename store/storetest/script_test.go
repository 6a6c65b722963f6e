package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// openMemory opens the specification as the store under test.
func openMemory(clock func() time.Time) Harness { return newSpecification(clock) }

func TestScriptsReadAsTheyWereWritten(t *testing.T) {
	for seed := range uint64(10) {
		ops, _, err := explore(t, openMemory, seed)
		if err != nil {
			t.Fatal(err)
		}
		text := printScript(ops)
		again, err := parseScript(text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		for i := range ops {
			if !reflect.DeepEqual(again[i], ops[i]) {
				t.Fatalf("seed %d: %s became %s", seed, printScript(ops[i:i+1]), printScript(again[i:i+1]))
			}
		}
	}
}

func TestScriptErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"join\n\njump":                       `line 3: expected an operation, found "jump"`,
		"kill handle=x":                      `line 1: kill: handle: expected a int, found "x"`,
		"kill node=n":                        `line 1: kill: storetest.killOp has no field "node"`,
		"kill handle=1 handle=2":             "line 1: kill: handle is there twice",
		"kill handle 1":                      `line 1: kill: handle: expected =, found " 1"`,
		"clock by=1x":                        `line 1: clock: by: expected a duration or a number, found "1x"`,
		"join }":                             `line 1: join: expected a field, found "}"`,
		"apply command=1":                    `line 1: apply: command: expected {, found "=1"`,
		"apply command{start{id=\"a}}":       `line 1: apply: command: start: id: expected a closed string, found "\"a}}"`,
		"apply command{start{input=a}}":      `line 1: apply: command: start: input: expected a quoted value, found "a}}"`,
		"apply command{start{":               "line 1: apply: command: start: expected }, found the end",
		`apply command{start{input="a"*-1}}`: "line 1: apply: command: start: input: expected a value of at most 4194304 bytes",
		`apply command{start{seed="01234567890123456"}}`: `line 1: apply: command: start: seed: ` +
			`expected at most 16 bytes, found "01234567890123456"`,
		"acquire shards=a":               `line 1: acquire: shards: expected /, found ""`,
		"list filter{statuses=finished}": `line 1: list: filter: statuses: expected a uint8, found "finished"`,
	} {
		_, err := parseScript(text)
		var bad *scriptError
		if !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("%q: got %v; want %s", text, err, want)
		}
	}
}

// FuzzScript: a script that can be read is written so that it reads the same.
func FuzzScript(f *testing.F) {
	files, err := fs.Glob(ownScripts, scriptDir+"/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(ownScripts, file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("history query{run=-1 locs=[] after=\"\\xff\"}\nclock by=-1h3.000001s")
	f.Add("apply command{start{seed=\"\" input=\"ab\"*3 at=-5 after=9223372036854775807 existing=9}}")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "*") > 3 {
			return // long values cost time and show nothing
		}
		ops, err := parseScript(text)
		if err != nil {
			return
		}
		written := printScript(ops)
		again, err := parseScript(written)
		if err != nil {
			t.Fatalf("%q gives %q, which is refused: %v", text, written, err)
		}
		if !reflect.DeepEqual(again, ops) {
			t.Fatalf("%q gives %q, which is another script", text, written)
		}
	})
}

// TestShrinkFindsTheFew: a failure that needs three of many operations, one of
// them in part, is cut down to these.
func TestShrinkFindsTheFew(t *testing.T) {
	var ops []op
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 100 {
		ops = append(ops, &killOp{Handle: i}, &loadOp{Handle: random.IntN(3)})
	}
	ops[20] = &joinOp{}
	big, err := parseScript(
		`apply command{start{id=a workflow=w input="v"*100}} command{runid=needed item{id=i kind=message}} handle=3`)
	if err != nil {
		t.Fatal(err)
	}
	ops[90] = big[0]
	failure := func(ops []op) (int, error) {
		joined, killed := false, false
		for i, o := range ops {
			switch o := o.(type) {
			case *joinOp:
				joined = true
			case *killOp:
				killed = killed || o.Handle == 30
			case *applyOp:
				for _, c := range o.Commands {
					if joined && killed && c.RunID == "needed" {
						return i, errors.New("it fails")
					}
				}
			}
		}
		return len(ops), nil
	}
	few, err := shrink(ops, failure, time.Hour)
	got := printScript(few)
	if want := "join\nkill handle=30\napply command{runid=needed}\n"; err == nil || got != want {
		t.Errorf("got %s (%v); want %s", got, err, want)
	}
	if _, err := shrink(few[:2], failure, time.Hour); err != nil {
		t.Errorf("what does not fail gives %v", err)
	}
}

// TestNumbersAreTranslated: a store with other numbers compares as equal.
func TestNumbersAreTranslated(t *testing.T) {
	for seed := range uint64(5) {
		ops, _, err := explore(t, newShifted, seed)
		if err != nil {
			t.Fatalf("seed %d: operation %d: %v", seed, len(ops), fmt.Errorf("%w\n%s", err, printScript(ops[len(ops)-1:])))
		}
	}
}
