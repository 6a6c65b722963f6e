package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

func TestStepsOneAfterTheOther(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		first, err := step(b, "first")
		if err != nil {
			return result("", err)
		}
		return result(step(b, "after-"+first))
	})
	h.play()
	h.wantFlight("first")
	h.end("first", "one")
	h.wantFlight("after-one")
	h.end("after-one", "two")
	h.want(store.Succeeded, "two")
	h.wantOrder("first", "after-one")
	h.replays()
}

func TestRunWithoutOperations(t *testing.T) {
	h := newHarness(t, func(*Branch) ([]byte, *Failure) { return text("done") })
	h.play()
	h.want(store.Succeeded, "done")
	if h.j.turns != 1 {
		t.Errorf("it takes %d turns, want 1", h.j.turns)
	}
	h.replays()
}

// The last step and the end of the run share one commit.
func TestLastStepAndEndAreOneTurn(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) { return result(step(b, "only")) })
	h.play()
	before := h.j.turns
	h.end("only", "v")
	h.want(store.Succeeded, "v")
	if got := h.j.turns - before; got != 1 {
		t.Errorf("the end takes %d turns, want 1", got)
	}
}

func TestStepIsRetriedAfterItsFailureIsDurable(t *testing.T) {
	var causes []string
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		v, err := b.Step(Step{Call: at("flaky"), Policy: Policy{Attempts: 3, First: time.Minute, Factor: 2, Max: time.Hour}})
		var f *Failure
		if errors.As(err, &f) {
			for _, c := range f.Causes {
				causes = append(causes, c.Message)
			}
		}
		return result(string(v), err)
	})
	h.play()
	h.fail("flaky", "one")
	h.wantFlight() // waits for its second attempt
	if e, _ := h.j.at("flaky"); e.State != store.Open || e.Attempt != 1 || e.Wake != birth.Add(time.Minute) {
		t.Fatalf("the failed attempt is recorded as %+v", e)
	}
	if h.j.run.Status != store.Suspended || h.j.run.WakeAt != birth.Add(time.Minute) {
		t.Fatalf("the run is %s and wakes %s", h.j.run.Status, h.j.run.WakeAt)
	}
	h.crash()
	h.play()
	h.pass(time.Minute)
	if len(h.flight) != 1 || h.flight[0].Attempt != 2 {
		t.Fatalf("in flight is %+v, want attempt 2", h.flight)
	}
	h.fail("flaky", "two")
	h.pass(2 * time.Minute)
	h.fail("flaky", "three")
	h.want(store.Failed, "step flaky failed after 3 attempts: three")
	if want := []string{"one", "two", "three"}; !slices.Equal(causes, want) {
		t.Errorf("the causes are %q, want %q", causes, want)
	}
	h.replays()
}

func TestNextAttemptWaitsForTheRecordOfTheLast(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: Policy{Attempts: 2, Factor: 1}})
		return result(string(v), err)
	})
	h.play()
	b := h.flight[0]
	h.flight = nil
	h.r.Complete(b.ID, 1, BodyResult{Failure: &Failure{Code: CodeError, Message: "no"}})
	h.advance()
	h.start()
	h.wantFlight()
	h.take()
	h.start()
	h.wantFlight()
	h.commit()
	h.start()
	h.wantFlight("s")
}

// A run that has failed begins nothing that was asked for before.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		spawn(b, "x", "s")
		if _, err := step(b, "first"); err != nil {
			return result("", err)
		}
		spawn(b, "y", "s")
		_, _ = b.Await(at("z"), b.Go(at("z"), func(b *Branch) (any, error) { return step(b, "") }))
		return text("")
	})
	h.play()
	h.wantFlight("first", "x/s")
	h.end("first", "")
	h.want(store.Failed, "misuse")
	h.wantFlight("x/s")
}

// An attempt that was lost with its process has no record and is not counted.
func TestLostAttemptIsNotCounted(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		v, err := b.Step(Step{Call: at("flaky"), Policy: twice})
		return result(string(v), err)
	})
	h.play()
	key := h.flight[0].Key()
	h.crash()
	h.play()
	if b := h.flight[0]; b.Attempt != 1 || b.Key() != key {
		t.Fatalf("after the crash the attempt is %d with key %s, want 1 with %s", b.Attempt, b.Key(), key)
	}
	h.end("flaky", "v")
	h.want(store.Succeeded, "v")
}

