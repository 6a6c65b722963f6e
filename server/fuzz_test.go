package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/store"
)

// made makes a request whose parts a fuzzer has made up, as an administrator, and fails the test
// if the server finds a fault in itself or answers in another form than its document says. Each
// header that is not empty is sent.
func (w *world) made(ctx context.Context, method, path, body string, headers ...string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, endpoint.Base+path, strings.NewReader(body))
	if err != nil {
		return // a client cannot send it either
	}
	r.Header.Set("Authorization", "Bearer admin")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w.asked++
	r.RemoteAddr = fmt.Sprintf("192.0.%d.%d:1234", w.asked/256%256, w.asked%256)
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	if rec.Code >= 500 && rec.Code != http.StatusServiceUnavailable {
		w.t.Errorf("%s %q %q %q: %d %s", method, path, body, headers, rec.Code, rec.Body)
	}
	w.fits(r, rec)
}

// filled returns a world with runs in several states, in a bubble of synctest.
func filled(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, true)
	w.ended("o-1")
	w.started("order", "o-2", "pear")
	w.started("broken", "b-1", "fig")
	w.started("late", "l-1", "plum")
	if _, err := shows.Start(t.Context(), w.engine, 0, stet.ID("s-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := asks.Start(t.Context(), w.engine, 0, stet.ID("a-1")); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 4} {
		if err := stet.Message[int]("n").Send(t.Context(), w.engine, "s-1", n); err != nil {
			t.Fatal(err)
		}
	}
	if err := stet.Message[string]("note").Send(t.Context(), w.engine, "o-2", "unheard"); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return w
}

// FuzzBodies: whatever the body of a request is, to whichever endpoint, the server answers as its
// document says, finds no fault in itself, and can be read afterwards.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, `0`, `""`, `[{}]`, `{"a":`, `{} {}`, "\xff", `{"unknown":1}`,
		`{"workflow":"order","input":1,"id":"x","after_ms":-1,"queue":{"name":"q"},"tags":{"a":"b"}}`,
		`[{"workflow":"order"},{"workflow":"order","existing":"refuse","messages":[{"name":"approved","value":1}]}]`,
		`{"token":"stet","value":1,"message":"no"}`, `{"token":"AAAA"}`, `{"query":"status=failed","verb":"retry"}`,
		`{"before":"/","id":"o-9","reason":"r"}`, `{"step":"charge","result":1}`, `{"step":"charge","error":"e"}`,
		`{"value":1,"mode":"consumed","expires_in_ms":9223372036854775807,"cap":-5,"headers":{"stet.by":"x"}}`,
		`{"create":true,"concurrency":1,"rate":-1,"per_ms":9223372036854775807}`,
		`{"workflow":"order","every_ms":9223372036854775807,"zone":"Mars/Olympus"}`, `{"workflow":"order","cron":"* * * * *"}`,
		`{"from":"2026-01-01T00:00:00Z","to":"9999-01-01T00:00:00Z"}`, `{"name":"x","role":"viewer","expires_in_ms":-1}`,
		`{"scheme":"hmac","secrets":["a secret of many bytes"],"start":"order","value":"/a"}`,
		`{"worker":"w","names":["resize"],"max":1,"wait_ms":1,"lease_ms":-1}`, `{"lease":"x","result":1}`,
		`{"leases":[{"lease":"x"}]}`, `{"leases":["x"]}`, `{"lease":"x","error":{"message":"m","retry_after_ms":-1}}`,
		`{"run":"o-2","reason":"again"}`, `{"children":true,"any_build":true}`,
		`{"files":[{"name":"a.js","text":"export default 1"}],"workflow":"w"}`,
	} {
		f.Add(seed, "key")
	}
	f.Fuzz(func(t *testing.T, body, key string) {
		synctest.Test(t, func(t *testing.T) {
			w := filled(t)
			for _, e := range server.TableOf(w.handler) {
				if e.Method == http.MethodGet {
					continue
				}
				path := strings.NewReplacer("{id}", "o-2", "{number}", "1", "{name}", "jobs", "{event}", "e").Replace(e.Path)
				w.made(t.Context(), e.Method, path, body, "Idempotency-Key", key)
			}
			for _, path := range []string{
				"runs", "counts", "queues", "schedules", "topics", "deadletters", "nodes", "audit", "tokens", "hooks", "deletions",
			} {
				w.get("admin", path, nil)
			}
		})
	})
}

