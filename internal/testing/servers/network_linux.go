package servers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// Network is a network of its own for processes, linked with this machine by one
// cable, which can be cut, also in one direction. A process in it reaches Host alone.
type Network struct {
	Host string // this machine's address at the cable

	guest  string
	link   string // this machine's end
	holder *exec.Cmd
	alive  io.WriteCloser
}

// networks counts those of this process.
var networks atomic.Int64

// NewNetwork makes a network, which ends with the test, or with the test's process. It
// skips the test where this process may not make one, or fails it if STET_TEST_STRICT=1: it takes Linux, root and ip.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	n := networks.Add(1)
	id := int64(os.Getpid())*8 + n
	subnet := fmt.Sprintf("198.18.%d.%d", id>>6&255, id&63*4) // of those for tests (RFC 2544)
	last := strings.LastIndexByte(subnet, '.') + 1
	base, err := strconv.Atoi(subnet[last:])
	if err != nil {
		t.Fatal(err)
	}
	w := &Network{
		Host: subnet[:last] + strconv.Itoa(base+1), guest: subnet[:last] + strconv.Itoa(base+2),
		link: fmt.Sprintf("stet%d", id&0xffffff),
	}
	if os.Geteuid() != 0 {
		need(t, fmt.Errorf("%w: networks of their own are made by root alone", ErrMissing))
	}
	if err := w.hold(); err != nil {
		need(t, fmt.Errorf("%w: networks of their own cannot be made here: %w", ErrMissing, err))
	}
	t.Cleanup(func() {
		_ = w.alive.Close() // which ends it, and the cable with it
		_ = w.holder.Wait()
	})
	if err := w.connect(); err != nil {
		need(t, fmt.Errorf("%w: networks of their own cannot be made here: %w", ErrMissing, err))
	}
	return w
}

// hold starts the process whose network it is.
func (w *Network) hold() (err error) {
	w.holder = exec.Command("unshare", "--net", "sh", "-c", "echo; exec cat >&2") // until its input ends
	if w.alive, err = w.holder.StdinPipe(); err != nil {
		return err
	}
	out, err := w.holder.StdoutPipe()
	if err != nil {
		return err
	}
	if err := w.holder.Start(); err != nil {
		return err
	}
	_, err = out.Read(make([]byte, 1)) // it is in its network
	return err
}

// connect lays the cable.
func (w *Network) connect() error {
	inside := w.link + "i"
	for _, args := range [][]string{
		{"link", "add", w.link, "type", "veth", "peer", "name", inside, "netns", strconv.Itoa(w.holder.Process.Pid)},
		{"addr", "add", w.Host + "/30", "dev", w.link},
		{"link", "set", w.link, "up"},
	} {
		if err := execute("ip", args...); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"addr", "add", w.guest + "/30", "dev", inside},
		{"link", "set", inside, "up"},
		{"link", "set", "lo", "up"},
	} {
		if err := w.inside("ip", args...); err != nil {
			return err
		}
	}
	return nil
}

// Enter makes a command one that is executed in the network.
func (w *Network) Enter(c *exec.Cmd) *exec.Cmd {
	in := exec.Command("nsenter", append([]string{"--net", "--target", strconv.Itoa(w.holder.Process.Pid), "--", c.Path},
		c.Args[1:]...)...)
	in.Env, in.Dir = c.Env, c.Dir
	return in
}

func (w *Network) inside(name string, args ...string) error {
	c := w.Enter(exec.Command(name, args...))
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// Cut cuts the cable, or connects it again.
func (w *Network) Cut(on bool) error {
	return execute("ip", "link", "set", w.link, map[bool]string{true: "down", false: "up"}[on])
}

// Mute drops all traffic from the network, or passes it again. Traffic to the network still arrives.
func (w *Network) Mute(on bool) error {
	return w.inside("ip", "route", map[bool]string{true: "add", false: "del"}[on], "blackhole", w.Host)
}

// Deafen drops all traffic to the network, or passes it again. Traffic from the network still arrives.
func (w *Network) Deafen(on bool) error {
	return execute("ip", "route", map[bool]string{true: "add", false: "del"}[on], "blackhole", w.guest)
}

func execute(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