func TestFailureThatIsFinalIsNotRetried(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: twice})
		return result(string(v), err)
	})
	h.play()
	h.complete("s", BodyResult{Failure: &Failure{Code: CodeError, Message: "no"}, Final: true})
	h.want(store.Failed, "step s failed: no")
}

func TestOverallTimeEndsTheAttempts(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: Policy{Attempts: -1, First: time.Minute, Factor: 1, Max: time.Minute, Overall: 90 * time.Second}})
		return result(string(v), err)
	})
	h.play()
	if d := h.flight[0].Deadline; d != birth.Add(90*time.Second) {
		t.Fatalf("the deadline of the first attempt is %s", d)
	}
	h.fail("s", "one")
	h.pass(time.Minute)
	if d := h.flight[0].Deadline; d != birth.Add(90*time.Second) {
		t.Fatalf("the deadline of the second attempt is %s", d)
	}
	h.fail("s", "two")
	h.want(store.Failed, "after 2 attempts: two")
}

// Only the current attempt's result is accepted, and only once.
func TestResultOfAnOldAttemptIsDropped(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: twice})
		return result(string(v), err)
	})
	h.play()
	id := h.flight[0].ID
	h.fail("s", "timeout")
	h.pass(time.Second)
	h.r.Complete(id, 1, BodyResult{Value: []byte("late")})
	h.play()
	h.wantFlight("s")
	h.end("s", "in time")
	h.r.Complete(id, 2, BodyResult{Value: []byte("again")})
	h.want(store.Succeeded, "in time")
}

func TestHeartbeatIsThereInTheNextAttempt(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: twice})
		return result(string(v), err)
	})
	h.cfg.Limits.Value = 100
	h.play()
	id := h.flight[0].ID
	if !h.r.Heartbeat(id, 1, []byte("half")) {
		t.Fatal("the current attempt's heartbeat is refused")
	}
	if !h.r.Heartbeat(id, 1, make([]byte, 101)) {
		t.Fatal("a heartbeat with a large detail is refused")
	}
	h.play()
	h.crash()
	h.play()
	if got := string(h.flight[0].Detail); got != "half" {
		t.Fatalf("after a crash the detail is %q", got)
	}
	h.fail("s", "no")
	h.pass(time.Second)
	if got := string(h.flight[0].Detail); got != "half" {
		t.Fatalf("in the second attempt the detail is %q", got)
	}
	if h.r.Heartbeat(id, 1, []byte("late")) {
		t.Error("an old attempt's heartbeat is accepted")
	}
}

func TestSleepSuspendsAndKeepsItsDeadline(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		if err := b.Sleep(at("nap"), time.Hour); err != nil {
			return result("", err)
		}
		return text("awake at %s", b.Now())
	})
	h.play()
	if h.j.run.Status != store.Suspended || h.j.run.WakeAt != birth.Add(time.Hour) {
		t.Fatalf("the run is %s and wakes %s", h.j.run.Status, h.j.run.WakeAt)
	}
	if !strings.Contains(string(h.j.run.Waits), `"nap"`) {
		t.Errorf("it says that it waits for %s", h.j.run.Waits)
	}
	h.pass(30 * time.Minute)
	h.crash() // only the remainder is slept
	h.play()
	h.pass(30*time.Minute - 1)
	if h.r.Over() != nil {
		t.Fatal("the sleep is over early")
	}
	h.pass(time.Microsecond)
	h.want(store.Succeeded, "awake at "+birth.Add(time.Hour).String())
	h.replays()
}

// A sleep of less than a second neither suspends the run nor needs a record; its
// deadline is the same after a crash.
func TestShortSleep(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) { return result("awake", b.Sleep(at("nap"), 900*time.Millisecond)) })
	h.play()
	if h.j.run.Status != store.Running || len(h.j.entries) != 0 {
		t.Fatalf("the run is %s with %d entries", h.j.run.Status, len(h.j.entries))
	}
	h.pass(500 * time.Millisecond)
	h.crash()
	h.play()
	if at, _ := h.r.NextTimer(); at != birth.Add(900*time.Millisecond) {
		t.Fatalf("the deadline is %s", at)
	}
	h.finish()
	h.want(store.Succeeded, "awake")
}

