package shape_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/shape"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// program is code whose time is known: an operation, or others in sequence or beside each
// other. The code itself takes no time.
type program struct {
	takes  store.Time // of an operation
	beside bool
	parts  []*program
	loc    location.Loc
}

// randomProgram returns a program with about size operations.
func randomProgram(r *rand.Rand, size int, loc location.Loc) *program {
	p := &program{loc: loc}
	if size <= 1 {
		p.takes = store.Time(1 + r.Int64N(1_000_000))
		return p
	}
	p.beside = r.IntN(2) == 0
	n := 2 + r.IntN(min(size, 12)-1)
	for i := range n {
		part := randomProgram(r, size/n, loc.Name(fmt.Sprintf("p%d", i), 1))
		p.parts = append(p.parts, part)
	}
	return p
}

// longest is how long a program takes, by its definition.
func (p *program) longest() store.Time {
	total := p.takes
	for _, part := range p.parts {
		if p.beside {
			total = max(total, part.longest())
		} else {
			total += part.longest()
		}
	}
	return total
}

// world executes a program as the engine does: operations complete one at a time, and what
// the code requests then has the number of that completion.
type world struct {
	now     store.Time
	seq     int64
	under   []*task
	entries []store.Entry
}

type task struct {
	p    *program
	ends store.Time
	then func()
}

func (w *world) begin(p *program, then func()) {
	switch {
	case len(p.parts) == 0:
		w.entries = append(w.entries, store.Entry{
			Loc: string(p.loc), Kind: store.KindStep, State: store.Open, Born: w.seq, Started: w.now,
		})
		w.under = append(w.under, &task{p, w.now + p.takes, then})
	case p.beside:
		left := len(p.parts)
		for _, part := range p.parts {
			w.begin(part, func() {
				if left--; left == 0 {
					then()
				}
			})
		}
	default:
		w.sequence(p.parts, then)
	}
}

func (w *world) sequence(parts []*program, then func()) {
	if len(parts) == 0 {
		then()
		return
	}
	w.begin(parts[0], func() { w.sequence(parts[1:], then) })
}

// complete completes the operation that ends first, and reports whether there was one.
func (w *world) complete() bool {
	if len(w.under) == 0 {
		return false
	}
	first := 0
	for i, t := range w.under {
		if t.ends < w.under[first].ends {
			first = i
		}
	}
	t := w.under[first]
	w.under = slices.Delete(w.under, first, first+1)
	w.now, w.seq = t.ends, w.seq+1
	i := slices.IndexFunc(w.entries, func(e store.Entry) bool { return e.Loc == string(t.p.loc) })
	e := &w.entries[i]
	e.State, e.Seq, e.At, e.Ended = store.Done, w.seq, w.now, w.now
	t.then()
	return true
}

// execute executes up to so many completions; all if limit is negative.
func execute(p *program, limit int) (*store.Run, *world) {
	const start = 1_700_000_000_000_000
	w := &world{now: start}
	run := &store.Run{Created: start, Started: start, Status: store.Running}
	w.begin(p, func() { run.Ended, run.Status = w.now, store.Succeeded })
	for n := 0; n != limit && w.complete(); n++ {
	}
	slices.SortFunc(w.entries, func(a, b store.Entry) int { return cmp.Compare(a.Loc, b.Loc) })
	return run, w
}

