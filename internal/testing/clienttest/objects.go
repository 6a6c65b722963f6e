package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

func ok(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// queues: what the client asks for is what the engine then says.
func queues(t *testing.T, s site) {
	c, e := s.as(t, "admin")
	ctx := t.Context()
	ok(t, "create", c.OnQueue("mail").Set(ctx, api.SetQueue{Limits: api.Limits{Concurrency: 2}, Create: true}))
	ok(t, "pause", c.OnQueue("mail").Pause(ctx, "moving"))
	if q, err := e.Queues().Info(ctx, "mail"); err != nil || !q.Paused || q.Settings.Concurrency != 2 {
		t.Fatalf("%+v, %v", q, err)
	}
	ok(t, "resume", c.OnQueue("mail").Resume(ctx, ""))
	ok(t, "override", c.OnQueue("mail").Set(ctx, api.SetQueue{Limits: api.Limits{Concurrency: 5}}))
	if q, err := c.Queue(ctx, "mail"); err != nil || q.Paused || q.Concurrency != 5 {
		t.Fatalf("%+v, %v", q, err)
	}
	ok(t, "reset", c.OnQueue("mail").Reset(ctx, ""))
	list, err := c.Queues(ctx)
	if err != nil || len(list.Queues) != 1 || list.Queues[0].Concurrency != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	ok(t, "delete", c.OnQueue("mail").Delete(ctx, "gone"))
	if _, err := c.Queue(ctx, "mail"); !errors.Is(err, stet.ErrNoQueue) {
		t.Errorf("after the deletion: %v", err)
	}
}

// schedules likewise.
func schedules(t *testing.T, s site) {
	c, e := s.as(t, "admin")
	ctx := t.Context()
	hourly := api.SetSchedule{Workflow: "order", EveryMS: time.Hour.Milliseconds(), Input: json.RawMessage(`"tea"`)}
	ok(t, "create", c.OnSchedule("hourly").Set(ctx, hourly))
	ok(t, "pause", c.OnSchedule("hourly").Pause(ctx, "holidays"))
	if s, err := e.Schedules().Info(ctx, "hourly"); err != nil || !s.Schedule.Paused || s.PauseReason != "holidays" {
		t.Fatalf("%+v, %v", s, err)
	}
	ok(t, "resume", c.OnSchedule("hourly").Resume(ctx, ""))
	id, err := c.OnSchedule("hourly").Trigger(ctx, "now")
	if err != nil {
		t.Fatal(err)
	}
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		info, err := e.Runs().Info(wait, id)
		if err == nil && info.Workflow == "order" {
			break
		}
		if err != nil && !errors.Is(err, stet.ErrNotFound) {
			t.Fatal(err)
		}
	}
	now := time.Now()
	ok(t, "backfill", c.OnSchedule("hourly").Backfill(ctx, api.Backfill{From: now.Add(-3 * time.Hour), To: now}))
	if s, err := c.Schedule(ctx, "hourly"); err != nil || s.Workflow != "order" || s.Paused {
		t.Errorf("%+v, %v", s, err)
	}
	ok(t, "delete", c.OnSchedule("hourly").Delete(ctx, "gone"))
	if list, err := c.Schedules(ctx); err != nil || len(list.Schedules) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// lettersNodesTokens likewise.
func lettersNodesTokens(t *testing.T, s site) {
	c, e := s.as(t, "admin")
	ctx := t.Context()
	for _, id := range []string{"o-1", "o-2"} {
		if _, err := order.Start(ctx, e, "tea", stet.ID(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"unheard", "unheard", "approved"} {
		ok(t, "send", c.Send(ctx, "o-1", name, "", api.Send{Value: json.RawMessage(`"ann"`)}))
	}
	if _, err := c.Wait(ctx, "o-1"); err != nil {
		t.Fatal(err)
	}
	list, err := c.DeadLetters(ctx, client.Letters{Runs: []string{"o-1"}}, client.Page{})
	if err != nil || len(list.Letters) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	ok(t, "replay", c.ReplayDeadLetter(ctx, list.Letters[0].Number, api.Replay{Run: "o-2"}))
	ok(t, "remove", c.RemoveDeadLetter(ctx, list.Letters[1].Number, "old"))
	if list, err = c.DeadLetters(ctx, client.Letters{}, client.Page{}); err != nil || len(list.Letters) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if inbox, err := c.Inbox(ctx, "o-2"); err != nil || len(inbox.Items) != 1 {
		t.Errorf("the inbox of o-2: %+v, %v", inbox, err)
	}

	nodes, err := c.Nodes(ctx)
	if err != nil || len(nodes.Nodes) != 1 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	if err := c.DrainNode(ctx, "nobody", ""); !errors.Is(err, stet.ErrNotFound) && !errors.Is(err, stet.ErrRefused) {
		t.Errorf("drain of no node: %v", err)
	}
	if topics, err := c.Topics(ctx); err != nil || len(topics.Topics) != 0 {
		t.Errorf("%+v, %v", topics, err)
	}

	made, err := c.CreateToken(ctx, api.CreateToken{Name: "bob", Role: "viewer"})
	if err != nil || made.Token == "" {
		t.Fatalf("%+v, %v", made, err)
	}
	tokens, err := c.Tokens(ctx)
	if err != nil || len(tokens.Tokens) != 2 {
		t.Fatalf("%+v, %v", tokens, err)
	}
	for _, token := range tokens.Tokens {
		if token.Name == "bob" {
			ok(t, "revoke", c.RevokeToken(ctx, token.ID))
		}
	}
	if tokens, err = c.Tokens(ctx); err != nil || len(tokens.Tokens) != 1 {
		t.Errorf("%+v, %v", tokens, err)
	}
	hook := api.SetHook{Scheme: "hmac", Secrets: []string{"sixteen bytes or more"}, Publish: "jobs"}
	ok(t, "set a hook", c.SetHook(ctx, "a hook", hook))
	if hooks, err := c.Hooks(ctx); err != nil || len(hooks.Hooks) != 1 || hooks.Hooks[0].Name != "a hook" {
		t.Errorf("%+v, %v", hooks, err)
	}
	ok(t, "remove a hook", c.RemoveHook(ctx, "a hook", "done"))
	if err := c.RemoveHook(ctx, "a hook", "twice"); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("remove of no hook: %v", err)
	}
}

// follow is told of a run until it has ended, and goes on after an event.
func follow(t *testing.T, s site) {
	c, e := s.as(t, "operator")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := order.Start(ctx, e, "tea", stet.ID("o-1")); err != nil {
		t.Fatal(err)
	}
	enough, last, sent := errors.New("enough"), "", false
	err := c.Follow(ctx, client.Subjects{Runs: []string{"o-1"}}, func(event client.Event) error {
		last = event.ID
		var run api.Run
		if event.Name != "run" {
			return nil
		}
		if err := json.Unmarshal(event.Data, &run); err != nil {
			return err
		}
		if !sent {
			sent = true
			return c.Send(ctx, "o-1", "approved", "", api.Send{Value: json.RawMessage(`"ann"`)})
		}
		if run.Status == store.Succeeded {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || last == "" {
		t.Fatalf("%v after %q", err, last)
	}
	err = c.Follow(ctx, client.Subjects{Runs: []string{"o-1"}, Last: last}, func(event client.Event) error {
		if event.Name == "entry" {
			t.Errorf("an entry again: %s", event.Data)
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Errorf("the second time: %v", err)
	}
	if err := c.Follow(ctx, client.Subjects{Runs: []string{"nobody"}}, nil); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
	if err := c.Follow(ctx, client.Subjects{}, nil); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("of nothing: %v", err)
	}
}
