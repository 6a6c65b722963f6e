package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

// preview asks which runs a verb would reach.
func (w *world) preview(who string, b api.BulkRequest) *api.BulkPreview {
	w.t.Helper()
	var p api.BulkPreview
	w.ask(who, "POST", "bulk/preview", b, http.StatusOK, &p)
	return &p
}

// lines reads the answer to a bulk.
func (w *world) lines(r *http.Response) (map[string]api.BulkResult, api.BulkEnd) {
	w.t.Helper()
	results, end := map[string]api.BulkResult{}, api.BulkEnd{}
	d := json.NewDecoder(r.Body)
	for {
		var line json.RawMessage
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			return results, end
		} else if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasPrefix(string(line), `{"end":`) {
			if err := json.Unmarshal(line, &end); err != nil {
				w.t.Fatal(err)
			}
			continue
		}
		var one api.BulkResult
		if err := json.Unmarshal(line, &one); err != nil || one.ID == "" || end.End {
			w.t.Fatalf("%v: %s", err, line)
		}
		results[one.ID] = one
	}
}

// act acts once by the token of a preview.
func (w *world) act(who, token string) (map[string]api.BulkResult, api.BulkEnd) {
	w.t.Helper()
	r := w.do(who, "POST", "bulk", api.Bulk{Token: token})
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "application/x-ndjson" {
		w.t.Fatalf("status %d, %s", r.StatusCode, r.Header.Get("Content-Type"))
	}
	return w.lines(r)
}

// waiting starts orders and waits until each waits for its message.
func (w *world) waiting(n int) {
	w.t.Helper()
	for i := range n {
		w.started("order", fmt.Sprintf("o-%d", i), "apple")
	}
	w.suspended(n)
}

func (w *world) suspended(n int) {
	w.t.Helper()
	for begun := time.Now(); ; {
		tallies, err := w.engine.Runs().Count(w.t.Context(), store.Filter{Statuses: []store.Status{store.Suspended}})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(tallies) == 1 && tallies[0].Runs == int64(n) {
			return
		}
		if time.Since(begun) > time.Minute {
			w.t.Fatalf("expected %d suspended runs, found %+v", n, tallies)
		}
	}
}

// TestBulkActsOnWhatWasShown: the preview counts and shows without acting; the bulk acts on
// just these runs, tells what became of each, and leaves its name in the audit of each.
func TestBulkActsOnWhatWasShown(t *testing.T) {
	w := newWorld(t, true)
	w.waiting(70) // more than are acted on at once
	request := api.BulkRequest{Query: "workflow=order", Verb: "cancel", Act: api.Act{Reason: "the shop is closed"}}
	p := w.preview("operator", request)
	if p.Runs != 70 || p.More || len(p.Examples) != 20 || p.Examples[0].ID != "o-69" ||
		p.Examples[0].Status != "suspended" || p.Examples[0].Workflow != "order" {
		t.Fatalf("the preview: %+v", p)
	}
	w.suspended(70) // nothing has happened
	w.started("order", "later", "pear")
	w.suspended(71)
	if _, err := w.engine.Runs().Cancel(t.Context(), "o-3", stet.Act{By: "bob"}); err != nil {
		t.Fatal(err)
	}
	results, end := w.act("operator", p.Token)
	want := api.BulkEnd{End: true, Done: 69, Refused: 1}
	if len(results) != 70 || end != want || results["o-3"].Code != "ended" || !results["o-4"].Done {
		t.Errorf("expected %+v, found %+v, of o-3 %+v, of o-4 %+v", want, end, results["o-3"], results["o-4"])
	}
	var audits api.Audits
	w.get("operator", "runs/o-4/audit", &audits)
	if text := fmt.Sprintf("%+v", audits); len(audits.Audit) != 1 || !strings.Contains(text, "olga") ||
		!strings.Contains(text, "the shop is closed") {
		t.Errorf("the audit: %s", text)
	}
	if info, err := w.engine.Runs().Info(t.Context(), "later"); err != nil || info.Status != store.Suspended {
		t.Errorf("a run that was started after the preview: %+v, %v", info, err)
	}
	// Once more: all have ended, so each refuses; of a query that they match no more, none is asked.
	if _, end = w.act("operator", p.Token); end != (api.BulkEnd{End: true, Refused: 70}) {
		t.Errorf("the second time: %+v", end)
	}
	p = w.preview("operator", api.BulkRequest{Query: "status=suspended", Verb: "cancel"})
	w.act("operator", p.Token)
	if results, end = w.act("operator", p.Token); len(results) != 0 || end != (api.BulkEnd{End: true}) {
		t.Errorf("the second time: %+v, %+v", results, end)
	}
}