func TestReceiveWaitsForAMessage(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		first, err := receive(b, "mail", 0)
		if err != nil {
			return result("", err)
		}
		second, err := b.Receive(Receive{Call: at("mail"), Names: []string{"mail"}, Max: 1})
		if err != nil {
			return result("", err)
		}
		return text("%s %s", first, second[0].Value)
	})
	h.play()
	if h.j.run.Status != store.Suspended {
		t.Fatalf("the run is %s", h.j.run.Status)
	}
	h.send("other", "x")
	h.send("mail", "one")
	h.crash()
	h.send("mail", "two")
	h.want(store.Succeeded, "one two")
	h.replays()
}

// A suspended run stands still until it is claimed; one whose suspension was held
// back goes on.
func TestSuspensionAndItsEnd(t *testing.T) {
	code := func(b *Branch) ([]byte, *Failure) { return result(receive(b, "mail", 0)) }
	mail := store.Item{Kind: store.ItemMessage, Name: "mail", Sent: birth, Value: []byte("v")}
	t.Run("suspended", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		h.r.Deliver(h.j.send(mail))
		h.advance()
		if h.r.Over() != nil || h.r.Take() != nil || !h.r.Suspended() {
			t.Fatal("it goes on although nobody has claimed it")
		}
		h.j.claim()
		h.r.Resumed()
		h.play()
		h.want(store.Succeeded, "v")
	})
	t.Run("held back", func(t *testing.T) {
		h := newHarness(t, code)
		h.advance()
		h.take()
		it := h.j.send(mail)
		h.commit()
		if h.j.run.Status != store.Running || h.r.Suspended() {
			t.Fatalf("the run is %s", h.j.run.Status)
		}
		h.r.Deliver(it)
		h.play()
		h.want(store.Succeeded, "v")
	})
}

func TestMessageSentBeforeTheReceive(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) { return result(receive(b, "mail", 0)) })
	h.j.send(store.Item{Kind: store.ItemMessage, Name: "mail", Sent: birth, Value: []byte("early")})
	h.play()
	h.want(store.Succeeded, "early")
}

// Messages are received in the order of their numbers, however they are told.
func TestMessagesDeliveredOutOfOrder(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		if _, err := step(b, "s"); err != nil {
			return result("", err)
		}
		first, err := receive(b, "mail", 0)
		if err != nil {
			return result("", err)
		}
		got, err := b.Receive(Receive{Call: at("mail"), Names: []string{"mail"}, Max: 1})
		return result(first+string(got[0].Value), err)
	})
	h.play()
	var items []store.Item
	for i := range 2 {
		items = append(items, h.j.send(store.Item{Kind: store.ItemMessage, Name: "mail", Sent: h.clock, Value: []byte(fmt.Sprint(i))}))
	}
	h.r.Deliver(items[1], items[0], items[1])
	h.end("s", "")
	h.want(store.Succeeded, "01")
	h.replays()
}

func TestReceiveWithDeadline(t *testing.T) {
	code := func(b *Branch) ([]byte, *Failure) { return result(receive(b, "mail", birth.Add(time.Hour))) }
	t.Run("timeout", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		h.pass(time.Hour)
		h.want(store.Failed, ErrTimeout.Error())
		h.replays()
	})
	t.Run("in time", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		h.pass(time.Minute)
		h.send("mail", "v")
		h.want(store.Succeeded, "v")
		h.replays()
	})
	t.Run("sent in time and read late", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		h.stale = time.Minute
		h.pass(time.Hour)
		if h.r.Over() != nil {
			t.Fatal("the deadline is handed over before the inbox was read at it")
		}
		if _, needsInbox := h.r.NextTimer(); !needsInbox {
			t.Fatal("the runner does not ask for the inbox to be read")
		}
		it := h.j.send(store.Item{Kind: store.ItemMessage, Name: "mail", Sent: birth.Add(time.Hour), Value: []byte("v")})
		h.r.Deliver(it)
		h.wake()
		h.want(store.Succeeded, "v")
	})
	t.Run("sent late", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		h.stale = time.Hour
		h.clock = h.clock.Add(time.Hour + 1000)
		h.send("mail", "late")
		if h.r.Over() != nil {
			t.Fatal("a late message ends the wait, although what was sent in time may not have been read")
		}
		h.stale = 0
		h.wake()
		h.want(store.Failed, ErrTimeout.Error())
	})
}

