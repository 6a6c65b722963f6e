package runner

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// owedNow lists what is owed, as far as is known.
func (r *Run) owedNow() []string {
	entries := slices.Clone(r.undo.recorded)
	places := make(map[string]int, len(entries))
	for i := range entries {
		places[entries[i].Loc] = i
	}
	for _, d := range r.undo.debts {
		if i, recorded := places[string(d.loc)]; recorded && !d.paid {
			entries[i].Seq = d.seq // it may have had none
			continue
		}
		e := store.Entry{Loc: string(d.loc), State: store.Done, Seq: d.seq, Owes: true}
		if d.paid {
			e = store.Entry{Loc: string(d.loc.Name(undoName, 1)), Kind: store.KindUndo, State: store.Done}
		}
		entries = append(entries, e)
	}
	return Owed(entries)
}

// Owed lists the locations of the steps in a history that carry a compensation,
// have completed and were not undone, in text form and in the order in which they
// would be.
func Owed(entries []store.Entry) []string {
	undone := map[string]bool{}
	var owed []store.Entry
	for i := range entries {
		switch e := &entries[i]; {
		case e.State != store.Done:
		case e.Kind == store.KindUndo:
			undone[e.Loc] = true
		case e.Owes:
			owed = append(owed, *e)
		}
	}
	slices.SortStableFunc(owed, func(a, b store.Entry) int {
		if a.Seq == 0 || b.Seq == 0 { // done last, and not handed over
			return cmp.Compare(min(a.Seq, 1), min(b.Seq, 1))
		}
		return cmp.Compare(b.Seq, a.Seq)
	})
	var places []string
	for i := range owed {
		if loc := location.Loc(owed[i].Loc); !undone[string(loc.Name(undoName, 1))] {
			places = append(places, loc.String())
		}
	}
	return places
}

// Ending is the output of a cancelled run that had something to undo, or an
// output before.
type Ending struct {
	Reason string   `cbor:"1,keyasint,omitempty"`
	Owed   []string `cbor:"2,keyasint,omitempty"` // as from Owed, at most maxOwed
	More   int      `cbor:"3,keyasint,omitempty"` // that are not listed
}

// maxOwed bounds what is listed of the debts of one run.
const maxOwed = 1000

// EncodeEnding returns the stored form of e.
func EncodeEnding(e Ending) []byte {
	if n := len(e.Owed) - maxOwed; n > 0 {
		e.Owed, e.More = e.Owed[:maxOwed], e.More+n
	}
	return encode(e)
}

// CancelledOutput returns the output of a run that is ended as cancelled with
// these debts. It is nil, and the former output stays, if there is neither.
func CancelledOutput(reason string, owed []string, former []byte) []byte {
	if len(owed) == 0 && former == nil {
		return nil
	}
	return EncodeEnding(Ending{Reason: reason, Owed: owed})
}

// DecodeEnding is the inverse of EncodeEnding; no output is no debts. The error
// wraps store.ErrDamaged.
func DecodeEnding(data []byte) (Ending, error) {
	var e Ending
	if data == nil {
		return e, nil
	}
	err := decode(data, &e)
	return e, err
}
