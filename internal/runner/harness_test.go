package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// harness drives one run the way an engine does, with a journal for a store. The
// test decides when time passes, when bodies end and when the process dies.
type harness struct {
	t     testing.TB
	j     *durable
	code  func(*Branch) ([]byte, *stored.Failure)
	cfg   Config // what every activation gets beside the snapshot and the code
	clock store.Time
	stale time.Duration // the inbox was read so long ago
	known bool          // some activation has executed the run

	r         *Interpreter // nil: not in memory
	flight    []Body
	pending   *store.Turn
	begun     map[string]int // bodies given out, by location
	cancelled []int64        // bodies that are wanted no more
	notes     []Note
}

func newHarness(t testing.TB, code func(*Branch) ([]byte, *stored.Failure)) *harness {
	t.Helper()
	h := &harness{t: t, j: newDurable(), code: code, clock: birth, begun: map[string]int{}}
	h.cfg.FailBugs = true
	t.Cleanup(func() {
		h.leave()
		for _, law := range h.j.broken {
			t.Error(law)
		}
	})
	return h
}

// activate begins an activation from what is durable.
func (h *harness) activate() {
	h.j.claim()
	cfg := h.cfg
	cfg.Run, cfg.Code, cfg.Fetch = h.j.run, h.code, h.j.fetch
	cfg.Entries, cfg.Items = h.j.snapshot()
	cfg.First, h.known = !h.known, true
	h.r = New(cfg)
	h.flight, h.pending = nil, nil
}

// leave ends the activation: what is not committed is lost.
func (h *harness) leave() {
	if h.r != nil {
		h.r.Unwind()
		h.r = nil
	}
}

// crash begins anew from what is durable.
func (h *harness) crash() {
	h.leave()
	h.activate()
}

// advance lets the code go as far as it can.
func (h *harness) advance() {
	if h.r == nil {
		h.activate()
	}
	h.r.Advance(h.clock, h.clock.Add(-h.stale))
	h.notes = append(h.notes, h.r.Notes()...)
	h.cancelled = append(h.cancelled, h.r.Cancels()...)
}

// take begins the commit of the turn that is ready. It reports whether one is
// under way.
func (h *harness) take() bool {
	if h.pending == nil {
		h.pending = h.r.Take()
	}
	return h.pending != nil
}

// commit ends the commit that is under way.
func (h *harness) commit() {
	if h.j.commit(h.pending) {
		h.r.Committed()
	} else {
		h.r.StillReady()
	}
	h.pending = nil
}

// start gives out the bodies that may begin and checks that none begins before
// what it depends on is durable, or after its end is.
func (h *harness) start() {
	for b := range h.r.Bodies() {
		if e, ok := h.j.entries[string(b.Location)]; ok && (e.State == store.Done || e.State == store.FailedEntry) {
			h.j.violate("the body of %s begins although its end is durable", b.Location)
		}
		e, _ := b.Entry(0, 0, nil)
		if born := e.Born; born > h.j.seq() {
			h.j.violate("the body of %s begins after completion %d, of which %d are durable", b.Location, born, h.j.seq())
		}
		if b.Queue != "" {
			h.j.permitted(b.Location)
		}
		if e.Kind == store.KindUndo && h.j.run.Marks&store.Undoing == 0 {
			h.j.violate("the compensation %s begins before the mark is durable", b.Location)
		}
		h.begun[b.Location.String()]++
		h.flight = append(h.flight, b)
	}
}

// play goes on until only time, a body or an item can change anything.
func (h *harness) play() {
	h.t.Helper()
	for range 10_000 {
		h.advance()
		if h.r.Broken() != nil {
			return
		}
		if !h.take() {
			h.start()
			return
		}
		h.commit()
		h.start()
		if h.r.Over() != nil && h.j.run.Status == h.r.Over().Status || h.r.Suspended() {
			return
		}
	}
	h.t.Fatalf("the run makes turns without an end; it waits for %s", waitsOf(h.r))
}

