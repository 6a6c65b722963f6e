package stored

import (
	"encoding/binary"
	"fmt"
	"math"

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
func (e Emitted) Encode() []byte { return e.AppendTo(make([]byte, 0, e.Size())) }

// Size returns how many bytes the stored form has at most.
func (e Emitted) Size() int { return len(e.Location) + len(e.Value) + 7 + 3*maxHead }

// AppendTo appends the stored form of e to b: what encode gives, without reflection, because there
// may be thousands a second.
func (e Emitted) AppendTo(b []byte) []byte {
	pairs := 2
	if e.Again {
		pairs++
	}
	if len(e.Value) > 0 {
		pairs++
	}
	b = append(b, formatEmitted, cborMap|byte(pairs), 1)
	b = append(appendHead(b, cborText, len(e.Location)), e.Location...)
	b = appendHead(append(b, 2), cborUint, max(e.Attempt, 0))
	if e.Again {
		b = append(b, 3, cborTrue)
	}
	if len(e.Value) > 0 {
		b = append(appendHead(append(b, 4), cborBytes, len(e.Value)), e.Value...)
	}
	return b
}

// What the first byte of a CBOR item says.
const (
	cborUint  = 0 << 5
	cborBytes = 2 << 5
	cborText  = 3 << 5
	cborMap   = 5 << 5
	cborTrue  = 0xf5

	maxHead = 9 // bytes of a head
)

// appendHead appends the shortest head of a CBOR item with the number n, which is not negative.
func appendHead(b []byte, kind byte, n int) []byte {
	switch u := uint64(n); {
	case u < 24:
		return append(b, kind|byte(u))
	case u <= math.MaxUint8:
		return append(b, kind|24, byte(u))
	case u <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, kind|25), uint16(u))
	case u <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, kind|26), uint32(u))
	default:
		return binary.BigEndian.AppendUint64(append(b, kind|27), u)
	}
}

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
