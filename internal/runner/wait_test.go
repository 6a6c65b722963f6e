package runner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

func TestSleepSuspendsAndKeepsItsDeadline(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		if err := b.Sleep(at("nap"), time.Hour); err != nil {
			return result("", err)
		}
		return text("awake at %s", b.Now())
	})
	h.play()
	if h.j.run.Status != store.Suspended || h.j.run.WakeAt != stored.WakeAt(birth.Add(time.Hour)) {
		t.Fatalf("the run is %s and wakes %s", h.j.run.Status, h.j.run.WakeAt)
	}
	if !strings.Contains(string(h.j.run.Waits), `"nap"`) {
		t.Errorf("it says that it waits for %s", h.j.run.Waits)
	}
	h.pass(30 * time.Minute)
	h.crash() // only the remainder is slept
	h.play()
	h.pass(30*time.Minute - time.Microsecond)
	if h.r.Over() != nil {
		t.Fatal("the sleep is over early")
	}
	h.pass(time.Microsecond)
	h.want(store.Succeeded, "awake at "+birth.Add(time.Hour).String())
	h.replays()
}

// TestARunThatIsClaimedAheadWaitsInMemory: a suspended run is due in the store shortly before the time it waits for.
// Until then it is not suspended again, and nothing has happened to it.
func TestARunThatIsClaimedAheadWaitsInMemory(t *testing.T) {
	for name, test := range map[string]struct {
		code func(*Branch) ([]byte, *stored.Failure)
		with func(*Config)
	}{
		"sleep": {code: func(b *Branch) ([]byte, *stored.Failure) { return result("", b.Sleep(at("nap"), time.Hour)) }},
		"message": {code: func(b *Branch) ([]byte, *stored.Failure) {
			_, err := receive(b, "mail", birth.Add(time.Hour))
			if err == nil {
				return text("expected no message")
			}
			return text("no mail")
		}},
		"policy": {
			code: func(b *Branch) ([]byte, *stored.Failure) { return result(receive(b, "mail", 0)) },
			with: func(c *Config) { c.CancelAt = birth.Add(time.Hour) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, test.code)
			if test.with != nil {
				test.with(&h.cfg)
			}
			h.play()
			due := birth.Add(time.Hour - time.Duration(stored.Ahead)*time.Microsecond)
			if h.j.run.Status != store.Suspended || h.j.run.WakeAt != due {
				t.Fatalf("the run is %s and wakes %s, want %s", h.j.run.Status, h.j.run.WakeAt, due)
			}
			if waits := stored.Waits(&h.j.run); waits != birth.Add(time.Hour) {
				t.Errorf("it says that it waits until %s", waits)
			}
			h.pass(due.Sub(birth))
			if h.r.Over() != nil || h.j.run.Status != store.Running {
				t.Fatalf("claimed ahead the run is %s, and ends %+v", h.j.run.Status, h.r.Over())
			}
			h.pass(time.Duration(stored.Ahead-1) * time.Microsecond)
			if h.r.Over() != nil || h.j.run.Status != store.Running {
				t.Fatalf("a microsecond early the run is %s, and ends %+v", h.j.run.Status, h.r.Over())
			}
			h.pass(time.Microsecond)
			if h.r.Over() == nil {
				t.Fatalf("the run has not ended at its time; it is %s", h.j.run.Status)
			}
			h.replays()
		})
	}
}

// A sleep of less than a second neither suspends the run nor needs a record; its
// deadline is the same after a crash.
func TestShortSleep(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		return result("awake", b.Sleep(at("nap"), 900*time.Millisecond))
	})
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
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
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
	code := func(b *Branch) ([]byte, *stored.Failure) { return result(receive(b, "mail", 0)) }
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
		if h.take(); h.pending.Update != nil {
			t.Fatalf("before it has looked at the message its turn says %+v", h.pending.Update)
		}
		h.commit()
		h.play()
		h.want(store.Succeeded, "v")
	})
}

func TestMessageSentBeforeTheReceive(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(receive(b, "mail", 0)) })
	h.j.send(store.Item{Kind: store.ItemMessage, Name: "mail", Sent: birth, Value: []byte("early")})
	h.play()
	h.want(store.Succeeded, "early")
}

// Messages are received in the order of their numbers, however they are told.
func TestMessagesDeliveredOutOfOrder(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
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
		items = append(items, h.j.send(store.Item{Kind: store.ItemMessage, Name: "mail", Sent: h.clock,
			Value: []byte(fmt.Sprint(i))}))
	}
	h.r.Deliver(items[1], items[0], items[1])
	h.end("s", "")
	h.want(store.Succeeded, "01")
	h.replays()
}

func TestReceiveWithDeadline(t *testing.T) {
	code := func(b *Branch) ([]byte, *stored.Failure) { return result(receive(b, "mail", birth.Add(time.Hour))) }
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
	batch := func(deadline store.Time) func(b *Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
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
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
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
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
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
	code := func(b *Branch) ([]byte, *stored.Failure) {
		p, err := b.NewPromise(at("answer"), nil)
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
		if secret != first || secret != stored.PromiseSecret(h.j.run.Seed, string(path("answer")), 0) {
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
		no.Failed, no.Value = true, stored.EncodeFailure(&stored.Failure{Code: stored.CodeError, Message: "no"})
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
		if it := h.j.items[0]; it.State != store.Dead {
			t.Errorf("the resolution is no dead letter: %+v", it)
		}
		h.end("hand-out", "")
		if h.r.Over() != nil {
			t.Error("it has settled the promise")
		}
	})
}
