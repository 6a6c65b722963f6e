package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

// until follows a run until a condition holds.
func until(t *testing.T, c *client.Client, id string, is func(*api.Run) bool) *api.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := errors.New("enough")
	var run api.Run
	err := c.Follow(ctx, client.Subjects{Runs: []string{id}}, func(e client.Event) error {
		if e.Name != "run" {
			return nil
		}
		run = api.Run{}
		if err := json.Unmarshal(e.Data, &run); err != nil {
			return err
		}
		if is(&run) {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatalf("run %s is never as expected: %v, %+v", id, err, run)
	}
	return &run
}

func waiting(r *api.Run) bool { return r.Status == store.Suspended }

// started starts a parcel.
func started(t *testing.T, c *client.Client, id, what string) {
	t.Helper()
	_, err := c.Start(t.Context(), "", api.Start{Workflow: "parcel", ID: id, Input: fmt.Appendf(nil, "%q", what)})
	ok(t, "start", err)
}

// reads: what a run shows, and its children, are what the engine says; a promise is assigned.
func reads(t *testing.T, s site) {
	c, e := s.as(t, "operator")
	ctx := t.Context()
	started(t, c, "p-1", "books")
	until(t, c, "p-1", func(r *api.Run) bool { return waiting(r) && r.Tags["what"] == "books" })
	history, err := c.History(ctx, "p-1", "", 0)
	ok(t, "history", err)
	said, err := e.Runs().History(ctx, "p-1", stet.HistoryQuery{Values: true})
	ok(t, "history of the engine", err)
	if len(history.Entries) != len(said) || len(said) < 3 {
		t.Fatalf("expected %d entries, found %d", len(said), len(history.Entries))
	}
	var paged []*api.Entry
	for after := ""; ; {
		page, err := c.History(ctx, "p-1", after, 1)
		ok(t, "page of the history", err)
		paged = append(paged, page.Entries...)
		if after = page.Next; after == "" {
			break
		}
	}
	for i := range said {
		want, err := json.Marshal(api.EntryOf(&said[i]))
		ok(t, "entry", err)
		for what, e := range map[string]*api.Entry{"whole": history.Entries[i], "paged": paged[i]} {
			if found, err := json.Marshal(e); err != nil || string(found) != string(want) {
				t.Errorf("%s: expected %s, found %s, %v", what, want, found, err)
			}
		}
	}
	if v, err := c.Value(ctx, "p-1", "weigh"); err != nil || string(v) != `"books: 1 kg"` {
		t.Errorf("a value: %s, %v", v, err)
	}
	shown, err := c.Shown(ctx, "p-1")
	if err != nil || len(shown.Values) != 1 || string(shown.Values[0].Value) != `"depot"` || len(shown.Streams) != 1 {
		t.Errorf("what is shown: %+v, %v", shown, err)
	}
	items, err := c.Items(ctx, "p-1", "places", 1, 0)
	if err != nil || len(items.Items) != 2 || items.Items[0].Position != 2 {
		t.Errorf("items: %+v, %v", items, err)
	}
	shape, err := c.Shape(ctx, "p-1")
	if err != nil || shape == nil {
		t.Errorf("the shape: %+v, %v", shape, err)
	}
	children, err := c.Children(ctx, "p-1", client.Page{})
	if err != nil || len(children.Runs) != 1 || children.Runs[0].Workflow != "order" {
		t.Fatalf("children: %+v, %v", children, err)
	}
	counts, err := c.Count(ctx, "workflow=parcel")
	if err != nil || len(counts.Counts) != 1 || counts.Counts[0].Runs != 1 {
		t.Errorf("counts: %+v, %v", counts, err)
	}
	if list, err := c.Runs(ctx, "tag.what=books", client.Page{}); err != nil || len(list.Runs) != 1 {
		t.Errorf("by a tag: %+v, %v", list, err)
	}
	promises, err := c.Promises(ctx, "p-1")
	if err != nil || len(promises.Promises) != 1 || promises.Promises[0].Token == "" {
		t.Fatalf("promises: %+v, %v", promises, err)
	}
	token := promises.Promises[0].Token
	ok(t, "resolve", c.Resolve(ctx, api.Resolve{Token: token, Value: json.RawMessage(`"bob"`), Reason: "he was there"}))
	if err := c.Reject(ctx, api.Reject{Token: token, Message: "no"}); !errors.Is(err, stet.ErrAlreadyResolved) {
		t.Errorf("a second answer: %v", err)
	}
	ok(t, "send", c.Send(ctx, children.Runs[0].ID, "approved", "", api.Send{Value: json.RawMessage(`"ann"`)}))
	run, err := c.Wait(ctx, "p-1")
	if err != nil || string(run.Output) != `"books: 1 kg, signed by bob"` {
		t.Errorf("the end: %+v, %v", run, err)
	}
	// Who has assigned a promise, and who has sent a message, stays with what it became.
	entry := func(run, location string) api.Entry {
		history, err := c.History(ctx, run, "", 0)
		ok(t, "history of "+run, err)
		for _, e := range history.Entries {
			if e.Location == location {
				return *e
			}
		}
		return api.Entry{}
	}
	if e := entry("p-1", promises.Promises[0].Location); e.By != "ada" || e.Why != "he was there" ||
		string(e.Value) != `"bob"` {
		t.Errorf("the promise: %+v", e)
	}
	if e := entry(children.Runs[0].ID, "approved"); len(e.Messages) != 1 || e.Messages[0].By != "ada" {
		t.Errorf("the message: %+v", e)
	}
}

// repairs: what an operator does to runs.
func repairs(t *testing.T, s site) {
	c, _ := s.as(t, "operator")
	ctx := t.Context()
	started(t, c, "p-1", "heavy")
	run, err := c.Wait(ctx, "p-1")
	if err != nil || run.Status != store.Failed || run.Error == nil ||
		!strings.Contains(run.Error.Message, "too heavy") {
		t.Fatalf("%+v, %v", run, err)
	}
	if p, err := c.Preview(ctx, "p-1", "retry", ""); err != nil || p == nil {
		t.Errorf("preview: %+v, %v", p, err)
	}
	granted := func(what string, done bool, err error) {
		t.Helper()
		if err != nil || !done {
			t.Fatalf("%s: %t, %v", what, done, err)
		}
	}
	done, err := c.Edit(ctx, "p-1", api.Edit{Step: "weigh", Result: json.RawMessage(`"by hand"`)}, time.Minute)
	granted("edit", done, err)
	until(t, c, "p-1", waiting)
	done, err = c.Act(ctx, client.Pause, "p-1", api.Act{Reason: "holidays"}, time.Minute)
	granted("pause", done, err)
	done, err = c.Act(ctx, client.Resume, "p-1", api.Act{}, time.Minute)
	granted("resume", done, err)
	done, err = c.Act(ctx, client.Cancel, "p-1", api.Act{Reason: "too late"}, time.Minute)
	granted("cancel", done, err)
	if run, err = c.Wait(ctx, "p-1"); err != nil || run.Status != store.Cancelled {
		t.Fatalf("cancelled: %+v, %v", run, err)
	}
	done, err = c.Rewind(ctx, "p-1", api.Rewind{Before: "/"}, time.Minute)
	granted("rewind", done, err)
	if run, err = c.Wait(ctx, "p-1"); err != nil || run.Status != store.Failed || run.Generation == 0 {
		t.Fatalf("rewound: %+v, %v", run, err)
	}
	fork, err := c.Fork(ctx, "p-1", "key", api.Fork{Before: "/"})
	ok(t, "fork", err)
	if again, err := c.Fork(ctx, "p-1", "key", api.Fork{Before: "/"}); err != nil || again != fork {
		t.Errorf("the same fork: %q and %q, %v", fork, again, err)
	}
	if run, err = c.Wait(ctx, fork); err != nil || run.Status != store.Failed {
		t.Errorf("the fork: %+v, %v", run, err)
	}
	if ids, err := c.Deletable(ctx, fork, false); err != nil || len(ids) != 1 {
		t.Errorf("deletable: %q, %v", ids, err)
	}
	if ids, err := c.Delete(ctx, fork, api.Act{Reason: "a test"}); err != nil || len(ids) != 1 || ids[0] != fork {
		t.Errorf("delete: %q, %v", ids, err)
	}
	if _, err := c.Run(ctx, fork); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("after the deletion: %v", err)
	}
	if list, err := c.Deletions(ctx); err != nil || len(list.Deletions) != 1 {
		t.Errorf("deletions: %+v, %v", list, err)
	}
	started(t, c, "p-2", "light")
	until(t, c, "p-2", waiting)
	done, err = c.Act(ctx, client.Terminate, "p-2", api.Act{Reason: "lost"}, time.Minute)
	granted("terminate", done, err)
	audit, err := c.Audit(ctx, "p-1")
	if err != nil || len(audit.Audit) != 5 {
		t.Errorf("the audit: %+v, %v", audit, err)
	}
}

