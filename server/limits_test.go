package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestNestedReferencesAreWithinTheLimit: a body, a token or a parameter that names another run,
// queue or schedule than the path does not lead out of the limit.
func TestNestedReferencesAreWithinTheLimit(t *testing.T) { synctest.Test(t, nestedReferences) }

func nestedReferences(t *testing.T) {
	w := newWorld(t, true)
	w.started("order", "o-1", "apple")
	note := stet.Message[string]("note")
	for _, id := range []string{"s-1", "s-2"} {
		if _, err := shows.Start(t.Context(), w.engine, 0, stet.ID(id)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := asks.Start(t.Context(), w.engine, 0, stet.ID("a-1")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"o-1", "s-2"} { // each ends, and leaves a dead letter
		if err := note.Send(t.Context(), w.engine, id, "of "+id); err != nil {
			t.Fatal(err)
		}
	}
	for id, end := range map[string]func() error{
		"o-1": func() error { return stet.Message[string]("approved").Send(t.Context(), w.engine, "o-1", "ann") },
		"s-2": func() error { return stet.Message[int]("n").Send(t.Context(), w.engine, "s-2", 0) },
	} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.Runs().Wait(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	letters := map[string]api.Letter{}
	var page api.Letters
	w.get("operator", "deadletters", &page)
	for _, l := range page.Letters {
		letters[l.Run] = *l
	}
	if len(letters) != 2 {
		t.Fatalf("the letters: %+v", page)
	}
	at := func(l api.Letter) string { return fmt.Sprint("deadletters/", l.Number) }

	// A dead letter: of another workflow's run, and sent to one.
	if w.get("named", "deadletters", &page); len(page.Letters) != 1 || page.Letters[0].Run != "o-1" {
		t.Errorf("the letters within the limit: %+v", page)
	}
	w.refused("named", "POST", at(letters["s-2"])+"/replay", api.Replay{Run: "s-1"}, "not_found")
	w.refused("named", "DELETE", at(letters["s-2"]), api.Reason{}, "not_found")
	w.refused("named", "POST", at(letters["o-1"])+"/replay", api.Replay{Run: "s-1"}, "not_found")
	var inbox api.Inbox
	if w.get("operator", "runs/s-1/inbox", &inbox); len(inbox.Items) != 0 {
		t.Errorf("a letter reached a run out of the limit: %+v", inbox)
	}
	// The token of a promise.
	token := w.tokenOf("a-1")
	for _, verb := range []string{"resolve", "reject"} {
		w.refused("named", "POST", "promises/"+verb, map[string]string{"token": token}, "not_found")
	}
	w.ask("caller", "POST", "promises/resolve", api.Resolve{Token: token, Value: []byte("5")}, http.StatusOK, nil)
	if got := w.output("a-1"); got != "5" {
		t.Errorf("the promise has %s", got)
	}
	// A schedule whose name is within the limit, and whose workflow is not; and the other way round.
	of := func(workflow string) api.SetSchedule { return api.SetSchedule{Workflow: workflow, EveryMS: 3_600_000} }
	w.ask("operator", "PUT", "schedules/nightly", of("broken"), http.StatusOK, nil)
	w.refused("named", "GET", "schedules/nightly", nil, "not_found")
	w.refused("named", "GET", "schedules/nightly/next", nil, "not_found")
	for _, verb := range []string{"pause", "resume", "trigger"} {
		w.refused("named", "POST", "schedules/nightly/"+verb, map[string]string{}, "not_found")
	}
	w.refused("named", "DELETE", "schedules/nightly", map[string]string{}, "not_found")
	w.refused("named", "PUT", "schedules/nightly", of("order"), "forbidden")
	w.refused("named", "PUT", "schedules/other", of("order"), "forbidden")
	on := of("order")
	on.Queue = &api.QueuePlace{Name: "other"}
	w.refused("named", "PUT", "schedules/daily", on, "forbidden")
	// A queue of a start.
	w.ask("operator", "PUT", "queues/other", api.SetQueue{Create: true, Limits: api.Limits{Concurrency: 1}}, 200, nil)
	start := api.Start{Workflow: "order", ID: "o-2", Queue: &api.QueuePlace{Name: "other"}}
	w.refused("named", "POST", "runs", start, "forbidden")
	// What is followed.
	for _, subject := range []string{"run=s-1", "stream=s-1/all", "run=o-1&stream=s-1/all"} {
		w.refused("named", "GET", "events?"+subject, nil, "not_found")
	}
	// A cursor is of its identity's limit.
	w.started("order", "o-3", "fig")
	var list api.Runs
	w.get("operator", "runs?limit=1", &list)
	w.refused("named", "GET", "runs?limit=1&cursor="+list.Next, nil, "bad_cursor")
}

// TestStreamEndsWithItsCredential: a stream goes on for as long as its credential is good, with
// the same rights, and ends within 15 seconds of that.
func TestStreamEndsWithItsCredential(t *testing.T) {
	for what, change := range map[string]func(*access.Identity) *access.Identity{
		"revoked": func(*access.Identity) *access.Identity { return nil },
		"fewer rights": func(i *access.Identity) *access.Identity {
			return &access.Identity{Name: i.Name, Role: access.Viewer, Workflows: []string{"order"}}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var who atomic.Pointer[access.Identity]
				who.Store(&access.Identity{Name: "vera", Role: access.Viewer})
				w := newWorld(t, false, func(o *server.Options) {
					o.Access = []access.Authenticator{server.Func(func(*http.Request) (*access.Identity, error) {
						if i := who.Load(); i != nil {
							return i, nil
						}
						return nil, access.ErrDenied
					})}
				})
				rec := httptest.NewRecorder()
				var over atomic.Bool
				go func() {
					w.handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/events?nodes=true", nil))
					over.Store(true)
				}()
				time.Sleep(time.Hour)
				if synctest.Wait(); over.Load() {
					t.Fatalf("the stream has ended: %d %s", rec.Code, rec.Body)
				}
				who.Store(change(who.Load()))
				time.Sleep(16 * time.Second)
				if synctest.Wait(); !over.Load() {
					t.Fatal("the stream goes on")
				}
				if n := strings.Count(rec.Body.String(), ": \n\n"); n < 200 || n > 250 {
					t.Errorf("in an hour the stream has said %d times that it lives", n)
				}
			})
		})
	}
}

