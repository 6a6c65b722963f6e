// Package tokens holds the rules of the entity that keeps the access tokens of a store's
// servers: of each the hash, and what it allows. The token itself is nowhere.
//
// Each item adds a [Token], or revokes one.
package tokens

import (
	"encoding/json"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/entity/named"
	"github.com/stet-run/stet/store"
)

// Workflow is the name that it has as an entity, of which a store has one, with the ID.
const (
	Workflow = store.EntityPrefix + "access"
	ID       = Workflow + "/tokens"
)

// All are the tokens of a store.
var All = named.Things[Token]{ID: ID, Set: "add", Remove: "revoke", Name: func(t *Token) string { return t.ID }}

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

// Rules are the rules of the entity. They implement entity.Rules.
type Rules struct{ known map[string]store.Time } // when the tokens expire, by their IDs

// New returns its rules.
func New(*store.Run) entity.Rules { return &Rules{known: map[string]store.Time{}} }

// Load implements entity.Rules.
func (r *Rules) Load(entries []store.Entry) error {
	for i := range entries {
		t, err := All.Entered(&entries[i])
		if err != nil {
			return err
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
	added, revoked, err := All.Change(it)
	switch {
	case err != nil: // nobody of ours has sent it
	case added != nil:
		if !isID(added.ID) {
			return
		}
		value, err := json.Marshal(added)
		if err != nil {
			panic(err) // it has been decoded
		}
		r.known[added.ID] = added.Expires
		w.Put(added.ID, value)
		acts.CarriedOut(it, w)
	case revoked != "":
		r.forget(revoked, w)
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
