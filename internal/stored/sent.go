package stored

// Sent is the value of the entry of what a run has sent to another: a message, an update or a resolution.
type Sent struct {
	Run  string `cbor:"1,keyasint"`           // ID of the receiver
	Name string `cbor:"2,keyasint"`           // of the message or update; of a resolution the promise's location
	Key  string `cbor:"3,keyasint,omitempty"` // of an update
}

// Encode returns the value of the entry of what was sent.
func (s Sent) Encode() []byte { return encode(s) }

// DecodeSent reads the value of the entry of what was sent. The error wraps store.ErrDamaged.
func DecodeSent(data []byte) (s Sent, err error) {
	err = decode(data, &s)
	return s, err
}
