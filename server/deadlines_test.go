package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
)

// pipes is a listener without sockets, so that virtual time goes on while a client waits.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// served serves a handler until the test ends. dial returns a connection to it, over which one
// byte is on its way at most.
func served(t *testing.T, h http.Handler) (dial func() net.Conn) {
	t.Helper()
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	web := &http.Server{Handler: h}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(p) }()
	t.Cleanup(func() {
		close(p.closed)
		_ = web.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return func() net.Conn {
		here, there := net.Pipe()
		p.conns <- there
		t.Cleanup(func() { _ = here.Close() })
		return here
	}
}

func sent(t *testing.T, c net.Conn, who, method, path, rest string) {
	t.Helper()
	_, err := fmt.Fprintf(c, "%s /api/v1/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s", method, path,
		who, rest)
	if err != nil {
		t.Fatal(err)
	}
}

// hungUp waits until the server has closed the connection, and fails if that takes longer.
func hungUp(t *testing.T, c net.Conn, within time.Duration) {
	t.Helper()
	time.Sleep(within)
	synctest.Wait()
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Errorf("after %s: expected the end of the connection, found %v", within, err)
	}
}

// TestClientsThatDoNotReadHoldNothing: neither a slot for lists, nor the place of a bulk, and
// their connections for 10 seconds.
func TestClientsThatDoNotReadHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		defer w.stop()
		for i := range 20 {
			w.started("order", fmt.Sprint("o-", i), "apple")
		}
		dial := served(t, w.handler)
		var lists, bulks []net.Conn
		for range 8 {
			lists = append(lists, dial())
			sent(t, lists[len(lists)-1], "viewer", "GET", "runs", "\r\n")
			body := fmt.Sprintf(`{"token":%q}`, w.preview("operator", api.BulkRequest{Verb: "pause"}).Token)
			bulks = append(bulks, dial())
			sent(t, bulks[len(bulks)-1], "operator", "POST", "bulk",
				fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			synctest.Wait()
		}
		begun := time.Now()
		w.get("viewer", "runs", nil)
		w.get("viewer", "counts", nil)
		w.act("operator", w.preview("operator", api.BulkRequest{Verb: "resume"}).Token)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("others have waited %s", took)
		}
		time.Sleep(11 * time.Second)
		for _, c := range append(lists, bulks...) {
			hungUp(t, c, 0)
		}
	})
}

// TestSlowBodies: a client that sends nothing of the body that it has announced holds no slot, and
// its connection for 10 seconds; also where the body is not looked at.
func TestSlowBodies(t *testing.T) {
	for _, row := range []struct{ who, path string }{
		{"operator", "bulk/preview"}, {"caller", "runs"}, {"stranger", "runs"}, {"caller", "nowhere"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, false)
			dial := served(t, w.handler)
			var conns []net.Conn
			for range 8 {
				c := dial()
				conns = append(conns, c)
				sent(t, c, row.who, "POST", row.path, "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
			}
			synctest.Wait()
			begun := time.Now()
			w.get("viewer", "runs", nil)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("%s: a list has waited %s", row.path, took)
			}
			for _, c := range conns {
				go func() { _, _ = io.Copy(io.Discard, c) }()
			}
			time.Sleep(15 * time.Second)
			synctest.Wait()
			for _, c := range conns {
				if _, err := c.Write([]byte("x")); err == nil {
					t.Errorf("%s: the connection is open", row.path)
				}
			}
		})
	}
}

// TestSlowClientsWithProgress are served: a body that comes in parts, an answer that is read in
// parts, and a connection that is used again an hour later.
func TestSlowClientsWithProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		defer w.stop()
		c := served(t, w.handler)()
		answers := bufio.NewReader(c)
		for i := range 3 {
			body := fmt.Sprintf(`{"workflow":"order","id":"o-%d","input":"apple"}`, i)
			sent(t, c, "caller", "POST", "runs",
				fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)))
			for part := range strings.SplitSeq(body, ",") {
				time.Sleep(9 * time.Second)
				if part != body[len(body)-len(part):] {
					part += ","
				}
				if _, err := io.WriteString(c, part); err != nil {
					t.Fatal(err)
				}
			}
			for _, read := range []func(){func() {}, func() {
				sent(t, c, "viewer", "GET", "openapi.json", "\r\n")
			}} {
				read()
				time.Sleep(5 * time.Second)
				r, err := http.ReadResponse(answers, nil)
				if err != nil || r.StatusCode >= 300 {
					t.Fatalf("answer %d: %v, %+v", i, err, r)
				}
				for err == nil {
					time.Sleep(time.Second)
					_, err = io.CopyN(io.Discard, r.Body, 16<<10)
				}
				if err != io.EOF {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestDeadlinesOfOthers: what an application serves at the side of the API has the same deadlines,
// and works for as long as it likes.
func TestDeadlinesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := server.Deadlines(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
				t.Error("a deadline has ended the request")
			}
			_, _ = w.Write(make([]byte, 1<<20))
		}))
		dial := served(t, h)
		whole := dial()
		sent(t, whole, "", "POST", "x", "Content-Length: 2\r\n\r\n{}")
		time.Sleep(time.Hour)
		r, err := http.ReadResponse(bufio.NewReader(whole), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r.Body); n != 1<<20 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		unread := dial()
		sent(t, unread, "", "POST", "x", "Content-Length: 2\r\n\r\n{}")
		time.Sleep(time.Hour)
		hungUp(t, unread, 11*time.Second)
	})
}