func eachProgram(t *testing.T, try func(t *testing.T, r *rand.Rand, p *program)) {
	first, end := soak.Range(t, 300)
	for seed := uint64(first); seed < uint64(end); seed++ {
		r := rand.New(rand.NewPCG(seed, 14))
		try(t, r, randomProgram(r, 1+r.IntN(60), ""))
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

// TestPathExplainsTheDurationOfARun: the path's operations take exactly as long as the
// longest way through the program, and nothing is left between them.
func TestPathExplainsTheDurationOfARun(t *testing.T) {
	eachProgram(t, func(t *testing.T, _ *rand.Rand, p *program) {
		run, w := execute(p, -1)
		path := shape.PathOf(run, w.entries, w.now)
		var took time.Duration
		at := run.Started
		for i, part := range path.Parts {
			e := &w.entries[part.Entry]
			if part.Before != 0 || part.Began != at || part.Took != e.Ended.Sub(e.Started) {
				t.Errorf("part %d: %+v of %+v, expected to begin at %d", i, part, e, at)
			}
			if i > 0 && e.Born != w.entries[path.Parts[i-1].Entry].Seq {
				t.Errorf("part %d was caused by completion %d, not by the one before it", i, e.Born)
			}
			took, at = took+part.Took, at.Add(part.Took)
		}
		if want := p.longest().Sub(0); took != want || run.Ended.Sub(run.Started) != want || path.After != 0 || path.Cut {
			t.Errorf("explains %d of %d, after it %d, cut %v", took, want, path.After, path.Cut)
		}
	})
}

// TestPathLeavesNoGap: whatever the clocks said, what was pruned, and where the run stands,
// the times of the path are its whole time.
func TestPathLeavesNoGap(t *testing.T) {
	eachProgram(t, func(t *testing.T, r *rand.Rand, p *program) {
		run, w := execute(p, r.IntN(40)-1)
		entries := slices.DeleteFunc(w.entries, func(store.Entry) bool { return r.IntN(6) == 0 })
		for i := range entries {
			entries[i].Started += store.Time(r.Int64N(2_000_000) - 1_000_000)
			entries[i].Ended += store.Time(r.Int64N(2_000_000) - 1_000_000)
			if r.IntN(50) == 0 { // damaged
				entries[i].Born = r.Int64N(60)
			}
		}
		run.Incarnation = r.IntN(2)
		path := shape.PathOf(run, entries, w.now+5)
		sum := path.After
		for _, part := range path.Parts {
			if part.Before < 0 || part.Took < 0 {
				t.Errorf("negative times: %+v", part)
			}
			sum += part.Before + part.Took
		}
		if sum != path.To.Sub(path.From) || path.After < 0 {
			t.Errorf("the parts add up to %d of %d: %+v", sum, path.To.Sub(path.From), path)
		}
		if !path.Cut && path.From != run.Started {
			t.Errorf("is not cut and begins at %d, not at %d", path.From, run.Started)
		}
	})
}

// TestASuspendedRunWaits: a wait without a deadline has no entry before it ends.
func TestASuspendedRunWaits(t *testing.T) {
	run := &store.Run{Status: store.Suspended, Created: 1_000_000, Started: 1_000_000}
	path := shape.PathOf(run, nil, 9_000_000)
	if got := path.Shares(run, nil, shape.Facts{}); len(got) != 1 || got[0].Term != shape.Waits || !got[0].Grows {
		t.Errorf("a suspended run without entries spends its time on %+v", got)
	}
}

// TestSharesLeaveNoGap: whatever is known of the attempts, of rests and of the run, and whatever the clocks
// said, the shares are all of the time. One of them grows if the run has not ended.
func TestSharesLeaveNoGap(t *testing.T) {
	eachProgram(t, func(t *testing.T, r *rand.Rand, p *program) {
		run, w := execute(p, r.IntN(40)-1)
		run.Created -= store.Time(r.Int64N(3) * 500_000)
		moment := func() store.Time {
			if r.IntN(3) == 0 {
				return 0
			}
			return run.Created + store.Time(r.Int64N(int64(w.now-run.Created)+3_000_000)-1_000_000)
		}
		if run.Ended == 0 {
			run.Status = []store.Status{store.Queued, store.Running, store.Suspended, store.Stalled}[r.IntN(4)]
			run.Marks = []store.Marks{0, store.Paused, store.Held}[r.IntN(3)]
			run.Claimed, run.WakeAt = r.IntN(2) == 0, moment()
		}
		facts := shape.Facts{Attempts: map[int][]shape.Attempt{}, Unserved: r.IntN(4) == 0, Releases: r.IntN(2) == 0}
		if r.IntN(3) == 0 {
			facts.Queue = "q"
		}
		for range r.IntN(4) {
			term := []shape.Term{shape.Paused, shape.Stalled, shape.Over}[r.IntN(3)]
			facts.Rests = append(facts.Rests, shape.Rest{Term: term, From: moment(), To: moment()})
		}
		for i := range w.entries {
			e := &w.entries[i]
			e.Wake, e.Attempt = moment(), r.IntN(4)
			if r.IntN(4) == 0 {
				e.Kind = store.KindReceive
			}
			for range r.IntN(4) {
				facts.Attempts[i] = append(facts.Attempts[i], shape.Attempt{Due: moment(), Asked: moment(), Granted: moment(),
					Placed: moment(), Began: moment(), Ended: moment(), Queue: "s", Worker: r.IntN(3) == 0})
			}
		}
		path := shape.PathOf(run, w.entries, w.now+5)
		sum, grows := time.Duration(0), 0
		seen := map[string]bool{}
		for _, s := range path.Shares(run, w.entries, facts) {
			if s.Took <= 0 || !slices.Contains(shape.Terms, s.Term) || seen[s.String()] || s.String() == "" {
				t.Errorf("share %+v", s)
			}
			sum, seen[s.String()] = sum+s.Took, true
			if s.Grows {
				grows++
			}
		}
		if sum != path.To.Sub(path.From) || (grows == 1) != (run.Ended == 0) || grows > 1 {
			t.Errorf("%s of %s, %d grow, with %+v", sum, path.To.Sub(path.From), grows, facts)
		}
	})
}

// overlap reports by the definition whether two boxes are parallel.
func overlap(entries []store.Entry, a, b location.Loc) bool {
	span := func(l location.Loc) (asked, last int64) {
		asked = 1 << 60
		for i := range entries {
			e := &entries[i]
			if at := location.Loc(e.Loc); at != l && !l.Contains(at) {
				continue
			}
			end := e.Seq
			if end == 0 {
				end = 1 << 60
			}
			asked, last = min(asked, e.Born), max(last, end)
		}
		return asked, last
	}
	askedA, lastA := span(a)
	askedB, lastB := span(b)
	return askedA < lastB && askedB < lastA
}

// TestBoxesAreInSequenceOrBeside compares the layout with the definition, pair by pair, and
// the number of lanes with the most boxes that overlap at one time.
func TestBoxesAreInSequenceOrBeside(t *testing.T) {
	eachProgram(t, func(t *testing.T, r *rand.Rand, p *program) {
		_, w := execute(p, r.IntN(40)-1)
		boxes := shape.BoxesOf(w.entries)
		if n := len(boxes[0].Stages); len(w.entries) > 0 && n == 0 && len(p.parts) > 0 {
			t.Error("the run's box is empty")
		}
		seen := 1
		for i := range boxes {
			type place struct{ stage, lane, at, box int }
			var places []place
			for s, stage := range boxes[i].Stages {
				for l, lane := range stage {
					for at, box := range lane {
						places = append(places, place{s, l, at, box})
						if boxes[box].Parent != i {
							t.Errorf("box %s is not in %s", boxes[box].Loc, boxes[i].Loc)
						}
					}
				}
			}
			seen += len(places)
			for _, a := range places {
				most := 0
				for _, b := range places {
					if a == b {
						continue
					}
					beside := overlap(w.entries, boxes[a.box].Loc, boxes[b.box].Loc)
					if beside && (a.stage != b.stage || a.lane == b.lane) {
						t.Errorf("%s and %s overlap: %v %v", boxes[a.box].Loc, boxes[b.box].Loc, a, b)
					}
					if beside {
						most++
					}
				}
				if lanes := len(boxes[i].Stages[a.stage]); lanes > 1 && most == 0 {
					t.Errorf("%s overlaps nothing and shares a stage with %d lanes", boxes[a.box].Loc, lanes)
				}
			}
		}
		if seen != len(boxes) {
			t.Errorf("%d boxes are laid out, there are %d", seen, len(boxes))
		}
		if root := &boxes[0]; root.Done+root.Open != len(w.entries) {
			t.Errorf("the run counts %d done and %d open of %d entries", root.Done, root.Open, len(w.entries))
		}
	})
}

// TestLanesAreAsFewAsTheirOverlapsNeed holds the number of lanes of one stage against the
// number of boxes that are open at one time.
func TestLanesAreAsFewAsTheirOverlapsNeed(t *testing.T) {
	first, end := soak.Range(t, 300)
	for seed := uint64(first); seed < uint64(end); seed++ {
		r := rand.New(rand.NewPCG(seed, 15))
		var entries []store.Entry
		for i := range 1 + r.IntN(40) {
			born := r.Int64N(60)
			entries = append(entries, store.Entry{
				Loc: string(location.Loc("").Name(fmt.Sprintf("n%03d", i), 1)), Kind: store.KindStep, State: store.Done,
				Born: born, Seq: born + 1 + r.Int64N(20),
			})
		}
		for _, stage := range shape.BoxesOf(entries)[0].Stages {
			most := 0
			for at := range int64(90) {
				n := 0
				for _, lane := range stage {
					for _, box := range lane {
						if e := &entries[box-1]; e.Born <= at && at < e.Seq {
							n++
						}
					}
				}
				most = max(most, n)
			}
			if len(stage) != most {
				t.Fatalf("seed %d: expected %d lanes, found %d", seed, most, len(stage))
			}
		}
	}
}

func step(name string, born, seq int64, change ...func(*store.Entry)) store.Entry {
	e := store.Entry{
		Loc: string(location.Loc("").Name(name, 1)), Kind: store.KindStep, State: store.Done, Born: born, Seq: seq,
		Started: store.Time(born * 10), Ended: store.Time(seq * 10),
	}
	if seq == 0 {
		e.State, e.Ended = store.Open, 0
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func kind(k store.Kind) func(*store.Entry) { return func(e *store.Entry) { e.Kind = k } }

func TestPathOfARunThatWaits(t *testing.T) {
	run := &store.Run{Created: 0, Started: 0, Status: store.Suspended}
	for _, c := range []struct {
		name    string
		entries []store.Entry
		want    []string
	}{
		{"nothing is recorded", nil, nil},
		{"between two operations", []store.Entry{step("a", 0, 1)}, []string{"a"}},
		{"for what was requested last", []store.Entry{step("a", 0, 1), step("old", 0, 0), step("z", 1, 0)},
			[]string{"a", "z"}},
		{"for the one branch that has not ended", []store.Entry{step("a", 0, 1), step("b", 0, 2), step("c", 0, 0)},
			[]string{"c"}},
		{"for a message, with a deadline",
			[]store.Entry{step("deadline", 0, 0, kind(store.KindTimer)), step("reply", 0, 0, kind(store.KindReceive))},
			[]string{"reply"}},
		{"for a deadline alone", []store.Entry{step("deadline", 0, 0, kind(store.KindTimer))}, []string{"deadline"}},
		{"a loop's progress is no wait", []store.Entry{step("a", 0, 1), step("loop", 1, 0, kind(store.KindLoop))},
			[]string{"a"}},
	} {
		path := shape.PathOf(run, c.entries, 1000)
		var found []string
		for _, p := range path.Parts {
			found = append(found, location.Loc(c.entries[p.Entry].Loc).String())
		}
		if !slices.Equal(found, c.want) || path.Cut || path.To != 1000 {
			t.Errorf("%s: expected %v, found %v in %+v", c.name, c.want, found, path)
		}
	}
}

// TestPathIsCutWhereHistoryIsGone: what was pruned is not claimed to be explained.
func TestPathIsCutWhereHistoryIsGone(t *testing.T) {
	run := &store.Run{Created: 0, Started: 0, Ended: 100, Status: store.Succeeded}
	path := shape.PathOf(run, []store.Entry{step("b", 6, 7), step("c", 7, 9)}, 200)
	if !path.Cut || path.From != 60 || path.To != 100 || len(path.Parts) != 2 || path.After != 10*time.Microsecond {
		t.Errorf("expected a path from 60 that is cut, found %+v", path)
	}
	run.Incarnation = 1
	if path := shape.PathOf(run, []store.Entry{step("a", 0, 1)}, 200); !path.Cut {
		t.Errorf("of a run that has continued as new: expected one that is cut, found %+v", path)
	}
}

// TestUndoStandsAtItsStep: a compensation comes long after its step and does not make it
// parallel to all that came between.
func TestUndoStandsAtItsStep(t *testing.T) {
	undo := step("a", 3, 4, kind(store.KindUndo))
	undo.Loc = string(location.Loc(undo.Loc).Key("undo", 1))
	entries := []store.Entry{step("a", 0, 1), undo, step("b", 1, 2), step("c", 2, 3)}
	boxes := shape.BoxesOf(entries)
	if got := len(boxes[0].Stages); got != 3 {
		t.Errorf("expected three stages, found %d: %+v", got, boxes)
	}
	if boxes[1].Done != 2 || boxes[1].Loc != location.Loc(entries[0].Loc) || boxes[2].Parent != 1 {
		t.Errorf("expected the compensation in the box of its step, found %+v", boxes)
	}
}

// BenchmarkShape is the shape of a run with 10,000 operations in 100 branches.
func BenchmarkShape(b *testing.B) {
	var entries []store.Entry
	seq := int64(0)
	for i := range 100 {
		scope := location.Loc("").Name("map", 1).Key(fmt.Sprintf("k%03d", i), 1)
		for j := range 100 {
			seq++
			e := step("", max(0, seq-100), seq)
			e.Loc = string(scope.Name(fmt.Sprintf("s%03d", j), 1))
			entries = append(entries, e)
		}
	}
	run := &store.Run{Ended: store.Time(time.Hour / time.Microsecond)}
	for b.Loop() {
		shape.BoxesOf(entries)
		shape.PathOf(run, entries, 0)
	}
}
