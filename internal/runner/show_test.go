package runner

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// shownAll makes sure that all that the code has said is there.
func (d *driver) shownAll(t *testing.T, program int) {
	t.Helper()
	terminated := strings.HasPrefix(d.j.run.Reason, "terminated")
	upTo := int64(math.MaxInt64)
	if terminated {
		upTo = d.j.seq() // what a replay says behind it was never committed
	}
	if d.checkShown(upTo); len(d.j.broken) > 0 {
		t.Fatalf("program %d: %s\n%s", program, d.j.broken[0], strings.Join(d.j.streams["log"], "\n"))
	}
	if terminated {
		return
	}
	if last := d.shown[len(d.shown)-1].text; d.j.values["last"] != last {
		t.Fatalf("program %d: the value is %q, the last one set is %q", program, d.j.values["last"], last)
	}
}

// TestNothingIsShownTwiceOrLost cuts random programs that show all that they see
// at random points. The stream holds what the code has said, in that order, nothing
// is missing and nothing is there twice, also if the history is pruned; the value is
// the last one; each update that was received is answered once.
func TestNothingIsShownTwiceOrLost(t *testing.T) {
	seed := seedOf(t)
	items, answers, cuts := 0, 0, 0
	for i := range count(t, 1000) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		d := newDriver(t, generate(random, 4+random.IntN(25)), random)
		d.shows = true
		d.cruel = random.IntN(4) == 0
		often := 3 + random.IntN(40)
		over := d.run(func() bool { return random.IntN(often) == 0 })
		cuts += d.cuts
		d.shownAll(t, i)
		if problem := d.verify(over); problem != "" {
			t.Fatalf("program %d: %s", i, problem)
		}
		d.shownAll(t, i) // by a replay too
		items += len(d.j.streams["log"])
		for _, it := range d.j.items {
			if it.Kind != store.ItemUpdate {
				continue
			}
			text, given := d.answers[it.No]
			if given && it.Verdict == nil || it.Verdict != nil && string(it.Verdict) != "to "+string(it.Value) || given &&
				text != string(it.Verdict) {
				t.Fatalf("program %d: the update %d is %+v, and the code has answered %q", i, it.No, it, d.answers[it.No])
			}
			if it.Verdict != nil {
				answers++
			}
		}
	}
	t.Logf("%d items and %d answers, %d cuts", items, answers, cuts)
	if items == 0 || answers == 0 || cuts == 0 {
		t.Error("something of this never happened")
	}
}

// shows asks for what a run says and fails its test if it may not.
func shows(b *Branch, stream, text string) {
	if err := b.Append(at(stream), []byte(text), 0); err != nil {
		panic(err)
	}
}

func (h *harness) wantStream(name string, items ...string) {
	h.t.Helper()
	if got := h.j.streams[name]; !slices.Equal(got, items) {
		h.t.Fatalf("stream %s holds %q, want %q", name, got, items)
	}
}

func TestOfSeveralContentsTheLastIsWritten(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for i := range 100 {
			if err := b.Set(at("v"), fmt.Append(nil, i)); err != nil {
				return result("", err)
			}
		}
		return result(step(b, "a"))
	})
	h.play()
	if h.j.values["v"] != "99" || h.j.sets != 1 {
		t.Fatalf("the value is %q and was set %d times", h.j.values["v"], h.j.sets)
	}
	if len(h.j.entries) != 0 {
		t.Errorf("setting a value has made entries: %v", h.j.entries)
	}
	h.wantFlight("a")
	h.end("a", "x")
	h.want(store.Succeeded, "x")
	if h.j.sets != 1 {
		t.Errorf("the value was set %d times", h.j.sets)
	}
}

// A turn that only completes a step has nothing else in it.
func TestAPlainStepShowsNothing(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		if _, err := step(b, "a"); err != nil {
			return result("", err)
		}
		return result(step(b, "b"))
	})
	h.play()
	h.complete("a", BodyResult{Value: []byte("x")})
	if h.j.turns != 1 || len(h.j.entries) != 1 || len(h.j.values)+len(h.j.streams) > 0 {
		t.Errorf("one step has made %d turns, %d entries, %v and %v", h.j.turns, len(h.j.entries), h.j.values, h.j.streams)
	}
}

func TestWhatIsTooLargeIsNotShown(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		large := make([]byte, 11)
		var codes []string
		for _, err := range []error{b.Set(at("v"), large), b.Append(at("s"), large, 0), b.Set(at("v"), large[:10])} {
			var f *stored.Failure
			if errors.As(err, &f) {
				codes = append(codes, f.Code)
			}
		}
		return text("%v", codes)
	})
	h.cfg.Limits.Value = 10
	h.play()
	h.want(store.Succeeded, "[too_large too_large]")
	if h.j.sets != 1 || len(h.j.streams) != 0 {
		t.Errorf("%d values and %v were written", h.j.sets, h.j.streams)
	}
}

func TestACancelledBranchShows(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := step(b, "a")
		shows(b, "s", fmt.Sprint(err))
		return result("", err)
	})
	h.play()
	h.cancel()
	h.want(store.Cancelled, "")
	h.wantStream("s", ErrCancelled.Error())
}

