// Package hooks holds the rules of the entity that keeps the webhooks of a store: of each whose
// signature it believes, and the one act that it does. The secrets of signatures stand in it.
//
// Each item sets a [Hook], or removes one, and counts from the moment on at which it is durable:
// [Read] reads those that the owner has not entered yet, too.
package hooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/store"
)

// Workflow is the name that it has as an entity, of which a store has one, with the ID.
const (
	Workflow = store.EntityPrefix + "hooks"
	ID       = Workflow + "/all"
)

// The names of items.
const (
	itemSet    = "set"
	itemRemove = "remove"
)

// Hook is a webhook. One of Start, Send, Publish and Resolve says what it does.
type Hook struct {
	Name    string     `json:"name"`
	Scheme  string     `json:"scheme"`
	Header  string     `json:"header,omitempty"` // that has the signature
	Secrets []string   `json:"secrets"`
	Start   string     `json:"start,omitempty"`   // a workflow
	Send    string     `json:"send,omitempty"`    // a message
	Publish string     `json:"publish,omitempty"` // a topic
	Resolve bool       `json:"resolve,omitempty"`
	Target  string     `json:"target,omitempty"` // JSON pointer to the run's ID, or the token
	Value   string     `json:"value,omitempty"`  // JSON pointer to the value
	At      store.Time `json:"at"`
	By      string     `json:"by"`
	Why     string     `json:"why,omitempty"`
}

// Set makes a hook durable, in place of one of its name, with the record of who sets it.
func Set(ctx context.Context, c entity.Client, h *Hook, r *acts.Record) error {
	value, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return entity.SendWith(ctx, c, ID, itemSet, value, r.Encode())
}

// Remove makes the removal of a hook durable, with the record of who asks for it. One of an unknown hook does nothing.
func Remove(ctx context.Context, c entity.Client, name string, r *acts.Record) error {
	value, err := json.Marshal(name)
	if err != nil {
		return err
	}
	return entity.SendWith(ctx, c, ID, itemRemove, value, r.Encode())
}

// Read returns the hooks that count, by their names. The error wraps store.ErrDamaged.
func Read(entries []store.Entry, inbox []store.Item) ([]Hook, error) {
	hooks := map[string]Hook{}
	for i := range entries {
		var h Hook
		if err := decode(entries[i].Value, &h); err != nil {
			return nil, fmt.Errorf("entry %q: %w", entries[i].Loc, err)
		}
		hooks[h.Name] = h
	}
	for i := range inbox {
		it := inbox[i]
		entity.Detach(&it)
		set, removed, err := changeOf(&it)
		switch {
		case err != nil:
			return nil, fmt.Errorf("item %d: %w", inbox[i].No, err)
		case set != nil:
			hooks[set.Name] = *set
		default:
			delete(hooks, removed)
		}
	}
	list := make([]Hook, 0, len(hooks))
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		list = append(list, hooks[name])
	}
	return list, nil
}

// changeOf returns the hook that an item sets, or the name of the one that it removes. Other
// items remove "".
func changeOf(it *store.Item) (set *Hook, removed string, err error) {
	switch {
	case it.Kind != store.ItemMessage:
	case it.Name == itemSet:
		set = &Hook{}
		err = decode(it.Value, set)
	case it.Name == itemRemove:
		err = decode(it.Value, &removed)
	}
	return set, removed, err
}

func decode(value []byte, v any) error {
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	return nil
}

// Rules are the rules of the entity. They implement entity.Rules.
type Rules struct{}

// New returns its rules.
func New(*store.Run) entity.Rules { return Rules{} }

// Load implements entity.Rules.
func (Rules) Load([]store.Entry) error { return nil }

// Take implements entity.Rules. What does not decode nobody of ours has sent.
func (Rules) Take(it *store.Item, _ store.Time, w *entity.Writer) {
	w.Consume(it.No, nil)
	set, removed, err := changeOf(it)
	switch {
	case err != nil:
	case set != nil:
		w.Put(locOf(set.Name), it.Value)
		acts.CarriedOut(it, w)
	case removed != "":
		w.Delete(locOf(removed))
		acts.CarriedOut(it, w)
	}
}

// locOf returns where a hook stands: a name may have bytes that a location has not.
func locOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// Tick implements entity.Rules.
func (Rules) Tick(store.Time, *entity.Writer) {}

// Wake implements entity.Rules.
func (Rules) Wake() store.Time { return 0 }
