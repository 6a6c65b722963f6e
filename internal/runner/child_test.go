package runner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/runs"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// child starts a child that is awaited, by name.
func child(b *Branch, name string) (*RunFuture, error) {
	return b.StartChild(Child{Call: at(name), Workflow: "w", Input: []byte("in " + name)})
}

// await returns the value of another run as text.
func await(b *Branch, o *RunFuture) (string, error) {
	v, err := b.AwaitRun(at("await"), o)
	return string(v), err
}

// tell tells the end of a run by the name that the run is awaited by.
func (h *harness) tell(name string, end stored.End) {
	h.t.Helper()
	h.deliver(store.Item{Kind: store.ItemEnd, Name: name, Value: end.Encode()})
}

// onlyChild returns the ID of the one child that was started.
func (h *harness) onlyChild() string {
	h.t.Helper()
	ids := slices.Collect(maps.Keys(h.j.out.started))
	if len(ids) != 1 {
		h.t.Fatalf("%d children were started, want one", len(ids))
	}
	return ids[0]
}

// wantCancelled fails the test unless these children were asked to cancel.
func (h *harness) wantCancelled(ids ...string) {
	h.t.Helper()
	got := slices.Sorted(maps.Keys(h.j.out.cancelled))
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		h.t.Errorf("cancelled are %q, want %q", got, ids)
	}
}

func TestStartOfAChildIsPartOfTheTurn(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		o, err := child(b, "c")
		if err != nil {
			return result("", err)
		}
		return result(await(b, o))
	})
	h.advance()
	if !h.take() || len(h.pending.Sends) != 1 || len(h.pending.Entries) != 1 {
		t.Fatalf("the first turn is %+v", h.pending)
	}
	h.crash() // before the commit
	if len(h.j.out.started) != 0 {
		t.Fatal("the child has started without its turn")
	}
	h.play()
	id := h.onlyChild()
	start := h.j.out.started[id]
	if start.Workflow != "w" || string(start.Input) != "in c" || start.Parent != 1 ||
		start.ParentLoc != string(path("c")) {
		t.Errorf("the start is %+v", start)
	}
	for range 3 { // no replay starts another one
		h.crash()
		h.play()
	}
	h.tell(id, stored.End{RunID: id, Status: store.Succeeded, Output: []byte("out")})
	h.want(store.Succeeded, "out")
	h.wantOrder("c")
	h.replays()
}

// TestChildsIDIsDerived from seed, generation and location. No later incarnation (which
// has another seed) or generation meets an old child.
func TestChildsIDIsDerived(t *testing.T) {
	ids := map[string]string{}
	for _, run := range []store.Run{{Seed: store.Seed{1}}, {Seed: store.Seed{2}}, {Seed: store.Seed{1}, Generation: 1}} {
		for _, loc := range []location.Loc{path("a"), path("b")} {
			id := runs.ChildID(run.Seed, run.Generation, loc, 0)
			if err := store.CheckRunID(id); err != nil || len(id) != 36 || id[14] != '8' {
				t.Errorf("the ID %q: %v", id, err)
			}
			who := fmt.Sprint(run.Seed[0], run.Generation, loc)
			if other := ids[id]; other != "" {
				t.Errorf("%s and %s have the child %s", who, other, id)
			}
			if ids[id] = who; id != runs.ChildID(run.Seed, run.Generation, loc, 0) {
				t.Errorf("the ID of the child at %s differs from call to call", who)
			}
		}
	}
}

