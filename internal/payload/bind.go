package payload

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// Require says which values are refused when they are read.
type Require uint8

const (
	// RequireNothing refuses none.
	RequireNothing Require = iota
	// RequireEncrypted refuses values that are not encrypted.
	RequireEncrypted
	// RequireBound refuses values that are not encrypted and bound to their place.
	RequireBound
)

// The forms in which the place of a value names its run. The writer chooses the one that it
// knows; the stored value says which.
const (
	byNo = 1 // its number
	byID = 2 // the ID, which is all that a start or a sender knows
)

// The sorts of values of a run.
const (
	inputOf    = "input"
	outputOf   = "output"
	reasonOf   = "reason"
	entryOf    = "entry"
	itemOf     = "item"
	verdictOf  = "verdict"
	settingOf  = "value"
	streamItem = "stream"
	whyOf      = "why"
	detailOf   = "detail"
)

// what identifies a value among those of its run, by what stays the same as long as it is
// stored.
type what struct {
	sort     string
	no       int64 // the incarnation of an input, entry or promise; the number of an answered item
	kind     uint8 // of an entry or item
	failed   bool  // an entry that records a failure
	id, name string
	loc      string
}

func ofEntry(incarnation int, e *store.Entry) what {
	return what{
		sort: entryOf, no: int64(incarnation), kind: uint8(e.Kind), failed: e.State == store.FailedEntry, loc: e.Loc,
	}
}

// ofItem identifies a resolution by its promise: it loses its name when it is returned to
// the inbox, and its ID when it is refused.
func ofItem(sort string, it *store.Item) what {
	if it.Kind == store.ItemResolution {
		return what{
			sort: sort, kind: uint8(it.Kind), no: int64(it.Incarnation), id: strconv.Itoa(it.Generation), loc: it.Loc,
		}
	}
	return what{sort: sort, kind: uint8(it.Kind), id: it.ID, name: it.Name, loc: it.Loc}
}

// ofAnswer is the answer to an item by its number.
func ofAnswer(no store.ItemNo) what { return what{sort: verdictOf, no: int64(no)} }

// String names the value for a person.
func (w what) String() string {
	switch w.sort {
	case entryOf:
		return fmt.Sprintf("%s %s", store.Kind(w.kind), location.Loc(w.loc).Path())
	case itemOf:
		if store.ItemKind(w.kind) == store.ItemResolution {
			return "resolution of " + location.Loc(w.loc).Path()
		}
		if w.name != "" {
			return fmt.Sprintf("%s %s (%s)", store.ItemKind(w.kind), w.name, w.id)
		}
		return fmt.Sprintf("%s %s", store.ItemKind(w.kind), w.id)
	case verdictOf:
		return "an answer"
	case settingOf, streamItem:
		return w.sort + " " + w.name
	}
	return w.sort
}

// holder is the run to which a value belongs, as its place names it.
type holder struct {
	form byte
	no   store.RunNo
	id   string
}

// binding returns what a value is authenticated with beside its head.
func (h *holder) binding(w *what) []byte {
	b := make([]byte, 0, 64+len(w.loc)+len(w.id)+len(h.id))
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	b = append(b, h.form)
	if h.form == byNo {
		b = binary.AppendVarint(b, int64(h.no))
	} else {
		text(h.id)
	}
	text(w.sort)
	b = append(binary.AppendVarint(b, w.no), w.kind)
	if w.failed {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	text(w.id)
	text(w.name)
	text(w.loc)
	return b
}

// finder returns a run by its number.
type finder func(ctx context.Context, no store.RunNo) (*store.Run, error)

// unfoundError says that a run could not be looked up: nothing is known of the value that needs it, and the next read
// may open it.
type unfoundError struct{ error }

func (e unfoundError) Unwrap() error { return e.error }

// findIn finds runs in a store.
func findIn(s store.Store) finder {
	return func(ctx context.Context, no store.RunNo) (*store.Run, error) {
		page, err := s.List(ctx, store.Filter{Nos: []store.RunNo{no}, Limit: 1})
		switch {
		case err != nil:
			return nil, unfoundError{err}
		case len(page.Runs) == 0:
			return nil, fmt.Errorf("run number %d: there is none", no)
		}
		return &page.Runs[0], nil
	}
}

// owner is the run whose values are opened. Only what was written before the run had a
// number, or by those who know its ID alone, needs more of it than the number.
type owner struct {
	no   store.RunNo
	run  *store.Run // nil: not known yet
	find finder     // nil: it cannot be found out
}

// holders returns how a place in the form may name the run. A run that was replaced has had
// another ID.
func (o *owner) holders(ctx context.Context, form byte) ([]holder, error) {
	if form == byNo {
		return []holder{{form: byNo, no: o.no}}, nil
	}
	if o.run == nil {
		if o.find == nil {
			return nil, fmt.Errorf("expected the ID of run number %d beside its values, found none", o.no)
		}
		var err error
		if o.run, err = o.find(ctx, o.no); err != nil {
			return nil, err
		}
	}
	h := holder{form: form, id: o.run.ID}
	all := []holder{h}
	if former, ok := strings.CutSuffix(h.id, fmt.Sprintf("@%d", o.no)); ok {
		h.id = former
		all = append(all, h)
	}
	return all, nil
}

// bindings returns what a value with that form of place may be bound to.
func (o *owner) bindings(ctx context.Context, form byte, list []what) ([][]byte, error) {
	holders, err := o.holders(ctx, form)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for i := range holders {
		for j := range list {
			all = append(all, holders[i].binding(&list[j]))
		}
	}
	return all, nil
}
