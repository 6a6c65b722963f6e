package torture_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
)

// The worker's own clock: the wall time of the time package is hours off, differently in each process, and jumps twice
// a second. The monotonic clock is right.
const (
	readsClock = "	sec, nsec, mono := runtimeNow()\n"
	shiftClock = readsClock + "	sec += wallShift(mono)\n"
	wallShift  = `package time

import "syscall"

func wallShift(mono int64) int64 {
	text, ok := syscall.Getenv("STET_TEST_WALL_SHIFT")
	if !ok {
		return 0
	}
	x := uint64(mono) / 500e6 // the machine has one monotonic clock
	for i := range len(text) {
		x = (x ^ uint64(text[i])) * 0x9e3779b97f4a7c15
	}
	return int64(x>>33)%(10*3600) - 5*3600
}
`
)

// buildShifted builds the command line with that clock and returns its path.
func buildShifted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	std := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(source), "func Now() Time {\n"+readsClock)
	if !ok {
		t.Fatal("this version of Go reads the clock in another way: say here how")
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(std, "time.go"):  write("time.go", before+"func Now() Time {\n"+shiftClock+after),
		filepath.Join(std, "shift.go"): write("shift.go", wallShift),
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "stet")
	build := exec.Command("go", "build", "-overlay", write("overlay.json", string(overlay)), "-o", path,
		"github.com/stet-run/stet/cmd/stet")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestClocksOfNodesStandApart: the wall clocks of three nodes stand hours apart and jump.
// Nothing is broken by that: results and order are the right ones, and timers, leases,
// queues and schedules keep to the clock of the server.
func TestClocksOfNodesStandApart(t *testing.T) {
	soak.Faults(t)
	if !soak.On() {
		t.Skip("it builds the standard library again, which takes minutes: it runs under STET_SOAK=10, as make soak sets it")
	}
	stet := buildShifted(t)
	postgres, redis := servers.NewPostgres(t), servers.NewRedis(t, servers.Durable...)
	for _, db := range []struct{ here, worker string }{
		{postgres.TCP(postgres.Addr()), "postgres://stet@" + postgres.Addr() + "/postgres?sslmode=disable"},
		{redis.URL(), redis.URL()},
	} {
		longer(t, 2*seconds(t), func(d time.Duration, last bool) bool {
			cfg := configOf(t, db.here)
			cfg.Worker = func(orders string) *exec.Cmd {
				c := exec.Command(stet, "torture", "--db", db.worker, "--worker", orders)
				c.Env = append(os.Environ(), "STET_TEST_WALL_SHIFT="+strconv.Itoa(placeOf(t, orders)))
				return c
			}
			cfg.Nodes, cfg.For = 3, d
			return nothingIsBroken(t, tortured(t, cfg), last)
		})
	}
}
