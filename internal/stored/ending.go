package stored

// Ending is the output of a cancelled run that had steps to undo, or that had an
// output before.
type Ending struct {
	Reason string   `cbor:"1,keyasint,omitempty"`
	Owed   []string `cbor:"2,keyasint,omitempty"` // locations as from history.Owed, at most maxOwed
	More   int      `cbor:"3,keyasint,omitempty"` // that are not listed
}

// maxOwed bounds how many steps are listed that are not undone.
const maxOwed = 1000

// Encode returns the stored form of e.
func (e Ending) Encode() []byte {
	if n := len(e.Owed) - maxOwed; n > 0 {
		e.Owed, e.More = e.Owed[:maxOwed], e.More+n
	}
	return encode(e)
}

// CancelledOutput returns the output of a run that ends as cancelled and owes the
// undoing of these steps. It is nil, and the former output stays, if there is neither.
func CancelledOutput(reason string, owed []string, former []byte) []byte {
	if len(owed) == 0 && former == nil {
		return nil
	}
	return Ending{Reason: reason, Owed: owed}.Encode()
}

// DecodeEnding is the inverse of Encode. No output is the zero Ending. The error wraps
// store.ErrDamaged.
func DecodeEnding(data []byte) (Ending, error) {
	var e Ending
	if data == nil {
		return e, nil
	}
	err := decode(data, &e)
	return e, err
}
