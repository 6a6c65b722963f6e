package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/testing/faults"
)

// errTests says that tests have failed; their output was printed.
var errTests = errors.New("tests have failed")

// event is a line of go test -json.
type event struct {
	Time       time.Time
	Action     string
	Package    string
	ImportPath string // of what did not build
	Test       string
	Elapsed    float64
	Output     string
}

// result is what a test or, without a test, a package came to.
type result struct {
	pkg, test string
	action    string // pass, fail, skip
	elapsed   time.Duration
	output    []string
}

func (r result) String() string { return r.pkg + " " + r.test }

// runner runs tests and keeps what they come to.
type runner struct {
	o       options
	run     func(dir string, flags, packages []string) error // goTest
	root    string                                           // of the repository
	program string                                           // this one, which measures
	costs   string                                           // the file of costs
	passed  int
	failed  []result
	rescued []result       // starved tests that passed alone
	seed    string         // of the random cases of the test that is tried again; "": none
	skipped map[string]int // by reason
	ended   []result       // tests
}

func newRunner(o options) (*runner, error) {
	r := &runner{o: o, skipped: map[string]int{}}
	r.run = r.goTest
	var err error
	if r.root, err = repository(); err != nil {
		return nil, err
	}
	if r.program, err = os.Executable(); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "stet-costs")
	if err != nil {
		return nil, err
	}
	r.costs = f.Name()
	return r, f.Close()
}

func (r *runner) close() { _ = os.Remove(r.costs) }

// folder returns the folder of a package.
func (r *runner) folder(pkg string) string {
	return filepath.Join(r.root, filepath.FromSlash(relative(pkg)))
}

// tests runs the packages of all modules, the fast ones first and then the longest, and those of module tools.
func (r *runner) tests(timed func(string, func() error) error) error {
	packages, err := r.list()
	if err != nil {
		return err
	}
	err = timed("tests", func() error { return r.run("", nil, packages) })
	if r.o.only != nil {
		return err
	}
	tools := func() error { return r.run(filepath.Join(r.root, "tools"), nil, []string{"./..."}) }
	return errors.Join(err, timed("tools", tools))
}

// fast is what a package may cost to be tested before the slow ones.
const fast = 3 * time.Second

// waiting are packages whose tests wait for servers and clocks far longer than they use a processor.
var waiting = []string{"store/postgres", "cmd/stet/internal/bench", "store/redis", "cmd/stet"}