func TestReceiveOfSeveral(t *testing.T) {
	batch := func(deadline store.Time) func(b *Branch) ([]byte, *Failure) {
		return func(b *Branch) ([]byte, *Failure) {
			got, err := b.Receive(Receive{Call: at("batch"), Names: []string{"a", "b"}, Max: 3, Deadline: deadline})
			var all string
			for _, m := range got {
				all += m.Name + string(m.Value) + " "
			}
			return result(all, err)
		}
	}
	t.Run("without a deadline any will do", func(t *testing.T) {
		h := newHarness(t, batch(0))
		h.play()
		h.send("b", "1")
		h.want(store.Succeeded, "b1 ")
	})
	t.Run("oldest first over the names", func(t *testing.T) {
		h := newHarness(t, batch(birth.Add(time.Hour)))
		h.play()
		h.send("b", "1")
		h.send("a", "2")
		if h.r.Over() != nil {
			t.Fatal("two of three are enough before the deadline")
		}
		h.send("b", "3")
		h.want(store.Succeeded, "b1 a2 b3 ")
		h.replays()
	})
	t.Run("what was sent by the deadline", func(t *testing.T) {
		h := newHarness(t, batch(birth.Add(time.Hour)))
		h.play()
		h.send("a", "1")
		h.pass(time.Hour)
		h.want(store.Succeeded, "a1 ")
	})
	t.Run("at most a value's worth", func(t *testing.T) {
		h := newHarness(t, batch(0))
		h.cfg.Limits.Value = 5
		for range 3 {
			h.j.send(store.Item{Kind: store.ItemMessage, Name: "a", Sent: birth, Value: []byte("xxx")})
		}
		h.play()
		h.want(store.Succeeded, "axxx ")
	})
}

// A receive that ends without taking what there is leaves it to who waits next.
func TestMessageGoesToTheNextReceiverWhenTheFirstIsCancelled(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		greedy := b.Go(at("greedy"), func(b *Branch) (any, error) {
			_, err := b.Receive(Receive{Call: at("two"), Names: []string{"mail"}, Max: 2, Deadline: birth.Add(time.Hour)})
			return nil, err
		})
		modest := b.Go(at("modest"), func(b *Branch) (any, error) { return receive(b, "mail", 0) })
		race := b.Go(at("race"), func(b *Branch) (any, error) {
			_, err := b.Compose(at("race"), Race, []*Future{greedy, spawn(b, "stop", "stop")})
			return nil, err
		})
		if _, err := b.Await(at("race"), race); err != nil {
			return result("", err)
		}
		v, err := b.Await(at("modest"), modest)
		return result(fmt.Sprint(v), err)
	})
	h.play()
	h.send("mail", "v")
	h.end("race/stop/stop", "")
	h.want(store.Succeeded, "v")
}

// What was sent too late for the first is for who waits behind it.
func TestMessageGoesToTheNextReceiverAfterADeadline(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		first := b.Go(at("first"), func(b *Branch) (any, error) { return receive(b, "mail", birth.Add(time.Hour)) })
		second := b.Go(at("second"), func(b *Branch) (any, error) { return receive(b, "mail", 0) })
		_, err := b.Compose(at("all"), Join, []*Future{first, second})
		_, timeout := first.Result()
		v, _ := second.Result()
		return result(fmt.Sprint(timeout, " ", v), err)
	})
	h.play()
	h.stale = time.Hour
	h.clock = birth.Add(time.Hour + time.Second)
	h.send("mail", "late")
	if len(h.j.order()) > 0 {
		t.Fatalf("the completions are %q before the inbox was read at the deadline", h.j.order())
	}
	h.stale = 0
	h.wake()
	h.want(store.Succeeded, "timeout late")
	h.replays()
}

