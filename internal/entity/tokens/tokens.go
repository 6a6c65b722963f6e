// Package tokens holds the rules of the entity that keeps the access tokens of a store's
// servers: of each the hash, and what it allows. The token itself is nowhere.
//
// Each item adds a [Token], or revokes one, and counts from the moment on at which it is
// durable: [Read] reads those that the owner has not entered yet, too.
package tokens

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

// Workflow is the name that it has as an entity, of which a store has one, with the ID.
const (
	Workflow = store.EntityPrefix + "access"
	ID       = Workflow + "/tokens"
)

// The names of items.
const (
	itemAdd    = "add"
	itemRevoke = "revoke"
)

// Token is an access token without its secret.
type Token struct {
	ID        string     `json:"id"`   // 16 hexadecimal digits
	Hash      []byte     `json:"hash"` // SHA-256 of the token
	Name      string     `json:"name"` // of the identity
	Role      string     `json:"role"`
	Workflows []string   `json:"workflows,omitempty"`
	Named     []string   `json:"named,omitempty"`
	Created   store.Time `json:"created"`
	Expires   store.Time `json:"expires"` // 0: never
	By        string     `json:"by"`
}

// Add makes a token durable, with the record of who adds it.
func Add(ctx context.Context, c entity.Client, t *Token, r *acts.Record) error {
	value, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return entity.SendWith(ctx, c, ID, itemAdd, value, r.Encode())
}

// Revoke makes a revocation durable, with the record of who asks for it. One of an unknown token does nothing.
func Revoke(ctx context.Context, c entity.Client, id string, r *acts.Record) error {
	value, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return entity.SendWith(ctx, c, ID, itemRevoke, value, r.Encode())
}

// Read returns the tokens that count, by their IDs. The error wraps store.ErrDamaged.
func Read(entries []store.Entry, inbox []store.Item) ([]Token, error) {
	tokens := map[string]Token{}
	for i := range entries {
		var t Token
		if err := decode(entries[i].Value, &t); err != nil {
			return nil, fmt.Errorf("entry %q: %w", entries[i].Loc, err)
		}
		tokens[t.ID] = t
	}
	for i := range inbox {
		it := inbox[i]
		entity.Detach(&it)
		if err := apply(tokens, &it); err != nil {
			return nil, fmt.Errorf("item %d: %w", it.No, err)
		}
	}
	list := make([]Token, 0, len(tokens))
	for _, id := range slices.Sorted(maps.Keys(tokens)) {
		list = append(list, tokens[id])
	}
	return list, nil
}

// apply carries an item out. Others than ours do nothing.
func apply(tokens map[string]Token, it *store.Item) error {
	if it.Kind != store.ItemMessage {
		return nil
	}
	switch it.Name {
	case itemAdd:
		var t Token
		if err := decode(it.Value, &t); err != nil {
			return err
		}
		tokens[t.ID] = t
	case itemRevoke:
		var id string
		if err := decode(it.Value, &id); err != nil {
			return err
		}
		delete(tokens, id)
	}
	return nil
}

func decode(value []byte, v any) error {
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	return nil
}

// Rules are the rules of the entity. They implement entity.Rules.
type Rules struct{ known map[string]store.Time } // when the tokens expire, by their IDs

// New returns its rules.
func New(*store.Run) entity.Rules { return &Rules{known: map[string]store.Time{}} }

// Load implements entity.Rules.
func (r *Rules) Load(entries []store.Entry) error {
	for i := range entries {
		var t Token
		if err := decode(entries[i].Value, &t); err != nil {
			return fmt.Errorf("entry %q: %w", entries[i].Loc, err)
		}
		r.known[t.ID] = t.Expires
	}
	return nil
}

// Take implements entity.Rules. Tokens that have expired go when another item comes.
func (r *Rules) Take(it *store.Item, now store.Time, w *entity.Writer) {
	w.Consume(it.No, nil)
	for id, expires := range r.known {
		if expires != 0 && expires < now {
			r.forget(id, w)
		}
	}
	changed := map[string]Token{}
	var revoked string
	if it.Kind == store.ItemMessage && it.Name == itemRevoke && decode(it.Value, &revoked) == nil {
		r.forget(revoked, w)
		acts.CarriedOut(it, w)
		return
	}
	if apply(changed, it) != nil {
		return // nobody of ours has sent it
	}
	for id, t := range changed {
		if !isID(id) {
			return
		}
		value, err := json.Marshal(&t)
		if err != nil {
			panic(err) // it has been decoded
		}
		r.known[id] = t.Expires
		w.Put(id, value)
		acts.CarriedOut(it, w)
	}
}

func (r *Rules) forget(id string, w *entity.Writer) {
	if _, ok := r.known[id]; ok {
		delete(r.known, id)
		w.Delete(id)
	}
}

// isID reports whether a text is 16 hexadecimal digits, which are a location too.
func isID(id string) bool {
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(id) == 16
}

// Tick implements entity.Rules.
func (*Rules) Tick(store.Time, *entity.Writer) {}

// Wake implements entity.Rules.
func (*Rules) Wake() store.Time { return 0 }
