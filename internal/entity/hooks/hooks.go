// Package hooks holds the rules of the entity that keeps the webhooks of a store: of each whose
// signature it believes, and the one act that it does. The secrets of signatures stand in it.
//
// Each item sets a [Hook], or removes one.
package hooks

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/entity/named"
	"github.com/stet-run/stet/store"
)

// Workflow is the name that it has as an entity, of which a store has one, with the ID.
const (
	Workflow = store.EntityPrefix + "hooks"
	ID       = Workflow + "/all"
)

// All are the hooks of a store.
var All = named.Things[Hook]{ID: ID, Set: "set", Remove: "remove", Name: func(h *Hook) string { return h.Name }}

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

// Rules are the rules of the entity. They implement entity.Rules.
type Rules struct{}

// New returns its rules.
func New(*store.Run) entity.Rules { return Rules{} }

// Load implements entity.Rules.
func (Rules) Load([]store.Entry) error { return nil }

// Take implements entity.Rules. What does not decode nobody of ours has sent.
func (Rules) Take(it *store.Item, _ store.Time, w *entity.Writer) {
	w.Consume(it.No, nil)
	set, removed, err := All.Change(it)
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
