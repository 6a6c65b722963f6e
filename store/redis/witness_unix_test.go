//go:build unix

package redis_test

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
)

// holding is a process that holds the shard, as node a.
type holding struct {
	*exec.Cmd
	input io.Writer
	out   *bufio.Reader
}

// newHolding starts the process. enter may put it elsewhere.
func newHolding(t *testing.T, url string, enter func(*exec.Cmd) *exec.Cmd) holding {
	t.Helper()
	h := holding{Cmd: exec.Command(os.Args[0])}
	h.Env = append(os.Environ(), "STET_CHILD_HOLDS="+url)
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
	server := servers.NewRedis(t, servers.Durable...)
	holder := newHolding(t, server.URL(), nil)
	witnessOf(t, server, "a")
	b := newPeer(t, server.URL(), "b")
	witnessOf(t, server, "b")
	holder.signal(t, syscall.SIGSTOP)
	b.looksInVain(t, server)
	holder.signal(t, os.Kill)
	b.takes(t)
}
