// Package deletions holds the rules of the entity that keeps who has deleted runs, and why: the
// audit of a run is deleted with it.
//
// Each item is a [Record] and becomes an entry, at the place of its number. The last [Keep]
// records are kept.
package deletions

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/store"
)

// Workflow is the name that it has as an entity, of which a store has one, with the ID.
const (
	Workflow = store.EntityPrefix + "deletions"
	ID       = Workflow + "/all"
)

const (
	// Keep is how many records are kept.
	Keep = 10_000
	// MaxRuns is how many runs one record names at most.
	MaxRuns = 100
)

// item is the name of an item that is a Record.
const item = "deleted"

// Record is a request to delete runs. It is durable before the first of them goes.
type Record struct {
	By   string `json:"by"`
	Why  string `json:"why,omitempty"`
	Runs []Run  `json:"runs"`

	At store.Time `json:"-"` // when it was requested
}

// Run is a run that is deleted.
type Run struct {
	ID       string       `json:"id"`
	No       store.RunNo  `json:"no"`
	Workflow string       `json:"workflow"`
	Status   store.Status `json:"status"`
}

// stored is a record as an entry has it.
type stored struct {
	Record
	At store.Time `json:"at"`
}

// Note makes a record durable.
func Note(ctx context.Context, c entity.Client, r *Record) error {
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return entity.Send(ctx, c, ID, item, value)
}

// Read returns the records, oldest first, those that have not been entered yet included. The
// error wraps store.ErrDamaged.
func Read(entries []store.Entry, inbox []store.Item) ([]Record, error) {
	var records []Record
	for i := range entries {
		var s stored
		if err := decode(entries[i].Value, &s); err != nil {
			return nil, fmt.Errorf("entry %q: %w", entries[i].Loc, err)
		}
		s.Record.At = s.At
		records = append(records, s.Record)
	}
	for i := range inbox {
		if it := &inbox[i]; it.Kind == store.ItemMessage && it.Name == item {
			var r Record
			if err := decode(it.Value, &r); err != nil {
				return nil, fmt.Errorf("item %d: %w", it.No, err)
			}
			r.At = it.Sent
			records = append(records, r)
		}
	}
	return records, nil
}

func decode(value []byte, v any) error {
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	return nil
}

// Rules are the rules of the entity. They implement entity.Rules.
type Rules struct{ locs []string } // oldest first

// New returns its rules.
func New(*store.Run) entity.Rules { return &Rules{} }

// Load implements entity.Rules.
func (r *Rules) Load(entries []store.Entry) error {
	for i := range entries {
		r.locs = append(r.locs, entries[i].Loc)
	}
	return nil
}

// Take implements entity.Rules.
func (r *Rules) Take(it *store.Item, _ store.Time, w *entity.Writer) {
	w.Consume(it.No, nil)
	var record Record
	if it.Kind != store.ItemMessage || it.Name != item || decode(it.Value, &record) != nil {
		return // nobody of ours has sent it
	}
	value, err := json.Marshal(&stored{record, it.Sent})
	if err != nil {
		panic(err) // it has been decoded
	}
	loc := place(it.No)
	r.locs = append(r.locs, loc)
	w.Put(loc, value)
	for ; len(r.locs) > Keep; r.locs = r.locs[1:] {
		w.Delete(r.locs[0])
	}
}

// place returns the location of a record: 16 digits, so that bytes and numbers have one order.
func place(no store.ItemNo) string {
	digits := strconv.FormatInt(int64(no), 16)
	return "0000000000000000"[len(digits):] + digits
}

// Tick implements entity.Rules.
func (*Rules) Tick(store.Time, *entity.Writer) {}

// Wake implements entity.Rules.
func (*Rules) Wake() store.Time { return 0 }
