package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/internal/live"
	"github.com/stet-run/stet/server/internal/view"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// sized has steps with results, and then a value, of given lengths, and waits for a message.
var sized = stet.Define("sized", func(ctx stet.Context, lengths []int) (string, error) {
	for i, n := range lengths {
		_, err := stet.Step(ctx, fmt.Sprint("s", i), func(context.Context) (string, error) { return text(n), nil })
		if err == nil {
			err = stet.Value[string](fmt.Sprint("v", i)).Set(ctx, text(n))
		}
		if err != nil {
			return "", err
		}
	}
	_, err := stet.Message[string]("approved").Receive(ctx)
	return "", err
})

// text returns a text that takes n bytes as JSON.
func text(n int) string { return strings.Repeat("a", n-2) }

// tally is a store that counts the bytes of values that are read.
type tally struct {
	store.Store
	bytes atomic.Int64
}

func (s *tally) List(ctx context.Context, f store.Filter) (store.Page, error) {
	page, err := s.Store.List(ctx, f)
	for i := range page.Runs {
		s.bytes.Add(int64(len(page.Runs[i].Input) + len(page.Runs[i].Output)))
	}
	return page, err
}

func (s *tally) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	entries, err := s.Store.History(ctx, q)
	for i := range entries {
		s.bytes.Add(int64(len(entries[i].Value)))
	}
	return entries, err
}

func (s *tally) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	feeds, err := s.Store.Feeds(ctx, q)
	for i := range feeds {
		s.bytes.Add(int64(len(feeds[i].Value)))
	}
	return feeds, err
}

func (s *tally) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	page, err := s.Store.DeadLetters(ctx, f)
	for i := range page.Letters {
		s.bytes.Add(int64(len(page.Letters[i].Item.Value)))
	}
	return page, err
}

// replaced returns how many bytes a value has that an answer does not show, and why: cut or redacted.
func replaced(t *testing.T, value json.RawMessage) (why string, bytes int) {
	t.Helper()
	var v struct {
		Cut, Redacted bool
		Bytes         int
	}
	if len(value) > 100 || json.Unmarshal(value, &v) != nil {
		return "", len(value)
	}
	switch {
	case v.Cut:
		return "cut", v.Bytes
	case v.Redacted:
		return "redacted", v.Bytes
	}
	return "", len(value)
}

