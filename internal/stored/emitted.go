package stored

import (
	"fmt"

	"github.com/stet-run/stet/store"
)

// formatEmitted is the format byte of an item that a step's body has emitted.
const formatEmitted = 3

// Emitted is an item of a stream that a step's body has emitted, in the stream beside those
// that the code has appended, which are values.
type Emitted struct {
	Location string `cbor:"1,keyasint"`           // of the step, text form
	Attempt  int    `cbor:"2,keyasint"`           // from 1
	Again    bool   `cbor:"3,keyasint,omitempty"` // the mark before the items of a later execution; it has no value
	Value    []byte `cbor:"4,keyasint,omitempty"`
}

// Encode returns the stored form of e.
func (e Emitted) Encode() []byte { return append([]byte{formatEmitted}, encode(e)...) }

// DecodeEmitted is the inverse of Encode. ok is false if the item was appended by the code.
// The error wraps store.ErrDamaged.
func DecodeEmitted(item []byte) (e Emitted, ok bool, err error) {
	if len(item) == 0 || item[0] != formatEmitted {
		return e, false, nil
	}
	if err = decode(item[1:], &e); err == nil && (e.Location == "" || e.Attempt < 1) {
		err = fmt.Errorf("emitted item without a location or an attempt: %w", store.ErrDamaged)
	}
	return e, true, err
}