// TestBulkWithoutAnOwner: nobody decides, so the requests stand, and are said to.
func TestBulkWithoutAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		w.started("order", "o-1", "apple")
		p := w.preview("operator", api.BulkRequest{Verb: "pause"})
		results, end := w.act("operator", p.Token)
		if !results["o-1"].Pending || end != (api.BulkEnd{End: true, Pending: 1}) {
			t.Errorf("%+v, %+v", results, end)
		}
		time.Sleep(9*time.Minute + 30*time.Second)
		w.act("operator", p.Token)
		time.Sleep(time.Minute)
		w.refused("operator", "POST", "bulk", api.Bulk{Token: p.Token}, "invalid")
	})
}

// TestBulkIsWithinTheLimit: neither preview nor bulk reach, nor tell of, other workflows.
func TestBulkIsWithinTheLimit(t *testing.T) {
	w := newWorld(t, true)
	w.started("order", "o-1", "apple")
	w.started("broken", "b-1", "secret pear")
	if _, err := w.engine.Runs().Wait(t.Context(), "b-1"); err != nil {
		t.Fatal(err)
	}
	w.suspended(1)
	p := w.preview("limited", api.BulkRequest{Verb: "terminate"})
	if p.Runs != 1 || len(p.Examples) != 1 || p.Examples[0].ID != "o-1" {
		t.Fatalf("the preview: %+v", p)
	}
	if p := w.preview("limited", api.BulkRequest{Query: "id=b-1", Verb: "retry"}); p.Runs != 0 || len(p.Examples) != 0 {
		t.Errorf("out of the limit: %+v", p)
	}
	w.refused("limited", "POST", "bulk/preview", api.BulkRequest{Verb: "pause", Act: api.Act{Children: true}}, "forbidden")
	// A token is of its identity, and of what that may: nobody else can use it, nor change it.
	for _, who := range []string{"operator", "admin"} {
		w.refused(who, "POST", "bulk", api.Bulk{Token: p.Token}, "invalid")
	}
	for _, token := range []string{"", "x", p.Token[:len(p.Token)-4], p.Token[:20] + "A" + p.Token[21:]} {
		if token != p.Token {
			w.refused("limited", "POST", "bulk", api.Bulk{Token: token}, "invalid")
		}
	}
	former := *identities["limited"]
	t.Cleanup(func() { *identities["limited"] = former })
	identities["limited"].Workflows = []string{"order", "broken"}
	w.refused("limited", "POST", "bulk", api.Bulk{Token: p.Token}, "invalid")
	identities["limited"].Workflows = former.Workflows
	results, end := w.act("limited", p.Token)
	if len(results) != 1 || end.Done != 1 {
		t.Errorf("%+v, %+v", results, end)
	}
	for _, b := range []api.BulkRequest{{Verb: "explode"}, {Verb: "rewind"}, {}, {Query: "nonsense", Verb: "retry"}} {
		w.refused("operator", "POST", "bulk/preview", b, "invalid")
	}
}

// TestBulkByTheClient calls back with each run, and says that an answer was cut off.
func TestBulkByTheClient(t *testing.T) {
	w := newWorld(t, true)
	w.waiting(3)
	cut := false
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if cut && strings.HasSuffix(r.URL.Path, "/bulk") {
			rw.Header().Set("Content-Type", "application/x-ndjson")
			_, _ = io.WriteString(rw, `{"id":"o-1","done":true}`+"\n")
			return
		}
		w.handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(web.Close)
	c, err := client.New(web.URL, client.Options{Token: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.BulkPreview(t.Context(), api.BulkRequest{Verb: "cancel"})
	if err != nil || p.Runs != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
	var seen []string
	each := func(r api.BulkResult) { seen = append(seen, r.ID) }
	end, err := c.Bulk(t.Context(), p.Token, each)
	slices.Sort(seen)
	if err != nil || end.Done != 3 || !slices.Equal(seen, []string{"o-0", "o-1", "o-2"}) {
		t.Errorf("%+v, %v, %v", end, err, seen)
	}
	cut = true
	if _, err := c.Bulk(t.Context(), p.Token, nil); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("an answer that was cut off: %v", err)
	}
	if _, err := c.BulkPreview(t.Context(), api.BulkRequest{}); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("no verb: %v", err)
	}
}