func TestARunThatShowsWithoutAnEndStalls(t *testing.T) {
	for _, what := range []string{"stream", "value", "tag"} {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			for i := range 10_000 {
				name := fmt.Sprint("n", i)
				switch what {
				case "stream":
					shows(b, "s", "x")
				case "value":
					if err := b.Set(at(name), []byte("x")); err != nil {
						return result("", err)
					}
				case "tag":
					if err := b.Tag(at("tags"), []store.Pair{{Key: name, Value: "x"}}); err != nil {
						return result("", err)
					}
				}
			}
			return text("shown")
		})
		h.cfg.Limits.Entries = 1000
		h.play()
		if what == "tag" {
			h.wantBug(stored.CauseBudget, "the run has more than 64 tags", 0)
		} else {
			h.wantBug(stored.CauseBudget, "the run has shown 1001 values and items", 0)
		}
	}
}

// A turn is cut when it is full of items, as with entries.
func TestATurnIsFullOfItems(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for range 3 {
			if err := b.Sleep(at("nap"), time.Millisecond); err != nil {
				return result("", err)
			}
			for range 5 {
				shows(b, "s", "x")
			}
		}
		return text("done")
	})
	h.cfg.Limits.TurnEntries = 5
	h.finish()
	h.want(store.Succeeded, "done")
	if n := len(h.j.streams["s"]); n != 15 || h.j.turns < 3 {
		t.Errorf("%d items in %d turns", n, h.j.turns)
	}
	h.replays()
}

func TestTagsAreMerged(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for _, tags := range [][]store.Pair{{{Key: "a", Value: "1"}, {Key: "b", Value: "1"}}, {{Key: "a", Value: "2"}}} {
			if err := b.Tag(at("tags"), tags); err != nil {
				return result("", err)
			}
		}
		if _, err := step(b, "s"); err != nil {
			return result("", err)
		}
		return nil, asFailure(b.Tag(at("tags"), []store.Pair{{Key: "b"}, {Key: "c", Value: "3"}}))
	})
	h.j.run.Tags = []store.Pair{{Key: "z", Value: "0"}}
	h.finish()
	h.want(store.Succeeded, "")
	if want := []store.Pair{{Key: "a", Value: "2"}, {Key: "c", Value: "3"},
		{Key: "z", Value: "0"}}; !slices.Equal(h.j.run.Tags, want) {
		t.Errorf("the tags are %v, want %v", h.j.run.Tags, want)
	}
}

func asFailure(err error) *stored.Failure {
	if err == nil {
		return nil
	}
	return &stored.Failure{Code: stored.CodeError, Message: err.Error()}
}

// An unnumbered completion is handed over in a replay, and what is said because
// of it is new; what stands after the last numbered one is not said again.
func TestWhatAReplaySaysIsNewBehindAnUnnumberedStep(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		shows(b, "s", "begin")
		if _, err := step(b, "a"); err != nil {
			return result("", err)
		}
		shows(b, "s", "after a")
		if _, err := step(b, "tx"); err != nil {
			return result("", err)
		}
		shows(b, "s", "after tx")
		return result(step(b, "c"))
	})
	h.play()
	h.end("a", "1")
	h.wantStream("s", "begin", "after a")
	h.leave() // the transaction of tx has committed
	h.j.entries[string(path("tx"))] = store.Entry{Loc: string(path("tx")), Kind: store.KindStep, State: store.Done,
		Attempt: 1, Value: []byte("2"), Size: 1}
	h.play()
	h.wantStream("s", "begin", "after a", "after tx")
	h.crash()
	h.play()
	h.wantStream("s", "begin", "after a", "after tx")
	h.end("c", "3")
	h.want(store.Succeeded, "3")
	h.replays()
}

// A replay that stalls has said nothing.
func TestAStalledReplayShowsNothing(t *testing.T) {
	edited := false
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		if !edited {
			return result(step(b, "a"))
		}
		shows(b, "s", "new code")
		return result(step(b, "b"))
	})
	h.play()
	h.end("a", "1")
	h.want(store.Succeeded, "1")
	h.j.run.Status, h.j.run.Claimed = store.Running, true
	h.leave()
	edited = true
	h.play()
	h.want(store.Stalled, "mismatch at a")
	h.wantStream("s")
}

// Former code has said nothing at a place that a new version of the code says
// something at: what stands is not changed.
func TestNewCodeSaysNothingOfWhatStands(t *testing.T) {
	edited := false
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for _, name := range []string{"a", "b", "c"} {
			if _, err := step(b, name); err != nil {
				return result("", err)
			}
			if edited || name == "b" {
				shows(b, "s", "after "+name)
			}
		}
		return text("done")
	})
	h.play()
	h.end("a", "1")
	h.end("b", "1")
	h.wantStream("s", "after b")
	edited = true
	h.crash()
	h.play()
	h.end("c", "1")
	h.want(store.Succeeded, "done")
	h.wantStream("s", "after b", "after c")
}

