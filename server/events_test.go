package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/server/internal/openapi"
	"github.com/stet-run/stet/store"
)

// event is one of a stream.
type event struct{ name, id, data string }

// follow reads a stream until stop says that it has seen enough.
func follow(t *testing.T, address, who, last string, stop func(event) bool) (events []event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+who)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, %s", answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	var e event
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				events = append(events, e)
				if err := openapi.CheckEvent(document(), e.name, []byte(e.data)); err != nil {
					t.Errorf("%v: %s", err, e.data)
				}
				if stop(e) {
					return events
				}
			}
			e = event{}
		}
	}
	for _, e := range events {
		t.Logf("%.2000s", e)
	}
	t.Fatalf("the stream has ended after %d events: %v", len(events), lines.Err())
	return nil
}

// runOf returns the run that an event tells of.
func runOf(t *testing.T, e event) *api.Run {
	t.Helper()
	var run api.Run
	if e.name != "run" {
		return &run
	}
	if err := json.Unmarshal([]byte(e.data), &run); err != nil {
		t.Fatal(err)
	}
	return &run
}

// TestStreamGoesOnWhereItWasCut: after each event a reader may lose the stream; with that
// event's ID it gets all entries that it has not got, and none twice.
func TestStreamGoesOnWhereItWasCut(t *testing.T) {
	w := newWorld(t, true)
	web := httptest.NewServer(w.handler)
	defer web.Close()
	address := web.URL + "/api/v1/events?run=o-1"
	w.started("order", "o-1", "apple")
	before := follow(t, address, "operator", "", func(e event) bool {
		return e.name == "entry" && strings.Contains(e.data, `"number":1,`)
	})
	if err := stet.Message[string]("approved").Send(t.Context(), w.engine, "o-1", "ann"); err != nil {
		t.Fatal(err)
	}
	ended := func(e event) bool { return e.name == "entry" && strings.Contains(e.data, `"number":2`) }
	for i := range before {
		numbers := map[int64]bool{}
		for _, e := range append(before[:i+1:i+1], follow(t, address, "operator", before[i].id, ended)...) {
			var entry api.RunEntry
			if e.name != "entry" {
				continue
			}
			if err := json.Unmarshal([]byte(e.data), &entry); err != nil {
				t.Fatal(err)
			}
			if n := entry.Entry.Number; n > 0 && numbers[n] {
				t.Errorf("cut after event %d: entry %d comes twice", i, n)
			} else if n > 0 {
				numbers[n] = true
			}
		}
		if !numbers[1] || !numbers[2] {
			t.Errorf("cut after event %d: entries %v", i, numbers)
		}
	}
	over := follow(t, address, "operator", "", func(e event) bool { return runOf(t, e).Over() })
	if run := runOf(t, over[len(over)-1]); run.Status != store.Succeeded || string(run.Output) != `"paid apple by ann"` {
		t.Errorf("the end: %+v", run)
	}
}

// TestWhatARunShowsIsFollowed: values, inbox and items of streams come as events. With the ID of
// any of them each later item comes, and none twice; a viewer gets no values.
func TestWhatARunShowsIsFollowed(t *testing.T) {
	w := newWorld(t, true)
	web := httptest.NewServer(w.handler)
	defer web.Close()
	address := web.URL + "/api/v1/events?run=s/1&stream=s/1/all"
	if _, err := shows.Start(t.Context(), w.engine, 0, stet.ID("s/1")); err != nil {
		t.Fatal(err)
	}
	n := stet.Message[int]("n")
	send := func(name stet.Message[int], value int) {
		t.Helper()
		if err := name.Send(t.Context(), w.engine, "s/1", value); err != nil {
			t.Fatal(err)
		}
	}
	send("unheard", 7)
	for i := range 5 {
		send(n, i+1)
	}
	seen := map[string]bool{}
	all := func(e event) bool {
		seen[e.name] = true
		return e.name == "item" && strings.Contains(e.data, `"position":5`)
	}
	before := follow(t, address, "operator", "", func(e event) bool {
		all(e)
		return seen["item"] && seen["inbox"] && seen["value"]
	})
	before = append(before, follow(t, address, "operator", before[len(before)-1].id, all)...)
	for i := range before {
		items := map[int64]bool{}
		rest := follow(t, address+"&nodes=true", "operator", before[i].id, func(e event) bool {
			return all(e) || e.name == "nodes"
		})
		for _, e := range append(before[:i+1:i+1], rest...) {
			var item api.RunItem
			if e.name != "item" {
				continue
			}
			if err := json.Unmarshal([]byte(e.data), &item); err != nil {
				t.Fatal(err)
			}
			if items[item.Position] || item.RunID != "s/1" || item.Stream != "all" {
				t.Errorf("cut after event %d: %+v comes again", i, item)
			}
			items[item.Position] = true
		}
		if len(items) != 5 {
			t.Errorf("cut after event %d: items %v", i, items)
		}
	}
	send(n, 0)
	seen = map[string]bool{}
	over := follow(t, address, "viewer", "", func(e event) bool { all(e); return seen["item"] && seen["value"] })
	for _, e := range over {
		if (e.name == "value" || e.name == "item") && !strings.Contains(e.data, `"redacted":true`) {
			t.Errorf("a viewer gets %s", e.data)
		}
	}
}

