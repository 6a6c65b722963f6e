package deletions_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/deletions"
	"github.com/stet-run/stet/store"
)

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
	if id != deletions.ID {
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
	m := entity.New(entity.Config{Run: store.Run{No: 1}, Rules: deletions.New(nil), Entries: o.stands()})
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

// TestRecordsAreKeptInOrder: what is not entered yet is read from the inbox.
func TestRecordsAreKeptInOrder(t *testing.T) {
	o := &office{entries: map[string]store.Entry{}}
	var want []deletions.Record
	for i := range 5 {
		r := deletions.Record{By: "ada", Why: fmt.Sprint("reason ", i),
			Runs: []deletions.Run{{ID: "a", No: 7, Workflow: "w", Status: store.Failed}}}
		if err := deletions.Note(t.Context(), o, &r); err != nil {
			t.Fatal(err)
		}
		r.At = o.items[i].Sent
		want = append(want, r)
	}
	o.work(t, o.items[0], store.Item{No: 9, Kind: store.ItemMessage, Name: "deleted", Value: []byte("{")})
	o.work(t, o.items[1:3]...)
	got, err := deletions.Read(o.stands(), o.items[3:])
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := deletions.Read([]store.Entry{{Loc: "x", Value: []byte("{")}}, nil); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a damaged entry: %v", err)
	}
}

// TestOldRecordsGo: the entity does not grow for ever.
func TestOldRecordsGo(t *testing.T) {
	o := &office{entries: map[string]store.Entry{}}
	for range deletions.Keep + 30 {
		if err := deletions.Note(t.Context(), o, &deletions.Record{By: "ada"}); err != nil {
			t.Fatal(err)
		}
	}
	o.work(t, o.items[:deletions.Keep+20]...)
	o.work(t, o.items[deletions.Keep+20:]...)
	got, err := deletions.Read(o.stands(), nil)
	if err != nil || len(got) != deletions.Keep || got[0].At != o.items[30].Sent {
		t.Errorf("%d records are kept, the first of %v, %v; want %d", len(got), got[0].At, err, deletions.Keep)
	}
}