func TestEndOfAChildIsHandedOverLikeAnyCompletion(t *testing.T) {
	for name, c := range map[string]struct {
		end  stored.End
		want string
		code string
	}{
		"success":  {stored.End{Status: store.Succeeded, Output: []byte("out")}, "out", ""},
		"no value": {stored.End{Status: store.Succeeded}, "<nil>", ""},
		"failure": {stored.End{Status: store.Failed,
			Output: stored.EncodeFailure(&stored.Failure{Code: "declined", Message: "no"})}, "failed: no", "declined"},
		"cancelled": {stored.End{Status: store.Cancelled, Reason: "terminated"}, "is cancelled: terminated", ""},
		"damaged": {stored.End{Status: store.Failed, Output: []byte("?")}, "failed: record of 1 bytes",
			stored.CodeEncoding},
		"large result": {stored.End{Status: store.Succeeded, Output: []byte(strings.Repeat("x", store.LargeValue))},
			"xxxx", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var id string
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
				o, err := child(b, "c")
				if err != nil {
					return result("", err)
				}
				v, err := await(b, o)
				if _, err := step(b, "after"); err != nil {
					return result("", err)
				}
				again, err2 := await(b, o) // the same, at once
				if id = b.RunID(o); fmt.Sprint(v, err) != fmt.Sprint(again, err2) {
					return text("awaited %v %v, then %v %v", v, err, again, err2)
				}
				var f *stored.Failure
				if errors.As(err, &f) && (f.Code != stored.CodeRun || f.Cause != nil && f.Cause.Code != c.code ||
					f.Cause == nil && c.code != "") {
					return text("the failure is %+v", f)
				}
				return text("%s%v", v, err)
			})
			h.play()
			child := h.onlyChild()
			c.end.RunID = child
			h.tell(child, c.end)
			h.wantFlight("after")
			h.crash() // also of a value that the snapshot leaves out
			h.play()
			h.end("after", "")
			h.want(store.Succeeded, c.want)
			if id != child {
				t.Errorf("the child's ID is %q after its end, was %q", id, child)
			}
			h.replays()
		})
	}
}

func TestEndThatNobodyAwaitsIsConsumed(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		if _, err := child(b, "c"); err != nil {
			return result("", err)
		}
		return result(receive(b, "m", 0))
	})
	h.play()
	h.tell("a child of an older incarnation", stored.End{RunID: "x", Status: store.Succeeded})
	if it := h.j.item(1); it.State != store.Consumed {
		t.Errorf("the end of an unknown run is in state %d", it.State)
	}
	id := h.onlyChild()
	h.tell(id, stored.End{RunID: id, Status: store.Succeeded}) // awaited by nobody, but it may be yet
	if it := h.j.item(2); it.State != store.Seen {
		t.Errorf("the end of a child is in state %d before anybody awaits it", it.State)
	}
	h.tell(id, stored.End{RunID: id, Status: store.Failed})
	if it := h.j.item(3); it.State != store.Consumed {
		t.Errorf("a second end is in state %d", it.State)
	}
	h.crash()
	h.send("m", "done")
	h.want(store.Succeeded, "done")
}

func TestEndBeforeTheAwaitIsKept(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		o, err := child(b, "c")
		if err != nil {
			return result("", err)
		}
		if _, err := step(b, "s"); err != nil {
			return result("", err)
		}
		return result(await(b, o))
	})
	h.play()
	id := h.onlyChild()
	h.tell(id, stored.End{RunID: id, Status: store.Succeeded, Output: []byte("early")})
	h.crash()
	h.play()
	h.end("s", "")
	h.want(store.Succeeded, "early")
	h.wantOrder("s", "c")
	h.replays()
}

func TestChildEndsWithItsScope(t *testing.T) {
	var seen string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var o *RunFuture
		inner := b.Go(at("inner"), func(b *Branch) (v any, err error) {
			if o, err = child(b, "c"); err != nil {
				return nil, err
			}
			if _, err := b.StartChild(Child{Call: at("left"), Workflow: "w", Leave: true}); err != nil {
				return nil, err
			}
			if _, err := b.StartChild(Child{Call: shielded("shielded"), Workflow: "w"}); err != nil {
				return nil, err
			}
			return nil, b.Sleep(at("nap"), 0)
		})
		watcher := b.Go(at("watcher"), func(b *Branch) (any, error) {
			if err := b.Sleep(at("nap"), 0); err != nil {
				return nil, err
			}
			_, err := await(b, o)
			seen = fmt.Sprint(err)
			return nil, nil
		})
		if _, err := b.Compose(at("join"), Join, []*Future{inner, watcher}); err != nil {
			return result("", err)
		}
		_, err := await(b, o) // known, and not waited for
		return text("%v %s", err, b.RunID(o))
	})
	over := h.finish()
	id := b36(h, "inner/c")
	if seen != "cancelled" || string(over.Output) != "cancelled "+id {
		t.Errorf("the one saw %q, the other %q", seen, over.Output)
	}
	h.wantCancelled(id)
	if e, _ := h.j.at("inner/c"); e.State != store.Withdrawn {
		t.Errorf("the child's entry is %s", e.State)
	}
	h.replays()
}

