package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// digits is a value that JSON.parse changes: its numbers, and the order of its names.
const digits = `{"account":9007199254740993,"price":1.10,"of":{"20":-0,"10":1e400}}`

// ledger shows, sends, receives and returns the value with which it starts, as it is.
var ledger = stet.Define("ledger", func(ctx stet.Context, in json.RawMessage) (json.RawMessage, error) {
	if err := stet.Value[json.RawMessage]("balance").Set(ctx, in); err != nil {
		return nil, err
	}
	if err := stet.Stream[json.RawMessage]("log").Append(ctx, in); err != nil {
		return nil, err
	}
	if _, err := stet.Step(ctx, "book", func(context.Context) (json.RawMessage, error) { return in, nil }); err != nil {
		return nil, err
	}
	p, err := stet.NewPromise[json.RawMessage](ctx, "rate")
	if err != nil {
		return nil, err
	}
	if _, err := p.Await(ctx); err != nil {
		return nil, err
	}
	if _, err := stet.Message[json.RawMessage]("note").Receive(ctx); err != nil {
		return nil, err
	}
	_, err = stet.Step(ctx, "close", func(context.Context) (json.RawMessage, error) {
		return nil, stet.Permanent(errors.New("the ledger is sealed"))
	})
	return in, err
})

// copied presses the button that copies a value, and fails the test if another text than the value is copied.
func (tb *tab) copied(what string) {
	tb.t.Helper()
	tb.until(`[aria-label=` + quote("Copy "+what) + `]`)
	tb.script(`(() => {
		window.copied = null;
		navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); };
		document.querySelector('[aria-label=' + ` + quote(quote("Copy "+what)) + ` + ']').click();
	})(); 0`)
	tb.untilTrue(`window.copied !== null`)
	found := is[string](tb, `window.copied.replace(/\s/g, "")`)
	if found != digits {
		tb.t.Errorf("%s: expected to copy %s, found %s", what, digits, found)
	}
}

// TestNumbersKeepTheirDigits: a value goes through each dialog and each view as it was typed and stored.
func TestNumbersKeepTheirDigits(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	access := []access.Authenticator{server.Func(func(*http.Request) (*access.Identity, error) { return admin, nil })}
	s := serve(t, stet.Config{Workflows: []stet.Definition{ledger}}, server.Options{Access: access})
	ctx, engine := t.Context(), s.engine
	equal := func(what string, value []byte) {
		t.Helper()
		if string(value) != digits {
			t.Errorf("%s: expected %s, found %s", what, digits, value)
		}
	}
	inputOf := func(id string) []byte {
		t.Helper()
		var input json.RawMessage
		if err := must[*stet.RunInfo](t)(engine.Runs().Info(ctx, id)).Input.Decode(&input); err != nil {
			t.Fatal(err)
		}
		return input
	}
	entry := func(id, location string) []byte {
		t.Helper()
		entries := must[[]stet.HistoryEntry](t)(engine.Runs().History(ctx, id, stet.HistoryQuery{Values: true}))
		i := slices.IndexFunc(entries, func(e stet.HistoryEntry) bool { return e.Location == location })
		if i < 0 {
			t.Fatalf("run %s has no entry at %s", id, location)
		}
		var value json.RawMessage
		if err := entries[i].Decode(&value); err != nil {
			t.Fatal(err)
		}
		return value
	}

	tb := open(t, b, s.url+"#/runs", ".views button")
	tb.press(".views", "Start a run")
	tb.confirm("Start", "Workflow", "ledger", "Input", digits, "ID", "first")
	tb.untilTrue(`location.hash.startsWith("#/runs/first")`)
	tb.closed()
	equal("the typed input", inputOf("first"))
	s.until(t, "first", store.Suspended)

	const title = ".title-line"
	tb.press(".page", "Assign")
	tb.confirm("Resolve", "Value", digits)
	tb.closed()
	eventually(t, "the promise is assigned", func() bool {
		info := must[*stet.RunInfo](t)(engine.Runs().Info(ctx, "first"))
		return len(info.WaitsFor) > 0 && slices.Contains(info.WaitsFor[0].Names, "note")
	})
	equal("the promise", entry("first", "rate"))
	tb.choose(title, "More", "Send a message")
	tb.confirm("Send", "Name", "note", "Value", digits)
	tb.closed()
	s.until(t, "first", store.Failed)
	equal("the message", entry("first", "note"))

	tb.choose(title, "More", "Start one like it")
	tb.confirm("Start", "ID", "second")
	tb.untilTrue(`location.hash.startsWith("#/runs/second")`)
	tb.closed()
	equal("the input of another run", inputOf("second"))

	tb.visit("#/runs/first/data", ".value")
	tb.copied("input")
	tb.visit("#/runs/first/values", ".value")
	tb.copied("balance")
	tb.says(".page", digits) // the item of the stream
	tb.visit("#/runs/first/timeline?at=book", ".operation .value")
	tb.copied("result")
	tb.visit("#/runs/first/timeline?at=close", ".operation")
	tb.press(".operation", "Edit")
	tb.confirm("Edit", "Result, as JSON", digits, "Reason", "booked by hand", "Type the run's ID", "first")
	tb.closed()
	s.until(t, "first", store.Succeeded)
	equal("the edited result", entry("first", "close"))

	if err := stet.Message[json.RawMessage]("unheard").Send(ctx, engine, "second", json.RawMessage(digits)); err != nil {
		t.Fatal(err)
	}
	tb.visit("#/runs/second/inbox", ".value")
	tb.copied("message unheard")
	must[bool](t)(engine.Runs().Terminate(ctx, "second", stet.Act{}))
	tb.visit("#/letters", ".letter .value")
	tb.copied("value")
	tb.clean()
}