// end ends the body at a location, in text form, with a value.
func (h *harness) end(place, value string) {
	h.t.Helper()
	h.complete(place, BodyResult{Value: []byte(value)})
}

// fail ends the body at a location with a failure.
func (h *harness) fail(place, message string) {
	h.t.Helper()
	h.complete(place, BodyResult{Failure: &stored.Failure{Code: stored.CodeError, Message: message}})
}

func (h *harness) complete(place string, result BodyResult) {
	h.t.Helper()
	i := slices.IndexFunc(h.flight, func(b Body) bool { return b.Location.String() == place })
	if i < 0 {
		h.t.Fatalf("no body of %s is in flight; there are %v", place, h.flying())
	}
	b := h.flight[i]
	h.flight = slices.Delete(h.flight, i, i+1)
	result.Started, result.Ended = h.clock, h.clock
	h.r.Complete(b.ID, b.Attempt, &result)
	h.play()
}

// flying returns the locations of the bodies in flight in the order of their
// begin.
func (h *harness) flying() []string {
	places := make([]string, len(h.flight))
	for i, b := range h.flight {
		places[i] = b.Location.String()
	}
	return places
}

// pass lets time pass and the run go on.
func (h *harness) pass(d time.Duration) {
	h.t.Helper()
	h.clock = h.clock.Add(d)
	h.wake()
}

// wake claims the run again, if it is suspended, and goes on.
func (h *harness) wake() {
	h.t.Helper()
	h.j.claim()
	if h.r != nil {
		h.r.Resumed()
	}
	h.play()
}

// send sends a message, and goes on.
func (h *harness) send(name, value string) {
	h.t.Helper()
	h.deliver(store.Item{Kind: store.ItemMessage, Name: name, Value: []byte(value)})
}

func (h *harness) deliver(it store.Item) {
	h.t.Helper()
	it.Sent = h.clock
	it = h.j.send(it)
	if h.r != nil {
		h.r.Deliver(it)
	}
	h.wake()
}

// cancel asks for the run to be cancelled, and goes on.
func (h *harness) cancel() {
	h.t.Helper()
	h.deliver(store.Item{Kind: store.ItemCancel, Name: "operator"})
}

// finish ends the bodies in the order of their begin, each with its own function
// or else with its location, and lets time pass, until the run is over.
func (h *harness) finish() *Outcome {
	h.t.Helper()
	h.play()
	for range 100_000 {
		if over := h.r.Over(); over != nil {
			return over
		}
		if err := h.r.Broken(); err != nil {
			h.t.Fatalf("the activation is broken: %v", err)
		}
		if len(h.flight) > 0 {
			b := h.flight[0]
			result := BodyResult{Value: []byte("of " + b.Location.String())}
			if b.Func != nil {
				result = b.Func(context.Background(), &b)
			}
			h.complete(b.Location.String(), result)
			continue
		}
		at, _ := h.r.NextTimer()
		if at == 0 {
			h.t.Fatalf("nothing will happen; the run waits for %s", waitsOf(h.r))
		}
		h.clock = max(h.clock, at)
		h.wake()
	}
	h.t.Fatal("the run does not end")
	return nil
}

// want fails the test unless the run has ended with the status and output.
func (h *harness) want(status store.Status, output string) {
	h.t.Helper()
	over := h.r.Over()
	if over == nil {
		h.t.Fatalf("the run is not over: %v are in flight, it waits for %s", h.flying(), waitsOf(h.r))
	}
	text := string(over.Output)
	if over.Status == store.Failed {
		f, err := stored.DecodeFailure(over.Output)
		if err != nil {
			h.t.Fatal(err)
		}
		text = f.Code + ": " + f.Message
	}
	if over.Stall != nil {
		text = over.Stall.Error()
	}
	if over.Status != status || !strings.Contains(text, output) || output == "" && text != "" {
		h.t.Fatalf("the run has ended %s with %q (%s), want %s with %q", over.Status, text, over.Reason, status, output)
	}
}

// wantFlight fails the test unless exactly these bodies are in flight, in the
// order of their begin.
func (h *harness) wantFlight(places ...string) {
	h.t.Helper()
	if got := h.flying(); !slices.Equal(got, places) {
		h.t.Fatalf("in flight are %q, want %q", got, places)
	}
}

