//go:build unix

package postgres_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
)

// holding is a process that holds the shard, as node a.
type holding struct {
	*exec.Cmd
	input io.Writer
	out   *bufio.Reader
}

// newHolding starts the process. enter may put it elsewhere.
func newHolding(t *testing.T, dsn string, enter func(*exec.Cmd) *exec.Cmd) holding {
	t.Helper()
	h := holding{Cmd: exec.Command(os.Args[0])}
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
	h.input, h.out = input, bufio.NewReader(out)
	if said := h.says(t); said != "holds" {
		t.Fatalf("the process that holds the shard says %q", said)
	}
	return h
}

// says returns the next line of the process.
func (h *holding) says(t *testing.T) string {
	t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the process that holds the shard: %q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

// commits has the process commit a turn, and returns the verdict.
func (h *holding) commits(t *testing.T) string {
	t.Helper()
	if _, err := fmt.Fprintln(h.input); err != nil {
		t.Fatal(err)
	}
	return h.says(t)
}

// signal sends the process a signal.
func (h *holding) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := h.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// TestAProcessThatStandsStillIsAlive: the system answers for it. The lease counts.
func TestAProcessThatStandsStillIsAlive(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	holder := newHolding(t, server.DSN(), nil)
	witnessOf(t, server, "a")
	second := heir(t, open(t, server.DSN()), "b")
	holder.signal(t, syscall.SIGSTOP)
	second.looksInVain(t, server)
	holder.signal(t, os.Kill)
	soon(t, "the shard", func() bool { return second.tries(t) })
}

// A pooler in session mode leaves each client its session, and so has a process its witness. One that is cut comes
// back; that of a process that was killed is gone when the pooler has seen it.
func TestAWitnessBehindAPoolerInSessionMode(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	bouncer := servers.NewPgBouncer(t, server, "pool_mode = session", "default_pool_size = 100")
	holder := newHolding(t, bouncer, nil)
	b := open(t, bouncer)
	second := heir(t, b, "b")
	witnessOf(t, server, "b")
	conn := application(t, server.DSN())
	for i := range 3 {
		pid := witnessOf(t, server, "a")
		if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
			t.Fatal(err)
		}
		soon(t, "another witness", func() bool {
			if second.tries(t) {
				t.Fatalf("cut %d: the shard of a living node was taken", i)
			}
			return witnessOf(t, server, "a") != pid
		})
	}
	if verdict := holder.commits(t); verdict != store.Committed.String() {
		t.Errorf("the process that was cut gets %s", verdict)
	}
	heard := listen(t, b)
	holder.signal(t, os.Kill)
	<-heard
	soon(t, "the shard", func() bool { return second.tries(t) })
}