// bounded is a store that fails the test for a list or a count without a bound.
type bounded struct {
	store.Store
	t *testing.T

	lists, counts atomic.Int64
}

func (s *bounded) List(ctx context.Context, f store.Filter) (store.Page, error) {
	s.lists.Add(1)
	most := 1001
	if len(f.Workflows) == 1 && store.IsEntity(f.Workflows[0]) {
		most = 10_000 // all queues, say; they are few
	}
	if f.Limit < 0 || f.Limit > most {
		s.t.Errorf("a list of %d runs: %s", f.Limit, f.String())
	}
	return s.Store.List(ctx, f)
}

func (s *bounded) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	s.counts.Add(1)
	if f.Most <= 0 || f.Most > 1000 {
		s.t.Errorf("a count up to %d runs of a status: %s", f.Most, f.String())
	}
	return s.Store.Count(ctx, f)
}

// TestReadsAreBounded: whatever the dashboard asks, a store lists at most a page, and counts up to
// a bound.
func TestReadsAreBounded(t *testing.T) {
	s := &bounded{Store: memory.New(), t: t}
	w := newWorldOn(t, s, false)
	for i := range 101 { // one more than a followed list has
		w.started("order", fmt.Sprintf("o-%d", i), "apple")
	}
	before := [2]int64{s.lists.Load(), s.counts.Load()}
	for _, path := range []string{
		"runs", "runs?query=status%3Dfailed,stalled", "runs?order=ended&limit=1000", "runs/o-1/children", "counts",
		"counts?by=status", "counts?by=status&query=status%3Dfailed", "deadletters", "queues", "schedules", "topics", "nodes",
		"deletions", "audit", "tokens", "scripts",
	} {
		w.get("admin", path, nil)
	}
	w.preview("admin", api.BulkRequest{Verb: "cancel"})
	w.act("admin", w.preview("admin", api.BulkRequest{Query: "workflow=broken", Verb: "cancel"}).Token)
	web := httptest.NewServer(w.handler)
	defer web.Close()
	address := web.URL + "/api/v1/events?runs=&runs=status%3Dfailed"
	events := follow(t, address, "admin", "", func(e event) bool { return e.name == "page" })
	var page api.LivePage
	if err := json.Unmarshal([]byte(events[len(events)-1].data), &page); err != nil || len(page.Runs) != 100 {
		t.Errorf("expected a followed list of 100 runs, found %d, %v", len(page.Runs), err)
	}
	lists, counts := s.lists.Load()-before[0], s.counts.Load()-before[1]
	if lists < 7 || counts < 3 {
		t.Errorf("expected lists and counts, found %d and %d", lists, counts)
	}
}

