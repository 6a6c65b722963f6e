package servers_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
)

// reach reports whether a server answers at an address.
func reach(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	return err == nil && c.Close() == nil
}

func TestPostgresStopsAndStartsAgain(t *testing.T) {
	soak.Faults(t)
	p := servers.NewPostgres(t, servers.Fast...)
	for range 2 {
		if !reach(p.Addr()) {
			t.Fatalf("no server answers at %s:\n%s", p.Addr(), p.Log())
		}
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		if reach(p.Addr()) {
			t.Fatal("the server answers after the stop")
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMissingServerIsSaid(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	p, err := servers.StartPostgres()
	if err == nil { // a distribution's folder has it
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	if !errors.Is(err, servers.ErrMissing) {
		t.Errorf("got %v", err)
	}
}

// TestProcessesShareAServer starts several processes at once, of which one is killed: all get the same address, the
// server lives as long as one of them, and it leaves no files.
func TestProcessesShareAServer(t *testing.T) {
	if os.Getenv("STET_SERVERS_CHILD") == "1" {
		url, _ := servers.SharedRedis(t)
		fmt.Println(url)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it
		os.Exit(0)
	}
	servers.NewRedis(t)                         // skips where there is none
	temp, err := os.MkdirTemp("", "stet-share") // a short path, for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	if err := os.Chmod(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	var children []*exec.Cmd
	var inputs []io.Closer
	var outputs []*bufio.Reader
	for range 4 {
		c := exec.Command(os.Args[0], "-test.run=^TestProcessesShareAServer$")
		c.Env = append(os.Environ(), "STET_SERVERS_CHILD=1", "TMPDIR="+temp, "STET_TEST_REDIS=")
		input, errIn := c.StdinPipe()
		output, errOut := c.StdoutPipe()
		if err := errors.Join(errIn, errOut, c.Start()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill() })
		children, inputs, outputs = append(children, c), append(inputs, input), append(outputs, bufio.NewReader(output))
	}
	var url string
	for i, out := range outputs {
		line, err := out.ReadString('\n')
		if err != nil || i > 0 && line != url {
			t.Fatalf("process %d got %q after %q: %v", i, line, url, err)
		}
		url = line
	}
	addr := strings.TrimSpace(strings.TrimPrefix(url, "redis://"))
	if err := children[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = children[0].Wait() // it was killed
	for i := 1; i < len(children); i++ {
		if !reach(addr) {
			t.Fatalf("the server has ended, and %d processes use it", len(children)-i)
		}
		if err := errors.Join(inputs[i].Close(), children[i].Wait()); err != nil {
			t.Fatal(err)
		}
	}
	servers.Until(t, "the server has ended and its files are gone", func() bool {
		left, err := filepath.Glob(filepath.Join(temp, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == 0 && !reach(addr)
	})
}
