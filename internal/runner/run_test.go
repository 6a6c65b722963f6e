package runner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

func TestCancelOfTheRun(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := step(b, "work")
		if err != ErrCancelled {
			return text("the step gives %v", err)
		}
		if err := b.Sleep(at("more"), time.Hour); err != ErrCancelled {
			return text("the next operation gives %v", err)
		}
		_, err = b.Step(Step{Call: shielded("clean"), Policy: once})
		return result("cleaned", err)
	})
	h.play()
	h.deliver(store.Item{Kind: store.ItemCancel, Name: "operator", Value: []byte("enough")})
	if len(h.cancelled) != 1 {
		t.Errorf("the bodies %v are told to stop, want one", h.cancelled)
	}
	if h.j.run.Marks&store.Cancelling == 0 {
		t.Error("the run is not marked as cancelling")
	}
	h.wantFlight("work", "clean")
	h.end("clean", "")
	if over := h.r.Over(); over == nil || over.Status != store.Cancelled || over.Reason != "cancelled: enough" {
		t.Fatalf("the run ends %+v", over)
	}
	if it := h.j.items[0]; it.State != store.Consumed || string(it.Verdict) != "y" {
		t.Errorf("the verdict is %+v", it)
	}
	h.replays()
}

func TestSecondCancelIsAnswered(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, _ = step(b, "work")
		_, err := b.Step(Step{Call: shielded("clean"), Policy: once})
		return result("", err)
	})
	h.play()
	h.cancel()
	h.cancel()
	h.crash()
	h.play()
	h.cancel()
	for i, want := range []byte("ynn") {
		if it := h.j.items[i]; it.State != store.Consumed || it.Verdict[0] != want {
			t.Errorf("cancel %d is answered %q", i+1, it.Verdict)
		}
	}
}

// A cancel that comes before the end is committed wins over it.
func TestCancelBeforeTheEndIsCommitted(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "work")) })
	h.play()
	b := h.flight[0]
	h.r.Complete(b.ID, 1, &BodyResult{Value: []byte("v")})
	h.advance()
	h.take()
	it := h.j.send(store.Item{Kind: store.ItemCancel, Name: "operator"})
	h.commit() // held back
	h.r.Deliver(it)
	h.play()
	if over := h.r.Over(); over.Status != store.Cancelled || h.j.run.Status != store.Cancelled {
		t.Fatalf("the run ends %+v", over)
	}
}

func TestTerminateEndsAtOnce(t *testing.T) {
	terminate := store.Item{Kind: store.ItemTerminate, Value: []byte("now")}
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "work")) })
	h.play()
	it := h.j.send(terminate)
	h.r.Deliver(it) // not the runner's to decide
	h.r.Terminate(it)
	h.play()
	if over := h.r.Over(); over == nil || over.Status != store.Cancelled || over.Reason != "terminated: now" {
		t.Fatalf("the run ends %+v", over)
	}
	if it := h.j.items[0]; string(it.Verdict) != "y" {
		t.Errorf("the verdict is %q", it.Verdict)
	}
}

// TestASecondTerminateIsAnsweredToo, also if the first one waits for the replay: a run that
// leaves an item unexamined never ends.
func TestASecondTerminateIsAnsweredToo(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		if _, err := step(b, "one"); err != nil {
			return result("", err)
		}
		return result(step(b, "two"))
	})
	h.play()
	h.end("one", "v")
	h.crash()
	for range 2 {
		h.r.Terminate(h.j.send(store.Item{Kind: store.ItemTerminate, Name: "ada", Sent: h.clock}))
	}
	h.play()
	if h.j.run.Status != store.Cancelled || len(h.j.audit) != 2 {
		t.Errorf("the run is %s, its audit %+v", h.j.run.Status, h.j.audit)
	}
	for _, it := range h.j.items {
		if string(it.Verdict) != "y" {
			t.Errorf("the verdict of item %d is %q", it.No, it.Verdict)
		}
	}
}