// TestRequestsAreLimited per second and identity: a hundred if nothing else is said.
func TestRequestsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, func(o *server.Options) { o.Rate = 0 })
		for range 100 {
			w.get("viewer", "info", nil)
		}
		w.refused("viewer", "GET", "info", nil, api.CodeRate)
		if r := w.do("viewer", "GET", "info", nil); r.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", r.Header.Get("Retry-After"))
		}
		w.get("operator", "info", nil) // another identity has requests of its own
		time.Sleep(time.Second / 2)
		for range 50 {
			w.get("viewer", "info", nil)
		}
		w.refused("viewer", "GET", "info", nil, api.CodeRate)
	})
}

// slow is a store whose lists wait until the caller gives up, or until they are let go on.
type slow struct {
	store.Store
	until chan struct{} // nil: until the caller gives up
	lists atomic.Int64
}

func (s *slow) List(ctx context.Context, f store.Filter) (store.Page, error) {
	s.lists.Add(1)
	select {
	case <-ctx.Done():
		if s.until == nil {
			return store.Page{}, ctx.Err()
		}
		<-s.until // a store that does not notice
	case <-s.until:
	}
	return s.Store.List(ctx, f)
}

// TestQueriesAreBounded: four lists at once, two of them of one identity, others wait; a read has five seconds.
func TestQueriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: memory.New()}
		w := newWorldOn(t, s, false)
		begun := time.Now()
		w.refused("viewer", "GET", "runs", nil, api.CodeSlow)
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("a list was given %s", took)
		}
		if r := w.do("viewer", "GET", "runs", nil); r.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", r.Header.Get("Retry-After"))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: memory.New(), until: make(chan struct{})}
		w := newWorldOn(t, s, false)
		list := func(who string) {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/runs", nil)
			r.Header.Set("Authorization", "Bearer "+who)
			go w.handler.ServeHTTP(httptest.NewRecorder(), r)
			synctest.Wait()
		}
		for n := range int64(4) { // of which the third and the fourth wait
			list("operator")
			if found := s.lists.Load(); found != min(n+1, 2) {
				t.Errorf("one identity has asked %d times: the store was asked for %d lists at once", n+1, found)
			}
		}
		list("admin")
		list("admin")
		for _, path := range []string{"runs", "counts", "deadletters"} {
			r := w.do("viewer", "GET", path, nil)
			if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "2" {
				t.Errorf("%s beside four lists: %d, Retry-After %q", path, r.StatusCode, r.Header.Get("Retry-After"))
			}
		}
		if n := s.lists.Load(); n != 4 {
			t.Errorf("the store was asked for %d lists at once", n)
		}
		w.get("viewer", "info", nil) // what is no list does not wait for them
		close(s.until)
		synctest.Wait()
		w.get("viewer", "runs", nil)
	})
}

