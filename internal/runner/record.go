package runner

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// The records below are stored. Keys keep their numbers for ever; a new field
// gets a new number and is skipped by older code.

// receipt is the value of a completed receive: what it consumed, with all that
// is needed to put it back.
type receipt struct {
	Messages []Message `cbor:"1,keyasint"`
}

// Message is what a receive has consumed.
type Message struct {
	No      store.ItemNo `cbor:"1,keyasint"`
	Name    string       `cbor:"2,keyasint"`
	ID      string       `cbor:"3,keyasint"`
	Sent    store.Time   `cbor:"4,keyasint"`
	Value   []byte       `cbor:"5,keyasint"`
	Headers []byte       `cbor:"6,keyasint,omitempty"`
	Update  bool         `cbor:"7,keyasint,omitempty"`
}

// Progress is the value of an open step: what its former attempts left.
type Progress struct {
	Causes []*Failure `cbor:"1,keyasint,omitempty"` // failures of the attempts, the oldest first
	Detail []byte     `cbor:"2,keyasint,omitempty"` // of the last heartbeat
	Former int        `cbor:"3,keyasint,omitempty"` // attempts of former rounds
	Since  store.Time `cbor:"4,keyasint,omitempty"` // when this round of attempts began; 0: the first, when it was asked for
	Pause  bool       `cbor:"5,keyasint,omitempty"` // the run is to be paused for its failures, and was not yet
	// Permit is what the next attempt needs and has asked for; nil: nothing.
	Permit *permit.Place `cbor:"6,keyasint,omitempty"`
}

// decision is the value of a version.
type decision struct {
	Version int `cbor:"1,keyasint"`
}

var (
	recordEncoder = must(cbor.CoreDetEncOptions().EncMode())
	recordDecoder = must(cbor.DecOptions{
		MaxNestedLevels:  4 * maxDepth,
		MaxArrayElements: 1 << 20,
		MaxMapPairs:      1 << 10,
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
	}.DecMode())
)

func must[T any](x T, err error) T {
	if err != nil {
		panic(err) // the options above are constants
	}
	return x
}

// encode returns v's stored form. The types above always encode.
func encode(v any) []byte { return must(recordEncoder.Marshal(v)) }

// EncodeFailure returns the stored form of f, cut to what a record may hold.
func EncodeFailure(f *Failure) []byte { return encode(f.bounded(maxFailure)) }

// DecodeFailure is the inverse of EncodeFailure. The error wraps
// store.ErrDamaged.
func DecodeFailure(data []byte) (*Failure, error) {
	f := new(Failure)
	if err := decode(data, f); err != nil {
		return nil, err
	}
	if f.Code == "" {
		return nil, fmt.Errorf("failure record without a code: %w", store.ErrDamaged)
	}
	return f, nil
}

// EncodeAnswer returns the stored form of the answer to an update: a value, or
// the failure with which it was rejected before anything was done, or failed.
func EncodeAnswer(value []byte, failure *Failure, rejected bool) []byte {
	switch {
	case failure == nil:
		return append([]byte{'y'}, value...)
	case rejected:
		return append([]byte{'r'}, EncodeFailure(failure)...)
	}
	return append([]byte{'f'}, EncodeFailure(failure)...)
}

// DecodeAnswer is the inverse of EncodeAnswer. answered is false for an update
// whose run has ended, or continued as new, without an answer. The error wraps
// store.ErrDamaged.
func DecodeAnswer(data []byte) (value []byte, failure *Failure, rejected, answered bool, err error) {
	switch {
	case string(data) == store.Unanswered:
		return nil, nil, false, false, nil
	case len(data) == 1 && data[0] == 'y':
		return nil, nil, false, true, nil
	case len(data) > 1 && data[0] == 'y':
		return data[1:], nil, false, true, nil
	case len(data) > 1 && (data[0] == 'r' || data[0] == 'f'):
		failure, err = DecodeFailure(data[1:])
		return nil, failure, data[0] == 'r', true, err
	}
	return nil, nil, false, false, fmt.Errorf("answer of %d bytes: %w", len(data), store.ErrDamaged)
}

// EncodeReceipt returns the value of a completed receive.
func EncodeReceipt(consumed []Message) []byte { return encode(receipt{consumed}) }

// DecodeReceipt returns what a completed receive has consumed. The error wraps
// store.ErrDamaged.
func DecodeReceipt(data []byte) ([]Message, error) {
	var r receipt
	err := decode(data, &r)
	return r.Messages, err
}

// Encode returns the stored form of p.
func (p Progress) Encode() []byte { return encode(p) }

// DecodeProgress is the inverse of Encode. No value is the zero Progress. The error
// wraps store.ErrDamaged.
func DecodeProgress(data []byte) (p Progress, err error) {
	if data != nil {
		err = decode(data, &p)
	}
	return p, err
}

// EncodeVersion returns the value of the entry which says that a run takes a version
// of a change.
func EncodeVersion(version int) []byte { return encode(decision{version}) }

// DecodeVersion returns which version of a change a run takes. The error wraps
// store.ErrDamaged.
func DecodeVersion(data []byte) (int, error) {
	var d decision
	err := decode(data, &d)
	if err == nil && d.Version < 1 {
		err = fmt.Errorf("record of version %d: %w", d.Version, store.ErrDamaged)
	}
	return d.Version, err
}

// LoopProgress is what the entry at a loop's location says.
type LoopProgress struct {
	// Oldest is the oldest iteration whose history is kept. If it is not 0, what
	// was recorded before completion Number in the loop is gone.
	Oldest    int64 `cbor:"1,keyasint,omitempty"`
	Number    int64 `cbor:"2,keyasint,omitempty"`
	Completed int64 `cbor:"3,keyasint,omitempty"` // iterations, at the last commit of state
}

// Encode returns the stored form of p.
func (p LoopProgress) Encode() []byte { return encode(p) }

// DecodeLoop returns what the entry at a loop's location says. The error wraps
// store.ErrDamaged.
func DecodeLoop(data []byte) (LoopProgress, error) {
	var p LoopProgress
	err := decode(data, &p)
	return p, err
}

func decode(data []byte, v any) error {
	if err := recordDecoder.Unmarshal(data, v); err != nil {
		return fmt.Errorf("record of %d bytes: %w (%w)", len(data), store.ErrDamaged, err)
	}
	return nil
}
