// Package servers starts throw-away servers of databases for tests: from installed binaries, in a temporary folder, on
// a Unix socket and a free port, as an unprivileged user. A server ends with the process that has started it, also if
// that is killed, and leaves no files behind. The package is for tests alone.
package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// ErrMissing says that a server's binaries are not installed, or that a test cannot have something else here.
var ErrMissing = errors.New("what the test needs is not installed")

// need skips the test if a server is not installed, or fails it if STET_TEST_STRICT=1.
func need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && os.Getenv("STET_TEST_STRICT") != "1":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// process is a server's process. A shell stands between: it reads from a pipe without writes, and so notices when the
// process that has started it is gone.
type process struct {
	command *exec.Cmd
	alive   io.WriteCloser // our end of the pipe
	ended   chan struct{}  // closed when the server has ended
	mu      sync.Mutex
	log     []string // last lines
}

// guard executes the command in its arguments until a line comes from its input, or the input ends: then the test
// process is gone, and guard deletes the folder.
const guard = `exec 3<&0
"$@" </dev/null 3<&- & server=$!
{ read -r _ <&3 || : >"$STET_FOLDER/.gone"; kill -s "$STET_STOP" $server 2>/dev/null; } & watcher=$!
wait $server; code=$?
kill $watcher 2>/dev/null
[ -e "$STET_FOLDER/.gone" ] && rm -rf "$STET_FOLDER"
exit $code`

// saveDisk stops a server, keeps a copy of a folder of its data, and starts it again. Restore puts the copy in the
// folder's place in the same way.
func saveDisk(data, saved string, server interface {
	Stop() error
	Start() error
}) (restore func() error, err error) {
	copyOver := func(from, to string) error {
		if err := server.Stop(); err != nil {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			return fmt.Errorf("copy the disk: %w: %s", err, out)
		}
		return server.Start()
	}
	return func() error { return copyOver(saved, data) }, copyOver(data, saved)
}

// Until polls a condition until it holds, where there is no notification. The test fails after a minute; what names the
// condition.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	if err := until(is); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func until(is func() bool) error {
	limit := time.NewTimer(readyLimit)
	defer limit.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-limit.C:
			return fmt.Errorf("not so after %s", readyLimit)
		}
	}
	return nil
}

// readyLimit is how long a server may take to begin.
const readyLimit = time.Minute

// largePieces makes glibc ask for memory in large pieces. Each connection to Postgres is a process, and half of what a
// new one costs is page faults. Other libraries do not know it.
const largePieces = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=8388608"

// start starts a server whose files are in a folder, and waits until its log has a
// line with the text ready. stop is the name of the signal that ends it.
func start(dir, stop, ready string, name string, args ...string) (*process, error) {
	p := &process{ended: make(chan struct{})}
	p.command = exec.Command("/bin/sh", append([]string{"-c", guard, "sh", name}, args...)...)
	p.command.Env = append(os.Environ(), "STET_STOP="+stop, "STET_FOLDER="+dir, "LC_ALL=C", largePieces)
	p.command.Dir = "/"
	unprivileged(p.command)
	in, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, log, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), alive.Close())
	}
	p.alive = alive
	p.command.Stdin, p.command.Stdout, p.command.Stderr = in, log, log
	err = p.command.Start()
	err = errors.Join(err, in.Close(), log.Close())
	if err != nil {
		return nil, errors.Join(err, alive.Close(), out.Close())
	}
	begun := make(chan struct{})
	go p.follow(out, ready, begun)
	go func() {
		_ = p.command.Wait() // its log says more
		close(p.ended)
	}()
	select {
	case <-begun:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%s has ended:\n%s", name, p.lines())
	case <-time.After(readyLimit):
		return nil, errors.Join(fmt.Errorf("%s is not ready after %s:\n%s", name, readyLimit, p.lines()), p.stop())
	}
}

// follow reads the log.
func (p *process) follow(out io.ReadCloser, ready string, begun chan struct{}) {
	defer out.Close()
	seen := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.mu.Lock()
		p.log = append(p.log, lines.Text())
		p.log = p.log[max(0, len(p.log)-50):]
		p.mu.Unlock()
		if !seen && strings.Contains(lines.Text(), ready) {
			seen = true
			close(begun)
		}
	}
}

// lines returns the last lines of the log.
func (p *process) lines() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

// stop ends the server, by the signal that start was given, and waits for it.
func (p *process) stop() error {
	_, err := io.WriteString(p.alive, "stop\n")
	err = errors.Join(err, p.alive.Close())
	<-p.ended
	return err
}

// folder makes a temporary folder that belongs to the user that servers run as.
// Its path is short enough for a Unix socket.
func folder(name string) (string, error) {
	dir, err := os.MkdirTemp("", "stet-"+name)
	if err != nil {
		return "", err
	}
	return dir, own(dir)
}

// The ports that servers get: below those that systems give to connections and to listeners that ask for any, so that a
// server that is stopped finds its port free when it is started again; the port of a cluster's bus, which is clusterBus
// above, is not among them either.
const (
	firstPort, ports = 12_000, 10_000
	clusterBus       = 10_000
)

// port returns an unused port of the loopback address, chosen at random: the tests of other packages look for theirs at
// the same time.
func port() (int, error) {
	var err error
	for range 100 {
		n := firstPort + rand.IntN(ports)
		if err = errors.Join(free(n), free(n+clusterBus)); err == nil {
			return n, nil
		}
	}
	return 0, err
}

// free returns the reason why a port of the loopback address is taken; nil: it is free.
func free(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// find returns the path of a program: from PATH, or otherwise in the last of the folders that has it.
func find(program string, folders ...string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, pattern := range folders {
		matches, err := filepath.Glob(filepath.Join(pattern, program))
		if err == nil && len(matches) > 0 {
			return matches[len(matches)-1], nil
		}
	}
	return "", fmt.Errorf("%w: there is no %s in PATH or %s", ErrMissing, program, strings.Join(folders, ", "))
}