// b36 returns the ID of the child that was started at a place.
func b36(h *harness, place string) string {
	h.t.Helper()
	for id, start := range h.j.out.started {
		if location.Loc(start.ParentLoc).String() == place {
			return id
		}
	}
	h.t.Fatalf("no child was started at %s", place)
	return ""
}

func TestCancelOfABranchCancelsItsChildren(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		slow := b.Go(at("slow"), func(b *Branch) (any, error) {
			o, err := child(b, "c")
			if err != nil {
				return nil, err
			}
			return await(b, o)
		})
		quick := spawn(b, "quick", "s")
		winner, err := b.Compose(at("race"), Race, []*Future{slow, quick})
		_, slowErr := slow.Result()
		return text("%d %v %v", winner, err, slowErr)
	})
	h.play()
	id := h.onlyChild()
	h.end("quick/s", "")
	h.want(store.Succeeded, "1 <nil> cancelled")
	h.wantCancelled(id)
	h.replays()
}

// TestChildOfARunThatEndsWithoutItsCode: terminated, or failed for good, live or
// in replay.
func TestChildOfARunThatEndsWithoutItsCode(t *testing.T) {
	code := func(b *Branch) ([]byte, *stored.Failure) {
		if _, err := child(b, "c"); err != nil {
			return result("", err)
		}
		if _, err := b.StartChild(Child{Call: at("left"), Workflow: "w", Leave: true}); err != nil {
			return result("", err)
		}
		if _, err := b.StartChild(Child{Call: at("detached"), Workflow: "w", Detached: true}); err != nil {
			return result("", err)
		}
		return result(step(b, "s"))
	}
	for _, when := range []string{"live", "in replay"} {
		t.Run(when, func(t *testing.T) {
			h := newHarness(t, code)
			h.play()
			if when == "in replay" {
				h.crash()
			}
			h.r.Terminate(h.j.send(store.Item{Kind: store.ItemTerminate}))
			h.advance()
			h.take()
			h.commit()
			h.want(store.Cancelled, "")
			h.wantCancelled(b36(h, "c"))
		})
	}
	t.Run("not in memory", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		entries, _ := h.j.snapshot()
		sends := history.Orphans(&h.j.run, entries, nil)
		if len(sends) != 1 || sends[0].RunID != b36(h, "c") || sends[0].Item.Kind != store.ItemCancel {
			t.Errorf("the orphans are %+v", sends)
		}
	})
}

func TestUnknownWorkflowIsACompletion(t *testing.T) {
	known := false
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		o, err := child(b, "c")
		var f *stored.Failure
		if !errors.As(err, &f) || f.Code != stored.CodeUnknownWorkflow {
			return text("%v %v", o, err)
		}
		return result(step(b, "s"))
	})
	h.cfg.Knows = func(string) (bool, error) { return known, nil }
	h.play()
	h.wantOrder("c")
	known = true // what is recorded stands
	h.crash()
	h.play()
	h.end("s", "refused")
	h.want(store.Succeeded, "refused")
	if len(h.j.out.started) != 0 {
		t.Error("a child was started")
	}
}

func TestStoreThatCannotSayBreaksTheActivation(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := child(b, "c")
		return result("", err)
	})
	h.cfg.Knows = func(string) (bool, error) { return false, store.ErrUnavailable }
	h.play()
	if !errors.Is(h.r.Broken(), store.ErrUnavailable) || h.r.Over() != nil {
		t.Errorf("broken: %v, over: %+v", h.r.Broken(), h.r.Over())
	}
}