func TestPromise(t *testing.T) {
	var secret [16]byte
	code := func(b *Branch) ([]byte, *Failure) {
		p, err := b.NewPromise(at("answer"))
		if err != nil {
			return result("", err)
		}
		secret = p.Secret()
		if _, err := step(b, "hand-out"); err != nil {
			return result("", err)
		}
		v, err := b.AwaitPromise(at("answer"), p)
		again, err2 := b.AwaitPromise(at("answer"), p)
		if string(again) != string(v) || !errors.Is(err2, err) && err.Error() != err2.Error() {
			return text("the second await differs")
		}
		return result(string(v), err)
	}
	resolution := store.Item{Kind: store.ItemResolution, Loc: string(path("answer")), Value: []byte("42")}
	t.Run("assigned while waited for", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		h.end("hand-out", "")
		first := secret
		h.crash()
		h.deliver(resolution)
		h.want(store.Succeeded, "42")
		h.replays()
		if secret != first || secret != PromiseSecret(&h.j.run, string(path("answer"))) {
			t.Error("the secret is not the same after a replay")
		}
	})
	t.Run("assigned before", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		h.deliver(resolution)
		h.wantFlight("hand-out")
		h.end("hand-out", "")
		h.want(store.Succeeded, "42")
		h.wantOrder("hand-out", "answer")
	})
	t.Run("rejected", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		h.end("hand-out", "")
		no := resolution
		no.Failed, no.Value = true, EncodeFailure(&Failure{Code: CodeError, Message: "no"})
		h.deliver(no)
		h.want(store.Failed, "error: no")
		h.replays()
	})
	t.Run("assigned once", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		h.deliver(resolution)
		second := resolution
		second.Value = []byte("43")
		h.deliver(second)
		h.end("hand-out", "")
		h.want(store.Succeeded, "42")
	})
	t.Run("of an older incarnation", func(t *testing.T) {
		h := newHarness(t, code)
		h.j.run.Incarnation = 1
		h.play()
		h.deliver(resolution)
		if it := h.j.items[0]; it.State != store.Consumed {
			t.Errorf("the resolution is %+v", it)
		}
		h.end("hand-out", "")
		if h.r.Over() != nil {
			t.Error("it has settled the promise")
		}
	})
}

func TestCancelOfTheRun(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
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
	h.deliver(store.Item{Kind: store.ItemCancel, Value: []byte("enough")})
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
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
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
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) { return result(step(b, "work")) })
	h.play()
	b := h.flight[0]
	h.r.Complete(b.ID, 1, BodyResult{Value: []byte("v")})
	h.advance()
	h.take()
	it := h.j.send(store.Item{Kind: store.ItemCancel})
	h.commit() // held back
	h.r.Deliver(it)
	h.play()
	if over := h.r.Over(); over.Status != store.Cancelled || h.j.run.Status != store.Cancelled {
		t.Fatalf("the run ends %+v", over)
	}
}

func TestTerminateEndsAtOnce(t *testing.T) {
	terminate := store.Item{Kind: store.ItemTerminate, Value: []byte("now")}
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) { return result(step(b, "work")) })
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

func TestPoliciesCancelTheRun(t *testing.T) {
	code := func(b *Branch) ([]byte, *Failure) { return result(receive(b, "mail", 0)) }
	h := newHarness(t, code)
	h.cfg.CancelAt, h.cfg.CancelReason = birth.Add(time.Hour), "too long"
	h.play()
	if h.j.run.WakeAt != birth.Add(time.Hour) {
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

func TestPanicIsAFailureWithAStack(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		f := b.Go(at("bad"), func(b *Branch) (any, error) { panic("inside") })
		if _, err := b.Await(at("bad"), f); err == nil || err.Error() != "panic: inside" {
			return text("the branch gives %v", err)
		}
		panic(errors.New("outside"))
	})
	h.play()
	h.want(store.Failed, "panic: panic: outside")
	f, err := DecodeFailure(h.r.Over().Output)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(f.Stack, "run_test.go") {
		t.Errorf("the stack does not show where: %s", f.Stack)
	}
}

func TestPanicOfAMapKeyIsTheCallers(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		_, _, err := b.Map(at("m"), 2, 1, func(i int) string { return [1]string{"k"}[i] }, func(b *Branch, i int) (any, error) { return step(b, "s") })
		return result("", err)
	})
	h.play()
	h.want(store.Failed, "index out of range")
}

func TestGoexitIsAFailure(t *testing.T) {
	for _, place := range []string{"root", "branch"} {
		h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
			if place == "root" {
				runtime.Goexit()
			}
			_, err := b.Await(at("b"), b.Go(at("b"), func(*Branch) (any, error) { runtime.Goexit(); return nil, nil }))
			return result("", err)
		})
		h.play()
		h.want(store.Failed, "runtime.Goexit")
	}
}

