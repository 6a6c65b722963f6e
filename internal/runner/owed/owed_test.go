package owed_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/owed"
	"github.com/stet-run/stet/store"
)

func path(names ...string) location.Loc {
	loc := location.Loc("")
	for _, n := range names {
		loc = loc.Name(n, 1)
	}
	return loc
}

// add notes a step that was handed over with a number.
func add(x *owed.Effects, loc location.Loc, seq int64, value string) {
	x.Add(&journal.Op{Loc: loc, Value: []byte(value)}, &attempts.Undo{}, seq, seq)
}

func places(list []*owed.Effect) []string {
	var all []string
	for _, d := range list {
		all = append(all, d.Loc.String())
	}
	return all
}

// What was not undone is given newest first: of the run, or of a scope, which has nothing
// that has a key beside the scope's name.
func TestNewestFirst(t *testing.T) {
	x := owed.New(nil)
	add(&x, path("a"), 1, "")
	add(&x, path("book", "b"), 4, "")
	add(&x, path("book", "inner", "c"), 3, "")
	add(&x, path("book").Key("k", 1).Name("d", 1), 5, "")
	add(&x, path("book", "e"), 6, "")
	x.Settle(path("book", "e"))
	if got, want := places(x.Newest()), []string{"book/[k]/d", "book/b", "book/inner/c", "a"}; !slices.Equal(got, want) {
		t.Errorf("the newest are %q, want %q", got, want)
	}
	if got, want := places(x.Within(path("book"))), []string{"book/b", "book/inner/c"}; !slices.Equal(got, want) {
		t.Errorf("in the scope are %q, want %q", got, want)
	}
	from, to := path("book").Range()
	x.Forget(store.Span{From: from, To: to})
	if got := places(x.Newest()); !slices.Equal(got, []string{"a"}) || x.Len() != 1 {
		t.Errorf("left are %q of %d", got, x.Len())
	}
	if x.Settle(path("a")); x.Any() {
		t.Error("something is owed when all is undone")
	}
}

// A large value is kept until it is durable, and fetched then.
func TestLargeValuesAreDropped(t *testing.T) {
	x := owed.New(nil)
	add(&x, path("a"), 1, string(make([]byte, store.LargeValue)))
	add(&x, path("b"), 2, "small")
	if n := x.Held(); n != store.LargeValue+5 {
		t.Errorf("%d bytes are held", n)
	}
	x.Lighten(0)
	if x.Lighten(1); x.Held() != 5 {
		t.Errorf("%d bytes are held when all is durable", x.Held())
	}
	no := errors.New("no")
	fetch := func(loc string) ([]byte, error) { return []byte(loc), no }
	b, a := x.Newest()[0], x.Newest()[1]
	if v, err := a.Value(fetch); string(v) != string(path("a")) || err != no {
		t.Errorf("the large value is %q, %v", v, err)
	}
	if v, err := b.Value(fetch); string(v) != "small" || err != nil {
		t.Errorf("the small value is %q, %v", v, err)
	}
}

// A list has what may have had an effect, then what is recorded and not called yet, and what
// was called since, without what is undone. A step whose compensation the code lacks is known.
func TestListOfWhatIsOwed(t *testing.T) {
	entry := func(loc location.Loc, kind store.Kind, seq int64, owes bool) store.Entry {
		return store.Entry{Loc: string(loc), Kind: kind, State: store.Done, Seq: seq, Owes: owes}
	}
	x := owed.New([]store.Entry{
		entry(path("a"), store.KindStep, 1, true),
		entry(path("b"), store.KindStep, 2, true),
		entry(path("b", "undo"), store.KindSagaUndo, 3, false),
		entry(path("c"), store.KindStep, 0, true),
	})
	add(&x, path("c"), 4, "")
	add(&x, path("d"), 5, "")
	add(&x, path("e"), 6, "")
	x.Settle(path("d"))
	if got, want := x.List([]location.Loc{path("f")}), []string{"f", "e", "c", "a"}; !slices.Equal(got, want) {
		t.Errorf("owed are %q, want %q", got, want)
	}
	if s := x.Lacking(); s != nil {
		t.Errorf("the code lacks %v", s)
	}
	x.Passed(path("a"), 1)
	if s := x.Lacking(); s == nil || s.Location != "a" {
		t.Errorf("the code lacks %v", s)
	}
	if x.Settle(path("a")); x.Lacking() != nil {
		t.Error("the code lacks the compensation of a step that is undone")
	}
}