// The items of a loop whose history is pruned have the positions that follow.
func TestStreamOfAPrunedLoop(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		err := b.Loop(Loop{Call: at("loop"), Every: 3, Keep: 2, State: []byte("0"),
			Body: func(n int64, state []byte) ([]byte, bool, error) {
				shows(b, "s", fmt.Sprint("begin ", n))
				if _, err := step(b, "work"); err != nil {
					return nil, false, err
				}
				shows(b, "s", fmt.Sprint("end ", n))
				return fmt.Append(nil, n+1), n < 19, nil
			}})
		return result("done", err)
	})
	h.play()
	for n := range 20 {
		h.crash()
		h.play()
		h.end(fmt.Sprintf("loop/~%d/work", n), "x")
	}
	h.want(store.Succeeded, "done")
	var want []string
	for n := range 20 {
		want = append(want, fmt.Sprint("begin ", n), fmt.Sprint("end ", n))
	}
	h.wantStream("s", want...)
	if len(h.j.entries) > 20 {
		t.Errorf("%d entries are kept", len(h.j.entries))
	}
}

// update sends an update and returns its number.
func (h *harness) update(name, value string) store.ItemNo {
	h.t.Helper()
	h.deliver(store.Item{Kind: store.ItemUpdate, Name: name, Value: []byte(value)})
	return store.ItemNo(len(h.j.items))
}

func (h *harness) wantVerdict(no store.ItemNo, verdict string) {
	h.t.Helper()
	if got := string(h.j.item(no).Verdict); got != verdict {
		h.t.Fatalf("update %d is answered %q, want %q", no, got, verdict)
	}
}

// receiveUpdate waits for an update.
func receiveUpdate(b *Branch, name string) (stored.Message, error) {
	got, err := b.Receive(Receive{Call: at(name), Names: []string{UpdateBox(name)}, Max: 1})
	if err != nil {
		return stored.Message{}, err
	}
	return got[0], nil
}

func TestAnUpdateIsAnsweredOnce(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		m, err := receiveUpdate(b, "u")
		if err != nil {
			return result("", err)
		}
		v, err := step(b, "work")
		if err != nil {
			return result("", err)
		}
		for _, answer := range []string{v, "too late"} {
			if err := b.AnswerUpdate(at("u"), m.No, []byte(answer)); err != nil {
				return result("", err)
			}
		}
		return result(step(b, "rest"))
	})
	h.play()
	if !strings.Contains(string(h.j.run.Waits), `"names":["u"]`) {
		t.Errorf("it says that it waits for %s", h.j.run.Waits)
	}
	h.deliver(store.Item{Kind: store.ItemMessage, Name: "u", Value: []byte("a message of the same name is another thing")})
	no := h.update("u", "please")
	h.wantVerdict(no, "")
	h.crash() // it was received and is not received again
	h.play()
	h.wantFlight("work")
	h.end("work", "done")
	h.wantVerdict(no, "done")
	h.crash()
	h.play()
	h.end("rest", "x")
	h.want(store.Succeeded, "x")
	h.replays()
}

// The answer is durable with what led to it: not before.
func TestAnAnswerStandsWithItsCause(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		m, err := receiveUpdate(b, "u")
		if err != nil {
			return result("", err)
		}
		v, err := step(b, "work")
		if err != nil {
			return result("", err)
		}
		return nil, asFailure(b.AnswerUpdate(at("u"), m.No, []byte(v)))
	})
	h.play()
	no := h.update("u", "please")
	b := h.flight[0]
	h.r.Complete(b.ID, b.Attempt, &BodyResult{Value: []byte("lost"), Started: h.clock, Ended: h.clock})
	h.advance()
	h.take()
	h.crash() // the commit did not come to be
	h.play()
	h.wantVerdict(no, "")
	h.end("work", "stands")
	h.wantVerdict(no, "stands")
}

// Code that answers where former code did not: the answer is given when the run
// is live, since the update has none.
func TestNewCodeAnswersWhatIsOpen(t *testing.T) {
	edited := false
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		m, err := receiveUpdate(b, "u")
		if err != nil {
			return result("", err)
		}
		if edited {
			if err := b.AnswerUpdate(at("u"), m.No, []byte("at last")); err != nil {
				return result("", err)
			}
		}
		return result(receive(b, "go", 0))
	})
	h.play()
	no := h.update("u", "please")
	edited = true
	h.crash()
	h.play()
	h.wantVerdict(no, "at last")
	h.crash()
	h.send("go", "on")
	h.want(store.Succeeded, "on")
}

func TestHeadersComeWithAMessage(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		got, err := b.Receive(Receive{Call: at("m"), Names: []string{"m"}, Max: 1})
		if err != nil {
			return result("", err)
		}
		if _, err := step(b, "s"); err != nil {
			return result("", err)
		}
		return text("%s %s", got[0].Value, got[0].Headers)
	})
	h.play()
	h.deliver(store.Item{Kind: store.ItemMessage, Name: "m", Value: []byte("v"), Headers: []byte("h")})
	h.crash()
	h.play()
	h.end("s", "x")
	h.want(store.Succeeded, "v h")
	h.replays()
}
