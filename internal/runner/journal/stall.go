package journal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Stall says why the history and the code do not fit together, or which fault of the code
// stops the run.
type Stall struct {
	Cause    stored.Cause // "": a mismatch
	Location string       // where; "": nowhere in particular
	Recorded string       // what the history has
	Asked    string       // what the code asks for instead; of a fault of the code, which
	// Nearest are, of what the code asks for, the locations with names near to the recorded
	// one; or, if there are none, the other way round.
	Nearest []string
	Remedy  string
}

// Error returns all of it in one line.
func (s *Stall) Error() string {
	if s.Cause != "" {
		text := string(s.Cause)
		if s.Location != "" {
			text += " at " + s.Location
		}
		if s.Recorded != "" {
			text += ": recorded is " + s.Recorded
		}
		return text + ": " + s.Asked + "; " + s.Remedy
	}
	text := fmt.Sprintf("mismatch at %s: the history has %s, the code asks for %s", s.Location, s.Recorded, s.Asked)
	if len(s.Nearest) > 0 {
		text += "; nearest: " + strings.Join(s.Nearest, ", ")
	}
	return text + "; " + s.Remedy
}

// remedy says what to do about a record that the code does not ask for, if it
// asks for something new instead.
func (j *Journal) remedy(rec *Record, inserted bool) string {
	if j.ofScript() {
		return moveScript
	}
	if rec.Kind == store.KindSagaUndo && j.asksIn(location.Loc(rec.Loc).Parent()) {
		return "restore the Saga that has undone it, and the error that it failed with; then resume the run"
	}
	text := "if it is gone, put " + j.removedCall(rec) + " where it stood; "
	if rec.Kind == store.KindVersion {
		text = "keep the call of Version, or put " + j.removedCall(rec) + " in its place; "
	}
	if inserted {
		text += "if what the code asks for is new, put it under a Version; "
	}
	return text + "else restore the former name and order; then resume the run"
}

// ScriptChange is the name of the change whose version is that of the script of a run.
const ScriptChange = "script"

// moveScript is the remedy for a run of a script, whose code has neither Removed nor Version.
const moveScript = "" +
	"deploy a version of the script that has the former names and order, and let the run go on with it by " +
	"`stet script move RUN --to VERSION`; `stet script use` makes a former version current for new runs"

// ofScript reports whether the run is bound to a version of a script.
func (j *Journal) ofScript() bool { return j.RecordAt(VersionLocation("", ScriptChange)) != nil }