func TestMisuseOfAContext(t *testing.T) {
	elsewhere := func(f func()) {
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
	}
	for _, c := range []struct {
		name string
		code func(b *Branch) error
		want string
	}{
		{"in another branch", func(b *Branch) error {
			_, err := b.Await(at("x"), b.Go(at("x"), func(*Branch) (any, error) { return step(b, "s") }))
			return err
		}, "through the context of the workflow's function by the code of x"},
		{"of a branch that has ended", func(b *Branch) error {
			var inner *Branch
			_, _ = b.Await(at("x"), b.Go(at("x"), func(b *Branch) (any, error) { inner = b; return nil, nil }))
			_, err := step(inner, "s")
			return err
		}, "through the context of x by the code of the workflow's function"},
		{"in a foreign goroutine", func(b *Branch) (err error) {
			elsewhere(func() { _, err = step(b, "s") })
			return err
		}, "by a step body or a foreign goroutine"},
		{"in a foreign goroutine, after a good call", func(b *Branch) (err error) {
			if err := b.Sleep(at("nap"), 0); err != nil {
				return err
			}
			elsewhere(func() { _, err = b.Derive(at("random"), "random") })
			return err
		}, "by a step body or a foreign goroutine"},
		{"in a step", func(b *Branch) error {
			_, err := b.Step(Step{Call: at("s"), Policy: once, Func: func(context.Context, *Body) BodyResult {
				_, err := step(b, "inner")
				return BodyResult{Value: []byte(err.Error())}
			}})
			return err
		}, "by a step body or a foreign goroutine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, func(b *Branch) ([]byte, *Failure) { return result("fine", c.code(b)) })
			h.finish()
			h.want(store.Failed, c.want)
		})
	}
}

// The stack of a branch is known however deep it is, and when it has moved. An
// iterator that is pulled runs in step with its caller and counts as its code.
func TestOwnCodeIsNoMisuse(t *testing.T) {
	var deep func(b *Branch, n int) (string, error)
	deep = func(b *Branch, n int) (string, error) {
		var room [512]byte
		if n > 0 {
			v, err := deep(b, n-1)
			return v + string(room[:0]), err
		}
		return step(b, "s")
	}
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		for _, n := range []int{0, 300, 3, 2000, 0} {
			if _, err := deep(b, n); err != nil {
				return result("", err)
			}
		}
		next, stop := iter.Pull(func(yield func(string) bool) {
			v, _ := step(b, "pulled")
			yield(v)
		})
		defer stop()
		v, _ := next()
		return text("%s", v)
	})
	h.finish()
	h.want(store.Succeeded, "of pulled")
}

// callSites returns two call sites on two lines.
func callSites() [2]uintptr {
	var a, b [1]uintptr
	runtime.Callers(1, a[:])
	runtime.Callers(1, b[:])
	return [2]uintptr{a[0], b[0]}
}

func TestTwoPlacesWithOneName(t *testing.T) {
	sites := callSites()
	ask := func(b *Branch, i int, name, key string) (string, error) {
		v, err := b.Step(Step{Call: Call{Name: name, Key: key, Site: sites[i]}, Policy: once})
		return string(v), err
	}
	t.Run("is an error", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
			_, _ = ask(b, 0, "fetch", "")
			return result(ask(b, 1, "fetch", ""))
		})
		h.finish()
		h.want(store.Failed, `two places in the code use the name "fetch"`)
	})
	t.Run("unless they have keys", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
			_, _ = ask(b, 0, "fetch", "a")
			return result(ask(b, 1, "fetch", "b"))
		})
		h.finish()
		h.want(store.Succeeded, "of fetch/[b]")
	})
	t.Run("or are in two scopes", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
			f := b.Go(at("x"), func(b *Branch) (any, error) { return ask(b, 0, "fetch", "") })
			_, _ = b.Await(at("x"), f)
			return result(ask(b, 1, "fetch", ""))
		})
		h.finish()
		h.want(store.Succeeded, "of fetch")
	})
	t.Run("a map and a branch with one of its keys", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
			_, _, err := b.Map(Call{Name: "m", Site: sites[0]}, 1, 1, func(int) string { return "k" }, func(b *Branch, _ int) (any, error) { return step(b, "s") })
			if err != nil {
				return result("", err)
			}
			_, err = b.Await(at("m"), b.Go(Call{Name: "m", Key: "k", Site: sites[1]}, func(b *Branch) (any, error) { return step(b, "s") }))
			return result("", err)
		})
		h.finish()
		h.want(store.Failed, `two places in the code use the name "m"`)
	})
}

