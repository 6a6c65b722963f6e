package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store/memory"
)

// hostile is a client that takes what it can, over real connections. It is an operator.
type hostile struct {
	testing.TB
	address string // host:port
	all     sync.WaitGroup
	mu      sync.Mutex
	open    []net.Conn
	ended   bool
}

// dial opens a connection, which end closes.
func (h *hostile) dial() net.Conn {
	c, err := net.Dial("tcp", h.address)
	if err != nil {
		h.Error(err)
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		_ = c.Close()
		return nil
	}
	h.open = append(h.open, c)
	return c
}

// begins sends the beginning of a request.
func (h *hostile) begins(c net.Conn, method, path, token string, length int, body string) {
	head := fmt.Sprintf("%s /api/v1/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n", method, path, token)
	if length > 0 {
		head += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", length)
	}
	if _, err := io.WriteString(c, head+"\r\n"+body); err != nil {
		h.Error(err)
	}
}

// status reads the status line of an answer.
func (h *hostile) status(c net.Conn) string {
	line, err := bufio.NewReaderSize(c, 16).ReadString('\n') // reads no more of the answer than that
	if err != nil {
		h.Errorf("an answer begins with %q: %v", line, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "HTTP/1.1 "))
}

// end closes all connections, and waits for what goes on.
func (h *hostile) end() {
	h.mu.Lock()
	h.ended = true
	for _, c := range h.open {
		_ = c.Close()
	}
	h.mu.Unlock()
	h.all.Wait()
}

// attacks are what the client does. Each returns once it is under way.
var attacks = []struct {
	name string
	do   func(h *hostile)
}{
	{"it does not read", func(h *hostile) {
		for range 8 {
			c := h.dial()
			h.begins(c, "GET", "runs?limit=400", "operator", 0, "")
			if got := h.status(c); got != "200 OK" {
				h.Errorf("the status is %s", got)
			}
		}
	}},
	{"it writes slowly", func(h *hostile) {
		for range 100 {
			c := h.dial()
			h.begins(c, "POST", "runs", "operator", 1000, "{")
			h.all.Go(func() {
				for range time.Tick(time.Second) {
					if _, err := io.WriteString(c, " "); err != nil {
						return
					}
				}
			})
		}
	}},
	{"it sends half a body", func(h *hostile) {
		for range 100 {
			h.begins(h.dial(), "POST", "runs", "operator", 1<<20, strings.Repeat(" ", 1<<19))
		}
	}},
	{"it shows ten wrong tokens", func(h *hostile) {
		for i := range 12 {
			c := h.dial()
			h.begins(c, "GET", "info", fmt.Sprint("wrong-", i), 0, "")
			if got := h.status(c); got != "401 Unauthorized" && got != "429 Too Many Requests" {
				h.Errorf("the status is %s", got)
			}
		}
	}},
	{"it takes the streams", func(h *hostile) {
		for i := range 1001 {
			c := h.dial()
			h.begins(c, "GET", "events?nodes=true", "operator", 0, "")
			if got, want := h.status(c), i < 1000; (got == "200 OK") != want {
				h.Errorf("stream %d: the status is %s", i, got)
			}
		}
	}},
	{"it reads pages of large values", func(h *hostile) {
		for range 10 {
			begun := make(chan bool)
			h.all.Go(func() {
				for first := true; ; first = false {
					c := h.dial()
					if c == nil {
						return
					}
					h.begins(c, "GET", "runs?limit=400", "operator", 0, "")
					if first {
						close(begun)
					}
					if _, err := io.Copy(io.Discard, c); err != nil {
						return
					}
				}
			})
			<-begun
		}
	}},
}

// others are requests of those who share the server.
var others = []struct{ method, path, body string }{
	{"GET", "info", ""}, {"GET", "runs", ""}, {"GET", "counts", ""}, {"GET", "runs/o-0", ""},
	{"GET", "runs/o-0/history", ""}, {"GET", "deadletters", ""}, {"POST", "runs", `{"workflow":"order","input":"x"}`},
	{"POST", "runs/o-0/messages/other", `{"value":1}`},
}

// besieged returns a server with large runs over real connections.
func besieged(t testing.TB) (address string) {
	e, err := stet.New(t.Context(), stet.Config{
		Store: memory.New(), Logger: quiet(), Workflows: []stet.Definition{order},
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := server.New(e, server.Options{
		Access: []access.Authenticator{server.Func(byName)}, Logger: quiet(), Rate: stet.None,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 400 { // a page of them has 9 MiB, more than what a connection buffers
		_, err := stet.Ref[string, string]("order").Start(t.Context(), e, text(60<<10), stet.ID(fmt.Sprint("o-", i)))
		if err != nil {
			t.Fatal(err)
		}
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.Listener.Addr().String()
}

// TestHostileClientHoldsUpNobody: whatever one identity does, the requests of another one at the same address are
// answered.
func TestHostileClientHoldsUpNobody(t *testing.T) {
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			t.Parallel()
			address := besieged(t)
			h := &hostile{TB: t, address: address}
			defer h.end()
			attack.do(h)
			for range 3 {
				for _, o := range others {
					status, err := requested(t.Context(), address, "caller", o.method, o.path, o.body)
					if err != nil || status/100 != 2 {
						t.Errorf("%s %s: %d, %v", o.method, o.path, status, err)
					}
				}
				stream, leave := context.WithCancel(t.Context())
				status, err := requested(stream, address, "caller", "GET", "events?nodes=true", "")
				if err != nil || status != 200 {
					t.Errorf("a stream: %d, %v", status, err)
				}
				leave()
			}
		})
	}
}

// BenchmarkHostileClient is how long others wait, in the 99th of a hundred cases, with the client and without it.
func BenchmarkHostileClient(b *testing.B) {
	measure := func(b *testing.B, address string) {
		var took []time.Duration
		for b.Loop() {
			for _, o := range others {
				begun := time.Now()
				status, err := requested(b.Context(), address, "caller", o.method, o.path, o.body)
				if err != nil || status/100 != 2 {
					b.Fatalf("%s %s: %d, %v", o.method, o.path, status, err)
				}
				took = append(took, time.Since(begun))
			}
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	}
	b.Run("alone", func(b *testing.B) { measure(b, besieged(b)) })
	for _, attack := range attacks {
		b.Run(strings.ReplaceAll(attack.name, " ", "-"), func(b *testing.B) {
			address := besieged(b)
			h := &hostile{TB: b, address: address}
			defer h.end()
			attack.do(h)
			measure(b, address)
		})
	}
}

// requested makes a request of an identity, and returns its status. What is a stream is not read to its end.
func requested(ctx context.Context, address, who, method, path, body string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+who)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.Header.Get("Content-Type") != "text/event-stream" {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	return answer.StatusCode, err
}