// TestATerminateIsAnsweredByTheEndAlone: while something keeps the run from ending, the terminates have no answer.
func TestATerminateIsAnsweredByTheEndAlone(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "work")) })
	h.play()
	send := func(kind store.ItemKind) store.Item {
		return h.j.send(store.Item{Kind: kind, Name: "ada", Sent: h.clock})
	}
	h.r.Terminate(send(store.ItemTerminate))
	h.advance()
	if !h.take() {
		t.Fatal("the end is no turn")
	}
	cancel, second := send(store.ItemCancel), send(store.ItemTerminate)
	h.commit()
	for _, it := range h.j.items {
		if it.State != store.New || it.Verdict != nil {
			t.Errorf("the run goes on, and the %s is %d with %q", it.Kind, it.State, it.Verdict)
		}
	}
	if h.j.run.Status != store.Running || len(h.j.audit) > 0 {
		t.Errorf("the run is %s, its audit %+v", h.j.run.Status, h.j.audit)
	}
	h.r.Deliver(cancel)
	h.r.Terminate(second)
	h.play()
	if h.j.run.Status != store.Cancelled || h.j.run.Reason != "terminated" || len(h.j.audit) != 2 {
		t.Errorf("the run is %s, %q, its audit %+v", h.j.run.Status, h.j.run.Reason, h.j.audit)
	}
	for _, it := range h.j.items {
		if yes, reason := verbs.DecodeVerdict(it.Verdict); yes != (it.Kind == store.ItemTerminate) || !yes && reason == "" {
			t.Errorf("the verdict of the %s is %q", it.Kind, it.Verdict)
		}
	}
}

// TestPoliciesCountFromTheLastRepair: a run that an operator has made go on has all of the
// time again.
func TestPoliciesCountFromTheLastRepair(t *testing.T) {
	for _, suspended := range []bool{false, true} {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(receive(b, "mail", 0)) })
		if suspended {
			h.cfg.MaxSuspended = time.Hour
		} else {
			h.cfg.CancelAt, h.cfg.MaxRun, h.cfg.CancelReason = birth.Add(time.Hour), time.Hour, "too long"
		}
		asked := 0
		h.cfg.TakenUp = func() (store.Time, error) { asked++; return birth.Add(24 * time.Hour), nil }
		h.play()
		h.crash()
		h.pass(24*time.Hour + 59*time.Minute)
		if over := h.r.Over(); over != nil || asked != 1 {
			t.Fatalf("the run ends %+v, and was asked about %d times", over, asked)
		}
		if want := stored.WakeAt(birth.Add(25 * time.Hour)); h.j.run.WakeAt != want {
			t.Errorf("it wakes at %s, want %s", h.j.run.WakeAt, want)
		}
		h.pass(2 * time.Minute)
		if over := h.r.Over(); over == nil || over.Status != store.Cancelled {
			t.Fatalf("the run ends %+v", over)
		}
		h.replays()
	}
}

func TestPoliciesCancelTheRun(t *testing.T) {
	code := func(b *Branch) ([]byte, *stored.Failure) { return result(receive(b, "mail", 0)) }
	h := newHarness(t, code)
	h.cfg.CancelAt, h.cfg.CancelReason = birth.Add(time.Hour), "too long"
	h.play()
	if h.j.run.WakeAt != stored.WakeAt(birth.Add(time.Hour)) {
		t.Fatalf("the run wakes %s", h.j.run.WakeAt)
	}
	h.crash()
	h.pass(time.Hour)
	if over := h.r.Over(); over == nil || over.Status != store.Cancelled || over.Reason != "cancelled: too long" {
		t.Fatalf("the run ends %+v", over)
	}
	h.replays()

	h = newHarness(t, code)
	h.cfg.MaxSuspended = time.Minute
	h.play()
	h.pass(time.Minute)
	if over := h.r.Over(); over == nil || over.Reason != "cancelled: suspended longer than 1m0s" {
		t.Fatalf("the run ends %+v", over)
	}
	h.replays()
}

