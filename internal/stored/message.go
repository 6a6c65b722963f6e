package stored

import "github.com/stet-run/stet/store"

// receipt is the value of a completed receive: the consumed messages with all that is
// needed to put them back.
type receipt struct {
	Messages []Message `cbor:"1,keyasint"`
}

// Message is a message or an update that a receive has consumed.
type Message struct {
	No      store.ItemNo `cbor:"1,keyasint"`
	Name    string       `cbor:"2,keyasint"`
	ID      string       `cbor:"3,keyasint"`
	Sent    store.Time   `cbor:"4,keyasint"`
	Value   []byte       `cbor:"5,keyasint"`
	Headers []byte       `cbor:"6,keyasint,omitempty"`
	Update  bool         `cbor:"7,keyasint,omitempty"`
}

// EncodeReceipt returns the value of a completed receive.
func EncodeReceipt(consumed []Message) []byte { return encode(receipt{consumed}) }

// DecodeReceipt is the inverse of EncodeReceipt. The error wraps store.ErrDamaged.
func DecodeReceipt(data []byte) ([]Message, error) {
	var r receipt
	err := decode(data, &r)
	return r.Messages, err
}