// bulk: a verb on all that match, once.
func bulk(t *testing.T, s site) {
	c, _ := s.as(t, "operator")
	ctx := t.Context()
	var starts []api.Start
	for i := range 5 {
		starts = append(starts, api.Start{Workflow: "order", ID: fmt.Sprint("o-", i), Input: json.RawMessage(`"tea"`)})
	}
	list, err := c.StartAll(ctx, starts)
	if err != nil || len(list) != 5 || list[4].ID != "o-4" {
		t.Fatalf("start all: %+v, %v", list, err)
	}
	for i := range 5 {
		until(t, c, fmt.Sprint("o-", i), waiting)
	}
	p, err := c.BulkPreview(ctx, api.BulkRequest{Query: "workflow=order", Verb: "cancel"})
	if err != nil || p.Runs != 5 {
		t.Fatalf("preview: %+v, %v", p, err)
	}
	seen := 0
	end, err := c.Bulk(ctx, p.Token, func(r api.BulkResult) {
		if seen++; !r.Done {
			t.Errorf("%+v", r)
		}
	})
	if err != nil || end.Done != 5 || seen != 5 {
		t.Errorf("%+v after %d, %v", end, seen, err)
	}
	for i := range 5 {
		if run, err := c.Wait(ctx, fmt.Sprint("o-", i)); err != nil || run.Status != store.Cancelled {
			t.Errorf("%+v, %v", run, err)
		}
	}
	if end, err := c.Bulk(ctx, p.Token, nil); err != nil || end.Done != 0 || end.Refused != 5 {
		t.Errorf("the second time: %+v, %v", end, err)
	}
}

