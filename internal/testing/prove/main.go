// Command prove runs the tests of all modules of the repository, prints what they cost, and holds their budget. It is
// make test, and with -faults make faults.
//
//	prove              all tests but those of -faults: builds first, then tests the fast packages before the slow ones
//	prove -faults      the tests that begin with soak.Faults
//	prove -faults -within 8m
//	                   those of today, and of further days while time is left: seven days have all of them
//	prove -update      as without, and writes what the packages cost into the budget
//
// All packages share the servers of package servers. A test that fails while its process waited for the processors
// longer than it had them is starved: it is tried once more alone at the end. What it says then counts, and the
// number of such tests is printed. Any other failure is one.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-exec" { // go test starts each test's program so
		os.Exit(measure(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "-calibrate" {
		calibrate()
		return
	}
	var o options
	flag.BoolVar(&o.faults, "faults", false, "run the tests that begin with soak.Faults")
	flag.DurationVar(&o.within, "within", 0, "with -faults: begin no further day after that time; 0: run all")
	flag.BoolVar(&o.update, "update", false, "write what each package costs into "+budgetFile)
	flag.IntVar(&o.packages, "p", 2*runtime.NumCPU(), "test as many packages at a time; most tests wait most of the time")
	flag.DurationVar(&o.timeout, "timeout", 25*time.Minute, "how long the tests of a package may take")
	flag.Parse()
	if flag.NArg() > 0 {
		o.only = flag.Args()
	}
	if err := prove(o); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

type options struct {
	faults   bool
	within   time.Duration
	update   bool
	packages int
	timeout  time.Duration
	only     []string // patterns of packages; none: those of all modules
}

// part is a stretch of the whole run.
type part struct {
	name string
	took time.Duration
}

func prove(o options) error {
	begun := time.Now()
	var parts []part
	timed := func(name string, do func() error) error {
		from := time.Now()
		err := do()
		parts = append(parts, part{name, time.Since(from)})
		return err
	}
	shared := make(chan error, 1)
	go func() { shared <- share() }() // while it compiles
	r, err := newRunner(o)
	if err != nil {
		return err
	}
	defer r.close()
	if o.only == nil {
		err = timed("build", build)
	}
	if err == nil {
		err = timed("servers", func() error { return <-shared })
	}
	if err == nil {
		if o.faults {
			err = r.faults(begun, timed)
		} else {
			err = r.tests(timed)
		}
	}
	if errors.Is(err, errTests) && len(r.starved()) > 0 {
		err = timed("alone", r.alone)
	}
	if !o.faults && (err == nil || o.update) {
		err = errors.Join(err, r.holdBudget())
	}
	r.report(os.Stdout, append(parts, part{"in all", time.Since(begun)}))
	return err
}

// share starts the shared servers.
func share() error {
	missing, err := servers.Share()
	if err != nil {
		return err
	}
	for _, line := range missing {
		fmt.Println("not here, so its tests are skipped:", line)
	}
	if len(missing) > 0 && os.Getenv("STET_TEST_STRICT") == "1" {
		return errors.New("expected all servers, as STET_TEST_STRICT=1 says: make servers installs them")
	}
	return nil
}

// abroad are programs that tests compile for other systems. With an empty build cache each costs a minute of processor,
// which must not count as theirs. The flags are the tests' own.
var abroad = []struct {
	system, processor string
	args              []string
}{
	{"wasip1", "wasm", []string{"-trimpath", "-buildmode=c-shared", "-tags=none", "./internal/sim/guest"}},
	{"linux", "386", []string{"./internal/sim/run"}},
}

// build compiles everything but the tests, so that a broken build fails at once.
func build() error {
	folders, err := moduleFolders()
	if err != nil {
		return err
	}
	args := []string{"build", "-o", os.DevNull}
	for _, dir := range folders {
		args = append(args, dir+"/...")
	}
	if err := compile(nil, args...); err != nil {
		return err
	}
	for _, p := range abroad {
		if p.system == "linux" && (runtime.GOOS != "linux" || runtime.GOARCH != "amd64") {
			continue // its test is skipped
		}
		if err := compile([]string{"GOOS=" + p.system, "GOARCH=" + p.processor, "CGO_ENABLED=0"},
			append([]string{"build", "-o", os.DevNull}, p.args...)...); err != nil {
			return err
		}
	}
	return nil
}

// compile calls go with a changed environment.
func compile(env []string, args ...string) error {
	command := exec.Command("go", args...)
	command.Env = append(os.Environ(), env...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run()
}

// moduleFolders returns the folders of the modules of go.work.
func moduleFolders() ([]string, error) {
	out, err := goOutput("list", "-m", "-f", "{{.Dir}}")
	return strings.Fields(out), err
}

func goOutput(args ...string) (string, error) {
	var problems strings.Builder
	command := exec.Command("go", args...)
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, problems.String())
	}
	return string(out), nil
}

// repository returns the root of the repository, which has go.work.
func repository() (string, error) {
	file, err := goOutput("env", "GOWORK")
	if err != nil {
		return "", err
	}
	file = strings.TrimSpace(file)
	if file == "" || file == "off" {
		return "", errors.New("expected a folder of the repository, found none with a go.work")
	}
	return filepath.Dir(file), nil
}

// environment is that of the tests.
func (o options) environment() []string {
	env := os.Environ()
	if o.faults {
		env = append(env, "STET_TEST_FAULTS=1")
	}
	return env
}