// TestFollowersAreBounded: a follower above 2,000, or above 1,000 of one identity, is asked to come again.
func TestFollowersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		following, leave := context.WithCancel(t.Context())
		first, end := context.WithCancel(following)
		for i := range 2000 {
			ctx := following
			if i == 0 {
				ctx = first
			}
			who := "viewer"
			if i == 1000 {
				synctest.Wait()
				w.refused("viewer", "GET", "events?nodes=true", nil, api.CodeBusy)
			}
			if i >= 1000 {
				who = "operator"
			}
			r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/events?nodes=true", nil)
			r.Header.Set("Authorization", "Bearer "+who)
			go w.handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		synctest.Wait()
		w.refused("admin", "GET", "events?nodes=true", nil, api.CodeBusy)
		if r := w.do("viewer", "GET", "events?nodes=true", nil); r.Header.Get("Retry-After") != "10" {
			t.Errorf("Retry-After is %q", r.Header.Get("Retry-After"))
		}
		end()
		synctest.Wait()
		rec := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(following, "GET", "/api/v1/events?nodes=true", nil)
		r.Header.Set("Authorization", "Bearer viewer")
		go w.handler.ServeHTTP(rec, r)
		synctest.Wait()
		leave()
		if synctest.Wait(); rec.Code != http.StatusOK {
			t.Errorf("in the place of one that has left: %d", rec.Code)
		}
	})
}

// sluggish is the connection of a reader that takes its time, or reads nothing any more.
type sluggish struct {
	*httptest.ResponseRecorder
	pause    time.Duration
	deadline time.Time
}

func (s *sluggish) SetWriteDeadline(at time.Time) error {
	s.deadline = at
	return nil
}

func (s *sluggish) Write(data []byte) (int, error) {
	if s.deadline.IsZero() {
		return 0, errors.New("a write without a deadline")
	}
	if until := time.Now().Add(s.pause); until.After(s.deadline) {
		time.Sleep(time.Until(s.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(s.pause)
	return s.ResponseRecorder.Write(data)
}

// TestSlowReaderSkipsStates, never the last one; one that reads nothing is let go.
func TestSlowReaderSkipsStates(t *testing.T) {
	for _, row := range []struct {
		pause time.Duration
		gone  bool
	}{{3 * time.Second, false}, {time.Hour, true}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, true)
			if _, err := shows.Start(t.Context(), w.engine, 0, stet.ID("s-1")); err != nil {
				t.Fatal(err)
			}
			rec := &sluggish{ResponseRecorder: httptest.NewRecorder(), pause: row.pause}
			ctx, leave := context.WithCancel(t.Context())
			over, begun := make(chan time.Time, 1), time.Now()
			go func() {
				r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/events?run=s-1", nil)
				r.Header.Set("Authorization", "Bearer operator")
				w.handler.ServeHTTP(rec, r)
				over <- time.Now()
			}()
			if row.gone {
				if took := (<-over).Sub(begun); took > 11*time.Second {
					t.Errorf("a reader that reads nothing was given %s", took)
				}
				leave()
				return
			}
			for i := range 50 {
				if err := stet.Message[int]("n").Send(t.Context(), w.engine, "s-1", (i+1)%50); err != nil { // the last is 0
					t.Fatal(err)
				}
				time.Sleep(200 * time.Millisecond)
			}
			if _, err := w.engine.Runs().Wait(t.Context(), "s-1"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute) // it reads on, each event in three seconds
			leave()
			<-over
			text := rec.Body.String()
			if n := strings.Count(text, "event: run\n"); n == 0 || n > 25 {
				t.Errorf("of 50 states %d were written", n)
			}
			last := text[strings.LastIndex(text, "event: run\n"):]
			if !strings.Contains(last, `"status":"succeeded"`) || !strings.Contains(last, `"output":1225`) {
				t.Errorf("the last state is not the last one: %.500s", last)
			}
		})
	}
}

