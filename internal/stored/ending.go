package stored

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
