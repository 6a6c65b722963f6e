package runner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// change is what the code of one activation says about the edits in it.
type change struct {
	places   map[string][]visit // by name
	versions map[string][]visit // by change
}

// visit is one execution of a place or of a Version.
type visit struct {
	in      location.Loc // the loop's iteration
	seq     int64        // the last number handed over
	version int          // what Version has returned
}

func (c *change) begin() { *c = change{places: map[string][]visit{}, versions: map[string][]visit{}} }

// changed executes the statements that edits make:
//
//	place   nothing; notes that it was executed
//	marked  the first arm in a run of version 1, the second in one of version 0
//	gone    accepts what the statements of its arm have recorded
//	keyed   a step for each key
func (x *execution) changed(b *Branch, s *stmt) error {
	switch s.kind {
	case "place":
		x.d.change.places[s.name] = append(x.d.change.places[s.name], visit{in: b.Location().Enclosing(), seq: b.run.j.Seq()})
	case "marked":
		version := b.Version(at(s.name), 1)
		if !x.d.edited && version != 1 {
			x.d.j.violate("%s in %s: version %d of a run without former code", s.name, b.At(), version)
		}
		x.d.change.versions[s.name] = append(x.d.change.versions[s.name],
			visit{in: b.Location().Enclosing(), version: version})
		return x.run(b, s.arms[1-version])
	case "gone":
		x.remove(b, s.arms[0])
	case "keyed":
		for _, k := range s.keys {
			v, err := b.Step(Step{Call: keyedCall(s, k), Func: x.body(s), Policy: once})
			x.note(b, s, string(v), err)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func keyedCall(s *stmt, key int) Call {
	call := at(s.name)
	call.Key = fmt.Sprint("k", key)
	return call
}

// remove calls Removed for all that a block asks for in the scope it stands in, and
// for the changes inside it.
func (x *execution) remove(b *Branch, block []*stmt) {
	for _, s := range block {
		switch s.kind {
		case "derive", "panic", "place":
		case "loop":
			for range s.times {
				b.Removed(at(s.name))
			}
		case "keyed":
			for _, k := range s.keys {
				b.Removed(keyedCall(s, k))
			}
		case "branch on what was seen", "gone":
			for _, arm := range s.arms {
				x.remove(b, arm)
			}
		case "marked":
			b.Removed(at(s.name))
			for _, arm := range s.arms {
				x.remove(b, arm)
			}
		case "compose", "settled":
			for i := range s.arms {
				b.Removed(at(fmt.Sprint(s.name, "-", i)))
			}
			b.Removed(at(s.name + "-more"))
			x.forget(b, s)
		case "select":
			for i := range s.arms {
				b.Removed(at(fmt.Sprint(s.name, "-", i)))
			}
			for range s.arms {
				b.Removed(at(s.name))
				b.Removed(at(s.name + "-mail"))
			}
			x.forget(b, s)
		case "child", "leave", "detach", "tied", "watch", "event":
			for _, suffix := range []string{"", "-timer", "-mail"} {
				b.Removed(at(s.name + suffix))
			}
		case "defer":
			x.remove(b, s.arms[0])
			b.Removed(shielded(s.name))
		default:
			b.Removed(at(s.name))
			x.forget(b, s)
		}
	}
}

// forget calls Removed for the changes in the branches of a statement.
func (x *execution) forget(b *Branch, s *stmt) {
	for _, arm := range s.arms {
		for _, inner := range arm {
			if inner.kind == "marked" {
				b.Removed(at(inner.name))
			}
			x.forget(b, inner)
		}
	}
}

// demand says what an edit must lead to.
type demand uint8

const (
	either demand = iota
	mustStall
	mustNotStall
)

// edit is one change of a program at a place that the program marks.
type edit struct {
	p      *program
	random *rand.Rand
	block  *[]*stmt // has the statement
	at     int      // its index; the places are around it
	in     *stmt
	root   bool
	name   string // of the change and the places
	// What is recorded when the edit is made.
	j             *durable
	places        []visit // of the statement, durable ones
	before, after bool    // some branch has come to it and not passed it; all have passed it
}

// arms returns all blocks of a program that may be edited, the outermost first.
func arms(block *[]*stmt) []*[]*stmt {
	all := []*[]*stmt{block}
	for _, s := range *block {
		if s.kind == "gone" {
			continue // not executed
		}
		for i := range s.arms {
			all = append(all, arms(&s.arms[i])...)
		}
	}
	return all
}

// plan chooses what will be edited and puts places around it.
func (p *program) plan(random *rand.Rand) *edit {
	blocks := slices.DeleteFunc(arms(&p.root), func(b *[]*stmt) bool { return len(*b) == 0 })
	i := 0
	if random.IntN(2) == 0 {
		i = random.IntN(len(blocks))
	}
	e := &edit{p: p, random: random, block: blocks[i], root: blocks[i] == &p.root, name: p.name("change")}
	e.at = random.IntN(len(*e.block))
	if k := slices.IndexFunc(*e.block, func(s *stmt) bool { return s.kind == "keyed" }); k >= 0 && random.IntN(2) == 0 {
		e.at = k // else they would be rare
	}
	e.in = (*e.block)[e.at]
	*e.block = slices.Insert(*e.block, e.at+1, &stmt{kind: "place", name: e.name + " after"})
	*e.block = slices.Insert(*e.block, e.at, &stmt{kind: "place", name: e.name})
	e.at++
	return e
}

// look takes what has become of the program's run until now.
func (e *edit) look(d *driver) {
	e.j = d.j
	passed := func(name string) (durable []visit) {
		for _, v := range d.change.places[name] {
			if v.seq <= d.j.seq() && d.j.turns > 0 {
				durable = append(durable, v)
			}
		}
		return durable
	}
	e.places = passed(e.name)
	before, after := len(e.places), len(passed(e.name+" after"))
	e.before, e.after = before > after, before == after
}

// met reports whether former code has come to the statement in an iteration.
func (e *edit) met(in location.Loc) bool {
	return slices.ContainsFunc(e.places, func(v visit) bool { return v.in == in })
}

// recorded returns the entry of an operation of the outermost block, if there is
// one.
func (e *edit) recorded(s *stmt) (store.Entry, bool) {
	entry, ok := e.j.entries[string(location.Loc("").Name(s.name, 1))]
	return entry, ok && e.root
}

func (e *edit) numbered(s *stmt) bool {
	entry, ok := e.recorded(s)
	return ok && single(s) && entry.Seq > 0
}

// single reports whether a statement is one operation that its branch waits for.
func single(s *stmt) bool {
	return slices.Contains([]string{"step", "flaky", "keep", "tx", "sleep", "receive"}, s.kind)
}

// alone reports whether a block begins nothing that lasts, like branches, promises
// and children, or is known to wait for all that it begins.
func alone(block []*stmt) bool {
	lasting := []string{"compose", "settled", "select", "spawn", "promise", "child", "leave",
		"detach", "tied", "watch", "saga"}
	return !slices.ContainsFunc(lasting,
		func(kind string) bool {
			return slices.ContainsFunc(block, func(s *stmt) bool {
				return s.kind == kind || s.kind != "map" && s.kind != "endless" &&
					slices.ContainsFunc(s.arms, func(arm []*stmt) bool { return !alone(arm) })
			})
		})
}

// steady reports whether what a program asks for does not depend on how much it
// has seen.
func (p *program) steady() bool {
	return !contains(p.root, "branch on what was seen") && !contains(p.root, "panic")
}

// fresh returns a statement that waits for a new operation at least once.
func (e *edit) fresh() *stmt {
	p, random := e.p, e.random
	s := &stmt{
		kind: []string{"step", "step", "tx", "sleep", "flaky", "promise", "compose"}[random.IntN(7)], name: p.name("new"),
		times: 1, limit: 1, mode: Join, keys: []int{1},
	}
	if s.kind == "compose" {
		for range 2 {
			s.arms = append(s.arms, []*stmt{{kind: "step", name: p.name("new")}})
		}
	}
	return s
}

// make edits the program and says what must follow.
func (e *edit) make() (what string, want demand) {
	later := slices.ContainsFunc((*e.block)[e.at+1:], e.numbered) // in the outermost block
	mark := func(arms ...[]*stmt) { (*e.block)[e.at] = &stmt{kind: "marked", name: e.name, arms: arms} }
	old := []*stmt{e.in}
	kinds := []string{
		"append", "insert", "insert, marked", "remove", "remove, accepted", "remove, marked", "rename", "rename, marked",
		"replace, marked", "swap", "swap, marked", "nothing",
	}
	if e.in.kind == "keyed" {
		kinds = []string{"shuffle keys", "insert a key", "remove a key", "remove a key, accepted"}[:min(len(e.in.keys), 2)*2]
	}
	switch what = kinds[e.random.IntN(len(kinds))]; what {
	case "nothing":
		return what, mustNotStall
	case "append":
		e.p.root = append(e.p.root, e.fresh())
		if contains(e.p.root, "defer") {
			return what, either // what is deferred may be recorded, and stands behind it
		}
		return what, mustNotStall
	case "insert":
		*e.block = slices.Insert(*e.block, e.at, e.fresh())
		if later || e.numbered(e.in) {
			want = mustStall
		}
	case "insert, marked":
		mark([]*stmt{e.fresh(), e.in}, old)
		return what, mustNotStall
	case "remove":
		if e.numbered(e.in) {
			want = mustStall
		}
		*e.block = slices.Delete(*e.block, e.at, e.at+1)
	case "remove, accepted":
		(*e.block)[e.at] = &stmt{kind: "gone", name: e.name, arms: [][]*stmt{old}}
		// What lasts was not waited for where it began, so what follows comes earlier
		// than it did: too early, if it ends another branch. What a saga has to undo, it
		// still has to undo.
		owed := contains(old, "keep") && contains(e.p.root, "saga")
		if e.p.steady() && !owed && !e.before && (alone(old) || e.root && !contains(e.p.root, "spawn")) {
			want = mustNotStall
		}
	case "remove, marked":
		mark(nil, old)
		return what, mustNotStall
	case "rename":
		if e.numbered(e.in) {
			want = mustStall
		}
		e.in.name = e.p.name("renamed")
	case "rename, marked":
		renamed := clone(old)
		renamed[0].name = e.p.name("renamed")
		mark(renamed, old)
		return what, mustNotStall
	case "replace, marked":
		mark([]*stmt{e.fresh(), e.fresh()}, old)
		return what, mustNotStall
	case "swap", "swap, marked":
		i := e.at + 2 // behind the place
		if i >= len(*e.block) {
			return "nothing", mustNotStall
		}
		next := (*e.block)[i]
		if what == "swap, marked" {
			*e.block = slices.Delete(*e.block, i, i+1)
			mark([]*stmt{next, e.in}, []*stmt{e.in, next})
			return what, mustNotStall
		}
		want = e.swapped(e.in, next)
		(*e.block)[e.at], (*e.block)[i] = next, e.in
	default:
		want = e.rekey(what)
	}
	return what, want
}

// swapped says what follows if two neighbours change places.
func (e *edit) swapped(a, b *stmt) demand {
	if !single(a) || !single(b) || !e.root {
		return either
	}
	_, begunA := e.recorded(a)
	_, begunB := e.recorded(b)
	switch {
	case e.numbered(b) && !begunA:
		return mustNotStall // impossible: b stands behind a
	case e.numbered(a) && !begunB && e.p.steady():
		return mustStall
	case e.numbered(a) == e.numbered(b) && begunA == begunB && e.p.steady() && !contains(e.p.root, "spawn"):
		return mustNotStall
	}
	return either
}

// rekey changes the keys of the statement.
func (e *edit) rekey(what string) demand {
	s := e.in
	done := func(k int) bool {
		return e.j.entries[string(location.Loc("").Name(s.name, 1).Key(fmt.Sprint("k", k), 1))].Seq > 0
	}
	switch what {
	case "shuffle keys":
		e.random.Shuffle(len(s.keys), func(i, j int) { s.keys[i], s.keys[j] = s.keys[j], s.keys[i] })
	case "insert a key":
		s.keys = slices.Insert(slices.Clone(s.keys), e.random.IntN(len(s.keys)+1), 9+e.p.names)
	case "remove a key", "remove a key, accepted":
		i := e.random.IntN(len(s.keys))
		gone := *s
		gone.keys = []int{s.keys[i]}
		s.keys = slices.Delete(slices.Clone(s.keys), i, i+1)
		if what == "remove a key, accepted" {
			*e.block = slices.Insert(*e.block, e.at, &stmt{kind: "gone", name: e.name, arms: [][]*stmt{{&gone}}})
			// If it is not recorded, what follows is asked for early.
			if e.root && e.p.steady() && (done(gone.keys[0]) || !contains(e.p.root, "spawn")) {
				return mustNotStall
			}
			return either
		}
		if e.root && done(gone.keys[0]) {
			return mustStall
		}
	}
	if !e.root {
		return either
	}
	// The keys that are recorded must come first, and all if anything behind them is.
	later := slices.ContainsFunc((*e.block)[e.at+1:], e.numbered)
	open := slices.IndexFunc(s.keys, func(k int) bool { return !done(k) })
	switch {
	case open >= 0 && (later || slices.ContainsFunc(s.keys[open:], done)):
		return mustStall
	case later || e.after && len(e.places) > 0 || !e.p.steady() || contains(e.p.root, "spawn"):
		return either
	}
	return mustNotStall
}

// removed returns the names of all operations in a program that are gone.
func removed(block []*stmt, gone bool) map[string]bool {
	names := map[string]bool{}
	for _, s := range block {
		if gone {
			for _, suffix := range []string{"", "-0", "-1", "-2", "-mail", "-timer"} {
				names[s.name+suffix] = true
			}
		}
		for _, arm := range s.arms {
			for name := range removed(arm, gone || s.kind == "gone") {
				names[name] = true
			}
		}
	}
	return names
}

// isOf reports whether a location is that of one of the names, or below it.
func isOf(names map[string]bool, loc location.Loc) bool {
	return slices.ContainsFunc(strings.Split(loc.String(), "/"), func(segment string) bool {
		name, _, _ := strings.Cut(segment, "#")
		return names[name]
	})
}
