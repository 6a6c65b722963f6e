package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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

// ended starts an order, approves it and waits for its end.
func (w *world) ended(id string) {
	w.t.Helper()
	w.started("order", id, "apple")
	if err := stet.Message[string]("approved").Send(w.t.Context(), w.engine, id, "ann"); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.engine.Runs().Wait(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
}

// output waits for the end of a run and returns its output.
func (w *world) output(id string) string {
	w.t.Helper()
	var run api.Run
	w.get("operator", "runs/"+id+"?wait=30s", &run)
	return string(run.Output)
}

// TestRewindEditForkByHTTP repair a run as the engine does.
func TestRewindEditForkByHTTP(t *testing.T) {
	w := newWorld(t, true)
	w.ended("o-1")
	var started api.Started
	fork := api.Fork{Before: "charge", ID: "o-2", Reason: "once more"}
	w.ask("operator", "POST", "runs/o-1/fork", fork, http.StatusCreated, &started)
	if started.ID != "o-2" {
		t.Errorf("the fork is %q", started.ID)
	}
	if got := w.output("o-2"); got != `"paid apple by ann"` { // the message has come along
		t.Errorf("the fork ends with %s", got)
	}
	var done api.Done
	edit := api.Edit{Step: "charge", Result: json.RawMessage(`"paid by hand"`), Act: api.Act{Reason: "in cash"}}
	w.ask("operator", "POST", "runs/o-1/edit", edit, http.StatusOK, &done)
	if got := w.output("o-1"); !done.Done || got != `"paid by hand by ann"` {
		t.Errorf("edited: %+v, %s", done, got)
	}
	w.ask("operator", "POST", "runs/o-1/rewind", api.Rewind{Before: "/"}, http.StatusOK, &done)
	if got := w.output("o-1"); !done.Done || got != `"paid apple by ann"` {
		t.Errorf("rewound: %+v, %s", done, got)
	}
	text := "no"
	for path, body := range map[string]any{
		"edit": api.Edit{Step: "charge"}, "rewind": api.Rewind{Before: "~~"}, "fork": api.Fork{Before: "~~"},
	} {
		w.refused("operator", "POST", "runs/o-1/"+path, body, "invalid")
	}
	w.refused("operator", "POST", "runs/o-1/edit",
		api.Edit{Step: "charge", Result: json.RawMessage("1"), Error: &text}, "invalid")
	w.refused("operator", "POST", "runs/o-9/rewind", api.Rewind{Before: "/"}, "not_found")
	w.refused("operator", "POST", "runs/o-1/fork", api.Fork{Before: "/", ID: "o-2"}, "exists")
}

// TestArrayOfStarts is one commit: the outcome of each is in its order.
func TestArrayOfStarts(t *testing.T) {
	w := newWorld(t, false)
	w.started("order", "o-1", "pear")
	input := json.RawMessage(`"apple"`)
	starts := []api.Start{
		{Workflow: "order", ID: "o-0", Input: input}, {Workflow: "order", ID: "o-1", Input: input},
		{Workflow: "order", ID: "o-2", Input: input, Existing: "refuse"},
	}
	var started api.Started
	w.ask("caller", "POST", "runs", starts, http.StatusCreated, &started)
	want := []api.StartedRun{{ID: "o-0"}, {Code: "exists"}, {ID: "o-2"}}
	if fmt.Sprint(started.Runs) != fmt.Sprint(want) {
		t.Errorf("expected %+v, found %+v", want, started.Runs)
	}
	w.refused("caller", "POST", "runs", []api.Start{}, "invalid")
	w.refused("caller", "POST", "runs", []api.Start{starts[0], {Workflow: "broken"}}, "invalid")
	w.refused("caller", "POST", "runs", starts, "invalid", "Idempotency-Key", "k")
	w.refused("caller", "POST", "runs", make([]api.Start, 1001), "invalid")
}

// cut is the connection of a server that dies after it has acted, before it answers.
type cut struct{ header http.Header }

func (c cut) Header() http.Header       { return c.header }
func (c cut) Write([]byte) (int, error) { panic(http.ErrAbortHandler) }
func (c cut) WriteHeader(int)           { panic(http.ErrAbortHandler) }

// TestAForkKeyIsOfItsLocation: with one key two locations give two forks, each once.
func TestAForkKeyIsOfItsLocation(t *testing.T) {
	w := newWorld(t, true)
	w.ended("o-1")
	made := map[string]string{}
	for range 2 {
		for _, before := range []string{"/", "charge"} {
			var fork api.Started
			w.ask("operator", "POST", "runs/o-1/fork", api.Fork{Before: before}, http.StatusCreated, &fork,
				"Idempotency-Key", "one")
			if id, again := made[before]; again && id != fork.ID {
				t.Errorf("before %s: %s, and again %s", before, id, fork.ID)
			}
			made[before] = fork.ID
		}
	}
	if made["/"] == made["charge"] {
		t.Errorf("one fork for two locations: %v", made)
	}
}

// TestRepeatAfterNoAnswer: a server acts and dies before it answers; the repeat with the same
// key gives the same answer and changes nothing.
func TestRepeatAfterNoAnswer(t *testing.T) {
	w := newWorld(t, true)
	w.ended("o-1")
	w.started("order", "o-2", "apple")
	for _, row := range []struct {
		name, path string
		body       any
		count      func() int
	}{
		{"start", "runs", api.Start{Workflow: "order", Input: json.RawMessage(`"fig"`)}, func() int {
			return w.count(store.Filter{Tags: []store.Pair{{Key: "sku", Value: "fig"}}})
		}},
		{"fork", "runs/o-1/fork", api.Fork{Before: "charge"}, func() int { return w.count(store.Filter{}) - 3 }},
		{"send", "runs/o-2/messages/note", api.Send{Value: json.RawMessage("1")}, func() int {
			var inbox api.Inbox
			w.get("operator", "runs/o-2/inbox", &inbox)
			return len(inbox.Items)
		}},
		{"publish", "topics/jobs/events", api.Publish{Mode: "consumed"}, func() int {
			var events api.TopicEvents
			w.get("operator", "topics/jobs/events", &events)
			return len(events.Events)
		}},
	} {
		data, err := json.Marshal(row.body)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("POST", "/api/v1/"+row.path, strings.NewReader(string(data)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer operator")
		r.Header.Set("Idempotency-Key", "k-"+row.name)
		died := func() (died bool) {
			defer func() { died = recover() == http.ErrAbortHandler }()
			w.handler.ServeHTTP(cut{http.Header{}}, r)
			return false
		}()
		if !died {
			t.Fatalf("%s: the answer was not cut off", row.name)
		}
		var first string
		for range 2 {
			repeat := w.do("operator", "POST", row.path, row.body, "Idempotency-Key", "k-"+row.name)
			text, err := io.ReadAll(repeat.Body)
			if err != nil || repeat.StatusCode >= 300 || first != "" && first != string(text) {
				t.Errorf("%s: the repeat: %d %s, before %s (%v)", row.name, repeat.StatusCode, text, first, err)
			}
			first = string(text)
		}
		for begun := time.Now(); row.count() != 1; {
			if row.count() > 1 || time.Since(begun) > time.Minute {
				t.Fatalf("%s: %d were made", row.name, row.count())
			}
		}
	}
}

func (w *world) count(f store.Filter) int {
	w.t.Helper()
	runs, _, err := w.engine.Runs().List(w.t.Context(), f)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(runs)
}

// TestRedact: what the function returns is shown in place of each value, to everybody, and
// the raw file is refused.
func TestRedact(t *testing.T) {
	var places []string
	w := newWorld(t, true, func(o *server.Options) {
		o.Redact = func(workflow, place string, value json.RawMessage) json.RawMessage {
			if workflow == "broken" && strings.Contains(string(value), "secret") {
				places = append(places, place)
				return json.RawMessage(`"***"`)
			}
			return value
		}
	})
	w.started("broken", "b-1", "secret pear")
	w.ended("o-1")
	if _, err := w.engine.Runs().Wait(t.Context(), "b-1"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"runs", "runs/b-1", "runs/b-1/history", "runs/b-1/history?at=charge", "runs/b-1/value?at=input",
		"runs/b-1/value?at=charge",
	} {
		text, err := io.ReadAll(w.do("admin", "GET", path, nil).Body)
		if err != nil || strings.Contains(string(text), "secret") {
			t.Errorf("%s shows %s, %v", path, text, err)
		}
	}
	if len(places) == 0 || w.output("o-1") != `"paid apple by ann"` {
		t.Errorf("edited at %v; the output of another workflow is %s", places, w.output("o-1"))
	}
	w.refused("admin", "GET", "runs/b-1/export", nil, "forbidden")
}

// signed makes a promise, has a step, and then awaits the promise.
var signed = stet.Define("signed", func(ctx stet.Context, _ int) (int, error) {
	p, err := stet.NewPromise[int](ctx, "answer")
	if err != nil {
		return 0, err
	}
	if _, err := stet.Step(ctx, "weigh", func(context.Context) (int, error) { return 1, nil }); err != nil {
		return 0, err
	}
	return p.Await(ctx)
})

// TestAssignmentsNameTheirIdentity: who has resolved or rejected a promise, and why, stands in the
// inbox, with the entry, and with the entry again after a rewind; those who may not see values do
// not see it.
func TestAssignmentsNameTheirIdentity(t *testing.T) { synctest.Test(t, assignmentsNameTheirIdentity) }

func assignmentsNameTheirIdentity(t *testing.T) {
	w := newWorld(t, true)
	for verb, body := range map[string]map[string]any{
		"resolve": {"value": 7, "reason": "she has paid"}, "reject": {"message": "no", "reason": "she has paid"},
	} {
		id := "s-" + verb
		if _, err := signed.Start(t.Context(), w.engine, 0, stet.ID(id)); err != nil {
			t.Fatal(err)
		}
		body["token"] = w.tokenOf(id)
		w.ask("operator", "POST", "runs/"+id+"/pause", map[string]any{}, http.StatusOK, nil)
		w.ask("operator", "POST", "promises/"+verb, body, http.StatusOK, nil)
		var inbox api.Inbox
		if w.get("operator", "runs/"+id+"/inbox", &inbox); len(inbox.Items) != 1 || inbox.Items[0].By != "olga" ||
			inbox.Items[0].Why != "she has paid" || inbox.Items[0].Location != "answer" {
			t.Errorf("%s: the inbox: %+v", verb, inbox)
		}
		w.get("viewer", "runs/"+id+"/inbox", &inbox)
		if len(inbox.Items) != 1 || inbox.Items[0].By != "[redacted, 4 bytes]" ||
			inbox.Items[0].Why != "[redacted, 12 bytes]" {
			t.Errorf("%s: the inbox of a viewer: %+v", verb, inbox)
		}
		w.ask("operator", "POST", "runs/"+id+"/resume", map[string]any{}, http.StatusOK, nil)
		for _, after := range []string{"at first", "after a rewind"} {
			if _, err := w.engine.Runs().Wait(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			var history api.History
			w.get("operator", "runs/"+id+"/history?at=answer", &history)
			if len(history.Entries) != 1 || history.Entries[0].By != "olga" || history.Entries[0].Why != "she has paid" ||
				(history.Entries[0].Error != nil) != (verb == "reject") || string(history.Entries[0].Value) != map[string]string{
				"resolve": "7"}[verb] {
				t.Errorf("%s: the entry %s: %+v", verb, after, history.Entries[0])
			}
			w.get("viewer", "runs/"+id+"/history?at=answer", &history)
			if len(history.Entries) != 1 || history.Entries[0].By != "[redacted, 4 bytes]" {
				t.Errorf("%s: the entry of a viewer %s: %+v", verb, after, history.Entries[0])
			}
			var run api.Run
			w.get("operator", "runs/"+id, &run)
			if verb == "resolve" && string(run.Output) != "7" || verb == "reject" && run.Error.Message != "no" {
				t.Errorf("%s: the end %s: %+v", verb, after, run)
			}
			w.ask("operator", "POST", "runs/"+id+"/rewind", map[string]any{"before": "weigh"}, http.StatusOK, nil)
		}
	}
}

// TestWhatStandsIsShown: a request that nobody decides in time is answered with 202, and its
// Location shows what the request is about; so does that of what was created.
func TestWhatStandsIsShown(t *testing.T) { synctest.Test(t, whatStandsIsShown) }

func whatStandsIsShown(t *testing.T) {
	s := memory.New()
	w := newWorldOn(t, s, true)
	w.started("order", "o-0", "apple")
	w.started("order", "o-1", "apple")
	synctest.Wait()
	for _, id := range []string{"b-1", "b:2"} {
		w.started("broken", id, "pear")
		if _, err := w.engine.Runs().Wait(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	w.ask("operator", "POST", "runs/o-1/pause", map[string]any{}, http.StatusOK, nil)
	var event api.Published
	w.ask("operator", "POST", "topics/jobs/events", map[string]any{"value": 1, "mode": "consumed"}, 201, &event)
	w.deployed("scripted", stet.ScriptCode{Code: "1"})
	w.stop()
	w = newWorldOn(t, s, false) // nobody decides
	for _, row := range []struct {
		method, path string
		body         any
		status       int
		want         string
	}{
		{"POST", "runs/o-0/cancel", nil, 202, "runs/o-0"},
		{"POST", "runs/o-0/terminate", nil, 202, "runs/o-0"},
		{"POST", "runs/o-0/pause", nil, 202, "runs/o-0"},
		{"POST", "runs/o-0/nudge", nil, 202, "runs/o-0"},
		{"POST", "runs/o-0/updates/pay", nil, 202, "runs/o-0"},
		{"POST", "runs/o-1/resume", nil, 202, "runs/o-1"},
		{"POST", "runs/b-1/retry", nil, 202, "runs/b-1"},
		{"POST", "runs/b:2/retry", nil, 202, "runs/b:2"},
		{"POST", "runs/b-1/rewind", api.Rewind{Before: "charge"}, 202, "runs/b-1"},
		{"POST", "runs/b-1/edit", api.Edit{Step: "charge", Result: json.RawMessage("1")}, 202, "runs/b-1"},
		{"DELETE", "topics/jobs/events/" + api.PathSegment(event.ID), nil, 202, "topics/jobs/events"},
		{"POST", "scripts/scripted", api.DeployScript{Code: "2"}, 202, "scripts/scripted"},
		{"POST", "runs", api.Start{Workflow: "order", ID: "o 2"}, 201, "runs/" + api.PathSegment("o 2")},
		{"POST", "runs/b-1/fork", api.Fork{Before: "charge", ID: "f-1"}, 201, "runs/f-1"},
	} {
		path := row.path
		if row.status == http.StatusAccepted {
			path += "?wait=1s"
		}
		body := row.body
		if body == nil {
			body = map[string]any{}
		}
		r := w.ask("admin", row.method, path, body, row.status, nil)
		asked, err := url.Parse("/api/v1/" + row.path)
		if err != nil {
			t.Fatal(err)
		}
		shows, err := asked.Parse(r.Header.Get("Location"))
		if err != nil || r.Header.Get("Location") == "" || shows.EscapedPath() != "/api/v1/"+row.want {
			t.Errorf("%s %s: Location %q is %v (%v), want %s", row.method, row.path, r.Header.Get("Location"), shows, err,
				row.want)
			continue
		}
		w.get("admin", row.want, nil)
	}
}

// TestClientCert: a verified certificate says who calls, nothing else does.
func TestClientCert(t *testing.T) {
	auth := server.ClientCert(func(c *x509.Certificate) *access.Identity {
		if c.Subject.CommonName != "ann" {
			return nil
		}
		return &access.Identity{Name: "ann", Role: access.Viewer}
	})
	named := func(name string) *x509.Certificate { return &x509.Certificate{Subject: pkix.Name{CommonName: name}} }
	w := newWorld(t, false, func(o *server.Options) { o.Access = []access.Authenticator{auth} })
	for _, row := range []struct {
		state  *tls.ConnectionState
		status int
	}{
		{nil, http.StatusUnauthorized},
		{&tls.ConnectionState{}, http.StatusUnauthorized},
		{&tls.ConnectionState{PeerCertificates: []*x509.Certificate{named("ann")}}, http.StatusUnauthorized}, // not verified
		{&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{named("ann")}}}, http.StatusOK},
		{&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{named("bob"), named("ann")}}}, http.StatusUnauthorized},
	} {
		r := httptest.NewRequest("GET", "/api/v1/info", nil)
		r.TLS = row.state
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, r)
		if rec.Code != row.status {
			t.Errorf("%+v: status %d, want %d", row.state, rec.Code, row.status)
		}
	}
}

// TestSessionsEnd after eight hours, and never after their token.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(time.Hour)
		who := server.Func(func(r *http.Request) (*access.Identity, error) {
			switch r.Header.Get("Authorization") {
			case "Bearer long":
				return &access.Identity{Name: "lara", Role: access.Viewer}, nil
			case "Bearer short":
				return &access.Identity{Name: "sam", Role: access.Viewer, Until: until}, nil
			}
			return nil, nil
		})
		w := newWorld(t, false, func(o *server.Options) { o.Access = []access.Authenticator{who} })
		login := func(token string) []string {
			r := w.ask("", "POST", "login", api.Login{Token: token}, http.StatusOK, nil)
			return []string{"Cookie", r.Cookies()[0].Name + "=" + r.Cookies()[0].Value}
		}
		long, short := login("long"), login("short")
		time.Sleep(time.Hour - time.Minute)
		w.ask("", "GET", "info", nil, http.StatusOK, nil, long...)
		w.ask("", "GET", "info", nil, http.StatusOK, nil, short...)
		time.Sleep(2 * time.Minute)
		w.ask("", "GET", "info", nil, http.StatusOK, nil, long...)
		w.refused("", "GET", "info", nil, "unauthenticated", short...)
		time.Sleep(7 * time.Hour)
		w.refused("", "GET", "info", nil, "unauthenticated", long...)
	})
}

