package runner

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// whole returns the history with all values.
func (j *durable) whole() []store.Entry {
	return slices.SortedFunc(maps.Values(j.entries), func(a, b store.Entry) int { return strings.Compare(a.Loc, b.Loc) })
}

// revert applies what a retry or rewind reverts, as the owner's turn does.
func (j *durable) revert(r *history.Revert, rewind bool) {
	r.ForRun(&j.run)
	for _, e := range j.whole() {
		if !within(r.Prune, e.Loc) {
			continue
		}
		if e.Kind == store.KindChild {
			if l, err := stored.DecodeLink(e.State, e.Value); err == nil && l.RunID != "" {
				if live := e.State == store.Open && !l.Leave && !l.Detached; live && rewind &&
					!slices.Contains(r.Children, l.RunID) {
					j.violate("child %s goes on although its start is taken back", l.RunID)
				}
				j.out.ended[l.RunID] = true
			}
		}
		delete(j.entries, e.Loc)
	}
	for _, e := range r.Rewrites {
		if _, there := j.entries[e.Loc]; !there {
			j.violate("%s is rewritten and is not there", location.Loc(e.Loc))
		}
		e.Size = len(e.Value)
		j.entries[e.Loc] = e
	}
	j.carry(r.Sends)
	for _, back := range r.Returned {
		i := slices.IndexFunc(j.items, func(it store.Item) bool {
			if back.Kind == store.ItemResolution {
				return it.Kind == back.Kind && it.Loc == back.Loc && it.Generation == back.Generation
			}
			return it.ID == back.ID
		})
		switch {
		case i < 0 || j.items[i].State != store.Consumed:
			j.violate("%+v returns and was not consumed", back)
		case !bytes.Equal(j.items[i].Value, back.Value) || j.items[i].Name != back.Name:
			j.violate("%+v returns as %+v", j.items[i], back)
		case j.items[i].Verdict == nil:
			j.items[i].State = store.New
		}
	}
	_, cancelled := j.entries[string(cancelLocation)]
	for i := range j.items {
		it := &j.items[i]
		switch {
		case it.State == store.Dead:
			it.State = store.New
		case it.Kind == store.ItemTerminate, it.Kind == store.ItemCancel && it.State == store.Consumed && !cancelled:
			it.Kind = store.ItemPause // what was asked of the run before counts no more
		}
	}
	if rewind {
		j.run.Generation++
	}
	j.retried = j.retried || !rewind
	j.run.Status, j.run.Marks, j.run.Reason, j.run.Waits, j.run.Claimed = store.Running, 0, "", nil, true
}