func TestOneNameInALoop(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		for range 3 {
			if _, err := step(b, "s"); err != nil {
				return result("", err)
			}
		}
		return text("")
	})
	h.finish()
	h.wantOrder("s", "s#2", "s#3")
	h.replays()
}

func TestEvictionRunsDeferredFunctionsAndNoOperations(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		b.OnExit(func() { trace = append(trace, "exit") })
		defer func() {
			trace = append(trace, fmt.Sprint("recover ", recover()))
			_, err := b.Step(Step{Call: shielded("clean"), Policy: once})
			trace = append(trace, fmt.Sprint("cleaned ", err))
		}()
		settled := b.Go(at("x"), func(*Branch) (any, error) { return nil, nil })
		_, _ = b.Await(at("x"), settled)
		defer func() {
			trace = append(trace, "deferred")
			_, _ = b.Await(at("x"), settled)
			trace = append(trace, "an operation returned")
		}()
		_, err := receive(b, "mail", 0)
		return result("", err)
	})
	h.play()
	h.leave()
	if want := []string{"deferred", "recover <nil>", "exit"}; !slices.Equal(trace, want) {
		t.Fatalf("at the eviction: %q, want %q", trace, want)
	}
	trace = nil
	h.send("mail", "v")
	h.end("clean", "")
	if want := []string{"deferred", "an operation returned", "recover <nil>", "cleaned <nil>", "exit"}; !slices.Equal(trace, want) {
		t.Fatalf("at the end: %q, want %q", trace, want)
	}
}

// Branches are unwound one at a time, the youngest first.
func TestOrderOfUnwinding(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		defer func() { trace = append(trace, "root") }()
		for i := range 3 {
			b.Go(at(fmt.Sprint("x", i)), func(b *Branch) (any, error) {
				defer func() { trace = append(trace, b.loc.String()) }()
				b.Go(at("y"), func(b *Branch) (any, error) {
					defer func() { trace = append(trace, b.loc.String()) }()
					return receive(b, "mail", 0)
				})
				return receive(b, "mail", 0)
			})
		}
		return result(receive(b, "mail", 0))
	})
	h.play()
	h.leave()
	if want := []string{"x2/y", "x1/y", "x0/y", "x2", "x1", "x0", "root"}; !slices.Equal(trace, want) {
		t.Errorf("unwound as %q, want %q", trace, want)
	}
}

// A panic in a deferred function does not end the process, live or unwound.
func TestPanicWhileUnwinding(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		for i := range 3 {
			b.Go(at(fmt.Sprint("x", i)), func(b *Branch) (any, error) {
				defer func() { panic("while unwinding") }()
				return receive(b, "mail", 0)
			})
		}
		defer func() { panic("while unwinding") }()
		return result(receive(b, "mail", 0))
	})
	h.play()
	h.leave()
}

func TestDeadlockNamesThePlaces(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
		var first *Future
		second := b.Go(at("second"), func(b *Branch) (any, error) { return b.Await(at("first"), first) })
		first = b.Go(at("first"), func(b *Branch) (any, error) { return b.Await(at("second"), second) })
		_, err := b.Await(at("first"), first)
		return result("", err)
	})
	h.play()
	h.want(store.Failed, "no operation is open: first, second, the workflow's function")
}

func TestCodeOfACancelledRunThatGoesOnAsking(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
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
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
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
	h := newHarness(t, func(b *Branch) ([]byte, *Failure) {
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
	code := func(b *Branch) ([]byte, *Failure) {
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
	h.r = New(Config{Run: h.j.run, Entries: entries, Items: items, Code: code, Fetch: func(string) ([]byte, error) { return nil, broken }})
	h.r.Advance(h.clock, h.clock)
	if err := h.r.Broken(); !errors.Is(err, broken) || h.r.Over() != nil || h.r.Take() != nil {
		t.Errorf("the activation is broken by %v; over %v", err, h.r.Over())
	}
}
