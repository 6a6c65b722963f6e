// Package named holds what the entities of a store have in common that keep things by their names: an item sets
// a thing or removes one by its name, and counts from the moment on at which it is durable.
package named

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/store"
)

// Things are those of one entity.
type Things[T any] struct {
	ID     string // of the entity
	Set    string // the name of items that set a thing, in place of one of its name
	Remove string // of those that remove one; of an unknown name they do nothing
	Name   func(*T) string
}

// Put makes a thing durable, with the record of who sets it.
func (k *Things[T]) Put(ctx context.Context, c entity.Client, thing *T, r *acts.Record) error {
	return k.send(ctx, c, k.Set, thing, r)
}

// Delete makes the removal of a thing durable, with the record of who asks for it.
func (k *Things[T]) Delete(ctx context.Context, c entity.Client, name string, r *acts.Record) error {
	return k.send(ctx, c, k.Remove, name, r)
}

func (k *Things[T]) send(ctx context.Context, c entity.Client, item string, v any, r *acts.Record) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return entity.SendWith(ctx, c, k.ID, item, value, r.Encode())
}

// Read returns the things that count, by their names: also those of items that the owner has not entered yet. The
// error wraps store.ErrDamaged.
func (k *Things[T]) Read(entries []store.Entry, inbox []store.Item) ([]T, error) {
	things := map[string]T{}
	for i := range entries {
		thing, err := k.Entered(&entries[i])
		if err != nil {
			return nil, err
		}
		things[k.Name(&thing)] = thing
	}
	for i := range inbox {
		it := inbox[i]
		entity.Detach(&it)
		set, removed, err := k.Change(&it)
		switch {
		case err != nil:
			return nil, fmt.Errorf("item %d: %w", it.No, err)
		case set != nil:
			things[k.Name(set)] = *set
		default:
			delete(things, removed)
		}
	}
	list := make([]T, 0, len(things))
	for _, name := range slices.Sorted(maps.Keys(things)) {
		list = append(list, things[name])
	}
	return list, nil
}

// Entered returns the thing of an entry.
func (k *Things[T]) Entered(e *store.Entry) (thing T, err error) {
	if err := decode(e.Value, &thing); err != nil {
		return thing, fmt.Errorf("entry %q: %w", e.Loc, err)
	}
	return thing, nil
}

// Change returns the thing that an item sets, or the name of the one that it removes. Other items remove "".
func (k *Things[T]) Change(it *store.Item) (set *T, removed string, err error) {
	switch {
	case it.Kind != store.ItemMessage:
	case it.Name == k.Set:
		set = new(T)
		err = decode(it.Value, set)
	case it.Name == k.Remove:
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
