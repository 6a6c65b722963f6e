//go:build unix

package postgres_test

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
)

// holding is a process that holds the shard, as node a.
type holding struct {
	*exec.Cmd
}

// newHolding starts the process. enter may put it elsewhere.
func newHolding(t *testing.T, dsn string, enter func(*exec.Cmd) *exec.Cmd) holding {
	t.Helper()
	h := holding{exec.Command(os.Args[0])}
	h.Env = append(os.Environ(), "STET_CHILD_HOLDS="+dsn)
	if enter != nil {
		h.Cmd = enter(h.Cmd)
	}
	h.Stderr = t.Output()
	input, err := h.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = h.Process.Kill()
		_ = h.Wait() // it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "holds\n" {
		t.Fatalf("the process that holds the shard: %q, %v", line, err)
	}
	return h
}

// TestAProcessThatStandsStillIsAlive: the system answers for it. The lease counts.
func TestAProcessThatStandsStillIsAlive(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	holder := newHolding(t, server.DSN(), nil)
	witnessOf(t, server, "a")
	second := heir(t, open(t, server.DSN()), "b")
	if err := holder.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second.looksInVain(t, server)
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the shard", func() bool { return second.tries(t) })
}
