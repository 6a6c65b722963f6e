package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/server/internal/openapi"
	"github.com/stet-run/stet/server/internal/resources"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// world is a server of a store on which an engine works.
type world struct {
	t       *testing.T
	engine  *stet.Engine
	store   store.Store
	handler http.Handler
	asked   int // requests; each comes from another address
	// stop ends the engine and waits for it.
	stop func()
}

var (
	order = stet.Define("order", func(ctx stet.Context, sku string) (string, error) {
		if err := stet.SetTags(ctx, stet.Tags{"sku": sku}); err != nil {
			return "", err
		}
		paid, err := stet.Step(ctx, "charge", func(context.Context) (string, error) { return "paid " + sku, nil })
		if err != nil {
			return "", err
		}
		who, err := stet.Message[string]("approved").Receive(ctx)
		return paid + " by " + who, err
	})
	checkout = stet.Define("checkout", func(ctx stet.Context, in map[string]string) (string, error) {
		if in == nil {
			return "", stet.Permanent(errors.New("no order"))
		}
		return "sent " + in["sku"], nil
	})
	broken = stet.Define("broken", func(ctx stet.Context, _ string) (string, error) {
		return stet.Step(ctx, "charge", func(context.Context) (string, error) {
			return "", stet.Permanent(errors.New("secret card declined"))
		})
	})
	// shows appends what it is sent to a stream, and shows how much that is, until it is sent 0.
	shows = stet.Define("shows", func(ctx stet.Context, _ int) (int, error) {
		for sum := 0; ; {
			n, err := stet.Message[int]("n").Receive(ctx)
			if err != nil || n == 0 {
				return sum, err
			}
			sum += n
			if err := errors.Join(stet.Stream[int]("all").Append(ctx, n), stet.Value[int]("sum").Set(ctx, sum)); err != nil {
				return sum, err
			}
		}
	})
	// late has a step that succeeds at its third attempt.
	late = stet.Define("late", func(ctx stet.Context, _ string) (string, error) {
		return stet.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			if stet.Attempt(ctx) < 3 {
				return "", errors.New("secret card declined")
			}
			return "secret paid", nil
		}, stet.Retry{First: stet.None})
	})
)

// identities are those that a test's credentials name.
var identities = map[string]*access.Identity{
	"viewer":   {Name: "vera", Role: access.Viewer},
	"caller":   {Name: "carl", Role: access.Caller},
	"operator": {Name: "olga", Role: access.Operator},
	"admin":    {Name: "ada", Role: access.Administrator},
	"worker":   {Name: "w", Role: access.Worker, Named: []string{"task:resize", "task:media-*"}},
	"media":    {Name: "w", Role: access.Worker, Named: []string{"task:media-*"}},
	"limited":  {Name: "lina", Role: access.Administrator, Workflows: []string{"order"}, Named: []string{"topic:jobs"}},
	"named": {Name: "nora", Role: access.Administrator, Workflows: []string{"order"},
		Named: []string{"topic:jobs", "queue:jobs", "schedule:nightly", "schedule:daily"}},
}

// byName knows the credentials "Bearer NAME".
func byName(r *http.Request) (*access.Identity, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch who := identities[name]; {
	case !ok:
		return nil, nil
	case who != nil:
		return who, nil
	}
	return nil, access.ErrDenied
}

// newWorld returns a world on a store in memory. Its engine executes if run is true.
func newWorld(t *testing.T, run bool, change ...func(*server.Options)) *world {
	t.Helper()
	return newWorldOn(t, memory.New(), run, change...)
}