// TestAnswersAreCompressed above 1 KiB, for clients that take it, and are the same then.
func TestAnswersAreCompressed(t *testing.T) {
	w := newWorld(t, false)
	plain, err := io.ReadAll(w.do("viewer", "GET", "errors", nil).Body)
	if err != nil || len(plain) < 1024 {
		t.Fatalf("%d bytes, %v", len(plain), err)
	}
	for _, row := range []struct {
		path, accept string
		packed       bool
	}{
		{"errors", "", false}, {"errors", "gzip", true}, {"errors", "br, GZIP;q=0.5", true}, {"errors", "gzip;q=0", false},
		{"errors", "deflate", false}, {"health/live", "gzip", false},
	} {
		r := w.do("viewer", "GET", row.path, nil, "Accept-Encoding", row.accept)
		body, err := io.ReadAll(r.Body)
		if err != nil || (r.Header.Get("Content-Encoding") == "gzip") != row.packed ||
			r.Header.Get("Vary") != "Accept-Encoding" || r.Header.Get("Content-Length") != fmt.Sprint(len(body)) {
			t.Errorf("%+v: %d bytes, %v, headers %v", row, len(body), err, r.Header)
		}
		if !row.packed {
			continue
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(text, plain) || len(body) >= len(plain) {
			t.Errorf("%+v: another text of %d bytes in %d, %v", row, len(text), len(body), err)
		}
	}
}

// TestWaitForAnyChange: with If-None-Match a wait ends when the run stands otherwise than the
// client knows, at once if it does so already, and with 304 if it does not in time.
func TestWaitForAnyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.started("order", "o-1", "apple")
		synctest.Wait()
		known := w.get("viewer", "runs/o-1", nil).Header.Get("ETag")
		if known == "" {
			t.Fatal("a run without an ETag")
		}
		wait := func(tag string) (status int, tagNow string, took time.Duration) {
			begun := time.Now()
			r := w.do("viewer", "GET", "runs/o-1?wait=30s", nil, "If-None-Match", tag)
			return r.StatusCode, r.Header.Get("ETag"), time.Since(begun)
		}
		if status, tag, took := wait(known); status != http.StatusNotModified || tag != known || took != 30*time.Second {
			t.Errorf("nothing changes: %d %s after %s", status, tag, took)
		}
		if status, tag, took := wait(`"another"`); status != http.StatusOK || tag != known || took != 0 {
			t.Errorf("the client knows an older state: %d %s after %s", status, tag, took)
		}
		go func() {
			time.Sleep(5 * time.Second)
			if _, err := w.engine.Runs().Pause(t.Context(), "o-1", stet.Act{By: "test"}); err != nil {
				t.Error(err)
			}
		}()
		if status, tag, took := wait("W/" + known); status != http.StatusOK || tag == known || took < 5*time.Second ||
			took > 6*time.Second {
			t.Errorf("the run is paused: %d %s after %s", status, tag, took)
		}
		w.refused("viewer", "GET", "runs/o-1?wait=61s", nil, "invalid")
	})
}

// calls has a step that is done, and one that waits for its next attempt.
var calls = stet.Define("calls", func(ctx stet.Context, _ int) (int, error) {
	if _, err := stet.Step(ctx, "charge", func(context.Context) (int, error) { return 1, nil }); err != nil {
		return 0, err
	}
	return stet.Step(ctx, "call", func(context.Context) (int, error) { return 0, errors.New("busy") },
		stet.Retry{First: time.Hour, Max: time.Hour})
})

// TestHistoryAboveANumber leaves out what is known, and not what has no number.
func TestHistoryAboveANumber(t *testing.T) {
	w := newWorld(t, true)
	if _, err := calls.Start(t.Context(), w.engine, 0, stet.ID("l-1")); err != nil {
		t.Fatal(err)
	}
	w.suspended(1)
	ask := func(query string) (found []string) {
		var page api.History
		w.get("viewer", "runs/l-1/history?values=none"+query, &page)
		for _, e := range page.Entries {
			found = append(found, fmt.Sprint(e.Location, e.Number))
		}
		return found
	}
	if all := fmt.Sprint(ask("")); all != "[call0 charge1]" {
		t.Fatalf("the history is %s", all)
	}
	for above, want := range map[string]string{"0": "[call0 charge1]", "1": "[call0]", "99": "[call0]"} {
		if found := fmt.Sprint(ask("&above=" + above)); found != want {
			t.Errorf("above %s: %s, want %s", above, found, want)
		}
	}
}

// away is a store that cannot be reached.
type away struct {
	store.Store
	err atomic.Pointer[error]
}

func (s *away) List(ctx context.Context, f store.Filter) (store.Page, error) {
	if err := s.err.Load(); err != nil {
		return store.Page{}, *err
	}
	return s.Store.List(ctx, f)
}

