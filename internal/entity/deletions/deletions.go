// Package deletions holds the rules of the entity that keeps who has deleted runs, and why: the
// audit of a run is deleted with it.
//
// The last [Keep] records are kept.
package deletions

import (
	"context"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/recorded"
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

// book is what the entity keeps.
var book = recorded.Book[Record]{ID: ID, Item: "deleted", Keep: Keep}

// Note makes a record durable.
func Note(ctx context.Context, c entity.Client, r *Record) error { return book.Note(ctx, c, r) }

// Read returns the records, oldest first, those that have not been entered yet included. The
// error wraps store.ErrDamaged.
func Read(entries []store.Entry, inbox []store.Item) ([]Record, error) {
	kept, err := book.Read(entries, inbox)
	var records []Record
	for _, k := range kept {
		k.What.At = k.At
		records = append(records, k.What)
	}
	return records, err
}

// New returns the rules of the entity.
func New(run *store.Run) entity.Rules { return book.New(run) }