// TestKeysBelongToIdentityAndName: a key swallows nothing that another identity sends, or that has another name. With
// another value it is refused.
func TestKeysBelongToIdentityAndName(t *testing.T) {
	w := newWorld(t, true)
	w.started("order", "o-1", "apple")
	w.becomes("o-1", store.Suspended)
	send := func(who, name, value string, status int) {
		t.Helper()
		for range 2 { // the second one is a repeat
			r := w.do(who, "POST", "runs/o-1/messages/"+name, `{"value":`+value+`}`, "Idempotency-Key", "1")
			if r.StatusCode != status {
				t.Errorf("%s sends %s to %s: expected status %d, found %d", who, value, name, status, r.StatusCode)
			}
		}
	}
	send("operator", "unheard", "1", http.StatusOK)
	send("operator", "unheard", "2", http.StatusConflict)
	send("caller", "unheard", "2", http.StatusOK)
	send("operator", "other", "3", http.StatusOK)
	var inbox api.Inbox
	w.get("operator", "runs/o-1/inbox", &inbox)
	found := ""
	for _, item := range inbox.Items {
		found += item.Name + string(item.Value) + " "
	}
	if found != "unheard1 unheard2 other3 " {
		t.Errorf("the inbox has %s", found)
	}
	publish := func(who, topic, value string, status int) (id string) {
		t.Helper()
		for range 2 {
			var got api.Published
			r := w.do(who, "POST", "topics/"+topic+"/events", `{"retention_ms":3600000,"value":`+value+`}`,
				"Idempotency-Key", "1")
			if r.StatusCode != status {
				t.Errorf("%s publishes %s: expected status %d, found %d", who, value, status, r.StatusCode)
			}
			if status == http.StatusCreated {
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil || id != "" && got.ID != id {
					t.Errorf("a repeat: expected the event %s, found %s, %v", id, got.ID, err)
				}
				id = got.ID
			}
		}
		return id
	}
	first := publish("operator", "jobs", "1", http.StatusCreated)
	publish("operator", "jobs", "2", http.StatusConflict)
	if other := publish("caller", "jobs", "2", http.StatusCreated); other == first {
		t.Errorf("the event of another identity is %s", other)
	}
}
