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

// progress is the value of an open step: what its former attempts left.
type progress struct {
	Causes []*Failure `cbor:"1,keyasint,omitempty"`
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

// DecodeReceipt returns what a completed receive has consumed. The error wraps
// store.ErrDamaged.
func DecodeReceipt(data []byte) ([]Message, error) {
	var r receipt
	err := decode(data, &r)
	return r.Messages, err
}

// DecodeProgress returns the failures of the attempts of an open step, and the
// detail of its last heartbeat. The error wraps store.ErrDamaged.
func DecodeProgress(data []byte) (causes []*Failure, detail []byte, err error) {
	p, err := decodeProgress(data)
	return p.Causes, p.Detail, err
}

func decodeProgress(data []byte) (p progress, err error) {
	if data != nil {
		err = decode(data, &p)
	}
	return p, err
}

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

func decode(data []byte, v any) error {
	if err := recordDecoder.Unmarshal(data, v); err != nil {
		return fmt.Errorf("record of %d bytes: %w (%w)", len(data), store.ErrDamaged, err)
	}
	return nil
}
