package stored

import (
	"encoding/binary"
	"fmt"

	"github.com/stet-run/stet/store"
)

// formatTried is the format byte of the value of a step that has succeeded after attempts
// that failed. After it come the length of their causes, the causes, and the step's own
// value as it would be without them.
const formatTried = 4

const (
	maxTried     = 8       // failed attempts that stay with a step that has succeeded, the newest
	maxTriedText = 1 << 10 // bytes of the text of each
)

// WithTried returns the stored form of the value of a step, or of a compensation, that has
// succeeded: with the causes of its last failed attempts, oldest first. Without causes it
// returns the value itself.
func WithTried(causes []*Failure, value []byte) []byte {
	if len(causes) == 0 {
		return value
	}
	causes = causes[max(len(causes)-maxTried, 0):]
	brief := make([]*Failure, len(causes))
	for i, f := range causes {
		left := maxTriedText
		brief[i] = &Failure{Began: f.Began, Ended: f.Ended}
		brief[i].Code = take(f.Code, maxTriedText/4, &left)
		brief[i].Message = take(f.Message, maxTriedText, &left)
	}
	text := encode(brief)
	data := make([]byte, 0, 1+binary.MaxVarintLen64+len(text)+len(value))
	data = append(binary.AppendUvarint(append(data, formatTried), uint64(len(text))), text...)
	return append(data, value...)
}

// SplitTried is the inverse of WithTried. The error wraps store.ErrDamaged.
func SplitTried(data []byte) (causes []*Failure, value []byte, err error) {
	if len(data) == 0 || data[0] != formatTried {
		return nil, data, nil
	}
	size, n := binary.Uvarint(data[1:])
	if n <= 0 || size > uint64(len(data)-1-n) {
		return nil, nil, fmt.Errorf("causes of failed attempts are cut off: %w", store.ErrDamaged)
	}
	rest := data[1+n:]
	if err := decode(rest[:size], &causes); err != nil {
		return nil, nil, err
	}
	for _, f := range causes {
		if f == nil {
			return nil, nil, fmt.Errorf("failed attempt without a cause: %w", store.ErrDamaged)
		}
	}
	if rest = rest[size:]; len(rest) > 0 {
		value = rest
	}
	return causes, value, nil
}
