package servers_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
)

// reach reports whether a server answers at an address.
func reach(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	return err == nil && c.Close() == nil
}

func TestPostgresStopsAndStartsAgain(t *testing.T) {
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

// TestServerEndsWithItsProcess kills a process that has started a server: the
// server ends, and its files are gone.
func TestServerEndsWithItsProcess(t *testing.T) {
	if os.Getenv("STET_SERVERS_CHILD") == "1" {
		dsn, _ := servers.SharedPostgres(t)
		_, _ = os.Stdout.WriteString(dsn + "\n")
		select {}
	}
	servers.NewPostgres(t, servers.Fast...) // skips where there is none
	temp, err := os.MkdirTemp("", "stet-end")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	if err := os.Chmod(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithItsProcess$")
	child.Env = append(os.Environ(), "STET_SERVERS_CHILD=1", "TMPDIR="+temp, "STET_TEST_POSTGRES=")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var dsn bytes.Buffer
	for b := make([]byte, 1); !bytes.HasSuffix(dsn.Bytes(), []byte("\n")); dsn.Write(b) {
		if _, err := out.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	servers.Until(t, "the files of the server are gone", func() bool {
		left, err := filepath.Glob(filepath.Join(temp, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == 0
	})
}
