package postgres_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
)

// relay stands between clients and a Postgres server, and sees each message. Its functions may be called concurrently.
type relay struct {
	asks func(kind byte, body []byte) (answer []byte) // nil: it is passed on; otherwise it is answered so
	says func(kind byte, body []byte)                 // may change the body; nil: nothing is done
}

// between returns the address of a relay before an address. It ends with the test.
func (r relay) between(t testing.TB, target string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close() // nobody is there for it
				continue
			}
			go func() {
				_ = r.copy(client, server, 5, func(kind byte, body []byte) []byte { // until one of them is closed
					if r.says != nil {
						r.says(kind, body)
					}
					return nil
				}, nil)
				_ = client.Close()
			}()
			go func() {
				_ = r.copy(server, client, 4, r.asks, client) // until one of them is closed
				_ = server.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// copy copies messages of a type (E: execute, Q: a text of statements, K: the session's key), each with its length.
// The first one of a client has none. see may have a message answered to back.
func (relay) copy(
	to io.Writer, from io.Reader, head int, see func(kind byte, body []byte) []byte, back io.Writer,
) error {
	for ; ; head = 5 {
		message := make([]byte, head)
		if _, err := io.ReadFull(from, message); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(message[head-4:])-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return err
		}
		kind := byte(0)
		if head == 5 {
			kind = message[0]
		}
		var answer []byte
		if see != nil {
			answer = see(kind, body)
		}
		if answer != nil {
			if _, err := back.Write(answer); err != nil {
				return err
			}
			continue
		}
		if _, err := to.Write(append(message, body...)); err != nil {
			return err
		}
	}
}

// sessionPooler is a relay that looks like a pooler in session mode: each client has a session, and another number than
// the session's process.
var sessionPooler = relay{says: func(kind byte, body []byte) {
	if kind == 'K' {
		binary.BigEndian.PutUint32(body, binary.BigEndian.Uint32(body)+1)
	}
}}
