package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	w.started("order", "o-1", "apple")
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
	follow(t, address, "admin", "", func(e event) bool { return e.name == "page" })
	lists, counts := s.lists.Load()-before[0], s.counts.Load()-before[1]
	if lists < 7 || counts < 3 {
		t.Errorf("expected lists and counts, found %d and %d", lists, counts)
	}
}
