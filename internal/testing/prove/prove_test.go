package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// said is a runner that has read events.
func said(t *testing.T, lines ...string) *runner {
	t.Helper()
	r := &runner{root: t.TempDir(), costs: filepath.Join(t.TempDir(), "costs"), skipped: map[string]int{}}
	if err := os.WriteFile(r.costs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.read(strings.NewReader(strings.Join(lines, "\n") + "\n")); err != nil {
		t.Fatal(err)
	}
	return r
}

const pkg = modulePath + "/internal/x"

func TestEventsBecomeResults(t *testing.T) {
	r := said(t,
		`{"Action":"pass","Package":"`+pkg+`","Test":"TestGood","Elapsed":0.5}`,
		`{"Action":"output","Package":"`+pkg+`","Test":"TestLeft","Output":"    x_test.go:3: no such server\n"}`,
		`{"Action":"skip","Package":"`+pkg+`","Test":"TestLeft"}`,
		`{"Action":"fail","Package":"`+pkg+`","Test":"TestBad/case"}`,
		`{"Action":"fail","Package":"`+pkg+`","Test":"TestBad"}`,
		`{"Action":"fail","Package":"`+pkg+`"}`,
		`{"Action":"fail","Package":"`+pkg+`2"}`)
	if r.passed != 1 || r.skipped["no such server"] != 1 {
		t.Errorf("found %d passed, skipped %v", r.passed, r.skipped)
	}
	// A package that failed without a test has failed itself.
	if len(r.failed) != 2 || r.failed[0].test != "TestBad" || r.failed[1].pkg != pkg+"2" {
		t.Errorf("found as failed: %v", r.failed)
	}
}

// TestOutputOfAPanicIsKept: a process that ends in the middle of its tests says why in the output of one of them.
func TestOutputOfAPanicIsKept(t *testing.T) {
	r := said(t,
		`{"Action":"output","Package":"`+pkg+`","Test":"TestOther","Output":"panic: no such run\n"}`,
		`{"Action":"output","Package":"`+pkg+`2","Test":"TestElsewhere","Output":"fine\n"}`,
		`{"Action":"fail","Package":"`+pkg+`"}`)
	if len(r.failed) != 1 || strings.Join(r.failed[0].output, "") != "panic: no such run\n" {
		t.Errorf("found as failed: %+v", r.failed)
	}
}

// TestOnlyStarvedTestsAreTriedAgain fails a test whose process waited longer than it ran, and one whose process did
// not: only the first has another try, with its random cases, and the run fails all the same.
func TestOnlyStarvedTestsAreTriedAgain(t *testing.T) {
	r := said(t,
		`{"Action":"output","Package":"`+pkg+`","Test":"TestStarved","Output":"    x_test.go:3: repeat with STET_SEED=17\n"}`,
		`{"Action":"fail","Package":"`+pkg+`","Test":"TestStarved"}`,
		`{"Action":"fail","Package":"`+pkg+`2","Test":"TestWrong"}`)
	costs := `{"Dir":"` + filepath.Join(r.root, "internal/x") + `","Processor":1000,"Waited":2000}
{"Dir":"` + filepath.Join(r.root, "internal/x2") + `","Processor":2000,"Waited":1000}
`
	if err := os.WriteFile(r.costs, []byte(costs), 0o600); err != nil {
		t.Fatal(err)
	}
	var again []string
	r.run = func(_ string, flags, packages []string) error {
		again = append(again, r.seed+" "+strings.Join(append(flags, packages...), " "))
		return nil
	}
	err := r.alone()
	if want := "17 -run ^TestStarved$ " + pkg; len(again) != 1 || again[0] != want {
		t.Errorf("expected one more try, %q; found %q", want, again)
	}
	if !errors.Is(err, errTests) || len(r.failed) != 1 || r.failed[0].test != "TestWrong" || len(r.rescued) != 1 {
		t.Errorf("found %v, failed %v, rescued %v", err, r.failed, r.rescued)
	}
}

// TestManyStarvedTestsHaveFailed: none of too many is tried again.
func TestManyStarvedTestsHaveFailed(t *testing.T) {
	var lines []string
	for i := range mostAlone + 1 {
		lines = append(lines, fmt.Sprintf(`{"Action":"fail","Package":"%s","Test":"TestStarved%d"}`, pkg, i))
	}
	r := said(t, lines...)
	costs := `{"Dir":"` + filepath.Join(r.root, "internal/x") + `","Processor":1000,"Waited":2000}`
	if err := os.WriteFile(r.costs, []byte(costs), 0o600); err != nil {
		t.Fatal(err)
	}
	r.run = func(string, []string, []string) error { t.Error("one is tried again"); return nil }
	if err := r.alone(); !errors.Is(err, errTests) || len(r.failed) != mostAlone+1 {
		t.Errorf("found %v, %d failed", err, len(r.failed))
	}
}

// TestDaysCoverEverything: seven days run each test of make faults once.
func TestDaysCoverEverything(t *testing.T) {
	tests := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	seen := map[int]int{}
	for day := 20_000; day < 20_000+days; day++ {
		for _, i := range ofDay(tests, day) {
			seen[i]++
		}
	}
	for _, i := range tests {
		if seen[i] != 1 {
			t.Errorf("test %d was run %d times in a week", i, seen[i])
		}
	}
}

func TestBudgetAllowsForTheMachine(t *testing.T) {
	b := budget{calibration: time.Second, figures: map[string]time.Duration{"x": 10 * time.Second}}
	for _, c := range []struct {
		name  string
		cost  time.Duration
		speed time.Duration
		over  bool
	}{
		{"x", 15 * time.Second, time.Second, false},
		{"x", 17 * time.Second, time.Second, true},
		{"x", 17 * time.Second, 2 * time.Second, false},
		{"x", 17 * time.Second, time.Second / 2, true}, // a faster machine has no smaller budget
		{"new", 0, time.Second, true},
	} {
		over := b.over(map[string]time.Duration{c.name: c.cost}, c.speed)
		if (len(over) > 0) != c.over {
			t.Errorf("%s at %s, calibration %s: found %v", c.name, c.cost, c.speed, over)
		}
	}
}

// TestWhatIsOverItsBudgetIsMeasuredAlone: the cost of a package beside others does not count, the one alone does.
func TestWhatIsOverItsBudgetIsMeasuredAlone(t *testing.T) {
	r := said(t)
	var ran []string
	r.run = func(dir string, flags, packages []string) error {
		ran = append(ran, fmt.Sprint(strings.TrimPrefix(dir, r.root), flags, packages))
		f, err := os.OpenFile(r.costs, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		folder := r.folder(modulePath + "/" + pkgOf(dir, packages[0]))
		_, err = fmt.Fprintf(f, `{"Dir":"%s","Processor":%d}`+"\n", folder, len(ran))
		return err
	}
	all := r.costs
	found, err := r.costAlone([]excess{{name: "internal/x"}, {name: "tools/y"}})
	if err != nil || len(found) != 2 || found["internal/x"] != 1 || found["tools/y"] != 2 {
		t.Errorf("expected the costs of two packages alone, found %v, %v", found, err)
	}
	want := []string{"[] [" + modulePath + "/internal/x]", "/tools[] [./y]"}
	if !slices.Equal(ran, want) || r.o.packages != 1 || r.costs != all {
		t.Errorf("expected %q one at a time, found %q, %d at a time, costs in %s", want, ran, r.o.packages, r.costs)
	}
}

// pkgOf returns the folder of a package that is named as go test is told it in a folder.
func pkgOf(dir, pkg string) string {
	return path.Join(filepath.Base(dir), strings.TrimPrefix(pkg, modulePath+"/"))
}

// TestProcessorOfChildrenCounts measures a shell whose child works.
func TestProcessorOfChildrenCounts(t *testing.T) {
	costs := filepath.Join(t.TempDir(), "costs")
	if err := os.WriteFile(costs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(costsVariable, costs)
	const works = "/bin/sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'; exit 3"
	if code := measure([]string{"/bin/sh", "-c", works}); code != 3 {
		t.Errorf("expected the program's exit code, found %d", code)
	}
	found, err := readCosts(costs)
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	for _, c := range found {
		if c.Processor < time.Millisecond || c.Wall < c.Processor/4 {
			t.Errorf("found %+v", c)
		}
	}
}