// TestStoreThatIsAway is said with 503, when to come again, and no cause: that is in the log.
func TestStoreThatIsAway(t *testing.T) {
	s := &away{Store: memory.New()}
	w := newWorldOn(t, s, false)
	for code, err := range map[string]error{
		"unavailable": store.ErrUnavailable, "outcome_unknown": store.ErrUnknown, "closed": store.ErrClosed,
	} {
		err = fmt.Errorf("dial db-7.internal: %w", err)
		s.err.Store(&err)
		p := w.refused("admin", "GET", "runs", nil, code)
		r := w.do("admin", "GET", "runs", nil)
		if p.Detail != "" || p.Status != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: %+v, Retry-After %q", code, p, r.Header.Get("Retry-After"))
		}
	}
	s.err.Store(nil)
	w.get("admin", "runs", nil)
}

// TestCookieUnderTLS has the name that browsers take from TLS alone, for the whole host, and
// counts under TLS alone.
func TestCookieUnderTLS(t *testing.T) {
	for _, behind := range []bool{false, true} {
		w := newWorld(t, false, func(o *server.Options) { o.BehindTLS = behind })
		do := func(method, path, body string, secure bool, cookie *http.Cookie) *http.Response {
			r := httptest.NewRequest(method, "/api/v1/"+path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			if secure {
				r.TLS = &tls.ConnectionState{}
			}
			if cookie != nil {
				r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
			}
			rec := httptest.NewRecorder()
			w.handler.ServeHTTP(rec, r)
			return rec.Result()
		}
		r := do("POST", "login", `{"token":"viewer"}`, !behind, nil)
		if len(r.Cookies()) != 1 {
			t.Fatalf("behind a proxy %t: %d %v", behind, r.StatusCode, r.Cookies())
		}
		c := r.Cookies()[0]
		if c.Name != "__Host-stet_session" || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" ||
			c.SameSite != http.SameSiteStrictMode {
			t.Errorf("behind a proxy %t: the cookie is %v", behind, c)
		}
		if r := do("GET", "info", "", !behind, c); r.StatusCode != http.StatusOK {
			t.Errorf("behind a proxy %t: the session is answered with %d", behind, r.StatusCode)
		}
		if !behind {
			if r := do("GET", "info", "", false, c); r.StatusCode != http.StatusUnauthorized {
				t.Errorf("the cookie of TLS counts without it: %d", r.StatusCode)
			}
		}
		plain := &http.Cookie{Name: "stet_session", Value: c.Value}
		if r := do("GET", "info", "", !behind, plain); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("behind a proxy %t: a cookie that any page of the host may set counts: %d", behind, r.StatusCode)
		}
		out := do("POST", "logout", "{}", !behind, c)
		if len(out.Cookies()) != 1 || out.Cookies()[0].Name != c.Name || out.Cookies()[0].MaxAge >= 0 {
			t.Errorf("behind a proxy %t: after a logout: %v", behind, out.Cookies())
		}
	}
}

// TestDownloadsAreNoPages: a browser saves them, and would run nothing of them.
func TestDownloadsAreNoPages(t *testing.T) {
	w := newWorld(t, true)
	w.started("order", "o-1", "<script>alert(1)</script>")
	w.suspended(1)
	for path, name := range map[string]string{
		"runs/o-1/value?at=input": "value.json", "runs/o-1/value?at=charge": "value.json", "runs/o-1/export": "",
	} {
		r := w.get("admin", path, nil)
		kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Disposition"))
		if file := parameters["filename"]; err != nil || kind != "attachment" || file == "" || name != "" && file != name {
			t.Errorf("%s: Content-Disposition %q (%v)", path, r.Header.Get("Content-Disposition"), err)
		}
		for header, want := range map[string]string{
			"Content-Security-Policy": "sandbox; default-src 'none'", "Content-Type": "application/octet-stream",
			"X-Content-Type-Options": "nosniff",
		} {
			if got := r.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", path, header, got, want)
			}
		}
	}
}

// TestPolicyOfPages: each answer but a download has the whole policy, the dashboard's files too.
func TestPolicyOfPages(t *testing.T) {
	const want = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	w := newWorld(t, false)
	for _, path := range []string{"/", "/app.js", "/api/v1/info", "/api/v1/nothing", "/api/v1/health/live"} {
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
		if got := rec.Header().Get("Content-Security-Policy"); got != want {
			t.Errorf("%s: the policy is %q", path, got)
		}
	}
}

