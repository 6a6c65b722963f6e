package entity

import (
	"context"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/payload"
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

// Send puts a message with the name into the inbox of an entity, which is made if it is
// not there.
func Send(ctx context.Context, c Client, id, name string, value []byte) error {
	return SendWith(ctx, c, id, name, value, nil)
}

// SendWith is Send with a record of who asks and why (see Attach).
func SendWith(ctx context.Context, c Client, id, name string, value, record []byte) error {
	item := newItem(store.ItemMessage, name, value)
	Attach(&item, record)
	_, err := c.Tell(ctx, id, item)
	return err
}

// Tell is Send of what the entity answers, without waiting for that.
func Tell(ctx context.Context, c Client, id, name string, value []byte) error {
	return TellWith(ctx, c, id, name, value, nil)
}

// TellWith is Tell with a record of who asks and why (see Attach).
func TellWith(ctx context.Context, c Client, id, name string, value, record []byte) error {
	item := newItem(store.ItemUpdate, name, value)
	Attach(&item, record)
	_, err := c.Tell(ctx, id, item)
	return err
}

// Ask is Send and returns the answer of the entity. payload.ErrSealed: the key with which
// the answer is encrypted is missing here.
func Ask(ctx context.Context, c Client, id, name string, value []byte) ([]byte, error) {
	return AskWith(ctx, c, id, name, value, nil)
}

// AskWith is Ask with a record of who asks and why (see Attach).
func AskWith(ctx context.Context, c Client, id, name string, value, record []byte) ([]byte, error) {
	item := newItem(store.ItemUpdate, name, value)
	Attach(&item, record)
	answer, err := c.Tell(ctx, id, item)
	if err != nil {
		return nil, err
	}
	verdict, err := c.Verdict(ctx, answer.Run.No, answer.Item, item.ID)
	if err == nil {
		err = payload.Readable(verdict)
	}
	if err != nil {
		return nil, err
	}
	return verdict, nil
}

func newItem(kind store.ItemKind, name string, value []byte) store.Item {
	id := uuid.NewString()
	return store.Item{Kind: kind, Name: name, ID: id, Origin: id, Value: value}
}