// running executes the runs of an engine until stop is called, or the test ends.
func running(t *testing.T, e *stet.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// ownCursors is a store whose cursors nobody else can make, as those of a store over several databases.
type ownCursors struct{ store.Store }

const ownCursor = "own:"

// theirs returns the cursor of the store within for one of this store.
func (ownCursors) theirs(cursor string) (string, error) {
	own, ok := strings.CutPrefix(cursor, ownCursor)
	if !ok && cursor != "" {
		return "", fmt.Errorf("%w: expected one of the store, found %q", store.ErrBadCursor, cursor)
	}
	return own, nil
}

// ours is the inverse of theirs.
func (ownCursors) ours(cursor string) string {
	if cursor == "" {
		return ""
	}
	return ownCursor + cursor
}

func (s ownCursors) List(ctx context.Context, f store.Filter) (page store.Page, err error) {
	if f.Cursor, err = s.theirs(f.Cursor); err != nil {
		return page, err
	}
	page, err = s.Store.List(ctx, f)
	page.Next = s.ours(page.Next)
	return page, err
}

func (s ownCursors) DeadLetters(ctx context.Context, f store.DeadFilter) (page store.DeadPage, err error) {
	if f.Cursor, err = s.theirs(f.Cursor); err != nil {
		return page, err
	}
	page, err = s.Store.DeadLetters(ctx, f)
	page.Next = s.ours(page.Next)
	return page, err
}

// newWorldOn returns a world on a store, which it closes.
func newWorldOn(t *testing.T, s store.Store, run bool, change ...func(*server.Options)) *world {
	t.Helper()
	t.Cleanup(func() { _ = s.Close() })
	e, err := stet.New(t.Context(), stet.Config{
		Store: ownCursors{s}, Logger: quiet(),
		Workflows: []stet.Definition{asks, scripted, checkout, order, broken, late, resized, shows, signed, renewed,
			calls, undoes, stalls, sized, failing},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, engine: e, store: s, stop: func() {}}
	if run {
		w.stop = running(t, e)
	}
	o := server.Options{Access: []access.Authenticator{server.Func(byName)}, Logger: quiet(), Rate: stet.None}
	for _, c := range change {
		c(&o)
	}
	if w.handler, err = server.New(e, o); err != nil {
		t.Fatal(err)
	}
	return w
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// do makes a request as one of the identities; "" is none. The body is JSON if it is no text.
func (w *world) do(who, method, path string, body any, headers ...string) *http.Response {
	w.t.Helper()
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			w.t.Fatal(err)
		}
		content = bytes.NewReader(data)
	}
	r := httptest.NewRequest(method, "/api/v1/"+path, content)
	w.asked++
	r.RemoteAddr = fmt.Sprintf("192.0.%d.%d:1234", w.asked/256, w.asked%256)
	if content != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	w.fits(r, rec)
	return rec.Result()
}

// document is the OpenAPI document.
var document = sync.OnceValue(func() any {
	d, err := openapi.Read(resources.Document)
	if err != nil {
		panic(err) // a test compares it with what the table says
	}
	return d
})

// fits compares the body of an answer with the OpenAPI document.
func (w *world) fits(r *http.Request, rec *httptest.ResponseRecorder) {
	w.t.Helper()
	media := rec.Header().Get("Content-Type")
	if media == endpoint.Lines {
		for line := range bytes.Lines(rec.Body.Bytes()) {
			if err := openapi.CheckLine(document(), r.Method, r.URL.Path, line); err != nil {
				w.t.Errorf("%s %s: %v: %s", r.Method, r.URL, err, line)
			}
		}
		return
	}
	if media != "application/json" && media != "application/problem+json" || rec.Body.Len() == 0 ||
		rec.Header().Get("Content-Encoding") != "" || r.URL.Path == "/api/v1/openapi.json" {
		return
	}
	pattern := ""
	for _, e := range server.TableOf(w.handler) {
		want, have := strings.Split(endpoint.Base+e.Path, "/"), strings.Split(r.URL.EscapedPath(), "/")
		if e.Method == r.Method && slices.EqualFunc(want, have, func(want, have string) bool {
			return want == have || strings.HasPrefix(want, "{")
		}) && !strings.Contains(pattern, "{") {
			pattern = endpoint.Base + e.Path
		}
	}
	if err := openapi.Check(document(), r.Method, pattern, rec.Code, rec.Body.Bytes()); err != nil {
		w.t.Errorf("%s %s: %v: %s", r.Method, r.URL, err, rec.Body)
	}
}

// get reads an answer of the status into a value.
func (w *world) get(who, path string, into any) *http.Response {
	w.t.Helper()
	return w.ask(who, http.MethodGet, path, nil, http.StatusOK, into)
}

func (w *world) ask(
	who, method, path string, body any, status int, into any, headers ...string,
) *http.Response {
	w.t.Helper()
	r := w.do(who, method, path, body, headers...)
	data, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if r.StatusCode != status {
		w.t.Fatalf("%s %s as %q: expected status %d, found %d: %s", method, path, who, status, r.StatusCode, data)
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			w.t.Fatalf("%s %s: %v: %s", method, path, err, data)
		}
	}
	return r
}

