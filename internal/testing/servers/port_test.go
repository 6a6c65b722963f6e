package servers

import (
	"net"
	"strconv"
	"testing"
)

// TestPortsAreNobodyElses: neither a listener on any port nor a connection gets a port of the range for servers, so
// that a stopped server can be started again.
func TestPortsAreNobodyElses(t *testing.T) {
	for range 50 {
		n, err := port()
		if err != nil {
			t.Fatal(err)
		}
		if n < firstPort || n+clusterBus >= 32_768 { // where Linux begins; other systems begin later
			t.Fatalf("a server gets the port %d", n)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range []net.Addr{l.Addr(), c.LocalAddr()} {
			if other := addr.(*net.TCPAddr).Port; other >= firstPort && other < firstPort+ports+clusterBus {
				t.Skipf("this system also gives out the port %d: a server may not find its port when it is started again", other)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPortInUseIsNotGiven to a server, nor one whose bus port is in use.
func TestPortInUseIsNotGiven(t *testing.T) {
	n, err := port()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nobody has used it
	if free(n) == nil {
		t.Errorf("the port %d is taken for free", n)
	}
}
