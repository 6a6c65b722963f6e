package entity

import (
	"context"

	"github.com/google/uuid"

	"github.com/stet-run/stet/store"
)

// Client is what those that use entities need of an engine.
type Client interface {
	// Get returns a run; ok is false if there is none with the ID.
	Get(ctx context.Context, runID string) (run store.Run, ok bool, err error)
	// Tell puts an item into the inbox of an entity, which is made if it is not there.
	Tell(ctx context.Context, id string, item store.Item) (store.Answer, error)
	// Verdict waits for the answer to an update.
	Verdict(ctx context.Context, run store.RunNo, no store.ItemNo, itemID string) ([]byte, error)
}

// ID returns the ID of the entity with the name that has the rules of the workflow.
func ID(workflow, name string) string { return workflow + "/" + name }

// Ask puts an update with the name into the inbox of an entity, which is made if it is
// not there, and returns its answer.
func Ask(ctx context.Context, c Client, id, name string, value []byte) ([]byte, error) {
	item := store.Item{Kind: store.ItemUpdate, Name: name, ID: uuid.NewString(), Value: value}
	item.Origin = item.ID
	answer, err := c.Tell(ctx, id, item)
	if err != nil {
		return nil, err
	}
	return c.Verdict(ctx, answer.Run.No, answer.Item, item.ID)
}