// sends: events of topics, each published once for a key.
func sends(t *testing.T, s site) {
	c, e := s.as(t, "operator")
	ctx := t.Context()
	var ids []string
	for range 2 {
		id, err := c.Publish(ctx, "jobs", "k", api.Publish{Mode: "consumed", Send: api.Send{Value: json.RawMessage("7")}})
		ok(t, "publish", err)
		ids = append(ids, id)
	}
	if ids[0] != ids[1] {
		t.Errorf("one key, two events: %q", ids)
	}
	// The topic's writer takes the event: its removal is decided after that.
	done, err := c.OnTopic("jobs").Remove(ctx, ids[0], "a test", time.Minute)
	if err != nil || !done {
		t.Fatalf("remove: %t, %v", done, err)
	}
	if events, err := c.OnTopic("jobs").Events(ctx); err != nil || len(events.Events) != 0 {
		t.Errorf("events: %+v, %v", events, err)
	}
	if info, err := c.OnTopic("jobs").Info(ctx); err != nil || info.Accepted != 1 {
		t.Errorf("the topic: %+v, %v", info, err)
	}
	if topics, err := e.Topics().List(ctx); err != nil || len(topics) != 1 {
		t.Errorf("topics: %+v, %v", topics, err)
	}
	if _, err := c.Publish(ctx, "jobs", "", api.Publish{Mode: "both"}); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("an unknown mode: %v", err)
	}
}
