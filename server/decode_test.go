package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// decoded counts what was decoded by the application's codec and error type.
var decoded atomic.Int64

// trap is an error that cannot be decoded.
type trap struct{ Text string }

func (t *trap) Error() string { return t.Text }

func (t *trap) UnmarshalJSON([]byte) error {
	decoded.Add(1)
	panic("decoded")
}

// counting is a codec that counts what it decodes.
type counting struct{}

func (counting) Format() byte                  { return 32 }
func (counting) Marshal(v any) ([]byte, error) { return json.Marshal(v) }
func (counting) Unmarshal(data []byte, v any) error {
	decoded.Add(1)
	return json.Unmarshal(data, v)
}

var (
	// trapped fails at once, in a step that is tried again in a day, or as it is asked to.
	trapped = stet.Define("trapped", func(ctx stet.Context, how string) (string, error) {
		err := &trap{"the card of " + how + " was declined"}
		switch how {
		case "step":
			return stet.Step(ctx, "charge", func(context.Context) (string, error) { return "", err },
				stet.Retry{First: 24 * 3600e9, Max: 24 * 3600e9})
		case "stall":
			return "", err
		case "update":
			for answered := 0; ; answered++ {
				request, failed := stet.Update[string, string]("pay").Receive(ctx)
				if failed != nil {
					return "", failed
				}
				if answered == 1 {
					return "", request.Reject(ctx, err)
				}
				if failed := request.Fail(ctx, err); failed != nil {
					return "", failed
				}
			}
		case "promise":
			paid, failed := stet.NewPromise[string](ctx, "paid")
			if failed != nil {
				return "", failed
			}
			return paid.Await(ctx)
		}
		return "", err
	})
)

// TestServerDecodesNothing: no read decodes what is stored by the application's codec, or calls
// a type of its errors. Neither does the answer to an update.
func TestServerDecodesNothing(t *testing.T) { synctest.Test(t, serverDecodesNothing) }

func serverDecodesNothing(t *testing.T) {
	s := memory.New()
	e, err := stet.New(t.Context(), stet.Config{
		Store: s, Logger: quiet(), Workflows: []stet.Definition{trapped}, Codecs: []stet.Codec{counting{}},
		Errors: []stet.ErrorCode{stet.ErrorType[*trap]("trap")},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, engine: e, store: s}
	if w.handler, err = server.New(e, server.Options{
		Access: []access.Authenticator{server.Func(byName)}, Logger: quiet(), Rate: stet.None,
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	for id, options := range map[string][]stet.StartOption{
		"failed": nil, "step": nil, "stall": {stet.StallOnFailure}, "update": nil, "promise": nil,
	} {
		if _, err := trapped.Start(t.Context(), e, id, append(options, stet.ID(id))...); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"failed", "stall"} {
		if _, err := e.Runs().Wait(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	token := w.tokenOf("promise")
	if _, err := e.Runs().Pause(t.Context(), "promise", stet.Act{By: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Reject(t.Context(), token, &trap{"nobody has paid"}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Runs().Terminate(t.Context(), "promise", stet.Act{By: "test"}); err != nil {
		t.Fatal(err)
	}
	before := decoded.Load()
	synctest.Wait()
	p := w.refused("operator", "POST", "runs/update/updates/pay", api.Send{Value: json.RawMessage(`"a"`)}, api.CodeFailed)
	if !strings.Contains(p.Detail, "of update was declined") {
		t.Errorf("the update has failed with %q", p.Detail)
	}
	p = w.refused("operator", "POST", "runs/update/updates/pay", api.Send{Value: json.RawMessage(`"a"`)}, "refused")
	if !strings.Contains(p.Detail, "of update was declined") {
		t.Errorf("the update was refused with %q", p.Detail)
	}
	if _, err := e.Runs().Wait(t.Context(), "update"); err != nil {
		t.Fatal(err)
	}
	if n := decoded.Load() - before; n > 3 { // the code of the run has taken two requests, and one input
		t.Errorf("updates decoded %d values", n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	before = decoded.Load()
	all := ""
	for _, row := range server.TableOf(w.handler) {
		if row.Method != http.MethodGet || row.Path == "events" {
			continue
		}
		for _, id := range []string{"failed", "step", "stall", "promise", "update"} {
			path := strings.NewReplacer("{id}", id, "{name}", "jobs").Replace(row.Path)
			switch {
			case strings.HasSuffix(path, "/history"):
				path += "?at=charge"
			case strings.HasSuffix(path, "/value"):
				path += "?at=output"
			case strings.HasSuffix(path, "/preview"):
				path += "?verb=retry"
			}
			text, err := io.ReadAll(w.do("admin", "GET", path, nil).Body)
			if all += string(text); err != nil {
				t.Error(err)
			}
			if n := decoded.Load() - before; n != 0 {
				t.Fatalf("GET %s decoded %d values", path, n)
			}
			if !strings.Contains(row.Path, "{id}") {
				break
			}
		}
	}
	rec := httptest.NewRecorder()
	listening, leave := context.WithCancel(t.Context())
	left := make(chan bool)
	go func() {
		defer close(left)
		r := httptest.NewRequestWithContext(listening, "GET", "/api/v1/events?run=step&run=stall&runs=status%3Dfailed", nil)
		r.Header.Set("Authorization", "Bearer admin")
		w.handler.ServeHTTP(rec, r)
	}()
	synctest.Wait()
	leave()
	<-left
	for _, name := range []string{"event: run", "event: entry", "event: page"} {
		if !strings.Contains(rec.Body.String(), name) {
			t.Errorf("no %q in %s", name, rec.Body)
		}
	}
	if n := decoded.Load() - before; n != 0 {
		t.Errorf("events decoded %d values", n)
	}
	for _, text := range []string{"the card of failed", "the card of step", "the card of stall", "nobody has paid"} {
		if !strings.Contains(all, text) {
			t.Errorf("no answer has %q", text)
		}
	}
	if info, err := e.Runs().Info(t.Context(), "stall"); err != nil || info.Status != store.Stalled {
		t.Errorf("the run that stalls: %+v, %v", info, err)
	}
}
