// Package recorded holds what the entities of a store have in common that keep records: each item is one
// and becomes an entry, at the place of its number. The newest are kept.
package recorded

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/store"
)

// Book is what one entity keeps: records of type R, which JSON has as objects.
type Book[R any] struct {
	ID      string        // of the entity
	Item    string        // the name of items that are records
	Keep    int           // how many are kept, at least 1
	KeepFor time.Duration // for how long, until the next one comes; 0: without end
}

// Record is one that is kept.
type Record[R any] struct {
	What R
	No   store.ItemNo
	At   store.Time // when it was sent
}

// Note makes a record durable.
func (b *Book[R]) Note(ctx context.Context, c entity.Client, r *R) error {
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return entity.Send(ctx, c, b.ID, b.Item, value)
}

// Read returns the records, oldest first, also those of items that the owner has not entered yet. The
// error wraps store.ErrDamaged.
func (b *Book[R]) Read(entries []store.Entry, inbox []store.Item) ([]Record[R], error) {
	var records []Record[R]
	entered := map[store.ItemNo]bool{}
	for i := range entries {
		r, err := b.entered(&entries[i])
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", entries[i].Loc, err)
		}
		entered[r.No] = true
		records = append(records, r)
	}
	for i := range inbox {
		it := &inbox[i]
		if !b.has(it) || entered[it.No] {
			continue
		}
		r := Record[R]{No: it.No, At: it.Sent}
		if err := decode(it.Value, &r.What); err != nil {
			return nil, fmt.Errorf("item %d: %w", it.No, err)
		}
		records = append(records, r)
	}
	return records, nil
}

func (b *Book[R]) has(it *store.Item) bool { return it.Kind == store.ItemMessage && it.Name == b.Item }

// entered returns the record of an entry.
func (b *Book[R]) entered(e *store.Entry) (r Record[R], err error) {
	no, err := strconv.ParseInt(e.Loc, 16, 64)
	if err != nil {
		return r, fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	r.No = store.ItemNo(no)
	if err := decode(e.Value, &r.What); err != nil {
		return r, err
	}
	r.At, err = sent(e)
	return r, err
}

// entry returns the entry of a record: where its number says, in 16 digits, so that bytes and
// numbers have one order, and with when it was sent beside its own fields.
func (r *Record[R]) entry() (loc string, value []byte, err error) {
	fields := map[string]json.RawMessage{}
	what, err := json.Marshal(r.What)
	if err != nil {
		return "", nil, err
	}
	if err := json.Unmarshal(what, &fields); err != nil {
		return "", nil, err
	}
	fields["at"] = strconv.AppendInt(nil, int64(r.At), 10)
	value, err = json.Marshal(fields)
	return fmt.Sprintf("%016x", int64(r.No)), value, err
}

// sent returns when the record of an entry was sent.
func sent(e *store.Entry) (store.Time, error) {
	var r struct {
		At store.Time `json:"at"`
	}
	err := decode(e.Value, &r)
	return r.At, err
}

func decode(value []byte, v any) error {
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	return nil
}

// New returns the rules of the entity.
func (b *Book[R]) New(*store.Run) entity.Rules { return &rules[R]{book: b} }

// rules are those of a book's entity. They implement entity.Rules.
type rules[R any] struct {
	book    *Book[R]
	entries []kept // oldest first
}

// kept is an entry that is kept.
type kept struct {
	loc string
	at  store.Time
}

// Load implements entity.Rules.
func (r *rules[R]) Load(entries []store.Entry) error {
	for i := range entries {
		at, err := sent(&entries[i])
		if err != nil {
			return fmt.Errorf("entry %q: %w", entries[i].Loc, err)
		}
		r.entries = append(r.entries, kept{entries[i].Loc, at})
	}
	return nil
}

// Take implements entity.Rules.
func (r *rules[R]) Take(it *store.Item, _ store.Time, w *entity.Writer) {
	w.Consume(it.No, nil)
	record := Record[R]{No: it.No, At: it.Sent}
	if !r.book.has(it) || decode(it.Value, &record.What) != nil {
		return // nobody of ours has sent it
	}
	loc, value, err := record.entry()
	if err != nil {
		panic(err) // it has been decoded
	}
	r.entries = append(r.entries, kept{loc, it.Sent})
	w.Put(loc, value)
	for len(r.entries) > r.book.Keep || r.isOld(r.entries[0], it.Sent) {
		w.Delete(r.entries[0].loc)
		r.entries = r.entries[1:]
	}
}

func (r *rules[R]) isOld(k kept, now store.Time) bool {
	return r.book.KeepFor > 0 && k.at.Add(r.book.KeepFor) < now
}

// Tick implements entity.Rules.
func (*rules[R]) Tick(store.Time, *entity.Writer) {}

// Wake implements entity.Rules.
func (*rules[R]) Wake() store.Time { return 0 }
