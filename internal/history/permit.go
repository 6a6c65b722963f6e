package history

import (
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Unpermitted returns the entry of an open step without the permit that it has asked
// for, and what gives that back; ok is false if it has asked for none. A value that
// cannot be read says of none.
func Unpermitted(e *store.Entry) (without store.Entry, back store.Command, ok bool) {
	if e.Kind != store.KindStep || e.State != store.Open || e.Value == nil {
		return store.Entry{}, store.Command{}, false
	}
	p, err := stored.DecodeProgress(e.Value)
	if err != nil || p.Permit == nil {
		return store.Entry{}, store.Command{}, false
	}
	return p.WithoutPermit(e), p.Permit.GiveBack(), true
}