// refused makes a request that must be refused with the code.
func (w *world) refused(who, method, path string, body any, code string, headers ...string) *api.Problem {
	w.t.Helper()
	r := w.do(who, method, path, body, headers...)
	var p api.Problem
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		w.t.Fatalf("%s %s: status %d: %v", method, path, r.StatusCode, err)
	}
	switch {
	case p.Code != code || p.Status != r.StatusCode || p.RequestID == "":
		w.t.Fatalf("%s %s as %q: expected %s, found %d %+v", method, path, who, code, r.StatusCode, p)
	case r.Header.Get("Content-Type") != "application/problem+json":
		w.t.Errorf("%s %s: a problem of type %s", method, path, r.Header.Get("Content-Type"))
	}
	return &p
}

// started starts a run and waits until it waits for its message, or has ended.
func (w *world) started(workflow, id, input string) {
	w.t.Helper()
	definition := map[string]*stet.Workflow[string, string]{"order": order, "broken": broken, "late": late}[workflow]
	if _, err := definition.Start(w.t.Context(), w.engine, input, stet.ID(id)); err != nil {
		w.t.Fatal(err)
	}
}

// TestReads: what the API answers is what the engine says.
func TestReads(t *testing.T) {
	w := newWorld(t, true)
	w.started("order", "o-1", "apple")
	w.started("broken", "b-1", "pear")
	if _, err := w.engine.Runs().Wait(t.Context(), "b-1"); err != nil {
		t.Fatal(err)
	}
	if err := stet.Message[string]("approved").Send(t.Context(), w.engine, "o-1", "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine.Runs().Wait(t.Context(), "o-1"); err != nil {
		t.Fatal(err)
	}
	var run api.Run
	w.get("operator", "runs/o-1", &run)
	if run.Status != store.Succeeded || string(run.Output) != `"paid apple by ann"` || run.Tags["sku"] != "apple" {
		t.Errorf("the run: %+v", run)
	}
	var list api.Runs
	w.get("operator", "runs?query=workflow%3Dbroken", &list)
	if len(list.Runs) != 1 || list.Runs[0].ID != "b-1" || list.Runs[0].Error == nil ||
		!strings.Contains(list.Runs[0].Error.Message, "secret card declined") {
		t.Errorf("the list: %+v", list)
	}
	for _, want := range []string{"o-1", "b-1"} { // o-1 was waited for last
		next := list.Next
		if want == "o-1" {
			next = ""
		}
		w.get("operator", "runs?order=ended&limit=1&cursor="+next, &list)
		if len(list.Runs) != 1 || list.Runs[0].ID != want {
			t.Errorf("the runs by their ends: expected %s, found %+v", want, list)
		}
	}
	w.refused("operator", "GET", "runs?order=size", nil, "invalid")
	var counts api.Counts
	w.get("viewer", "counts?by=status", &counts)
	if len(counts.Counts) != 2 || counts.Counts[0].Status != "failed" || counts.Counts[0].Runs != 1 {
		t.Errorf("the counts: %+v", counts)
	}
	var entries api.History
	w.get("operator", "runs/o-1/history", &entries)
	if len(entries.Entries) != 2 || string(entries.Entries[1].Value) != `"paid apple"` {
		t.Errorf("the history: %+v", entries)
	}
	w.get("operator", "runs/o-1/history?at=charge", &entries)
	if len(entries.Entries) != 1 || entries.Entries[0].Location != "charge" {
		t.Errorf("the entries at a location: %+v", entries)
	}
	w.get("operator", "runs/o-1/history?limit=1", &entries)
	if len(entries.Entries) != 1 || entries.Next == "" {
		t.Errorf("the first page: %+v", entries)
	}
	w.get("operator", "runs/o-1/history?limit=1&after="+entries.Next, &entries)
	if len(entries.Entries) != 1 || entries.Entries[0].Location != "charge" {
		t.Errorf("the second page: %+v", entries)
	}
	var info api.Info
	w.get("caller", "info", &info)
	if info.Store.Kind != "memory" || info.Identity.Name != "carl" ||
		strings.Join(info.Identity.Rights, " ") != "read call" {
		t.Errorf("info: %+v", info)
	}
	w.refused("viewer", "GET", "runs/o-2", nil, "not_found")
	w.refused("viewer", "GET", "runs?query=nonsense", nil, "invalid")
	w.refused("viewer", "GET", "runs?colour=red", nil, "invalid")
	w.refused("viewer", "GET", "runs?limit=5000", nil, "invalid")
	w.refused("viewer", "GET", "nowhere", nil, "no_endpoint")
	w.refused("viewer", "DELETE", "counts", nil, "method_not_allowed")
}

