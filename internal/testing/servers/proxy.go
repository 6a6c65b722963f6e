package servers

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between clients and a server's port, and cuts connections.
type Proxy struct {
	listener net.Listener
	done     sync.WaitGroup

	mu      sync.Mutex
	target  string
	conns   map[net.Conn]bool // both ends of each; true: that of the server
	refuse  bool
	severed chan struct{} // closed when clients learn that they are severed; nil: they are not
	answers int           // that are let through before one is lost; -1: all
	lost    chan struct{}
	hold    *Hold
}

// Hold delays all output of the server, as if the clients stood still.
type Hold struct {
	Held   chan struct{} // closed when something is held
	resume chan struct{}
	left   int
	begins func() // closes Held once; nil: of one connection alone
}

// Go ends the delay.
func (h *Hold) Go() { close(h.resume) }

// Hold lets n pieces of the server's output pass, and holds the following ones.
func (p *Proxy) Hold(n int) *Hold {
	return p.begin(&Hold{Held: make(chan struct{}), resume: make(chan struct{}), left: n})
}

func (p *Proxy) begin(h *Hold) *Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = h
	return h
}

// HoldAll holds the server's output to all connections, as if the process of the clients stood still. They stay open.
func (p *Proxy) HoldAll() *Hold {
	h := &Hold{Held: make(chan struct{}), resume: make(chan struct{})}
	h.begins = sync.OnceFunc(func() { close(h.Held) })
	return p.begin(h)
}

// held waits while the server's output is held.
func (p *Proxy) held() {
	p.mu.Lock()
	h := p.hold
	if h != nil && h.begins != nil {
		p.mu.Unlock()
		h.begins()
		<-h.resume
		return
	}
	if h == nil || h.left > 0 {
		if h != nil {
			h.left--
		}
		p.mu.Unlock()
		return
	}
	p.hold = nil
	p.mu.Unlock()
	close(h.Held)
	<-h.resume
}

// NewProxy starts a proxy before an address. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return NewProxyAt(t, "127.0.0.1", target)
}

// NewProxyAt is NewProxy with the address of this machine that clients connect to.
func NewProxyAt(t testing.TB, host, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: l, conns: map[net.Conn]bool{}, answers: -1, lost: make(chan struct{}, 1)}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close() // ends accept
		p.Cut()
		p.done.Wait()
	})
	return p
}

// Addr returns the host and port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Target directs new connections to another address and cuts the existing ones, like an address that moves to another
// server.
func (p *Proxy) Target(addr string) {
	p.mu.Lock()
	p.target = addr
	p.mu.Unlock()
	p.Cut()
}

// Cut cuts all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // that is the purpose
	}
}

// Refuse cuts all connections and accepts none, or accepts them again.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	p.refuse = on
	p.mu.Unlock()
	if on {
		p.Cut()
	}
}

// Sever cuts the server's ends of all connections, and refuses new ones, while the clients hear
// nothing at all, as if their network were gone. Join, which is returned, lets clients connect
// again.
func (p *Proxy) Sever() (join func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse, p.severed = true, make(chan struct{})
	for c, server := range p.conns {
		if server {
			_ = c.Close() // that is the purpose
		}
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.severed)
		p.refuse, p.severed = false, nil
	})
}

// silent waits while clients hear nothing.
func (p *Proxy) silent() {
	p.mu.Lock()
	severed := p.severed
	p.mu.Unlock()
	if severed != nil {
		<-severed
	}
}

// LoseAnswer lets n pieces of the server's output pass; then it loses the next one and cuts all connections. The
// request has been carried out, and its caller does not learn it. The channel gets a value when that is done.
func (p *Proxy) LoseAnswer(n int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = n
	return p.lost
}

// passes reports whether an answer is let through.
func (p *Proxy) passes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.answers {
	case -1:
		return true
	case 0:
		p.answers = -1
		select {
		case p.lost <- struct{}{}:
		default:
		}
		return false
	}
	p.answers--
	return true
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil || !p.keep(client, server) {
			_ = client.Close() // nobody is there for it
			continue
		}
		p.done.Go(func() {
			_, _ = io.Copy(server, client) // until it is cut
			p.silent()
			p.drop(client, server)
		})
		p.done.Go(func() {
			p.answer(client, server)
			p.silent()
			p.drop(client, server)
		})
	}
}

// answer copies the server's output.
func (p *Proxy) answer(client, server net.Conn) {
	for buffer := make([]byte, 64<<10); ; {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		p.held()
		if !p.passes() {
			p.Cut()
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range []net.Conn{client, server} {
		if p.refuse {
			_ = c.Close() // as it was asked
			continue
		}
		p.conns[c] = i == 1
	}
	return !p.refuse
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // perhaps a second time
		delete(p.conns, c)
	}
}
