package servers

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Holder is a process that holds a shard of a store: the test's own program, which sees by
// STET_CHILD_HOLDS that it is to do so, at which address. It writes "holds", and for each line that it
// reads the verdict on a turn that it commits.
type Holder struct {
	*exec.Cmd
	input io.Writer
	out   *bufio.Reader
}

// NewHolder starts the process, which ends with the test. enter, unless it is nil, puts it elsewhere.
func NewHolder(t *testing.T, address string, enter func(*exec.Cmd) *exec.Cmd) *Holder {
	t.Helper()
	h := &Holder{Cmd: exec.Command(os.Args[0])}
	h.Env = append(os.Environ(), "STET_CHILD_HOLDS="+address)
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
func (h *Holder) says(t *testing.T) string {
	t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the process that holds the shard: %q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

// Commits has the process commit a turn, and returns the verdict.
func (h *Holder) Commits(t *testing.T) string {
	t.Helper()
	if _, err := fmt.Fprintln(h.input); err != nil {
		t.Fatal(err)
	}
	return h.says(t)
}

// Signal sends the process a signal.
func (h *Holder) Signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := h.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
