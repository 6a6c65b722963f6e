package recorded_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/recorded"
	"github.com/stet-run/stet/store"
)

// word is a record of the tests.
type word struct {
	Text string `json:"text"`
}

var book = recorded.Book[word]{ID: "stet.words/all", Item: "word", Keep: 100, KeepFor: 90 * 24 * time.Hour}

// office is a client whose items the rules take, and what stands then.
type office struct {
	items   []store.Item
	entries map[string]store.Entry
}

func (*office) Get(context.Context, string) (store.Run, bool, error) { return store.Run{}, false, nil }

func (*office) Verdict(context.Context, store.RunNo, store.ItemNo, string) ([]byte, error) {
	return nil, nil
}

func (o *office) Tell(_ context.Context, id string, it store.Item) (store.Answer, error) {
	if id != book.ID {
		return store.Answer{}, errors.New("another entity is told")
	}
	it.No = store.ItemNo(len(o.items) + 14)
	it.Sent, it.State, it.Size = store.Time(it.No*1000), store.New, len(it.Value)
	o.items = append(o.items, it)
	return store.Answer{}, nil
}

func (o *office) stands() []store.Entry {
	var list []store.Entry
	for _, loc := range slices.Sorted(maps.Keys(o.entries)) {
		list = append(list, o.entries[loc])
	}
	return list
}

// work enters items by a new activation.
func (o *office) work(t *testing.T, items ...store.Item) {
	t.Helper()
	m := entity.New(entity.Config{Run: store.Run{No: 1}, Rules: book.New(nil), Entries: o.stands()})
	m.Deliver(items...)
	for m.Advance(1, 1); ; m.Advance(1, 1) {
		turn := m.Take()
		if turn == nil {
			return
		}
		for _, s := range turn.Prune {
			maps.DeleteFunc(o.entries, func(loc string, _ store.Entry) bool { return s.Contains(loc) })
		}
		for _, e := range turn.Entries {
			o.entries[e.Loc] = e
		}
		m.Committed()
		if turn.Update == nil {
			continue
		}
		if turn.Update.Status != store.Suspended {
			t.Fatalf("the entity becomes %s: %s", turn.Update.Status, turn.Update.Reason)
		}
		return
	}
}

// TestRecordsAreKeptInOrder: what is not entered yet is read from the inbox, and what is read
// twice counts once.
func TestRecordsAreKeptInOrder(t *testing.T) {
	o := &office{entries: map[string]store.Entry{}}
	var want []recorded.Record[word]
	for i := range 5 {
		w := word{fmt.Sprint("word ", i)}
		if err := book.Note(t.Context(), o, &w); err != nil {
			t.Fatal(err)
		}
		want = append(want, recorded.Record[word]{What: w, No: o.items[i].No, At: o.items[i].Sent})
	}
	o.work(t, o.items[0], store.Item{No: 9, Kind: store.ItemMessage, Name: "word", Value: []byte("{")})
	o.work(t, o.items[1:3]...)
	got, err := book.Read(o.stands(), o.items[2:])
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, e := range []store.Entry{{Loc: "1", Value: []byte("{")}, {Loc: "x", Value: []byte("{}")}} {
		if _, err := book.Read([]store.Entry{e}, nil); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("a damaged entry: %v", err)
		}
	}
}

// TestStoredForm pins how an entry has a record: stores have it.
func TestStoredForm(t *testing.T) {
	o := &office{entries: map[string]store.Entry{}}
	if err := book.Note(t.Context(), o, &word{"stet"}); err != nil {
		t.Fatal(err)
	}
	o.work(t, o.items...)
	e := o.stands()[0]
	if e.Loc != "000000000000000e" || string(e.Value) != `{"at":14000,"text":"stet"}` {
		t.Errorf("the entry is %s: %s", e.Loc, e.Value)
	}
}

// TestOldRecordsGo: when they are old, and the oldest if there are too many.
func TestOldRecordsGo(t *testing.T) {
	o := &office{entries: map[string]store.Entry{}}
	for range book.Keep + 30 {
		if err := book.Note(t.Context(), o, &word{}); err != nil {
			t.Fatal(err)
		}
	}
	o.work(t, o.items[:book.Keep+20]...)
	o.work(t, o.items[book.Keep+20:]...)
	got, err := book.Read(o.stands(), nil)
	if err != nil || len(got) != book.Keep || got[0].At != o.items[30].Sent {
		t.Errorf("%d records are kept, the first of %v, %v; want %d", len(got), got[0].At, err, book.Keep)
	}
	late := o.items[0]
	late.No, late.Sent = 1<<40, o.items[len(o.items)-3].Sent.Add(book.KeepFor)
	o.work(t, late)
	if got, err = book.Read(o.stands(), nil); err != nil || len(got) != 4 {
		t.Errorf("%d records are kept when they are old, %v", len(got), err)
	}
}