func TestWatchOfARun(t *testing.T) {
	code := func(b *Branch) ([]byte, *stored.Failure) {
		o, err := b.Watch(at("w"), "other")
		if err != nil {
			return result("", err)
		}
		v, err := await(b, o)
		return text("%s %s %v", b.RunID(o), v, err)
	}
	watch := func(h *harness) (id string) {
		h.t.Helper()
		h.play()
		if len(h.j.out.watches) != 1 {
			h.t.Fatalf("the watches are %+v", h.j.out.watches)
		}
		for id = range h.j.out.watches {
			if it := h.j.out.watches[id]; h.j.out.watched[id] != "other" || it.Loc != string(path("w")) || it.Name != id {
				h.t.Errorf("the watch of %q is %+v", h.j.out.watched[id], it)
			}
		}
		return id
	}
	t.Run("it ends", func(t *testing.T) {
		h := newHarness(t, code)
		id := watch(h)
		h.crash()
		watch(h) // no other one
		h.tell(id, stored.End{RunID: "other@3", Status: store.Succeeded, Output: []byte("out")})
		h.want(store.Succeeded, "other@3 out <nil>") // it was replaced since
		h.replays()
	})
	t.Run("there is none", func(t *testing.T) {
		h := newHarness(t, code)
		id := watch(h)
		h.deliver(store.Item{Kind: store.ItemEnd, Name: id, Failed: true})
		h.want(store.Succeeded, `other  run "other": not found`)
		h.replays()
	})
}

// TestWatchesAreToldOfTheEnd: the owner tells the parent and all that watch.
func TestWatchesAreToldOfTheEnd(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "s")) })
	h.play()
	h.deliver(store.Item{Kind: store.ItemWatch, Name: "n", Loc: "l", Incarnation: 2,
		Value: stored.Watching(7, "", "", "").Item.Value})
	if it := h.j.item(1); it.State != store.Seen {
		t.Errorf("the watch is in state %d", it.State)
	}
	h.crash() // it stays
	h.play()
	watches := h.r.Watches()
	n := 0
	run := store.Run{ID: "r", Parent: 3, ParentLoc: "p", Status: store.Failed, Output: []byte("f"), Reason: "why"}
	got := stored.Notify(&run, append(watches, store.Item{Value: []byte("damaged")}),
		func() string { n++; return fmt.Sprint("id", n) })
	if len(watches) != 1 || len(got) != 2 {
		t.Fatalf("%d watches, told are %+v", len(watches), got)
	}
	for i, want := range []store.Command{
		{RunNo: 3, Item: &store.Item{Kind: store.ItemEnd, ID: "id1", Origin: "id1", Name: "r", Loc: "p"}},
		{RunNo: 7, Item: &store.Item{Kind: store.ItemEnd, ID: "id2", Origin: "id2", Name: "n", Loc: "l", Incarnation: 2}},
	} {
		if end, err := stored.DecodeEnd(got[i].Item.Value); err != nil || end.RunID != "r" || end.Status != store.Failed ||
			string(end.Output) != "f" || end.Reason != "why" {
			t.Errorf("the end is %+v (%v)", end, err)
		}
		want.Item.Value = got[i].Item.Value
		if got[i].RunNo != want.RunNo || got[i].RunID != "" || fmt.Sprint(*got[i].Item) != fmt.Sprint(*want.Item) {
			t.Errorf("told is %+v, want %+v", *got[i].Item, *want.Item)
		}
	}
	run.ParentLoc = "" // detached
	if got := stored.Notify(&run, nil, func() string { return "id" }); got != nil {
		t.Errorf("of a detached run's end are told %+v", got)
	}
}