func TestCodeOfACancelledRunThatGoesOnAsking(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for {
			if _, err := step(b, "s"); err == nil {
				return text("")
			}
		}
	})
	h.play()
	h.cancel()
	if over := h.r.Over(); over == nil || over.Status != store.Cancelled {
		t.Fatalf("the run ends %+v", over)
	}
	if len(h.notes) != 1 || !strings.Contains(h.notes[0].Text, "went on asking") {
		t.Errorf("the log is told %v", h.notes)
	}
	h.replays()
}

func TestNowIsTheTimeOfTheLastHandOver(t *testing.T) {
	var seen []store.Time
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		seen = []store.Time{b.Now()}
		for range 3 {
			_, err := step(b, "s")
			if err != nil {
				return result("", err)
			}
			seen = append(seen, b.Now())
		}
		return text("")
	})
	h.play()
	h.clock += 100
	h.end("s", "")
	h.clock -= 50 // another node's bound may be lower
	h.crash()
	h.play()
	h.end("s#2", "")
	h.clock += 500
	h.end("s#3", "")
	want := []store.Time{birth, birth + 100, birth + 100, birth + 550}
	if !slices.Equal(seen, want) {
		t.Fatalf("the times are %v, want %v", seen, want)
	}
	h.replays()
	if !slices.Equal(seen, want) {
		t.Fatalf("the times in the replay are %v, want %v", seen, want)
	}
}

func TestDerivedIdentity(t *testing.T) {
	var random [][32]byte
	var keys []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		random = nil
		for range 2 {
			v, err := b.Derive(at("random"), "random")
			if err != nil {
				return result("", err)
			}
			random = append(random, v)
		}
		f := b.Go(at("x"), func(b *Branch) (any, error) {
			v, err := b.Derive(at("random"), "random")
			random = append(random, v)
			return nil, err
		})
		_, err := b.Compose(at("all"), Join, []*Future{f, spawn(b, "a", "s"), spawn(b, "b", "s")})
		return result("", err)
	})
	h.play()
	for _, b := range h.flight {
		keys = append(keys, b.Key())
	}
	if len(random) != 3 || random[0] == random[1] || random[0] == random[2] {
		t.Fatalf("random values repeat: %x", random)
	}
	if keys[0] == keys[1] || len(keys[0]) != 32 {
		t.Fatalf("the keys are %q", keys)
	}
	first := random
	h.crash()
	h.play()
	if !slices.Equal(random, first) {
		t.Error("random values differ after a replay")
	}
	for i, b := range h.flight {
		if b.Key() != keys[i] {
			t.Error("the idempotency key differs after a crash")
		}
	}
	h.j.run.Generation++
	h.crash()
	h.play()
	if !slices.Equal(random, first) || h.flight[0].Key() == keys[0] {
		t.Error("after a rewind randomness must stay and keys must change")
	}
}

func TestLargeValuesAreFetched(t *testing.T) {
	large := strings.Repeat("x", 10<<10)
	code := func(b *Branch) ([]byte, *stored.Failure) {
		v, err := step(b, "s")
		if err != nil {
			return result("", err)
		}
		_, err = receive(b, "mail", 0)
		return result(fmt.Sprint(len(v)), err)
	}
	h := newHarness(t, code)
	h.play()
	h.end("s", large)
	h.crash()
	h.send("mail", "")
	h.want(store.Succeeded, fmt.Sprint(len(large)))
	h.replays()

	h = newHarness(t, code)
	h.play()
	h.end("s", large)
	h.leave()
	broken := errors.New("away")
	entries, items := h.j.snapshot()
	h.r = New(Config{Run: h.j.run, Entries: entries, Items: items, Code: code,
		Fetch: func(string) ([]byte, error) { return nil, broken }})
	h.r.Advance(h.clock, h.clock)
	if err := h.r.Broken(); !errors.Is(err, broken) || h.r.Over() != nil || h.r.Take() != nil {
		t.Errorf("the activation is broken by %v; over %v", err, h.r.Over())
	}
}
