package postgres_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/stet-run/stet/store/postgres"
)

// sessions are sessions of the server that stores have ended properly. The next store gets them in place of new ones:
// a new session costs the server ten times as much as most statements, until it knows the catalog and the functions.
type sessions struct {
	mu      sync.Mutex
	free    []*session
	era     int             // sessions that were lent in a former one are not kept
	spoiled map[uint32]bool // a request to cancel one of their statements may still be under way
}

// session is a session of the server.
type session struct {
	net.Conn
	startup string // the message that has begun it
	answer  []byte // the server's answer to that
	pid     uint32
}

// maxFree is how many sessions are kept: of more handles than tests mostly have at a time.
const maxFree = 16

// option lets a store take and leave sessions.
func (p *sessions) option() postgres.Option {
	return postgres.BeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		dial := c.DialFunc
		c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			// Only its first message says whether it is to be a session.
			return &lent{pool: p, era: p.era, dial: func() (net.Conn, error) {
				return dial(context.WithoutCancel(ctx), network, addr)
			}}, nil
		}
		return nil
	})
}

// take returns a session that was begun by a message, or nil.
func (p *sessions) take(startup string) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.free, func(s *session) bool { return s.startup == startup })
	if i < 0 {
		return nil
	}
	s := p.free[i]
	p.free = slices.Delete(p.free, i, i+1)
	return s
}

// give keeps a session that is as new, or ends it.
func (p *sessions) give(s *session, era int) error {
	fresh := s.reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !fresh || era != p.era || len(p.free) == maxFree || p.spoiled[s.pid] {
		return s.Close()
	}
	p.free = append(p.free, s)
	return nil
}

// spoil has a session not be used again.
func (p *sessions) spoil(pid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spoiled == nil {
		p.spoiled = map[uint32]bool{}
	}
	p.spoiled[pid] = true
}

// settle returns the processes of the sessions that are kept. No other one is kept from now on but those lent later.
func (p *sessions) settle() (pids []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.era++
	for _, s := range p.free {
		pids = append(pids, int64(s.pid))
	}
	return pids
}

// close ends all that are kept.
func (p *sessions) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.era++
	for _, s := range p.free {
		_ = s.Close() // nothing is under way in it
	}
	p.free = nil
}

// resetText is DISCARD ALL without the plans of functions.
const resetText = `RESET SESSION AUTHORIZATION; RESET ALL; CLOSE ALL; DEALLOCATE ALL; UNLISTEN *;
	SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES`

// reset makes the session as new, and reports whether it is.
func (s *session) reset() bool {
	if s.SetDeadline(time.Now().Add(time.Minute)) != nil {
		return false
	}
	text, err := (&pgproto3.Query{String: resetText}).Encode(nil)
	if err != nil {
		return false
	}
	if _, err := s.Write(text); err != nil {
		return false
	}
	ended, good := false, true
	var in frames
	for buffer := make([]byte, 4096); !ended; {
		n, err := s.Read(buffer)
		if err != nil {
			return false
		}
		in.feed(buffer[:n], func(kind, first byte) {
			ended = ended || kind == 'Z'
			good = good && kind != 'E' && (kind != 'Z' || first == 'I')
		})
	}
	return good && in.between() && s.SetDeadline(time.Time{}) == nil
}

// frames splits what is said in one direction into messages.
type frames struct {
	head []byte
	left int  // of the body
	kind byte // of the message that has begun
	told bool
}

// feed calls each for each message, with the first byte of its body or 0.
func (f *frames) feed(data []byte, each func(kind, first byte)) {
	for len(data) > 0 {
		if f.left > 0 {
			if !f.told {
				f.told = true
				each(f.kind, data[0])
			}
			n := min(f.left, len(data))
			f.left, data = f.left-n, data[n:]
			continue
		}
		f.head, data = append(f.head, data[0]), data[1:]
		if len(f.head) < 5 {
			continue
		}
		f.kind, f.left = f.head[0], int(binary.BigEndian.Uint32(f.head[1:]))-4
		f.head, f.told = f.head[:0], f.left == 0
		if f.told {
			each(f.kind, 0)
		}
	}
}

// between reports whether no message has begun and not ended.
func (f *frames) between() bool { return f.left == 0 && len(f.head) == 0 }

// lent is a connection of the driver: to a new session, or to one that another connection has left.
type lent struct {
	pool *sessions
	era  int
	dial func() (net.Conn, error)

	mu         sync.Mutex
	session    *session // nil: nothing was written yet
	replay     []byte   // of the answer to the startup message, not read yet
	began      bool     // the answer is complete
	unfit      bool     // it is not left to others
	over       bool     // the driver has said that it ends
	closed     bool
	reading    int
	asked, got int  // requests, and answers to them
	status     byte // of the transaction, after the last answer
	in, out    frames
}

