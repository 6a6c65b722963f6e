package turnlog_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/runner/turnlog"
	"github.com/stet-run/stet/store"
)

func locs(turn *store.Turn) []string {
	var all []string
	for _, e := range turn.Entries {
		all = append(all, e.Loc+"="+string(e.Value))
	}
	return all
}

// TestOneEntryPerOperation: what an operation writes twice in a turn is there once,
// with its newest value; in the next turn it replaces what stands.
func TestOneEntryPerOperation(t *testing.T) {
	var l turnlog.Log
	var a, b turnlog.Slot
	l.Put(&a, store.Entry{Loc: "a", Value: []byte("1")})
	l.Put(&b, store.Entry{Loc: "b", Value: []byte("1")})
	l.Put(&a, store.Entry{Loc: "a", Value: []byte("22")})
	turn := l.Turn(&store.Run{No: 7})
	if !slices.Equal(locs(turn), []string{"a=22", "b=1"}) || !turn.Insert || turn.Run != 7 {
		t.Fatalf("the turn is %+v", turn)
	}
	if l.Next(); !l.Empty() {
		t.Fatal("the next turn is not empty")
	}
	if grown := l.Put(&a, store.Entry{Loc: "a", Value: []byte("3")}); grown != -1 || a.Size() != 1 {
		t.Errorf("the value has grown by %d bytes to %d", grown, a.Size())
	}
	if turn = l.Turn(&store.Run{}); !slices.Equal(locs(turn), []string{"a=3"}) || turn.Insert {
		t.Errorf("the next turn is %+v", turn)
	}
	if !a.Written() || !a.New() {
		t.Error("an operation that has written an entry does not say so")
	}
}

// TestInsert: only a turn in which no entry may stand before is one of inserts.
func TestInsert(t *testing.T) {
	for name, add := range map[string]func(l *turnlog.Log){
		"added":    func(l *turnlog.Log) { l.Add(store.Entry{Loc: "a"}) },
		"recorded": func(l *turnlog.Log) { s := turnlog.Recorded(3); l.Put(&s, store.Entry{Loc: "a"}) },
	} {
		var l turnlog.Log
		if add(&l); l.Turn(&store.Run{}).Insert {
			t.Errorf("%s: the turn says that nothing stands where it writes", name)
		}
	}
}

// TestItems: an item that is consumed or dead is not examined besides; one that is
// seen already is not examined again.
func TestItems(t *testing.T) {
	var l turnlog.Log
	for no := range store.ItemNo(4) {
		l.See(&store.Item{No: no})
	}
	l.See(&store.Item{No: 9, State: store.Seen})
	l.Consume(1, []byte("y"))
	l.DeadLetter(2)
	turn := l.Turn(&store.Run{})
	if !slices.Equal(turn.Seen, []store.ItemNo{0, 3}) || !slices.Equal(turn.Dead, []store.ItemNo{2}) ||
		!reflect.DeepEqual(turn.Consumed, []store.Consumption{{Item: 1, Verdict: []byte("y")}}) {
		t.Errorf("the turn is %+v", turn)
	}
}

// TestCut: entries in a span that is deleted are not written; a span that grows is
// there once.
func TestCut(t *testing.T) {
	var l turnlog.Log
	for _, loc := range []string{"l/0", "l/1", "l/2"} {
		l.Add(store.Entry{Loc: loc})
	}
	l.Cut(store.Span{From: "l/0", To: "l/1"})
	l.Cut(store.Span{From: "l/0", To: "l/2"})
	turn := l.Turn(&store.Run{})
	if len(turn.Prune) != 1 || turn.Prune[0].To != "l/2" || !slices.Equal(locs(turn), []string{"l/2="}) {
		t.Errorf("the turn is %+v", turn)
	}
}

func TestUnsend(t *testing.T) {
	var l turnlog.Log
	l.Send(store.Command{Start: &store.Start{ID: "child"}})
	l.Send(store.Command{Item: &store.Item{Name: "a"}})
	named := func(name string) func(*store.Item) bool {
		return func(it *store.Item) bool { return it.Name == name }
	}
	if l.Unsend(named("b")) || !l.Unsend(named("a")) || l.Unsend(named("a")) || len(l.Sends()) != 1 {
		t.Errorf("the sends are %+v", l.Sends())
	}
}

// TestFull: entries, what is shown, and bytes of values and inputs count.
func TestFull(t *testing.T) {
	for name, add := range map[string]func(l *turnlog.Log){
		"entries": func(l *turnlog.Log) { l.Add(store.Entry{}); l.Add(store.Entry{}) },
		"shown":   func(l *turnlog.Log) { l.Append(store.Append{Name: "s"}); l.Set("v", nil); l.Set("v", nil) },
		"bytes":   func(l *turnlog.Log) { l.Add(store.Entry{Loc: "abc", Value: make([]byte, 7)}) },
		"input":   func(l *turnlog.Log) { l.Send(store.Command{Start: &store.Start{Input: make([]byte, 10)}}) },
		"event":   func(l *turnlog.Log) { l.SendLarge(store.Command{}, 10) },
		"value":   func(l *turnlog.Log) { l.Set("v", make([]byte, 20)); l.Set("v", make([]byte, 10)) },
		"answer":  func(l *turnlog.Log) { l.Answer(store.Consumption{Verdict: make([]byte, 10)}) },
	} {
		var l turnlog.Log
		if add(&l); !l.Full(2, 10) || l.Full(3, 11) {
			t.Errorf("%s: the turn is full at the wrong size", name)
		}
	}
}

func TestShown(t *testing.T) {
	var l turnlog.Log
	l.Set("a", []byte("1"))
	l.Set("b", []byte("1"))
	l.Set("a", []byte("2"))
	l.SetTags(l.WithTags([]store.Pair{{Key: "k", Value: "1"}}))
	l.SetTags(l.WithTags([]store.Pair{{Key: "k", Value: "2"}, {Key: "l", Value: "1"}}))
	turn := l.Turn(&store.Run{})
	if len(turn.Values) != 2 || string(turn.Values[0].Value) != "2" ||
		!slices.Equal(turn.Tags, []store.Pair{{Key: "k", Value: "2"}, {Key: "l", Value: "1"}}) {
		t.Errorf("the turn is %+v", turn)
	}
	if rows, bytes := l.ShownSize(); rows != 4 || bytes != 2 {
		t.Errorf("%d rows with %d bytes are shown", rows, bytes)
	}
}

// TestMarkAndAudit: a mark or an act alone is nothing to write; both are in the turn's
// update, which is the run's.
func TestMarkAndAudit(t *testing.T) {
	var l turnlog.Log
	l.Mark()
	l.Audit(store.Audit{Who: "me"})
	if !l.Marked() || !l.Empty() || len(l.Turn(&store.Run{}).Audit) != 1 {
		t.Error("the mark or the act is lost")
	}
}
