package bench

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// distance stands between clients and a server, which is farther away by it, and passes at most so many bytes a second
// to the server.
type distance struct {
	listener net.Listener
	target   string
	half     time.Duration
	rate     int // 0: any
	done     sync.WaitGroup

	mu    sync.Mutex
	over  bool
	conns []net.Conn
	free  time.Time // when the server has got what was passed to it
}

func newDistance(target string, trip time.Duration, rate int) (*distance, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a way to the server: %w", err)
	}
	d := &distance{listener: l, target: target, half: trip / 2, rate: rate}
	d.done.Go(d.accept)
	return d, nil
}

func (d *distance) addr() string { return d.listener.Addr().String() }

// close cuts what is still connected.
func (d *distance) close() error {
	err := d.listener.Close()
	d.mu.Lock()
	d.over = true
	for _, c := range d.conns {
		_ = c.Close() // perhaps a second time
	}
	d.mu.Unlock()
	d.done.Wait()
	return err
}

func (d *distance) accept() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", d.target)
		if err != nil || !d.keep(client, server) {
			_ = client.Close() // it tries again
			continue
		}
		d.done.Go(func() { d.pass(server, client, d.rate) })
		d.done.Go(func() { d.pass(client, server, 0) })
	}
}

func (d *distance) keep(conns ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		for _, c := range conns {
			_ = c.Close() // nothing was sent
		}
		return false
	}
	d.conns = append(d.conns, conns...)
	return true
}

// turn waits until so many bytes may pass at a rate, which all connections share.
func (d *distance) turn(bytes, rate int) {
	if rate == 0 {
		return
	}
	d.mu.Lock()
	now := time.Now()
	if d.free.Before(now) {
		d.free = now
	}
	d.free = d.free.Add(time.Duration(bytes) * time.Second / time.Duration(rate))
	at := d.free
	d.mu.Unlock()
	time.Sleep(time.Until(at)) // the rate itself
}

// pass copies what it reads, half a trip later.
func (d *distance) pass(to io.WriteCloser, from io.Reader, rate int) {
	type piece struct {
		data []byte
		at   time.Time
	}
	pieces := make(chan piece, 1000)
	d.done.Go(func() {
		defer close(pieces)
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if n > 0 {
				pieces <- piece{data[:n], time.Now().Add(d.half)}
			}
			if err != nil {
				return
			}
		}
	})
	failed := false
	for p := range pieces { // to their end, so that the reader ends
		time.Sleep(time.Until(p.at)) // the way itself
		d.turn(len(p.data), rate)
		if !failed {
			_, err := to.Write(p.data)
			failed = err != nil
		}
	}
	_ = to.Close() // perhaps a second time
}
