// Package acts holds the rules of the entity that keeps what operators did to the store and
// not to a run: to queues, schedules, topics, dead letters, nodes and tokens. What is done to
// a run stands in the run's own audit.
//
// Each item is a [Record] and becomes an entry, at the place of its number. A record is kept
// for [KeepFor], and no more than the last [Keep] are.
//
// What is asked of another entity has its record attached. The turn that carries it out sends
// the record here ([CarriedOut]), so that neither stands without the other.
package acts

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/store"
)

// Workflow is the name that it has as an entity, of which a store has one, with the ID.
const (
	Workflow = store.EntityPrefix + "audit"
	ID       = Workflow + "/all"
)

const (
	// Keep is how many records are kept.
	Keep = 10_000
	// KeepFor is for how long.
	KeepFor = store.Delay(90 * 24 * time.Hour / time.Microsecond)
)

// item is the name of an item that is a Record.
const item = "act"

// Record is an act.
type Record struct {
	By     string `json:"by"`
	Verb   string `json:"verb"`
	About  string `json:"about,omitempty"` // as "queue mail"
	Why    string `json:"why,omitempty"`
	Detail string `json:"detail,omitempty"`
	ID     string `json:"id,omitempty"` // of the request; "": it was noted by itself

	No store.ItemNo `json:"-"`
	At store.Time   `json:"-"`
}

// stored is a record as an entry has it.
type stored struct {
	Record
	At store.Time `json:"at"`
}

// Note makes a record durable.
func Note(ctx context.Context, c entity.Client, r *Record) error {
	return entity.Send(ctx, c, ID, item, r.Encode())
}

// Encode returns the stored form.
func (r *Record) Encode() []byte {
	value, err := json.Marshal(r)
	if err != nil {
		panic(err) // it is made of texts
	}
	return value
}

// CarriedOut sends the record that is attached to an item, if there is one, in the turn that
// carries the item out. A turn that is made again after a crash sends it once.
func CarriedOut(it *store.Item, w *entity.Writer) {
	if it.Headers == nil {
		return
	}
	w.Send(store.Command{RunID: ID, Item: &store.Item{
		Kind: store.ItemMessage, Name: item, ID: "act " + it.ID, Origin: it.Origin, Value: it.Headers,
	}})
}

// Attached returns the records that are attached to items of an inbox which count already,
// before their entity has entered them.
func Attached(inbox []store.Item) ([]Record, error) {
	var records []Record
	for i := range inbox {
		it := inbox[i]
		data := entity.Detach(&it)
		if data == nil || it.State == store.Consumed {
			continue
		}
		var r Record
		if err := decode(data, &r); err != nil {
			return nil, fmt.Errorf("item %d: %w", it.No, err)
		}
		r.At, r.No = it.Sent, it.No
		records = append(records, r)
	}
	return records, nil
}

// Read returns the records, oldest first, those that have not been entered yet included. The
// error wraps store.ErrDamaged.
func Read(entries []store.Entry, inbox []store.Item) ([]Record, error) {
	var records []Record
	seen := map[store.ItemNo]bool{}
	for i := range entries {
		var s stored
		no, err := strconv.ParseInt(entries[i].Loc, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w: %w", entries[i].Loc, store.ErrDamaged, err)
		}
		if err := decode(entries[i].Value, &s); err != nil {
			return nil, fmt.Errorf("entry %q: %w", entries[i].Loc, err)
		}
		s.Record.At, s.Record.No = s.At, store.ItemNo(no)
		seen[s.Record.No] = true
		records = append(records, s.Record)
	}
	for i := range inbox {
		it := &inbox[i]
		if it.Kind != store.ItemMessage || it.Name != item || seen[it.No] {
			continue
		}
		var r Record
		if err := decode(it.Value, &r); err != nil {
			return nil, fmt.Errorf("item %d: %w", it.No, err)
		}
		r.At, r.No = it.Sent, it.No
		records = append(records, r)
	}
	return records, nil
}

func decode(value []byte, v any) error {
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	return nil
}

// kept is a record that is kept.
type kept struct {
	loc string
	at  store.Time
}

// Rules are the rules of the entity. They implement entity.Rules.
type Rules struct{ records []kept } // oldest first

// New returns its rules.
func New(*store.Run) entity.Rules { return &Rules{} }

// Load implements entity.Rules.
func (r *Rules) Load(entries []store.Entry) error {
	for i := range entries {
		var s stored
		if err := decode(entries[i].Value, &s); err != nil {
			return fmt.Errorf("entry %q: %w", entries[i].Loc, err)
		}
		r.records = append(r.records, kept{entries[i].Loc, s.At})
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
	digits := strconv.FormatInt(int64(it.No), 16)
	loc := "0000000000000000"[len(digits):] + digits // bytes and numbers have one order
	r.records = append(r.records, kept{loc, it.Sent})
	w.Put(loc, value)
	for len(r.records) > Keep || r.records[0].at.Add(time.Duration(KeepFor)*time.Microsecond) < it.Sent {
		w.Delete(r.records[0].loc)
		r.records = r.records[1:]
	}
}

// Tick implements entity.Rules.
func (*Rules) Tick(store.Time, *entity.Writer) {}

// Wake implements entity.Rules.
func (*Rules) Wake() store.Time { return 0 }