// TestDeadlineOfACombinedWait: what was sent by then wins, what was sent later has
// lost although it is there when the deadline is handed over. It is not lost.
func TestDeadlineOfACombinedWait(t *testing.T) {
	for name, late := range map[string]bool{"in time": false, "late": true} {
		for _, what := range []string{"child", "promise", "message"} {
			t.Run(what+" "+name, func(t *testing.T) {
				h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
					o, err := child(b, "c")
					if err != nil {
						return result("", err)
					}
					p, err := b.NewPromise(at("p"), nil)
					if err != nil {
						return result("", err)
					}
					mail := Receive{Call: at("m"), Names: []string{"m"}, Max: 1}
					won, err := b.Select(at("select"), []Case{
						{Run: o}, {Promise: p}, {Receive: &mail}, {Timer: &Timer{Call: at("t"), At: b.Now().Add(time.Minute)}},
					})
					if err != nil || won.Index != 3 {
						return text("%d %v", won.Index, err)
					}
					var v string
					switch what {
					case "child":
						v, err = await(b, o)
					case "promise":
						var data []byte
						data, err = b.AwaitPromise(at("await"), p)
						v = string(data)
					case "message":
						v, err = receive(b, "m2", 0)
					}
					return text("timeout, then %s %v", v, err)
				})
				h.play()
				it := store.Item{Sent: h.clock.Add(time.Minute), Value: []byte("v")}
				switch what {
				case "child":
					id := h.onlyChild()
					it.Kind, it.Name, it.Value = store.ItemEnd, id, stored.End{RunID: id, Status: store.Succeeded,
						Output: []byte("v")}.Encode()
				case "promise":
					it.Kind, it.Loc = store.ItemResolution, string(path("p"))
				case "message":
					it.Kind, it.Name = store.ItemMessage, "m"
				}
				if late {
					it.Sent++
				}
				h.clock, h.stale = h.clock.Add(2*time.Minute), 2*time.Minute // woken before the inbox was read so far
				h.j.claim()
				h.r.Resumed()
				h.advance()
				if _, needsInbox := h.r.NextTimer(); h.r.Over() != nil || !needsInbox {
					t.Fatalf("the deadline was handed over although the inbox was not read: %+v", h.r.Over())
				}
				h.r.Deliver(h.j.send(it))
				h.stale = 0
				h.play()
				want := map[string]string{"child": "0", "promise": "1", "message": "2"}[what] + " <nil>"
				if late {
					want = "timeout, then v <nil>"
					if what == "message" {
						h.send("m2", "v")
						if kept := h.j.item(1); kept.State != store.Seen {
							t.Errorf("the late message is in state %d", kept.State)
						}
					}
				}
				h.want(store.Succeeded, want)
				h.replays()
			})
		}
	}
}

func TestInsertedChildStalls(t *testing.T) {
	former := func(b *Branch) ([]byte, *stored.Failure) {
		if _, err := step(b, "a"); err != nil {
			return result("", err)
		}
		return result(step(b, "b"))
	}
	inserted := func(where string) func(b *Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			for _, name := range []string{"a", "b"} {
				if name == where {
					if _, err := child(b, "new"); err != nil {
						return result("", err)
					}
				}
				if _, err := step(b, name); err != nil {
					return result("", err)
				}
			}
			return text("done")
		}
	}
	h := newHarness(t, former)
	h.play()
	h.end("a", "")
	h.leave()
	h.code = inserted("a") // before what is recorded
	h.play()
	h.want(store.Stalled, "the code asks for child new before it")
	if len(h.j.out.started) != 0 {
		t.Error("the stalled replay has started a child")
	}

	h = newHarness(t, former)
	h.play()
	h.end("a", "")
	h.leave()
	h.code = inserted("b") // behind it
	h.play()
	h.end("b", "")
	h.want(store.Succeeded, "done")
}

func TestChildThatTheCodeForgetsStalls(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		if _, err := child(b, "c"); err != nil {
			return result("", err)
		}
		return result(step(b, "s"))
	})
	h.play()
	h.leave()
	h.code = func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "s")) }
	h.play()
	h.want(store.Stalled, "the history has child c (open)")
}

func TestWaitsNameTheOtherRun(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		o, err := b.Watch(at("w"), "other")
		if err != nil {
			return result("", err)
		}
		return result(await(b, o))
	})
	h.play()
	if waits := string(h.j.run.Waits); !strings.Contains(waits, `"kind":"run"`) ||
		!strings.Contains(waits, `"run":"other"`) {
		t.Errorf("it waits for %s", waits)
	}
}

// TestOtherOfAnotherRunIsRefused: what one activation has started is not another one's to
// await.
func TestOtherOfAnotherRunIsRefused(t *testing.T) {
	var foreign *RunFuture
	first := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var err error
		if foreign, err = child(b, "c"); err != nil {
			return result("", err)
		}
		return result(await(b, foreign))
	})
	first.play()
	for name, code := range map[string]func(b *Branch) ([]byte, *stored.Failure){
		"await": func(b *Branch) ([]byte, *stored.Failure) { return result(await(b, foreign)) },
		"ID":    func(b *Branch) ([]byte, *stored.Failure) { return text("%s", b.RunID(foreign)) },
		"select": func(b *Branch) ([]byte, *stored.Failure) {
			_, err := b.Select(at("s"), []Case{{Run: foreign}})
			return result("", err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, code)
			h.play()
			h.want(store.Failed, "misuse: the child or awaited run at c belongs to a former activation of this run")
		})
	}
}