const (
	protocolMajor = 3        // the major version, in a startup message
	cancelCode    = 80877102 // in place of it
)

var terminate = []byte{'X', 0, 0, 0, 4}

func (l *lent) Write(b []byte) (int, error) {
	l.mu.Lock()
	if l.session == nil {
		defer l.mu.Unlock()
		return l.begin(b)
	}
	if bytes.Equal(b, terminate) && l.out.between() {
		l.over = true
		l.mu.Unlock()
		return len(b), nil
	}
	l.out.feed(b, func(kind, _ byte) {
		switch kind {
		case 'S', 'Q', 'F': // each is answered by one ReadyForQuery
			l.asked++
		case 'X', 'p':
			l.unfit = true // it has ended, or was asked for a password
		}
	})
	l.mu.Unlock()
	n, err := l.session.Write(b)
	if err != nil {
		l.mu.Lock()
		l.unfit = true
		l.mu.Unlock()
	}
	return n, err
}

// begin writes the first message.
func (l *lent) begin(b []byte) (int, error) {
	code := uint32(0)
	if len(b) >= 8 {
		code = binary.BigEndian.Uint32(b[4:])
	}
	if code>>16 == protocolMajor {
		if l.session = l.pool.take(string(b)); l.session != nil {
			l.replay, l.began, l.status = l.session.answer, true, 'I'
			return len(b), nil
		}
	}
	if code == cancelCode && len(b) >= 12 {
		l.pool.spoil(binary.BigEndian.Uint32(b[8:]))
	}
	conn, err := l.dial()
	if err != nil {
		return 0, err
	}
	l.session, l.unfit = &session{Conn: conn, startup: string(b)}, code>>16 != protocolMajor
	return conn.Write(b)
}

func (l *lent) Read(b []byte) (int, error) {
	l.mu.Lock()
	if len(l.replay) > 0 || l.session == nil {
		n := copy(b, l.replay)
		l.replay = l.replay[n:]
		l.mu.Unlock()
		return n, nil
	}
	l.reading++
	l.mu.Unlock()
	n, err := l.session.Read(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading--
	if !l.began {
		l.session.answer = append(l.session.answer, b[:n]...)
	}
	l.in.feed(b[:n], func(kind, first byte) {
		if kind != 'Z' {
			return
		}
		if l.status = first; l.began {
			l.got++
			return
		}
		l.began = true
		l.session.pid = processOf(l.session.answer)
	})
	return n, err
}

// processOf returns the number of the session's process, which an answer to a startup message has.
func processOf(answer []byte) uint32 {
	for len(answer) >= 9 {
		if answer[0] == 'K' {
			return binary.BigEndian.Uint32(answer[5:])
		}
		answer = answer[min(len(answer), 1+int(binary.BigEndian.Uint32(answer[1:]))):]
	}
	return 0
}

// Close leaves the session to another connection if nothing is under way in it.
func (l *lent) Close() error {
	l.mu.Lock()
	if l.closed || l.session == nil {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	idle := l.over && l.began && l.reading == 0 && l.asked == l.got && l.status == 'I' && l.in.between() && l.out.between()
	fit := idle && !l.unfit && len(l.replay) == 0 && l.session.pid != 0
	l.mu.Unlock()
	if fit {
		return l.pool.give(l.session, l.era)
	}
	return l.session.Close()
}

// conn returns the connection to the server, or nil.
func (l *lent) conn() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil {
		return nil
	}
	return l.session.Conn
}

func (l *lent) SetDeadline(t time.Time) error {
	if c := l.conn(); c != nil {
		return c.SetDeadline(t)
	}
	return nil
}

func (l *lent) SetReadDeadline(t time.Time) error {
	if c := l.conn(); c != nil {
		return c.SetReadDeadline(t)
	}
	return nil
}

func (l *lent) SetWriteDeadline(t time.Time) error {
	if c := l.conn(); c != nil {
		return c.SetWriteDeadline(t)
	}
	return nil
}

func (l *lent) LocalAddr() net.Addr {
	if c := l.conn(); c != nil {
		return c.LocalAddr()
	}
	return &net.UnixAddr{}
}

func (l *lent) RemoteAddr() net.Addr {
	if c := l.conn(); c != nil {
		return c.RemoteAddr()
	}
	return &net.UnixAddr{}
}