// TestCountsEndAtABound of each status, unless all are to be counted.
func TestCountsEndAtABound(t *testing.T) {
	w := newWorld(t, false)
	w.started("broken", "b-1", "pear")
	for i := range 1001 {
		w.started("order", fmt.Sprint("o-", i), "apple")
	}
	for query, want := range map[string]string{
		"by=status":                         "[{ queued 1000 true}]",
		"by=status&exact=true":              "[{ queued 1002 false}]",
		"by=workflow":                       "[{broken  1 false} {order  1001 false}]",
		"query=workflow%3Dorder":            "[{order queued 1001 true}]",
		"query=workflow%3Dbroken&by=status": "[{ queued 1 false}]",
	} {
		var counts api.Counts
		w.get("viewer", "counts?"+query, &counts)
		if got := fmt.Sprint(counts.Counts); got != want {
			t.Errorf("%s: expected %s, found %s", query, want, got)
		}
	}
}

// TestValuesAreRedacted: who may not read values sees none of them, wherever they stand.
func TestValuesAreRedacted(t *testing.T) {
	w := newWorld(t, true)
	w.started("broken", "b-1", "secret pear")
	if _, err := w.engine.Runs().Wait(t.Context(), "b-1"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"runs", "runs/b-1", "runs/b-1/history", "runs/b-1/history?at=charge"} {
		for _, who := range []string{"viewer", "caller"} {
			text, err := io.ReadAll(w.do(who, "GET", path, nil).Body)
			if err != nil || bytes.Contains(text, []byte("secret")) || !bytes.Contains(text, []byte("redacted")) {
				t.Errorf("%s sees at %s: %v %s", who, path, err, text)
			}
		}
		text, err := io.ReadAll(w.do("operator", "GET", path, nil).Body)
		if err != nil || !bytes.Contains(text, []byte("secret")) {
			t.Errorf("an operator does not see at %s: %v %s", path, err, text)
		}
	}
}

// TestFailedAttemptsOfStepsThatSucceeded are in a history with values and in one without; who
// may not read values sees when they began and ended, and not why they failed.
func TestFailedAttemptsOfStepsThatSucceeded(t *testing.T) {
	w := newWorld(t, true)
	w.started("late", "l-1", "pear")
	if _, err := w.engine.Runs().Wait(t.Context(), "l-1"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"runs/l-1/history", "runs/l-1/history?at=charge", "runs/l-1/history?values=none"} {
		for who, message := range map[string]string{"operator": "secret card declined", "viewer": "redacted"} {
			var page api.History
			w.get(who, path, &page)
			if len(page.Entries) != 1 {
				t.Fatalf("%s at %s: %d entries", who, path, len(page.Entries))
			}
			e := page.Entries[0]
			if len(e.Tries) != 2 {
				t.Fatalf("%s at %s: %+v", who, path, e)
			}
			for i, a := range e.Tries {
				if a.Number != i+1 || a.Began.Before(e.Started) || a.Ended.Before(a.Began) ||
					!strings.Contains(a.Message, message) {
					t.Errorf("%s at %s: attempt %d is %+v", who, path, i+1, a)
				}
			}
			if strings.HasSuffix(path, "none") && e.Value != nil && string(e.Value) != "null" {
				t.Errorf("%s: the value is %s", path, e.Value)
			}
		}
	}
}
