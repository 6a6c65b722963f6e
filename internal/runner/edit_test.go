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

// blocks returns every block of a program, the outermost first.
func blocks(root []*stmt) [][]*stmt {
	all := [][]*stmt{root}
	for _, s := range root {
		for _, arm := range s.arms {
			all = append(all, blocks(arm)...)
		}
	}
	return all
}

// contains reports whether a program has a statement of the kind.
func contains(root []*stmt, kind string) bool {
	return slices.ContainsFunc(blocks(root), func(b []*stmt) bool {
		return slices.ContainsFunc(b, func(s *stmt) bool { return s.kind == kind })
	})
}

// demand says what an edit must lead to.
type demand uint8

const (
	either demand = iota
	mustStall
	mustNotStall
)

// edit changes one place of the outermost block, or of any block, and says what
// must follow, given what is recorded.
func (p *program) edit(random *rand.Rand, j *journal) (what string, want demand) {
	numbered := func(s *stmt) bool {
		e, ok := j.entries[string(location.Loc("").Name(s.name, 1))]
		return ok && e.Seq > 0
	}
	fresh := &stmt{kind: "step", name: p.name("new"), times: 1}
	block := p.root
	i := random.IntN(len(block))
	laterNumbered := slices.ContainsFunc(block[i:], func(s *stmt) bool { return isStep(s) && numbered(s) })
	switch what = []string{"append", "insert", "rename", "remove", "swap", "insert deep", "rename deep"}[random.IntN(7)]; what {
	case "append":
		p.root = append(p.root, fresh)
		return what, mustNotStall
	case "insert":
		p.root = slices.Insert(p.root, i, fresh)
		if laterNumbered {
			return what, mustStall
		}
	case "rename":
		if isStep(block[i]) && numbered(block[i]) {
			want = mustStall
		}
		block[i].name = p.name("renamed")
	case "remove":
		if isStep(block[i]) && numbered(block[i]) {
			want = mustStall
		}
		p.root = slices.Delete(p.root, i, i+1)
	case "swap":
		if i+1 == len(block) {
			return "nothing", mustNotStall
		}
		a, b := block[i], block[i+1]
		if isStep(a) && isStep(b) && numbered(a) == numbered(b) && !contains(p.root, "branch on what was seen") && !contains(p.root, "spawn") {
			_, begunA := j.entries[string(location.Loc("").Name(a.name, 1))]
			_, begunB := j.entries[string(location.Loc("").Name(b.name, 1))]
			if begunA == begunB {
				want = mustNotStall
			}
		}
		block[i], block[i+1] = b, a
	case "insert deep":
		p.insertDeep(random, fresh)
	case "rename deep":
		all := blocks(p.root)
		deep := all[random.IntN(len(all))]
		deep[random.IntN(len(deep))].name = p.name("renamed")
	}
	return what, want
}

// insertDeep inserts a statement into the body of a branch, if there is any.
func (p *program) insertDeep(random *rand.Rand, fresh *stmt) {
	var arms []*[]*stmt
	for _, block := range blocks(p.root) {
		for _, s := range block {
			for i := range s.arms {
				arms = append(arms, &s.arms[i])
			}
		}
	}
	if len(arms) > 0 {
		arm := arms[random.IntN(len(arms))]
		*arm = slices.Insert(*arm, random.IntN(len(*arm)+1), fresh)
	}
}

func isStep(s *stmt) bool { return s.kind == "step" }

// TestEditedPrograms changes the code between a cut and the replay: the run gets
// a result that keeps all that was recorded, or stalls with a message that names
// both sides. SCHEDULING.md, sentences 17 to 20.
func TestEditedPrograms(t *testing.T) {
	seed := seedOf(t)
	stalls, ends := map[string]int{}, map[string]int{}
	for i := range count(4000) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		d := newDriver(t, generate(random, 4+random.IntN(20)), random)
		for range random.IntN(60) {
			if !d.move() {
				break
			}
		}
		if d.r == nil || d.r.over != nil {
			continue // over before the edit
		}
		d.leave()
		recorded, begun := maps.Clone(d.j.entries), len(d.begun)
		d.prog = &program{root: clone(d.prog.root), names: d.prog.names}
		d.code = d.prog.code(d)
		what, want := d.prog.edit(random, d.j)
		over := d.run(nil)
		if problem := d.judge(want, over, recorded, begun); problem != "" {
			t.Fatalf("program %d, %s: %s", i, what, problem)
		}
		if over.Stall != nil {
			stalls[what]++
		} else {
			ends[what]++
		}
	}
	t.Logf("stalled %v, ended %v", stalls, ends)
	for _, what := range []string{"insert", "rename", "remove"} {
		if stalls[what] == 0 || ends[what] == 0 {
			t.Errorf("%s: %d stalls and %d ends; want some of both", what, stalls[what], ends[what])
		}
	}
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
	seen := d.seen.of(d.j)
	for loc, e := range recorded {
		l := location.Loc(loc)
		if e.Seq == 0 || d.j.pruned(l) {
			continue
		}
		if got := d.j.entries[loc]; got.Seq != e.Seq || got.At != e.At || !bytes.Equal(got.Value, e.Value) {
			return fmt.Sprintf("the record of %s has changed", l)
		}
		if e.Kind != store.KindStep || e.State != store.Done || strings.HasPrefix(l.Base(), "ke") {
			continue // the code may have seen ErrCancelled
		}
		if !strings.Contains(seen, fmt.Sprintf(" %s <nil>", e.Value)) {
			return fmt.Sprintf("the recorded value of %s was not seen: %q in\n%s", l, e.Value, seen)
		}
	}
	// It is a run of the new code: that comes to the same from the whole history.
	return d.verify(over)
}
