package stored

// LoopProgress is the value of the entry at a loop's location.
type LoopProgress struct {
	// Oldest is the oldest iteration whose history is kept. If it is not 0, what
	// was recorded before completion Number in the loop is gone.
	Oldest    int64 `cbor:"1,keyasint,omitempty"`
	Number    int64 `cbor:"2,keyasint,omitempty"`
	Completed int64 `cbor:"3,keyasint,omitempty"` // iterations, at the last commit of state
}

// Encode returns the stored form of p.
func (p LoopProgress) Encode() []byte { return encode(p) }

// DecodeLoop is the inverse of Encode. The error wraps store.ErrDamaged.
func DecodeLoop(data []byte) (LoopProgress, error) {
	var p LoopProgress
	err := decode(data, &p)
	return p, err
}