// FuzzParameters: whatever stands in a parameter of a path, a query or a header, likewise.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{
		"", "0", "-1", "9223372036854775808", "1e9", "true", "30s", "-5s", "2026-01-31T12:00:00Z", "AAAA", "~bw", "..", "%2e%2e",
		"charge", "/", "~~", "status=failed", "id=\"a", "ended", "none", "o-1/all", "eyJvLTEiOnsibiI6LTF9fQ", "bnVsbA",
		"gzip;q=0.5, *", "\"AAAA\", W/\"x\"", "mcp", "\x00", "ü?#",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		synctest.Test(t, func(t *testing.T) {
			w := filled(t)
			over, cancel := context.WithCancel(t.Context())
			cancel()
			for _, e := range server.TableOf(w.handler) {
				if e.Method != http.MethodGet || strings.HasPrefix(e.Path, "login/") {
					continue
				}
				ctx := t.Context()
				if e.Path == "events" {
					ctx = over // it ends at once
				}
				usual := strings.NewReplacer("{id}", "o-2", "{number}", "1", "{name}", "jobs", "{event}", "e").Replace(e.Path)
				for _, p := range endpoint.Fields(e.In) {
					switch p.Place {
					case "path":
						for _, written := range []string{value, url.PathEscape(value), api.PathSegment(value)} {
							w.made(ctx, "GET", strings.Replace(e.Path, "{"+p.Name+"}", written, 1), "")
						}
					case "query":
						w.made(ctx, "GET", usual+"?"+url.Values{p.Name: {value}}.Encode(), "")
						w.made(ctx, "GET", usual+"?"+p.Name+"="+value, "")
					}
				}
				if e.Path == "events" {
					usual += "?run=o-1&stream=s-1/all"
				}
				w.made(ctx, "GET", usual, "", "Last-Event-ID", value, "If-None-Match", value, "Accept-Encoding", value,
					api.ViaHeader, value)
			}
		})
	})
}

// code returns the code of an answer: "" if what was asked for was done.
func (w *world) code(method, path string, body any) string {
	w.t.Helper()
	r := w.do("admin", method, path, body)
	var p api.Problem
	switch {
	case r.StatusCode == http.StatusAccepted:
		return "pending"
	case r.StatusCode < 300:
		return ""
	}
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		w.t.Fatal(err)
	}
	return p.Code
}

func codeOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, stet.ErrPending):
		return "pending"
	}
	return api.ErrorOf(err).Code
}

// same compares what the API answers with what the engine says, as JSON.
func same[T any](t *testing.T, what string, answered, said T) {
	t.Helper()
	a, err := json.Marshal(answered)
	b, err2 := json.Marshal(said)
	if err = errors.Join(err, err2); err != nil || string(a) != string(b) {
		t.Errorf("%s: the API answers\n%s\nand the engine says\n%s\n%v", what, a, b, err)
	}
}