// TestPagesAreBoundedInBytes: a page of anything has its large values cut, and each of them can be read by itself. For
// an identity that may not read values none is read.
func TestPagesAreBoundedInBytes(t *testing.T) {
	s := &tally{Store: memory.New()}
	w := newWorldOn(t, s, true)
	const small, large = 60 << 10, 100 << 10
	lengths := []int{small, large}
	ctx := t.Context()
	if _, err := sized.Start(ctx, w.engine, lengths, stet.ID("s")); err != nil {
		t.Fatal(err)
	}
	w.becomes("s", store.Suspended)
	for _, n := range lengths {
		if err := stet.Message[string]("other").Send(ctx, w.engine, "s", text(n)); err != nil {
			t.Fatal(err)
		}
		if _, err := (stet.Topic[string]{Name: "news"}).Publish(ctx, w.engine, text(n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.engine.Runs().Terminate(ctx, "s", stet.Act{By: "a test"}); err != nil {
		t.Fatal(err)
	}
	// page returns the values of each page, the small one first.
	pages := map[string]func(who, query string) []json.RawMessage{
		"runs/s/history": func(who, query string) (values []json.RawMessage) {
			var h api.History
			w.get(who, "runs/s/history?"+query, &h)
			for _, e := range h.Entries {
				if e.Kind == "step" {
					values = append(values, e.Value)
				}
			}
			return values
		},
		"runs/s/values": func(who, query string) (values []json.RawMessage) {
			var shown api.Shown
			w.get(who, "runs/s/values?"+query, &shown)
			for _, v := range shown.Values {
				values = append(values, v.Value)
			}
			return values
		},
		"deadletters": func(who, query string) []json.RawMessage {
			var letters api.Letters
			w.get(who, "deadletters?"+query, &letters)
			var values []json.RawMessage
			for _, l := range letters.Letters {
				values = append([]json.RawMessage{l.Value}, values...) // the newest comes first
			}
			return values
		},
		"topics/news/events": func(who, query string) (values []json.RawMessage) {
			var events api.TopicEvents
			w.get(who, "topics/news/events?"+query, &events)
			for _, e := range events.Events {
				values = append(values, e.Value)
			}
			return values
		},
	}
	var letters api.Letters
	w.get("operator", "deadletters", &letters)
	var events api.TopicEvents
	for len(events.Events) < 2 { // until the topic has taken them
		w.get("operator", "topics/news/events", &events)
	}
	if len(letters.Letters) != 2 || len(events.Events) != 2 {
		t.Fatalf("expected two letters and two events, found %d and %d", len(letters.Letters), len(events.Events))
	}
	one := map[string]string{ // asks for the large value alone
		"runs/s/history": "at=s1", "runs/s/values": "name=v1",
		"deadletters":        fmt.Sprint("number=", letters.Letters[0].Number),
		"topics/news/events": fmt.Sprint("number=", events.Events[1].Number),
	}
	for path, values := range pages {
		t.Run(path, func(t *testing.T) {
			found := values("operator", "")
			if len(found) != 2 {
				t.Fatalf("expected 2 values, found %d", len(found))
			}
			if why, n := replaced(t, found[0]); why != "" || n != small {
				t.Errorf("the small value: expected %d bytes, found %q %d", small, why, n)
			}
			if why, n := replaced(t, found[1]); why != "cut" || n < large || n > large+100 {
				t.Errorf("the large value: expected that about %d bytes are cut, found %q %d", large, why, n)
			}
			if found := values("operator", one[path]); len(found) != 1 || len(found[0]) != large {
				t.Errorf("%s: expected the whole value of %d bytes, found %d values", one[path], large, len(found))
			}
			for query, want := range map[string]int{"": 2, one[path]: 1} {
				before := s.bytes.Load()
				found = values("viewer", query)
				if len(found) != want {
					t.Errorf("%s as a viewer: expected %d values, found %d", query, want, len(found))
				}
				for _, value := range found {
					if why, n := replaced(t, value); why != "redacted" || n < small {
						t.Errorf("%s as a viewer: expected a redacted value, found %q %d", query, why, n)
					}
				}
				if read := s.bytes.Load() - before; path != "topics/news/events" && read > 8<<10 {
					t.Errorf("%s as a viewer: %d bytes of values were read", query, read)
				}
			}
		})
	}
}

// TestHistoryEndsAPageWithItsBytes: a history of many values comes in pages of some MiB, each value once.
func TestHistoryEndsAPageWithItsBytes(t *testing.T) {
	w := newWorld(t, true)
	lengths := make([]int, 300)
	for i := range lengths {
		lengths[i] = 60 << 10
	}
	if _, err := sized.Start(t.Context(), w.engine, lengths, stet.ID("s")); err != nil {
		t.Fatal(err)
	}
	w.becomes("s", store.Suspended)
	seen, pages, after := map[string]bool{}, 0, ""
	for pages == 0 || after != "" {
		r := w.do("operator", "GET", "runs/s/history?after="+after, nil)
		data, err := io.ReadAll(r.Body)
		if err != nil || len(data) > 9<<20 {
			t.Fatalf("a page has %d bytes, %v", len(data), err)
		}
		var h api.History
		if err := json.Unmarshal(data, &h); err != nil {
			t.Fatal(err)
		}
		for _, e := range h.Entries {
			if e.Kind == "step" && (seen[e.Location] || len(e.Value) != 60<<10) {
				t.Errorf("%s comes again, or has %d bytes", e.Location, len(e.Value))
			}
			seen[e.Location] = true
		}
		pages, after = pages+1, h.Next
	}
	if pages < 3 || len(seen) < len(lengths) {
		t.Errorf("%d entries came in %d pages", len(seen), pages)
	}
	var h api.History
	w.get("operator", "runs/s/history?limit=10&values=none", &h)
	if len(h.Entries) != 10 || h.Next == "" {
		t.Errorf("without values a page has %d entries, next %q", len(h.Entries), h.Next)
	}
}

// TestTopicPages: the last events come first, and older ones by next.
func TestTopicPages(t *testing.T) {
	w := newWorld(t, true)
	for i := range 5 {
		_, err := (stet.Topic[int]{Name: "news"}).Publish(t.Context(), w.engine, i)
		if err != nil {
			t.Fatal(err)
		}
	}
	var all, page api.TopicEvents
	for len(all.Events) < 5 { // until the topic has taken them
		w.get("viewer", "topics/news/events", &all)
	}
	var got []string
	for before := store.ItemNo(0); len(got) == 0 || before != 0; before = page.Next {
		page = api.TopicEvents{}
		w.get("operator", fmt.Sprintf("topics/news/events?limit=2&before=%d", before), &page)
		var part []string
		for _, e := range page.Events {
			part = append(part, string(e.Value))
		}
		got = append(part, got...)
	}
	if want := "0 1 2 3 4"; strings.Join(got, " ") != want {
		t.Errorf("expected %s, found %v", want, got)
	}
	w.refused("viewer", "GET", "topics/news/events?before=-1", nil, "invalid")
}

// inflated is a store whose runs have inputs of so many bytes, which it makes when they are read.
type inflated struct {
	store.Store
	size int
	read atomic.Int64 // inputs
}

func (s *inflated) List(ctx context.Context, f store.Filter) (store.Page, error) {
	page, err := s.Store.List(ctx, f)
	for i := range page.Runs {
		r := &page.Runs[i]
		r.InputSize = s.size
		if r.Input = nil; err == nil {
			if input, _ := f.Keeps(r); input {
				s.read.Add(1)
				r.Input = append([]byte{stet.JSON.Format()}, `"`+text(s.size-1)+`"`...)
			}
		}
	}
	return page, err
}

// allocated returns how many bytes fn allocates, in all.
func allocated(fn func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// dropped is an answer that is counted and not kept.
type dropped struct {
	header        http.Header
	status, bytes int
}

func (d *dropped) Header() http.Header { return d.header }

func (d *dropped) WriteHeader(status int) { d.status = status }

func (d *dropped) Write(p []byte) (int, error) {
	if d.status == 0 {
		d.status = http.StatusOK
	}
	d.bytes += len(p)
	return len(p), nil
}

// TestLargeValuesTakeNoMemory: what a page of 1,000 runs, and a follower of 100, allocate does not grow with the inputs
// of 1 MiB.
func TestLargeValuesTakeNoMemory(t *testing.T) {
	s := &inflated{Store: memory.New(), size: 1 << 20}
	w := newWorldOn(t, s, false)
	for i := range 1000 {
		w.started("order", fmt.Sprint("o-", i), "")
	}
	for _, who := range []string{"operator", "viewer"} {
		var answer int
		page := func() { // by the server alone: w.do keeps the answer, and checks it by the document
			r := httptest.NewRequest(http.MethodGet, "/api/v1/runs?limit=1000", nil)
			r.Header.Set("Authorization", "Bearer "+who)
			dropped := &dropped{header: http.Header{}}
			w.handler.ServeHTTP(dropped, r)
			if answer = dropped.bytes; dropped.status != http.StatusOK || answer < 100_000 {
				t.Errorf("a page has %d bytes, %d", answer, dropped.status)
			}
		}
		page() // what is made once
		n := allocated(page)
		t.Logf("a page of 1,000 runs with inputs of 1 MiB, as %s: %d KiB are allocated, the answer has %d KiB", who, n>>10,
			answer>>10)
		if n > 16<<20 {
			t.Errorf("a page as %s allocates %d MiB", who, n>>20)
		}
	}
	if n := s.read.Load(); n != 0 {
		t.Errorf("%d inputs were read", n)
	}
	const followers = 10
	reads := live.New(w.engine)
	f, err := store.ParseFilter("")
	if err != nil {
		t.Fatal(err)
	}
	f.Limit, f.Values = 100, true
	told := 0
	n := allocated(func() {
		for range followers {
			v := view.New(w.engine, identities["operator"], nil)
			follower, err := reads.Follow(v, live.Subjects{Lists: []store.Filter{f}, Names: []string{""}}, "")
			if err != nil {
				t.Fatal(err)
			}
			follower.Tell = func(string, string, any) error { told++; return nil }
			if err := follower.Round(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	t.Logf("a follower of 100 runs with inputs of 1 MiB: %d KiB are allocated", n/followers>>10)
	if told != followers || n > followers*8<<20 {
		t.Errorf("%d followers were told %d times, and have allocated %d MiB", followers, told, n>>20)
	}
}

// TestLargeInputOfAFollowedRun: a follower of a run gets its large input cut, and a viewer's has none read.
func TestLargeInputOfAFollowedRun(t *testing.T) {
	s := &inflated{Store: memory.New(), size: 100 << 10}
	w := newWorldOn(t, s, false)
	w.started("order", "o", "")
	reads := live.New(w.engine)
	for who, want := range map[string]string{"operator": "cut", "viewer": "redacted"} {
		follower, err := reads.Follow(view.New(w.engine, identities[who], nil), live.Subjects{Runs: []string{"o"}}, "")
		if err != nil {
			t.Fatal(err)
		}
		runs := 0
		follower.Tell = func(event, _ string, data any) error {
			if event != "run" {
				return nil
			}
			runs++
			var run api.Run
			err := json.Unmarshal(data.(json.RawMessage), &run)
			if why, n := replaced(t, run.Input); why != want || n != 100<<10 {
				err = errors.Join(err, fmt.Errorf("as %s: expected %s, found %q %d", who, want, why, n))
			}
			return err
		}
		if err := follower.Round(t.Context()); err != nil || runs != 1 {
			t.Errorf("as %s: told %d times, %v", who, runs, err)
		}
	}
	if n := s.read.Load(); n != 0 {
		t.Errorf("the input was read %d times", n)
	}
	var run api.Run
	if w.get("operator", "runs/o", &run); len(run.Input) != 100<<10-1 {
		t.Errorf("the run has %d bytes", len(run.Input))
	}
}

// TestInfoTakesNoLimitAway: what bounds exports, streams and bulks is not made again when somebody asks what there is.
func TestInfoTakesNoLimitAway(t *testing.T) {
	w := newWorld(t, false)
	w.started("order", "o", "x")
	hold := &held{begun: make(chan struct{}), release: make(chan struct{})}
	ended := make(chan struct{})
	for range 2 { // the half of one identity
		go func() {
			defer func() { ended <- struct{}{} }()
			w.handler.ServeHTTP(hold, getAs("operator", "runs/o/export"))
		}()
		<-hold.begun
	}
	w.refused("operator", "GET", "runs/o/export", nil, api.CodeBusy)
	w.get("viewer", "info", nil)
	w.refused("operator", "GET", "runs/o/export", nil, api.CodeBusy)
	if r := w.do("admin", "GET", "runs/o/export", nil); r.StatusCode != 200 {
		t.Errorf("another identity gets %d", r.StatusCode)
	}
	close(hold.release)
	<-ended
	<-ended
	if r := w.do("operator", "GET", "runs/o/export", nil); r.StatusCode != 200 {
		t.Errorf("after the exports the status is %d", r.StatusCode)
	}
}

// held is the writer of an answer that nobody reads until release is closed.
type held struct {
	begun, release chan struct{}
}

func (h *held) Header() http.Header { return http.Header{} }
func (h *held) WriteHeader(int)     {}

func (h *held) Write(data []byte) (int, error) {
	select {
	case h.begun <- struct{}{}:
		<-h.release
	case <-h.release:
	}
	return len(data), nil
}

// getAs returns a request of an identity.
func getAs(who, path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/"+path, nil)
	r.Header.Set("Authorization", "Bearer "+who)
	return r
}
