package runner

import (
	"fmt"
	"testing"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// TestWithdrawnChildIsAskedForItsEnd: a run that is taken up after its end does
// not know what came of its children meanwhile.
func TestWithdrawnChildIsAskedForItsEnd(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		o, err := b.StartChild(Child{Call: at("c"), Workflow: "w", Leave: true})
		if err != nil {
			return result("", err)
		}
		if _, err := step(b, "s"); err != nil {
			return result("", err)
		}
		return result(await(b, o))
	})
	h.play()
	h.fail("s", "no")
	h.want(store.Failed, "no")
	if e, _ := h.j.at("c"); e.State != store.Withdrawn {
		t.Fatalf("the entry of a child that goes on is %s at the end of its parent", e.State)
	}
	// A retry, as the owner makes one.
	h.leave()
	delete(h.j.entries, string(path("s")))
	h.j.run.Status, h.j.run.Claimed = store.Running, true
	h.play()
	h.end("s", "")
	if len(h.j.out.watches) != 1 {
		t.Fatalf("the watches are %+v", h.j.out.watches)
	}
	id := h.onlyChild()
	for watch, it := range h.j.out.watches {
		if h.j.out.watched[watch] != id || it.Name != id {
			t.Errorf("the watch of %s is %+v", h.j.out.watched[watch], it)
		}
	}
	h.tell(id, stored.End{RunID: id, Status: store.Succeeded, Output: []byte("meanwhile")})
	h.want(store.Succeeded, "meanwhile")
}

// TestDroppedChildIsBegunAgain: a child that was cancelled because its scope had
// failed, and is awaited again after a retry, is begun again under another ID, unless
// it has succeeded after all.
func TestDroppedChildIsBegunAgain(t *testing.T) {
	code := func(b *Branch) ([]byte, *stored.Failure) {
		c := b.Go(at("both-0"), func(b *Branch) (any, error) {
			o, err := child(b, "c")
			if err != nil {
				return nil, err
			}
			return await(b, o)
		})
		s := b.Go(at("both-1"), func(b *Branch) (any, error) { return step(b, "s") })
		if failed, err := b.Compose(at("both"), All, []*Future{c, s}); failed >= 0 || err != nil {
			_, err = b.Await(at("both-1"), s)
			return result("", err)
		}
		v, err := b.Await(at("both-0"), c)
		return result(fmt.Sprint(v), err)
	}
	for _, meanwhile := range []stored.End{
		{Status: store.Cancelled, Reason: "its parent does not wait for it any more"},
		{Status: store.Succeeded, Output: []byte("late")},
	} {
		t.Run(meanwhile.Status.String(), func(t *testing.T) {
			h := newHarness(t, code)
			h.play()
			first := h.onlyChild()
			h.fail("both-1/s", "no")
			h.want(store.Failed, "no")
			h.wantCancelled(first)
			h.leave()
			back, at, err := history.Retry(&h.j.run, h.j.whole(), h.clock)
			if err != nil || at.String() != "both-1/s" {
				t.Fatal(at, err)
			}
			h.j.revert(back, false)
			h.play()
			if len(h.j.out.watches) != 1 {
				t.Fatalf("the watches are %+v", h.j.out.watches)
			}
			meanwhile.RunID = first
			h.tell(first, meanwhile)
			want := "late"
			if meanwhile.Status == store.Cancelled {
				var second string
				for id := range h.j.out.started {
					if id != first {
						second = id
					}
				}
				if len(h.j.out.started) != 2 || h.j.out.started[second].ParentLoc != h.j.out.started[first].ParentLoc ||
					h.j.out.started[second].Seed == h.j.out.started[first].Seed {
					t.Fatalf("begun are %+v", h.j.out.started)
				}
				h.leave() // it is recorded
				h.play()
				want = "anew"
				h.tell(second, stored.End{RunID: second, Status: store.Succeeded, Output: []byte(want)})
			}
			h.end("both-1/s", "")
			h.want(store.Succeeded, want)
			h.replays()
		})
	}
}