// TestFiltersAndInstantsAreBounded: a filter of many values is refused, and a rare schedule ends with the calendar.
func TestFiltersAndInstantsAreBounded(t *testing.T) {
	w := newWorld(t, true)
	values := func(n int) string { return "status%3Dfailed+id%3D" + strings.Repeat("a,", n-2) + "a" }
	w.get("viewer", "runs?query="+values(1000), nil)
	for _, path := range []string{"runs?query=", "counts?query=", "events?runs="} {
		w.refused("viewer", "GET", path+values(1001), nil, "invalid")
	}
	w.refused("operator", "POST", "bulk/preview", api.BulkRequest{Query: "id=" + strings.Repeat("a,", 1000) + "a",
		Verb: "cancel"}, "invalid")

	w.ask("operator", "PUT", "schedules/rare",
		map[string]any{"workflow": "order", "cron": "0 0 29 2 1"}, http.StatusOK, nil)
	for from, most := range map[string]int{
		"2026-01-01T00:00:00Z": 4000, "9990-01-01T00:00:00Z": 100, "9999-12-31T23:59:59Z": 0,
	} {
		var got api.Instants
		w.get("viewer", "schedules/rare/next?n=45000&from="+from, &got)
		if len(got.Instants) > most || len(got.Instants) == 0 && most > 0 {
			t.Errorf("from %s: found %d instants, expected at most %d", from, len(got.Instants), most)
		}
		begin, err := time.Parse(time.RFC3339, from)
		if n := len(got.Instants); err != nil || n > 0 && got.Instants[n-1].Year() > min(begin.Year()+400, 9999) {
			t.Errorf("from %s: the last instant is %s, %v", from, got.Instants[n-1], err)
		}
	}
}

// reading is a store that notes the most bytes of values that one list has read.
type reading struct {
	store.Store
	most atomic.Int64
}

func (s *reading) List(ctx context.Context, f store.Filter) (store.Page, error) {
	page, err := s.Store.List(ctx, f)
	bytes := int64(0)
	for i := range page.Runs {
		bytes += int64(len(page.Runs[i].Input) + len(page.Runs[i].Output))
	}
	for most := s.most.Load(); bytes > most && !s.most.CompareAndSwap(most, bytes); most = s.most.Load() {
	}
	return page, err
}

// TestListsAreBoundedInBytes: a list has no large value, and reads few of them at a time. A run has all of its own.
func TestListsAreBoundedInBytes(t *testing.T) {
	s := &reading{Store: memory.New()}
	w := newWorldOn(t, s, false)
	large, small := strings.Repeat("a", 100<<10), strings.Repeat("b", 60<<10)
	for i := range 400 {
		w.started("order", fmt.Sprint("o-", i), map[bool]string{true: large, false: small}[i == 399])
	}
	r := w.do("operator", "GET", "runs?limit=400", nil)
	text, err := io.ReadAll(r.Body)
	if err != nil || len(text) > 9<<20 {
		t.Fatalf("a page has %d bytes, %v", len(text), err)
	}
	var list api.Runs
	if err := json.Unmarshal(text, &list); err != nil || len(list.Runs) != 400 || list.Runs[399].ID != "o-0" {
		t.Fatalf("expected 400 runs, found %d, %v", len(list.Runs), err)
	}
	for i, want := range map[int]string{
		0: `{"cut":true,"bytes":102403}`, 1: `"` + small + `"`, 399: `{"cut":true,"bytes":61443}`,
	} {
		if found := string(list.Runs[i].Input); found != want {
			t.Errorf("run %d of the list: expected %.40s, found %.40s", i, want, found)
		}
	}
	if most := s.most.Load(); most > 5<<20 {
		t.Errorf("one list has read %d bytes of values", most)
	}
	w.get("viewer", "runs?limit=1", &list)
	if found := string(list.Runs[0].Input); found != `{"redacted":true,"bytes":102403}` {
		t.Errorf("a viewer's list has %.60s", found)
	}
	var run api.Run
	if w.get("operator", "runs/o-399", &run); len(run.Input) != 102402 {
		t.Errorf("the run has %d bytes", len(run.Input))
	}
}