// FuzzReadsAreTheEngines: pages of a list, counts, and pages of a history are what the engine
// says to the same filter, all pages together; what it refuses is refused with its code.
func FuzzReadsAreTheEngines(f *testing.F) {
	for _, query := range []string{
		"", "status=failed", "status=succeeded,suspended workflow=order", "workflow=stet.topic", "id=o-1", "id=o-*", "tag.sku=apple",
		"workflow=order,stet.queue", "created>2000-01-01", "ended<2100-01-01", "mark=paused", "nonsense", "status=", "parent=o-1",
		"workflow=late error=card",
	} {
		f.Add(query, 2, false, "")
		f.Add(query, 1, true, "charge")
	}
	f.Add("", 0, false, "")
	f.Add("", 100, false, "approved")
	f.Fuzz(func(t *testing.T, query string, limit int, byEnd bool, after string) {
		limit = 1 + int(uint(limit)%1000)
		synctest.Test(t, func(t *testing.T) {
			w := filled(t)
			runs := w.engine.Runs()
			filter, err := store.ParseFilter(query)
			q := url.Values{"query": {query}}
			if err != nil {
				for _, path := range []string{"runs?", "counts?"} {
					if got := w.code("GET", path+q.Encode(), nil); got != codeOf(err) {
						t.Errorf("%s%s: %q, expected %q: %v", path, q.Encode(), got, codeOf(err), err)
					}
				}
				return
			}
			readList(t, w, filter, q, limit, byEnd)

			var counts api.Counts
			w.get("admin", "counts?exact=true&"+q.Encode(), &counts)
			said := map[string]int64{}
			tallies, err := runs.Count(t.Context(), filter)
			for _, tally := range tallies {
				if !store.IsEntity(tally.Workflow) && tally.Runs > 0 {
					said[tally.Workflow+" "+tally.Status.String()] += tally.Runs
				}
			}
			answered := map[string]int64{}
			for _, c := range counts.Counts {
				answered[c.Workflow+" "+c.Status] = c.Runs
			}
			if err != nil {
				t.Fatal(err)
			}
			same(t, "counts of "+query, answered, said)

			for _, id := range []string{"o-1", "o-2", "b-1", "l-1", "s-1", "a-1"} {
				found, err := runs.History(t.Context(), id, stet.HistoryQuery{After: after, Values: true})
				q := url.Values{"after": {after}, "limit": {fmt.Sprint(limit)}}
				if err != nil {
					if got := w.code("GET", "runs/"+id+"/history?"+q.Encode(), nil); got != codeOf(err) {
						t.Errorf("history after %q: %q, expected %q", after, got, codeOf(err))
					}
					continue
				}
				said := []*api.Entry{}
				for i := range found {
					said = append(said, api.EntryOf(&found[i]))
				}
				answered := []*api.Entry{}
				for range 100 {
					var page api.History
					w.get("admin", "runs/"+id+"/history?"+q.Encode(), &page)
					if answered = append(answered, page.Entries...); page.Next == "" {
						break
					}
					q.Set("after", page.Next)
				}
				same(t, "history of "+id, answered, said)
			}
		})
	})
}

// readList compares all pages of a list.
func readList(t *testing.T, w *world, filter store.Filter, q url.Values, limit int, byEnd bool) {
	t.Helper()
	q = url.Values{"query": q["query"], "limit": {fmt.Sprint(limit)}}
	if filter.ByEnded = byEnd; byEnd {
		q.Set("order", "ended")
	}
	filter.Limit, filter.Values = 1000, true
	found, _, err := w.engine.Runs().List(t.Context(), filter)
	if err != nil {
		if got := w.code("GET", "runs?"+q.Encode(), nil); got != codeOf(err) {
			t.Errorf("runs?%s: %q, expected %q: %v", q.Encode(), got, codeOf(err), err)
		}
		return
	}
	said, answered := []*api.Run{}, []*api.Run{}
	for i := range found {
		if !store.IsEntity(found[i].Workflow) {
			said = append(said, api.RunOf(&found[i]))
		}
	}
	for range 100 {
		var page api.Runs
		w.get("admin", "runs?"+q.Encode(), &page)
		if answered = append(answered, page.Runs...); page.Next == "" {
			break
		}
		q.Set("cursor", page.Next)
	}
	same(t, "runs?"+q.Encode(), answered, said)
}

// twin is an act by the API, and the same act by the engine.
type twin struct {
	name   string
	server func(w *world, id string, n int) string
	engine func(ctx context.Context, e *stet.Engine, id string, n int) error
}

// by is in the headers of what the API starts and sends.
var by = stet.Headers{"stet.by": "ada"}

// verbTwin is a verb without arguments.
func verbTwin(name string, do func(stet.Runs, context.Context, string, stet.Act) (bool, error)) twin {
	return twin{name, func(w *world, id string, _ int) string {
		return w.code("POST", "runs/"+id+"/"+name, api.Act{Reason: "r"})
	}, func(ctx context.Context, e *stet.Engine, id string, _ int) error {
		_, err := do(e.Runs(), ctx, id, stet.Act{By: "ada", Why: "r"})
		return err
	}}
}