// TestStreamIsCutAtAnyByte: what a client rebuilds from what it has got whole before the cut,
// and from the stream that goes on after it, is what a fresh read says, with each entry once.
func TestStreamIsCutAtAnyByte(t *testing.T) {
	w := newWorld(t, true)
	web := httptest.NewServer(w.handler)
	defer web.Close()
	w.started("order", "o-1", "apple")
	if err := stet.Message[string]("approved").Send(t.Context(), w.engine, "o-1", "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine.Runs().Wait(t.Context(), "o-1"); err != nil {
		t.Fatal(err)
	}
	var fresh api.History
	w.get("operator", "runs/o-1/history", &fresh)
	want := map[string]int64{}
	for _, e := range fresh.Entries {
		want[e.Location] = e.Number
	}
	address := web.URL + "/api/v1/events?run=o-1"
	// add rebuilds from an event, and reports whether everything is known.
	add := func(built map[string]int64, e event) bool {
		if e.name == "entry" {
			var entry api.RunEntry
			if err := json.Unmarshal([]byte(e.data), &entry); err != nil {
				t.Fatalf("%q: %v", e.data, err)
			}
			if n, twice := built[entry.Entry.Location]; twice && n > 0 {
				t.Errorf("entry %s comes twice", entry.Entry.Location)
			}
			built[entry.Entry.Location] = entry.Entry.Number
		}
		return maps.Equal(built, want)
	}
	whole := map[string]int64{}
	raw := ""
	for _, e := range follow(t, address, "operator", "", func(e event) bool { return add(whole, e) }) {
		raw += "event: " + e.name + "\nid: " + e.id + "\ndata: " + e.data + "\n\n"
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range soak.Cases(t, 20) {
		cut := rng.IntN(len(raw) + 1)
		built, last := map[string]int64{}, ""
		texts := strings.Split(raw[:cut], "\n\n")
		for _, text := range texts[:len(texts)-1] { // the last one is not whole
			var e event
			for line := range strings.SplitSeq(text, "\n") {
				name, value, _ := strings.Cut(line, ": ")
				*map[string]*string{"event": &e.name, "id": &e.id, "data": &e.data}[name] = value
			}
			add(built, e)
			last = e.id
		}
		follow(t, address, "operator", last, func(e event) bool { return add(built, e) })
		if !maps.Equal(built, want) {
			t.Errorf("seed %d, cut at byte %d: rebuilt %v, expected %v", seed, cut, built, want)
		}
	}
}

// TestRetriedRunIsReset: what a follower knows of it is void.
func TestRetriedRunIsReset(t *testing.T) {
	w := newWorld(t, true)
	web := httptest.NewServer(w.handler)
	defer web.Close()
	w.started("broken", "b-1", "pear")
	if _, err := w.engine.Runs().Wait(t.Context(), "b-1"); err != nil {
		t.Fatal(err)
	}
	address := web.URL + "/api/v1/events?run=b-1"
	events := follow(t, address, "viewer", "", func(e event) bool { return e.name == "entry" })
	for _, e := range events {
		if strings.Contains(e.data, "secret") {
			t.Errorf("a viewer sees a value: %+v", e)
		}
	}
	if _, err := w.engine.Runs().Retry(t.Context(), "b-1", stet.Act{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine.Runs().Wait(t.Context(), "b-1"); err != nil {
		t.Fatal(err)
	}
	again := follow(t, address, "viewer", events[len(events)-1].id, func(e event) bool { return e.name == "entry" })
	if !slices.ContainsFunc(again, func(e event) bool { return e.name == "reset" }) {
		t.Errorf("after a retry: %+v", again)
	}
}

// renewed has a step, and continues as new until it is sent 0.
var renewed = stet.Define("renewed", func(ctx stet.Context, sum int) (int, error) {
	if _, err := stet.Step(ctx, "count", func(context.Context) (int, error) { return sum, nil }); err != nil {
		return 0, err
	}
	n, err := stet.Message[int]("n").Receive(ctx)
	if err != nil || n == 0 {
		return sum, err
	}
	return 0, stet.ContinueAsNew(sum + n)
})

// TestVoidEntriesAreReset: a follower whose entries were taken back by a rewind, or ended with an
// incarnation, gets reset, and then the entries that stand; also one that was away meanwhile.
func TestVoidEntriesAreReset(t *testing.T) {
	send := func(w *world, name string, value any) {
		t.Helper()
		w.ask("operator", "POST", "runs/r-1/messages/"+name, map[string]any{"value": value}, http.StatusOK, nil)
	}
	for _, row := range []struct {
		what  string
		begin func(w *world)
		void  func(w *world)
		still string // what the last entry is of
	}{
		{"rewind", func(w *world) {
			w.started("order", "r-1", "apple")
			send(w, "approved", "ann")
		}, func(w *world) {
			if _, err := w.engine.Runs().Wait(t.Context(), "r-1"); err != nil {
				t.Fatal(err)
			}
			w.ask("operator", "POST", "runs/r-1/rewind", map[string]any{"before": "charge"}, http.StatusOK, nil)
		}, `"location":"approved"`},
		{"continue as new", func(w *world) {
			if _, err := renewed.Start(t.Context(), w.engine, 1, stet.ID("r-1")); err != nil {
				t.Fatal(err)
			}
		}, func(w *world) { send(w, "n", 1) }, `"location":"count"`},
	} {
		t.Run(row.what, func(t *testing.T) {
			w := newWorld(t, true)
			web := httptest.NewServer(w.handler)
			defer web.Close()
			address := web.URL + "/api/v1/events?run=r-1"
			row.begin(w)
			isLast := func(e event) bool { return e.name == "entry" && strings.Contains(e.data, row.still) }
			before := follow(t, address, "operator", "", isLast)
			reset := false
			afterwards := func(e event) bool {
				reset = reset || e.name == "reset"
				return reset && isLast(e)
			}
			live, began := make(chan bool), make(chan bool, 1)
			go func() {
				defer close(live)
				defer close(began)
				first, void := true, false
				follow(t, address, "operator", "", func(e event) bool {
					if first && isLast(e) {
						first = false
						began <- true
					}
					void = void || e.name == "reset"
					return void && isLast(e)
				})
			}()
			<-began
			row.void(w)
			<-live
			follow(t, address, "operator", before[len(before)-1].id, afterwards)
			if !reset {
				t.Error("one that was away was told of no reset")
			}
		})
	}
}

// TestReplacedRunIsReset: of a run that a start has put in the place of another, under the same
// ID, a follower gets everything from the first entry and the first item on.
func TestReplacedRunIsReset(t *testing.T) {
	w := newWorld(t, true)
	web := httptest.NewServer(w.handler)
	defer web.Close()
	address := web.URL + "/api/v1/events?run=s-1&stream=s-1/all"
	replaced := func(first int) {
		t.Helper()
		if _, err := shows.Start(t.Context(), w.engine, 0, stet.ID("s-1"), stet.ReplaceEnded); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{first, first + 1, 0} {
			if err := stet.Message[int]("n").Send(t.Context(), w.engine, "s-1", n); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.engine.Runs().Wait(t.Context(), "s-1"); err != nil {
			t.Fatal(err)
		}
	}
	second := func(e event) bool { return e.name == "item" && strings.Contains(e.data, `"position":2`) }
	replaced(1)
	before := follow(t, address, "operator", "", second)
	replaced(5)
	after := follow(t, address, "operator", before[len(before)-1].id, second)
	var told []string
	for _, e := range after {
		var item api.RunItem
		if e.name == "reset" {
			told = append(told, "reset")
		}
		if e.name == "item" {
			if err := json.Unmarshal([]byte(e.data), &item); err != nil {
				t.Fatal(err)
			}
			told = append(told, string(item.Value))
		}
	}
	if !slices.Equal(told, []string{"reset", "5", "6"}) {
		t.Errorf("of the second run a follower of the first is told %q", told)
	}
}

// TestListsAreFollowed: a page comes when it has changed, and within the limit.
func TestListsAreFollowed(t *testing.T) {
	w := newWorld(t, true)
	web := httptest.NewServer(w.handler)
	defer web.Close()
	w.started("broken", "b-1", "pear")
	pages := 0
	follow(t, web.URL+"/api/v1/events?runs=&nodes=true", "limited", "", func(e event) bool {
		if strings.Contains(e.data, `"id":"b-1"`) || strings.Contains(e.data, `"broken"`) {
			t.Errorf("a limited identity is told: %s", e.data)
		}
		if e.name == "page" {
			if pages++; pages == 1 {
				w.started("order", "o-1", "apple")
			}
		}
		return strings.Contains(e.data, `"id":"o-1"`)
	})
	w.refused("limited", "GET", "events?run=b-1", nil, "not_found")
	w.refused("viewer", "GET", "events", nil, "invalid")
	w.refused("viewer", "GET", "events?run=o-1", nil, "bad_cursor", "Last-Event-ID", "x!")
}