// removedCall returns the call of Removed that accepts the record, with all that
// is gone around it.
func (j *Journal) removedCall(rec *Record) string {
	loc := location.Loc(rec.Loc)
	name, key, scope := loc.Operation()
	if rec.Kind == store.KindVersion {
		scope = loc.Enclosing()
	} else {
		for around := loc.Parent(); around != ""; around = around.Parent() {
			if around != around.Enclosing() && !j.asksIn(around) {
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
func (j *Journal) asksIn(loc location.Loc) bool {
	in := func(l location.Loc) bool { return l == loc || loc.Contains(l) }
	return slices.ContainsFunc(j.fresh, func(o *Op) bool { return in(o.Loc) }) ||
		slices.ContainsFunc(j.sorted, func(rec Record) bool { return rec.asked && in(location.Loc(rec.Loc)) })
}

func Describe(kind store.Kind, loc location.Loc) string { return fmt.Sprintf("%s %s", kind, loc) }

func (rec *Record) Describe() string {
	text := Describe(rec.Kind, location.Loc(rec.Loc))
	if rec.Numbered() {
		return fmt.Sprintf("%s (%s, completion %d)", text, rec.State, rec.Seq)
	}
	return fmt.Sprintf("%s (%s)", text, rec.State)
}

// Blocked is the divergence in which completions remain that no branch waits for.
func (j *Journal) Blocked() *Stall { return j.Mismatch(j.Remaining()) }

// Unasked is the divergence in which a begun operation was not asked for.
func (j *Journal) Unasked() *Stall {
	var first *Record
	for _, rec := range j.records {
		if !rec.asked && !rec.Numbered() && (first == nil || rec.Loc < first.Loc) {
			first = rec
		}
	}
	return j.Mismatch(first)
}

// Mismatch is the divergence in which a record remains that the code does not take.
func (j *Journal) Mismatch(rec *Record) *Stall {
	loc := location.Loc(rec.Loc)
	s := &Stall{Location: loc.String(), Recorded: rec.Describe()}
	asked := j.freshIn(loc.Parent())
	switch {
	case rec.asked:
		s.Asked = "it, but nobody waits for its completion"
		s.Remedy = "wait for it where the former code did, or put " + j.removedCall(rec) +
			" in its place; then resume the run"
		if j.ofScript() {
			s.Remedy = moveScript
		}
		return s
	case j.Owner.HasReturned():
		s.Asked = "the end of the workflow"
	case len(asked) == 0:
		s.Asked = "nothing new"
	default:
		s.Asked = describeAll(asked)
	}
	s.Remedy = j.remedy(rec, len(asked) > 0)
	s.Nearest = texts(location.Nearest(loc, places(asked), maxNearest))
	if len(s.Nearest) == 0 && len(asked) > 0 {
		s.Nearest = j.nearest(asked[0].Loc)
	}
	return s
}

const (
	maxNearest = 3 // names that a message gives as a hint
	maxAsked   = 5 // operations that it lists
)

// fresh returns what the code asks for and the history does not have, in the
// order of request, beginning with what stands in scope.
func (j *Journal) freshIn(scope location.Loc) []*Op {
	var inside, others []*Op
	for _, o := range j.fresh {
		switch {
		case o.Closed:
		case o.Loc.Parent() == scope:
			inside = append(inside, o)
		default:
			others = append(others, o)
		}
	}
	return append(inside, others...)
}

// nearest returns recorded locations that the code has not asked for and that are
// near to one that it asks for.
func (j *Journal) nearest(asked location.Loc) []string {
	var known []location.Loc
	for i := range j.sorted {
		if rec := &j.sorted[i]; !rec.asked {
			known = append(known, location.Loc(rec.Loc))
		}
	}
	return texts(location.Nearest(asked, known, maxNearest))
}

func places(ops []*Op) []location.Loc {
	all := make([]location.Loc, len(ops))
	for i, o := range ops {
		all[i] = o.Loc
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

func describeAll(ops []*Op) string {
	var all []string
	for i, o := range ops {
		if i == maxAsked {
			all = append(all, "…")
			break
		}
		all = append(all, Describe(o.Kind, o.Loc))
	}
	return strings.Join(all, ", ")
}

// otherKind is the divergence in which the code calls an operation of another kind than
// what is recorded.
func (j *Journal) otherKind(rec *Record, o *Op) *Stall {
	s := &Stall{
		Location: o.Loc.String(), Recorded: rec.Describe(), Asked: Describe(o.Kind, o.Loc), Nearest: j.nearest(o.Loc),
		Remedy: "give the new operation another name and put " + j.removedCall(rec) +
			" where the former one stood, or restore the former code; then resume the run",
	}
	if j.ofScript() {
		s.Remedy = moveScript
	}
	return s
}

// removedAndAsked is the divergence in which the code calls an operation whose record
// Removed has accepted.
func (j *Journal) removedAndAsked(rec *Record, o *Op) *Stall {
	return &Stall{
		Location: o.Loc.String(), Recorded: rec.Describe(),
		Asked:  Describe(o.Kind, o.Loc) + ", after Removed has accepted what is recorded",
		Remedy: "take that Removed away, or give the operation another name",
	}
}

// inserted is the divergence in which the code calls what takes effect at once before
// completions that were recorded without it.
func (j *Journal) inserted() *Stall {
	for _, o := range j.pending {
		if o.early == nil || o.Closed {
			continue
		}
		s := &Stall{
			Location: location.Loc(o.early.Loc).String(), Recorded: o.early.Describe(),
			Asked:  Describe(o.Kind, o.Loc) + " before it",
			Remedy: "if it is new, put it under a Version; else restore the former order; then resume the run",
		}
		if j.ofScript() {
			s.Remedy = moveScript
		}
		return s
	}
	return nil
}

// FirstNew returns the first operation that the code has called and the history does not
// have, or nil.
func (j *Journal) FirstNew() *Op {
	for _, o := range j.fresh {
		if !o.Closed {
			return o
		}
	}
	return nil
}