var twins = []twin{
	{"start", func(w *world, id string, n int) string {
		return w.code("POST", "runs", api.Start{Workflow: "order", ID: id, Input: fmt.Appendf(nil, `"sku %d"`, n%2)})
	}, func(ctx context.Context, e *stet.Engine, id string, n int) error {
		_, err := order.Start(ctx, e, fmt.Sprintf("sku %d", n%2), stet.ID(id), by)
		return err
	}},
	{"start-broken", func(w *world, id string, n int) string {
		existing := []string{"", "refuse", "replace-failed", "replace-ended"}[n%4]
		return w.code("POST", "runs", api.Start{Workflow: "broken", ID: id, Existing: existing,
			Input: fmt.Appendf(nil, `"x%d"`, n/4%2)})
	}, func(ctx context.Context, e *stet.Engine, id string, n int) error {
		options := []stet.StartOption{stet.ID(id), by}
		if n%4 > 0 {
			options = append(options, []stet.StartOption{stet.RefuseExisting, stet.ReplaceFailed, stet.ReplaceEnded}[n%4-1])
		}
		_, err := broken.Start(ctx, e, fmt.Sprintf("x%d", n/4%2), options...)
		return err
	}},
	{"send", func(w *world, id string, n int) string {
		return w.code("POST", "runs/"+id+"/messages/approved", api.Send{Value: fmt.Appendf(nil, `"%d"`, n)})
	}, func(ctx context.Context, e *stet.Engine, id string, n int) error {
		return stet.Message[string]("approved").Send(ctx, e, id, fmt.Sprint(n), by)
	}},
	{"send-unheard", func(w *world, id string, n int) string {
		return w.code("POST", "runs/"+id+"/messages/note", api.Send{Value: fmt.Appendf(nil, `"%d"`, n)})
	}, func(ctx context.Context, e *stet.Engine, id string, n int) error {
		return stet.Message[string]("note").Send(ctx, e, id, fmt.Sprint(n), by)
	}},
	{"rewind", func(w *world, id string, n int) string {
		return w.code("POST", "runs/"+id+"/rewind", api.Rewind{Before: []string{"/", "charge", "approved", "~~"}[n%4]})
	}, func(ctx context.Context, e *stet.Engine, id string, n int) error {
		_, err := e.Runs().Rewind(ctx, id, []string{"/", "charge", "approved", "~~"}[n%4], stet.Act{By: "ada"})
		return err
	}},
	{"edit", func(w *world, id string, _ int) string {
		return w.code("POST", "runs/"+id+"/edit", api.Edit{Step: "charge", Result: []byte(`"by hand"`)})
	}, func(ctx context.Context, e *stet.Engine, id string, _ int) error {
		_, err := e.Runs().EditResult(ctx, id, "charge", json.RawMessage(`"by hand"`), stet.Act{By: "ada"})
		return err
	}},
	{"fork", func(w *world, id string, n int) string {
		return w.code("POST", "runs/"+id+"/fork", api.Fork{Before: "charge", ID: fmt.Sprint("r-", n%4)})
	}, func(ctx context.Context, e *stet.Engine, id string, n int) error {
		_, err := e.Runs().Fork(ctx, id, "charge", stet.Act{By: "ada"}, stet.ID(fmt.Sprint("r-", n%4)))
		return err
	}},
	{"delete", func(w *world, id string, _ int) string {
		return w.code("DELETE", "runs/"+id, api.Act{Reason: "r"})
	}, func(ctx context.Context, e *stet.Engine, id string, _ int) error {
		_, err := e.Runs().Delete(ctx, id, stet.Act{By: "ada", Why: "r"})
		return err
	}},
	{"publish", func(w *world, _ string, n int) string {
		mode := []string{"", "consumed"}[n%2]
		return w.code("POST", "topics/jobs/events", api.Publish{Mode: mode, Send: api.Send{Value: []byte("1")}})
	}, func(ctx context.Context, e *stet.Engine, _ string, n int) error {
		topic := stet.Topic[int]{Name: "jobs"}
		if n%2 == 1 {
			topic.Mode = stet.Consumed
		}
		_, err := topic.Publish(ctx, e, 1, by)
		return err
	}},
	{"queue", func(w *world, _ string, n int) string {
		return w.code("PUT", "queues/q", api.SetQueue{Create: n%2 == 0, Limits: api.Limits{Concurrency: n%3 - 1}})
	}, func(ctx context.Context, e *stet.Engine, _ string, n int) error {
		s := stet.QueueSettings{Concurrency: n%3 - 1}
		if n%2 == 0 {
			return e.Queues().Create(ctx, "q", s, stet.Act{By: "ada"})
		}
		return e.Queues().Set(ctx, "q", s, stet.Act{By: "ada"})
	}},
	verbTwin("cancel", stet.Runs.Cancel), verbTwin("terminate", stet.Runs.Terminate), verbTwin("pause", stet.Runs.Pause),
	verbTwin("resume", stet.Runs.Resume), verbTwin("retry", stet.Runs.Retry), verbTwin("nudge", stet.Runs.Nudge),
}

