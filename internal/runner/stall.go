package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// Stall says why the history and the code do not fit together.
type Stall struct {
	Location string   // where
	Recorded string   // what the history has
	Asked    string   // what the code asks for instead
	Nearest  []string // of what is asked for, the locations with names near to the recorded one; or else the other way round
	Remedy   string
}

// Error returns all of it in one line.
func (s *Stall) Error() string {
	text := fmt.Sprintf("mismatch at %s: the history has %s, the code asks for %s", s.Location, s.Recorded, s.Asked)
	if len(s.Nearest) > 0 {
		text += "; nearest: " + strings.Join(s.Nearest, ", ")
	}
	return text + "; " + s.Remedy
}

// remedy says what to do about a record that the code does not ask for, if it
// asks for something new instead.
func (r *Run) remedy(rec *record, inserted bool) string {
	text := "if it is gone, put " + r.removedCall(rec) + " where it stood; "
	if rec.Kind == store.KindVersion {
		text = "keep the call of Version, or put " + r.removedCall(rec) + " in its place; "
	}
	if inserted {
		text += "if what the code asks for is new, put it under a Version; "
	}
	return text + "else restore the former name and order; then resume the run"
}

// removedCall returns the call of Removed that accepts the record, with all that
// is gone around it.
func (r *Run) removedCall(rec *record) string {
	loc := location.Loc(rec.Loc)
	name, key, scope := loc.Operation()
	if rec.Kind == store.KindVersion {
		scope = loc.Enclosing()
	} else {
		for around := loc.Parent(); around != ""; around = around.Parent() {
			if around != around.Enclosing() && !r.asksIn(around) {
				name, key, scope = around.Operation()
			}
		}
	}
	text := fmt.Sprintf("Removed(ctx, %q)", name)
	if key != "" {
		text = fmt.Sprintf("Removed(ctx, %q, Key(%q))", name, key)
	}
	if scope != "" {
		text += " in " + scope.String()
	}
	return text
}

// asksIn reports whether the code has asked for anything at a location or below.
func (r *Run) asksIn(loc location.Loc) bool {
	in := func(l location.Loc) bool { return l == loc || loc.Contains(l) }
	return slices.ContainsFunc(r.replay.fresh, func(o *op) bool { return in(o.loc) }) ||
		slices.ContainsFunc(r.replay.sorted, func(rec record) bool { return rec.asked && in(location.Loc(rec.Loc)) })
}

func describe(kind store.Kind, loc location.Loc) string { return fmt.Sprintf("%s %s", kind, loc) }

func (rec *record) describe() string {
	text := describe(rec.Kind, location.Loc(rec.Loc))
	if rec.Seq > 0 {
		return fmt.Sprintf("%s (%s, completion %d)", text, rec.State, rec.Seq)
	}
	return fmt.Sprintf("%s (%s)", text, rec.State)
}

func (r *Run) stall(s *Stall) {
	if r.over == nil {
		r.over = &Outcome{Status: store.Stalled, Stall: s}
	}
}

// damaged stalls the run because what is stored cannot be read.
func (r *Run) damaged(loc location.Loc, err error) {
	if r.over == nil {
		r.over = &Outcome{Status: store.Stalled, Reason: fmt.Sprintf("damaged entry %s: %v; restore the store from a backup, or edit the entry", loc, err)}
	}
}

// remaining returns the recorded completion with the lowest number that was not
// handed over and is not gone, or nil.
func (r *Run) remaining() *record {
	p := &r.replay
	for p.lowest < len(p.numbered) && p.numbered[p.lowest].handed {
		p.lowest++
	}
	for _, rec := range p.numbered[p.lowest:] {
		if !rec.handed && !rec.gone {
			return rec
		}
	}
	return nil
}

// blocked is the divergence in which completions remain that nobody waits for.
func (r *Run) blocked() *Stall { return r.mismatch(r.remaining()) }

// unasked is the divergence in which a begun operation was not asked for.
func (r *Run) unasked() *Stall {
	var first *record
	for _, rec := range r.replay.records {
		if !rec.asked && rec.Seq == 0 && (first == nil || rec.Loc < first.Loc) {
			first = rec
		}
	}
	return r.mismatch(first)
}

func (r *Run) mismatch(rec *record) *Stall {
	loc := location.Loc(rec.Loc)
	s := &Stall{Location: loc.String(), Recorded: rec.describe()}
	asked := r.fresh(loc.Parent())
	switch {
	case rec.asked:
		s.Asked = "it, but nobody waits for its completion"
		s.Remedy = "wait for it where the former code did, or put " + r.removedCall(rec) + " in its place; then resume the run"
		return s
	case len(asked) == 0 && r.root.Future().Settled(), r.result != nil:
		s.Asked = "the end of the workflow"
	case len(asked) == 0:
		s.Asked = "nothing new"
	default:
		s.Asked = describeAll(asked)
	}
	s.Remedy = r.remedy(rec, len(asked) > 0)
	s.Nearest = texts(location.Nearest(loc, places(asked), maxNearest))
	if len(s.Nearest) == 0 && len(asked) > 0 {
		s.Nearest = r.nearest(asked[0].loc)
	}
	return s
}

const (
	maxNearest = 3 // names that a message gives as a hint
	maxAsked   = 5 // operations that it lists
)

// fresh returns what the code asks for and the history does not have, in the
// order of request, beginning with what stands in scope.
func (r *Run) fresh(scope location.Loc) []*op {
	var inside, others []*op
	for _, o := range r.replay.fresh {
		switch {
		case o.closed:
		case o.loc.Parent() == scope:
			inside = append(inside, o)
		default:
			others = append(others, o)
		}
	}
	return append(inside, others...)
}

// nearest returns recorded locations that the code has not asked for and that are
// near to one that it asks for.
func (r *Run) nearest(asked location.Loc) []string {
	var known []location.Loc
	for i := range r.replay.sorted {
		if rec := &r.replay.sorted[i]; !rec.asked {
			known = append(known, location.Loc(rec.Loc))
		}
	}
	return texts(location.Nearest(asked, known, maxNearest))
}

func places(ops []*op) []location.Loc {
	all := make([]location.Loc, len(ops))
	for i, o := range ops {
		all[i] = o.loc
	}
	return all
}

func texts(locs []location.Loc) []string {
	var all []string
	for _, l := range locs {
		all = append(all, l.String())
	}
	return all
}

func describeAll(ops []*op) string {
	var all []string
	for i, o := range ops {
		if i == maxAsked {
			all = append(all, "…")
			break
		}
		all = append(all, describe(o.kind, o.loc))
	}
	return strings.Join(all, ", ")
}
