package stored

import (
	"fmt"

	"github.com/stet-run/stet/store"
)

// EncodeAnswer returns the stored form of the answer to an update: a value, or the
// failure with which the update failed or was rejected before anything was done.
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