// FuzzActsAreTheEngines: a row of acts by the API on one store, and by the engine on another, has
// the same outcomes one by one, and leaves the same runs.
func FuzzActsAreTheEngines(f *testing.F) {
	for i := range twins {
		f.Add([]byte{0, 0, byte(i), 0, byte(i), 1})
		f.Add([]byte{0, 0, 2, 0, byte(i), 0, byte(i), 4})
		f.Add([]byte{1, 1, byte(i), 1, 14, 1, byte(i), 5})
		f.Add([]byte{1, 3, 1, 3, byte(i), 3, 1, 7})
		f.Add([]byte{0, 2, 12, 2, byte(i), 2, 13, 2, 2, 2, byte(i), 2})
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		program = program[:min(len(program), 40)]
		synctest.Test(t, func(t *testing.T) {
			a, b := newWorld(t, true), newWorld(t, true)
			var done []string
			for i := 0; i+1 < len(program); i += 2 {
				act, n := twins[int(program[i])%len(twins)], int(program[i+1])
				id := fmt.Sprint("r-", n%4)
				answered, said := act.server(a, id, n), codeOf(act.engine(t.Context(), b.engine, id, n))
				done = append(done, fmt.Sprintf("%s %s %d: %s", act.name, id, n, said))
				if answered != said {
					t.Fatalf("%s\nthe API: %q, the engine: %q", strings.Join(done, "\n"), answered, said)
				}
				synctest.Wait()
			}
			same(t, strings.Join(done, "\n"), a.all(), b.all())
		})
	})
}

// all returns all runs with their histories, inboxes and audits, without what no two stores have
// alike.
func (w *world) all() (all []any) {
	w.t.Helper()
	found, _, err := w.engine.Runs().List(w.t.Context(), store.Filter{Values: true, Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b stet.RunInfo) int { return strings.Compare(a.ID, b.ID) })
	for i := range found {
		info := &found[i]
		if store.IsEntity(info.Workflow) {
			continue
		}
		run := api.RunOf(info)
		entries, err := w.engine.Runs().History(w.t.Context(), info.ID, stet.HistoryQuery{Values: true})
		inbox, err2 := w.store.Inbox(w.t.Context(), info.Number)
		audit, err3 := w.engine.Runs().Audit(w.t.Context(), info.ID)
		if err := errors.Join(err, err2, err3); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, []any{run.ID, run.Workflow, run.Status, run.Marks, run.Input, run.Output, run.Reason, run.Headers,
			run.Generation, run.Incarnation})
		for i := range entries {
			e := api.EntryOf(&entries[i])
			all = append(all, []any{e.Location, e.Kind, e.State, e.Value, e.Attempts})
		}
		for i := range inbox {
			all = append(all, []any{inbox[i].Name, api.ItemOf(&inbox[i]).Value})
		}
		for i := range audit {
			all = append(all, []any{audit[i].Who, audit[i].Verb, audit[i].Why})
		}
	}
	return all
}
