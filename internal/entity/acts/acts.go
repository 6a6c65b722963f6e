// Package acts holds the rules of the entity that keeps what operators did to the store and
// not to a run: to queues, schedules, topics, dead letters, nodes and tokens. What is done to
// a run stands in the run's own audit.
//
// A record is kept for [KeepFor], and no more than the last [Keep] are.
//
// What is asked of another entity has its record attached. The turn that carries it out sends
// the record here ([CarriedOut]), so that neither stands without the other.
package acts

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/recorded"
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

// book is what the entity keeps.
var book = recorded.Book[Record]{
	ID: ID, Item: "act", Keep: Keep, KeepFor: time.Duration(KeepFor) * time.Microsecond,
}

// Note makes a record durable.
func Note(ctx context.Context, c entity.Client, r *Record) error { return book.Note(ctx, c, r) }

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
		Kind: store.ItemMessage, Name: book.Item, ID: "act " + it.ID, Origin: it.Origin, Value: it.Headers,
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
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("item %d: %w: %w", it.No, store.ErrDamaged, err)
		}
		r.At, r.No = it.Sent, it.No
		records = append(records, r)
	}
	return records, nil
}

// Read returns the records, oldest first, those that have not been entered yet included. The
// error wraps store.ErrDamaged.
func Read(entries []store.Entry, inbox []store.Item) ([]Record, error) {
	kept, err := book.Read(entries, inbox)
	var records []Record
	for _, k := range kept {
		k.What.No, k.What.At = k.No, k.At
		records = append(records, k.What)
	}
	return records, err
}

// New returns the rules of the entity.
func New(run *store.Run) entity.Rules { return book.New(run) }