// wantOrder fails the test unless these are the durable completions, in order.
func (h *harness) wantOrder(places ...string) {
	h.t.Helper()
	if got := h.j.order(); !slices.Equal(got, places) {
		h.t.Fatalf("the completions are %q, want %q", got, places)
	}
}

// replays starts a new activation from the journal and fails the test unless it
// comes to the same end without writing or starting anything.
func (h *harness) replays() {
	h.t.Helper()
	over := *h.r.Over()
	h.leave()
	bodies := len(h.begun)
	h.activate()
	h.advance()
	got := h.r.Over()
	switch {
	case got == nil:
		h.t.Fatalf("the replay does not end; it waits for %s", waitsOf(h.r))
	case got.Status != over.Status || string(got.Output) != string(over.Output) || got.Reason != over.Reason:
		h.t.Fatalf("the replay ends %s %q (%s) %v, the run ended %s %q (%s)", got.Status, got.Output, got.Reason, got.Stall,
			over.Status, over.Output, over.Reason)
	case len(h.r.j.Log.Entries()) > 0 || h.r.steps.Queued() > 0 || len(h.begun) != bodies:
		h.t.Fatalf("the replay writes %d entries and begins %d bodies", len(h.r.j.Log.Entries()), h.r.steps.Queued())
	}
}

// at describes a call by its name alone. The call sites of tests count as one.
func at(name string) Call { return Call{Name: name, Site: 1} }

// shielded is a call under WithoutCancel.
func shielded(name string) Call { return Call{Name: name, Site: 1, Shield: true} }

var (
	once  = Policy{Attempts: 1, Factor: 1}
	twice = Policy{Attempts: 2, First: 300 * time.Millisecond, Factor: 1, Max: time.Second}
)

// compensation succeeds at once.
var compensation = &Undo{Policy: once, Func: func(context.Context, *Body, []byte) BodyResult { return BodyResult{} }}

// step asks for a step with one attempt and returns its value as text.
func step(b *Branch, name string) (string, error) {
	v, err := b.Step(Step{Call: at(name), Policy: once})
	return string(v), err
}

// keep asks for a step that carries a compensation.
func keep(b *Branch, name string) (string, error) {
	v, err := b.Step(Step{Call: at(name), Policy: once, Undo: compensation})
	return string(v), err
}

// receive waits for one message and returns its value as text.
func receive(b *Branch, name string, deadline store.Time) (string, error) {
	got, err := b.Receive(Receive{Call: at(name), Names: []string{name}, Max: 1, Deadline: deadline})
	if err != nil {
		return "", err
	}
	return string(got[0].Value), nil
}

// spawn begins a branch that asks for the steps one after the other and returns
// the value of the last one.
func spawn(b *Branch, name string, steps ...string) *Future {
	return b.Go(at(name), func(b *Branch) (any, error) {
		var v string
		for _, s := range steps {
			var err error
			if v, err = step(b, s); err != nil {
				return nil, err
			}
		}
		return v, nil
	})
}

// text returns what a workflow's function in a test returns.
func text(format string, args ...any) ([]byte, *stored.Failure) {
	return []byte(fmt.Sprintf(format, args...)), nil
}

// result turns an error into the failure of the run.
func result(v string, err error) ([]byte, *stored.Failure) {
	if err != nil {
		return nil, &stored.Failure{Code: stored.CodeError, Message: err.Error()}
	}
	return []byte(v), nil
}

// path returns the encoded location of names.
func path(names ...string) location.Loc {
	loc := location.Loc("")
	for _, n := range names {
		loc = loc.Name(n, 1)
	}
	return loc
}

// bytes returns how large the run believes its history to be.
func (h *harness) bytes() int {
	_, bytes := h.r.j.Size()
	return bytes
}

// waitsOf returns what a run waits for, for a message.
func waitsOf(r *Interpreter) []byte {
	waits, _ := r.j.Waits()
	return waits
}
