package stored

// Sent is the value of the entry of a message that a run has sent to another.
type Sent struct {
	Run  string `cbor:"1,keyasint"` // ID of the receiver
	Name string `cbor:"2,keyasint"` // of the message
}

// EncodeSent returns the value of the entry of a message that was sent.
func EncodeSent(run, name string) []byte { return encode(Sent{run, name}) }

// DecodeSent reads the value of the entry of a message that was sent. The error wraps
// store.ErrDamaged.
func DecodeSent(data []byte) (s Sent, err error) {
	err = decode(data, &s)
	return s, err
}