// list returns the packages that have tests: the fast ones, then the waiting ones, then the others from the longest to
// the shortest. So a mistake shows early, and no long package is left for the end.
func (r *runner) list() ([]string, error) {
	patterns := r.o.only
	if patterns == nil {
		modules, err := moduleFolders()
		if err != nil {
			return nil, err
		}
		for _, dir := range modules {
			patterns = append(patterns, dir+"/...")
		}
	}
	out, err := goOutput(append([]string{"list", "-f",
		"{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	packages := strings.Fields(out)
	b, err := readBudget()
	if err != nil {
		return nil, err
	}
	figure := func(pkg string) time.Duration {
		name := relative(pkg)
		if slices.Contains(waiting, name) {
			return b.figures[name] + time.Hour
		}
		return b.figures[name]
	}
	slices.SortStableFunc(packages, func(x, y string) int {
		a, b := figure(x), figure(y)
		switch {
		case a <= fast && b <= fast:
			return 0
		case a <= fast:
			return -1
		case b <= fast:
			return 1
		}
		return int(b - a)
	})
	return packages, nil
}

// faults runs the tests that begin with soak.Faults. They have seven parts, and each part has its day of the week.
func (r *runner) faults(begun time.Time, timed func(string, func() error) error) error {
	_, tests, err := faults.Tests(r.root)
	if err != nil {
		return err
	}
	today := int(time.Now().Unix() / (24 * 60 * 60))
	if r.o.within == 0 {
		return timed("all faults", func() error { return r.goTestOf(tests) })
	}
	var longest time.Duration
	for i := range days {
		left := r.o.within - time.Since(begun)
		if i > 0 && left < longest {
			fmt.Printf("faults: %d of %d days tried; %s left, a day takes up to %s\n", i, days, left.Round(time.Second),
				longest.Round(time.Second))
			break
		}
		part := ofDay(tests, today+i)
		from := time.Now()
		name := fmt.Sprintf("faults of day %d of %d", (today+i)%days, days)
		err = errors.Join(err, timed(name, func() error { return r.goTestOf(part) }))
		longest = max(longest, time.Since(from))
	}
	return err
}

// days are the parts that the tests of make faults are divided in.
const days = 7

// ofDay returns the part of a list that belongs to a day, counted since 1970.
func ofDay[T any](list []T, day int) (part []T) {
	for i := day % days; i < len(list); i += days {
		part = append(part, list[i])
	}
	return part
}

// goTestOf runs tests of several packages. A package runs no other of its tests.
func (r *runner) goTestOf(tests []faults.Test) error {
	if len(tests) == 0 {
		return nil
	}
	var names, packages []string
	for _, t := range tests {
		names, packages = append(names, t.Name), append(packages, "./"+t.Dir)
	}
	slices.Sort(names)
	slices.Sort(packages)
	pattern := "^(" + strings.Join(slices.Compact(names), "|") + ")$"
	return r.run(r.root, []string{"-run", pattern}, slices.Compact(packages))
}

// goTest runs go test in a folder and reads what it says. errTests: a test has failed.
func (r *runner) goTest(dir string, flags, packages []string) error {
	args := append([]string{"test", "-json", "-vet=off", "-shuffle=on", "-p", strconv.Itoa(r.o.packages),
		"-timeout", r.o.timeout.String(), "-exec", r.program + " -exec"}, flags...)
	command := exec.Command("go", append(args, packages...)...)
	command.Dir = dir
	command.Env = append(r.o.environment(), costsVariable+"="+r.costs)
	if r.seed != "" {
		command.Env = append(command.Env, seedVariable+"="+r.seed)
	}
	if filepath.Base(dir) == "tools" {
		command.Env = append(command.Env, "GOWORK=off")
	}
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	failed := len(r.failed)
	readErr := r.read(out)
	err = command.Wait()
	if readErr != nil {
		return readErr
	}
	if len(r.failed) > failed {
		return errTests
	}
	return err
}

// read follows the events of go test. Output of tests that pass is dropped.
func (r *runner) read(from io.Reader) error {
	running := map[string]*result{}
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err == io.EOF {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Print(string(line)) // of the go command itself
			continue
		}
		if e.ImportPath != "" && e.Action == "build-output" {
			fmt.Print(e.Output)
			continue
		}
		top, _, _ := strings.Cut(e.Test, "/")
		key := e.Package + " " + top
		if running[key] == nil {
			running[key] = &result{pkg: e.Package, test: top}
		}
		now := running[key]
		switch e.Action {
		case "output":
			now.output = append(now.output, e.Output)
		case "pass", "fail", "skip":
			if e.Test != top {
				continue // of a subtest, whose output its test has
			}
			now.action, now.elapsed = e.Action, time.Duration(e.Elapsed*float64(time.Second))
			if e.Test == "" {
				now.output = append(unended(running, e.Package), now.output...)
			}
			r.end(*now)
			delete(running, key)
		}
	}
}

// unended returns the output of a package's tests that have not ended, though it has. One of them has the panic that
// has ended the process. It removes these tests.
func unended(running map[string]*result, pkg string) (output []string) {
	for _, key := range slices.Sorted(maps.Keys(running)) {
		if r := running[key]; r.pkg == pkg && r.test != "" {
			output = append(output, r.output...)
			delete(running, key)
		}
	}
	return output
}

// end notes the end of a test or package, and prints what a person must see of it.
func (r *runner) end(e result) {
	switch {
	case e.test == "":
		for _, line := range e.output {
			if strings.HasPrefix(line, "ok") || strings.HasPrefix(line, "FAIL\t") || e.action == "fail" {
				fmt.Print(line)
			}
		}
		failedTests := slices.ContainsFunc(r.failed, func(f result) bool { return f.pkg == e.pkg })
		if e.action == "fail" && !failedTests {
			r.failed = append(r.failed, e) // it did not build, or its process has ended
		}
		return
	case e.action == "fail":
		fmt.Print(strings.Join(e.output, ""))
		r.failed = append(r.failed, e)
	case e.action == "skip":
		r.skipped[e.reason()]++
	default:
		r.passed++
	}
	r.ended = append(r.ended, e)
}

// reason returns what a skipped test says.
func (e result) reason() string {
	for _, line := range slices.Backward(e.output) {
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			_, text, _ = strings.Cut(text, ": ")
			return strings.TrimSpace(text)
		}
	}
	return "no reason given"
}

// starved returns the failed tests whose process waited for processors longer than it had them.
func (r *runner) starved() []result {
	costs, err := readCosts(r.costs)
	if err != nil {
		return nil
	}
	var list []result
	for _, f := range r.failed {
		if f.test != "" && costs[r.folder(f.pkg)].starved() {
			list = append(list, f)
		}
	}
	return list
}

// mostAlone is how many starved tests are tried once more. A busy machine makes a few of them fail.
const mostAlone = 10

// seedVariable has a random test try the cases of a seed, as it says where it fails.
const seedVariable = "STET_SEED"

var seeds = regexp.MustCompile(seedVariable + `=(\d+)`)

// seedOf returns the seed with which a test has failed; "": it names none.
func seedOf(f result) string {
	for _, line := range f.output {
		if found := seeds.FindStringSubmatch(line); found != nil {
			return found[1]
		}
	}
	return ""
}

// alone tries each starved test once more with the machine to itself, and with the same random cases. What it says then
// counts.
func (r *runner) alone() error {
	costs, err := readCosts(r.costs)
	if err != nil {
		return err
	}
	list := r.starved()
	if len(list) > mostAlone {
		fmt.Printf("starved: %d tests, of which at most %d are tried once more: a server has ended, or the code is wrong\n",
			len(list), mostAlone)
		return errTests
	}
	r.o.packages = 1
	for _, f := range list {
		c := costs[r.folder(f.pkg)]
		fmt.Printf("starved: %s: its process had %s of processor and waited %s for it; once more, alone\n", f,
			c.Processor.Round(time.Second/10), c.Waited.Round(time.Second/10))
		r.failed = slices.DeleteFunc(r.failed, func(g result) bool { return g.pkg == f.pkg && g.test == f.test })
		r.seed = seedOf(f)
		err := r.run("", []string{"-run", "^" + f.test + "$"}, []string{f.pkg})
		r.seed = ""
		switch {
		case err == nil:
			r.rescued = append(r.rescued, f)
		case !errors.Is(err, errTests):
			return err
		}
	}
	if len(r.failed) > 0 {
		return errTests
	}
	return nil
}
