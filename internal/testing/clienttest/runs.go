package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

// byAnyID: a run is started, found, answered and awaited, whatever its ID looks like.
func byAnyID(t *testing.T, s site) {
	c, e := s.as(t, "operator")
	for _, id := range []string{"o-1", "a/b c", "..", "~x", "ü?#%2F", strings.Repeat("x", 255)} {
		started, err := c.Start(t.Context(), "", api.Start{Workflow: "order", Input: json.RawMessage(`"pear"`), ID: id})
		if err != nil || started != id {
			t.Fatalf("start %q: %q, %v", id, started, err)
		}
		if err := c.Send(t.Context(), id, "approved", "k1", api.Send{Value: json.RawMessage(`"ann"`)}); err != nil {
			t.Fatalf("send to %q: %v", id, err)
		}
		run, err := c.Wait(t.Context(), id)
		if err != nil || run.ID != id || string(run.Output) != `"pear by ann"` || run.Headers["stet.by"] != "ada" {
			t.Fatalf("wait for %q: %+v, %v", id, run, err)
		}
		history, err := c.History(t.Context(), id, "", 0)
		if err != nil || len(history.Entries) != 1 || history.Entries[0].Location != "approved" {
			t.Fatalf("history of %q: %+v, %v", id, history, err)
		}
	}
	list, err := c.Runs(t.Context(), "status=succeeded", client.Page{Limit: 4})
	if err != nil || len(list.Runs) != 4 || list.Next == "" {
		t.Fatalf("a page: %+v, %v", list, err)
	}
	rest, err := c.Runs(t.Context(), "status=succeeded", client.Page{Limit: 4, Cursor: list.Next})
	if err != nil || len(rest.Runs) != 2 || rest.Next != "" {
		t.Fatalf("the next page: %+v, %v", rest, err)
	}
	_, err = c.Runs(t.Context(), "status=failed", client.Page{Cursor: list.Next})
	if !errors.Is(err, store.ErrBadCursor) {
		t.Errorf("a cursor of another query: %v", err)
	}
	if info, err := e.Runs().Info(t.Context(), "o-1"); err != nil || info.Headers["stet.by"] != "ada" {
		t.Errorf("the engine says: %+v, %v", info, err)
	}
}

// errorsOfTheEngine, so that a program branches in the same way.
func errorsOfTheEngine(t *testing.T, s site) {
	c, _ := s.as(t, "operator")
	ctx := t.Context()
	if _, err := c.Start(ctx, "", api.Start{Workflow: "order", ID: "o-1", Input: json.RawMessage(`"a"`)}); err != nil {
		t.Fatal(err)
	}
	started := func(s api.Start) error { _, err := c.Start(ctx, "", s); return err }
	acted := func(verb, id string) error {
		_, err := c.Act(ctx, verb, id, api.Act{Reason: "test"}, time.Minute)
		return err
	}
	run := func(id string) error { _, err := c.Run(ctx, id); return err }
	for name, row := range map[string]struct{ err, want error }{
		"no run":      {run("none"), stet.ErrNotFound},
		"no workflow": {started(api.Start{Workflow: "none"}), stet.ErrUnknownWorkflow},
		"exists":      {started(api.Start{Workflow: "order", ID: "o-1", Input: json.RawMessage(`"b"`)}), stet.ErrExists},
		"invalid":     {started(api.Start{Workflow: "order", ID: "stet.x"}), stet.ErrInvalid},
		"refused":     {acted(client.Retry, "o-1"), stet.ErrRefused},
		"no queue":    {started(api.Start{Workflow: "order", Queue: &api.QueuePlace{Name: "none"}}), stet.ErrNoQueue},
		"cancelled":   {acted(client.Cancel, "o-1"), nil},
		"promise":     {c.Resolve(ctx, api.Resolve{Token: "none"}), stet.ErrNotFound},
	} {
		if !errors.Is(row.err, row.want) {
			t.Errorf("%s: expected %v, found %v", name, row.want, row.err)
		}
	}
	if _, err := c.Wait(ctx, "o-1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(ctx, "o-1", "approved", "", api.Send{}); !errors.Is(err, stet.ErrTerminal) {
		t.Errorf("send to a run that has ended: %v", err)
	}
	audit, err := c.Audit(ctx, "o-1")
	if err != nil || len(audit.Audit) != 1 || audit.Audit[0].Who != "ada" || audit.Audit[0].Why != "test" {
		t.Errorf("the audit: %+v, %v", audit, err)
	}
}

// keysOfTheEngine: what is repeated with the same key changes nothing.
func keysOfTheEngine(t *testing.T, s site) {
	c, e := s.as(t, "operator")
	start := api.Start{Workflow: "order", Input: json.RawMessage(`"a"`)}
	first, err := c.Start(t.Context(), "key", start)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Start(t.Context(), "key", start)
	if err != nil || again != first || !strings.HasPrefix(first, "k-") {
		t.Errorf("the same start: %q and %q, %v", first, again, err)
	}
	start.Input = json.RawMessage(`"b"`)
	if _, err := c.Start(t.Context(), "key", start); !errors.Is(err, stet.ErrExists) {
		t.Errorf("another input with the same key: %v", err)
	}
	if other, err := c.Start(t.Context(), "key 2", start); err != nil || other == first {
		t.Errorf("another key: %q, %v", other, err)
	}
	for range 2 {
		if err := c.Send(t.Context(), first, "unheard", "once", api.Send{Value: json.RawMessage("1")}); err != nil {
			t.Fatal(err)
		}
	}
	inbox, err := c.Inbox(t.Context(), first)
	if err != nil || len(inbox.Items) != 1 {
		t.Errorf("the inbox: %+v, %v", inbox, err)
	}
	tallies, err := e.Runs().Count(t.Context(), store.Filter{})
	if err != nil || len(tallies) == 0 {
		t.Fatal(err)
	}
	var runs int64
	for _, tally := range tallies {
		runs += tally.Runs
	}
	if runs != 2 {
		t.Errorf("expected 2 runs, found %d", runs)
	}
}

// revoked within a second.
func revoked(t *testing.T, s site) {
	c, e := s.as(t, "operator")
	info, err := c.Info(t.Context())
	if err != nil || info.Identity.Name != "ada" {
		t.Fatalf("%+v, %v", info, err)
	}
	list, err := stet.TokensOf(e).List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := stet.TokensOf(e).Revoke(t.Context(), list[0].ID, stet.Act{By: "bob"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		var refused *client.Error
		if _, err := c.Info(ctx); errors.As(err, &refused) && refused.Code == api.CodeUnauthenticated {
			return
		}
	}
	t.Error("a revoked token still counts")
}