// TestRevertedRunsGoOn reverts a random part of a finished run and plays it to an
// end again: all laws hold; what stands is seen as before, and executed no more;
// the whole history replays.
func TestRevertedRunsGoOn(t *testing.T) {
	seed := seedOf(t)
	var rewound, retried, refused, stopped, pauses, reopened, returned, children, again, events int
	for i := range count(t, 1000) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		d := newDriver(t, generate(random, 4+random.IntN(25)), random)
		d.cruel = random.IntN(6) == 0
		often := 10 + random.IntN(80)
		cut := func() bool { return random.IntN(often) == 0 }
		if random.IntN(2) == 0 {
			d.stop = 1 + random.IntN(120) // it is stopped there, as by a pause
		}
		over := d.run(cut)
		d.stop = 0
		for round := range 1 + random.IntN(3) {
			if over == nil && len(d.j.broken) > 0 {
				t.Fatalf("program %d, round %d: %s", i, round, d.j.broken[0])
			} else if over == nil {
				stopped++
			} else if problem := d.verify(over); problem != "" {
				t.Fatalf("program %d, round %d: %s", i, round, problem)
			}
			entries := d.j.whole()
			var back *history.Revert
			var err error
			at := location.Loc("")
			retry := over != nil && over.Status == store.Failed && random.IntN(2) == 0
			if retry {
				run := d.j.run
				run.Output = over.Output
				back, at, err = history.Retry(&run, entries, d.clock)
			} else {
				if len(entries) > 0 && random.IntN(8) > 0 {
					for at = location.Loc(entries[random.IntN(len(entries))].Loc); at.Depth() > 1 && random.IntN(3) == 0; {
						at = at.Parent()
					}
				}
				back, err = history.Rewind(entries, at, d.clock)
			}
			if err != nil {
				if _, ok := err.(history.Refusal); !ok {
					t.Fatalf("program %d: to before %s: %v", i, at, err)
				}
				if refused++; over == nil {
					over = d.run(cut) // it goes on as it was
				}
				break
			}
			if retry {
				retried++
			} else {
				rewound++
			}
			reopened, returned, children = reopened+back.Reopened, returned+len(back.Returned), children+len(back.Children)
			checkReverted(t, i, entries, back)
			before, begun := d.seen, maps.Clone(d.begun)
			d.j.revert(back, !retry)
			stands := d.j.whole()
			maps.DeleteFunc(d.charged, func(loc string, _ bool) bool { // what is taken back is not undone
				return d.j.entries[loc].State != store.Done // gone, or open again
			})
			d.mail += 6
			d.activate()
			d.advance()
			want, got := before.upTo(back.Cut-1, d.j), d.seen.upTo(back.Cut-1, d.j)
			for k := range min(len(want), len(got)) {
				if want[k] == got[k] {
					continue
				}
				if sameButUnstarted(entries, back.Cut, want[k], got[k]) {
					break // what is seen from here on may depend on the difference
				}
				t.Fatalf("program %d, round %d: taken back to before %s, completion %d: the code had seen %q and sees %q "+
					"(event %d)",
					i, round, at, back.Cut, want[k], got[k], k)
			}
			over = d.run(cut)
			for _, e := range stands {
				loc := location.Loc(e.Loc).String()
				if e.Kind == store.KindStep && (e.State == store.Done || e.State == store.FailedEntry) &&
					d.begun[loc] != begun[loc] {
					t.Fatalf("program %d: %s stands and is executed again", i, loc)
				}
			}
		}
		for _, e := range d.j.entries {
			if l, err := stored.DecodeLink(e.State, e.Value); e.Kind == store.KindChild && err == nil && l.Again > 0 {
				again++
			}
		}
		pauses += d.pauses
		events += d.j.topics.backs
		if problem := d.verify(over); problem != "" {
			t.Fatalf("program %d: after what was taken back: %s", i, problem)
		}
	}
	t.Logf("%d pauses, %d rewinds, %d of runs that were stopped, %d retries, %d refused; %d entries "+
		"reopened, %d items returned, %d children cancelled, %d begun again, %d events given back",
		pauses, rewound, stopped, retried, refused, reopened, returned, children, again, events)
	if !soak.Usual(t) {
		return // too few to see all
	}
	if rewound == 0 || retried == 0 || reopened == 0 || returned == 0 || children == 0 || again == 0 || stopped == 0 ||
		pauses == 0 || events == 0 {
		t.Error("something of this never happened")
	}
}

var childIDs = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// sameButUnstarted reports whether two texts differ in the ID of a child alone that
// was cancelled before its start was recorded, or after the cut: that has a new ID.
func sameButUnstarted(entries []store.Entry, cut int64, want, got string) bool {
	if childIDs.ReplaceAllString(want, "") != childIDs.ReplaceAllString(got, "") {
		return false
	}
	return !slices.ContainsFunc(entries, func(e store.Entry) bool {
		l, err := stored.DecodeLink(e.State, e.Value)
		return e.Kind == store.KindChild && err == nil && l.RunID != "" && l.Dropped <= cut &&
			l.RunID == childIDs.FindString(want)
	})
}

// checkReverted checks a revert against the rule, entry by entry.
func checkReverted(t *testing.T, program int, entries []store.Entry, back *history.Revert) {
	t.Helper()
	after := map[string]store.Entry{}
	for _, e := range back.Apply(entries) {
		after[e.Loc] = e
	}
	for _, e := range entries {
		is, stands := after[e.Loc]
		switch {
		case e.Born >= back.Cut && stands:
			t.Errorf("program %d: %s was asked for at %d, not before the cut %d, and is there", program, location.Loc(e.Loc),
				e.Born, back.Cut)
		case stands && is.Seq >= back.Cut:
			t.Errorf("program %d: %s keeps the number %d, not below the cut %d", program, location.Loc(e.Loc), is.Seq, back.Cut)
		case stands && e.Seq > 0 && e.Seq < back.Cut && is.Seq != e.Seq:
			t.Errorf("program %d: %s has the number %d below the cut %d and became %+v", program, location.Loc(e.Loc), e.Seq,
				back.Cut, is)
		case !stands && e.Seq > 0 && e.Seq < back.Cut:
			t.Errorf("program %d: %s has the number %d below the cut %d and is gone", program, location.Loc(e.Loc),
				e.Seq, back.Cut)
		case stands && is.Generation != e.Generation:
			t.Errorf("program %d: %s lost its identity", program, location.Loc(e.Loc))
		}
	}
}
