//go:build unix

package redis_test

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
)

// TestAProcessThatStandsStillIsAlive: the system answers for it. The lease counts.
func TestAProcessThatStandsStillIsAlive(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	holder := exec.Command(os.Args[0])
	holder.Env, holder.Stderr = append(os.Environ(), "STET_CHILD_HOLDS="+server.URL()), t.Output()
	input, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = holder.Process.Kill()
		_ = holder.Wait() // it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "holds\n" {
		t.Fatalf("the process that holds the shard: %q, %v", line, err)
	}
	witnessOf(t, server, "a")
	b := newPeer(t, server.URL(), "b")
	witnessOf(t, server, "b")
	if err := holder.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.looksInVain(t, server)
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.takes(t)
}
