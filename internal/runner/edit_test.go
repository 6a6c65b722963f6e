package runner

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// clone returns a deep copy of a block.
func clone(block []*stmt) []*stmt {
	out := make([]*stmt, len(block))
	for i, s := range block {
		c := *s
		c.arms = make([][]*stmt, len(s.arms))
		for k := range s.arms {
			c.arms[k] = clone(s.arms[k])
		}
		out[i] = &c
	}
	return out
}

// contains reports whether a program has a statement of the kind.
func contains(root []*stmt, kind string) bool {
	return slices.ContainsFunc(arms(&root), func(b *[]*stmt) bool {
		return slices.ContainsFunc(*b, func(s *stmt) bool { return s.kind == kind })
	})
}

// TestEditedPrograms changes the code between a cut and the replay, up to three
// times in one run: the run gets a result that keeps all that was recorded, or
// stalls with a message that names both sides.
// What is marked with Version never stalls, and has version 0 exactly if former
// code has passed the place.
func TestEditedPrograms(t *testing.T) {
	seed := seedOf(t)
	stalls, ends, versions := map[string]int{}, map[string]int{}, map[int]int{}
	edits := 0
	for i := 0; edits < count(t, 2000); i++ {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		d := newDriver(t, generate(random, 4+random.IntN(20)), random)
		for round := 1 + random.IntN(3); round > 0; round-- {
			// The copy has the places, so that the next code is an edit of this.
			prog := &program{root: clone(d.prog.root), names: d.prog.names}
			e := prog.plan(random)
			d.edit(prog)
			d.activate()
			d.advance()
			for range random.IntN(60) {
				if !d.move() {
					break
				}
			}
			if d.r.over != nil {
				break // over before the edit
			}
			d.leave()
			e.look(d)
			recorded, begun := maps.Clone(d.j.entries), len(d.begun)
			what, want := e.make()
			edits++
			d.edit(prog)
			d.activate()
			d.advance()
			last := round == 1
			if d.r.over == nil && !last {
				problem := d.version(e)
				if want == mustStall {
					problem = "does not stall"
				}
				if problem != "" {
					t.Fatalf("program %d, %s: %s", i, what, problem)
				}
				ends[what]++
				d.leave()
				continue
			}
			d.leave()
			over := d.run(nil)
			problem := d.judge(want, over, recorded, begun)
			if problem == "" && over.Stall == nil {
				problem = d.version(e)
			}
			if problem != "" {
				t.Fatalf("program %d, %s: %s", i, what, problem)
			}
			for _, v := range d.change.versions[e.name] {
				versions[v.version]++
			}
			if over.Stall != nil {
				stalls[what]++
			} else {
				ends[what]++
			}
			break
		}
		d.leave()
	}
	t.Logf("%d edits: stalled %v, ended %v, versions %v", edits, stalls, ends, versions)
	if !soak.Usual(t) {
		return // too few to see all
	}
	if versions[0] == 0 || versions[1] == 0 {
		t.Errorf("versions %v; want both", versions)
	}
	for _, what := range []string{"insert", "rename", "remove", "swap", "shuffle keys", "insert a key", "remove a key"} {
		if stalls[what] == 0 || ends[what] == 0 {
			t.Errorf("%s: %d stalls and %d ends; want some of both", what, stalls[what], ends[what])
		}
	}
	for _, what := range []string{"insert, marked", "remove, marked", "rename, marked", "replace, marked",
		"swap, marked", "remove, accepted", "remove a key, accepted"} {
		if ends[what] == 0 {
			t.Errorf("%s: nothing came to an end", what)
		}
	}
}

// edit gives the run other code from the next activation on.
func (d *driver) edit(prog *program) {
	d.prog, d.edited = prog, true
	d.code = prog.code(d)
}

// version returns what is wrong with the versions that the code was given: each
// is 0 exactly if former code has passed the place, in the same iteration.
func (d *driver) version(e *edit) string {
	for _, v := range d.change.versions[e.name] {
		want := 1
		if e.met(v.in) {
			want = 0
		}
		if v.version != want {
			return fmt.Sprintf("the version in %q is %d, want %d", v.in.String(), v.version, want)
		}
	}
	return ""
}

// move takes one step of play, without cuts. It reports false at the end.
func (d *driver) move() bool {
	if d.r == nil {
		d.activate()
	}
	d.advance()
	if d.pending != nil {
		d.commit()
	}
	if d.r.over != nil {
		return false
	}
	d.take()
	d.startBodies()
	switch {
	case len(d.flight) > 0:
		d.endBody()
	case d.pending == nil:
		return d.nudge()
	}
	return true
}

// judge returns what is wrong with how an edited run went on.
func (d *driver) judge(want demand, over *Outcome, recorded map[string]store.Entry, begun int) string {
	if len(d.j.broken) > 0 {
		return d.j.broken[0]
	}
	if s := over.Stall; s != nil {
		if want == mustNotStall {
			return "stalls: " + s.Error()
		}
		if s.Recorded == "" || s.Asked == "" || s.Location == "" || s.Remedy == "" {
			return fmt.Sprintf("the stall does not name both sides: %+v", s)
		}
		if !reflect.DeepEqual(d.j.entries, recorded) {
			return "the stall changes the history"
		}
		if len(d.begun) != begun {
			return "the stalled replay has begun something"
		}
		return ""
	}
	if over.Status == store.Stalled {
		return "stalls without saying why: " + over.Reason
	}
	if want == mustStall {
		return fmt.Sprintf("does not stall; it ends %s", over.Status)
	}
	seen, gone := d.seen.of(d.j), removed(d.prog.root, false)
	for loc, e := range recorded {
		l := location.Loc(loc)
		if e.Seq == 0 || d.j.pruned(l) {
			continue
		}
		if got := d.j.entries[loc]; got.Seq != e.Seq || got.At != e.At || !bytes.Equal(got.Value, e.Value) {
			return fmt.Sprintf("the record of %s has changed", l)
		}
		if e.Kind != store.KindStep || e.State != store.Done || e.Owes || isOf(gone, l) {
			continue // the code may have seen ErrCancelled
		}
		t, err := stored.SplitTried(e.Value)
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(seen, fmt.Sprintf(" %s <nil>", t.Value)) {
			return fmt.Sprintf("the recorded value of %s was not seen: %q in\n%s", l, t.Value, seen)
		}
	}
	// It is a run of the new code: that comes to the same from the whole history.
	return d.verify(over)
}
