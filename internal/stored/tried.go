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

// formatLed is the format byte of such a value that begins with the Lead of the attempt that has
// succeeded. After it come the length of the Lead, the Lead, and the value as it would be without.
const formatLed = 6

const (
	maxTried     = 8       // failed attempts that stay with a step that has succeeded, the newest
	maxTriedText = 1 << 10 // bytes of the text of each
)

// WithTried returns the stored form of the value of a step, or of a compensation, that has
// succeeded: with the causes of its last failed attempts, oldest first, and what the last one waited
// for. Without these it returns the value itself.
func WithTried(causes []*Failure, lead *Lead, value []byte) []byte {
	value = withCauses(causes, value)
	if lead == nil {
		return value
	}
	return withHead(formatLed, encode(lead), value)
}

func withCauses(causes []*Failure, value []byte) []byte {
	if len(causes) == 0 {
		return value
	}
	causes = causes[max(len(causes)-maxTried, 0):]
	brief := make([]*Failure, len(causes))
	for i, f := range causes {
		left := maxTriedText
		brief[i] = &Failure{Began: f.Began, Ended: f.Ended, Lead: f.Lead}
		brief[i].Code = take(f.Code, maxTriedText/4, &left)
		brief[i].Message = take(f.Message, maxTriedText, &left)
	}
	return withHead(formatTried, encode(brief), value)
}

// withHead returns a value behind a head of a format.
func withHead(format byte, head, value []byte) []byte {
	data := make([]byte, 0, 1+binary.MaxVarintLen64+len(head)+len(value))
	data = append(binary.AppendUvarint(append(data, format), uint64(len(head))), head...)
	return append(data, value...)
}

// Tried is what the value of a step that has succeeded says of its attempts.
type Tried struct {
	Causes []*Failure // of its last failed attempts, oldest first
	Lead   *Lead      // of the attempt that has succeeded; nil: it waited for nothing
	Value  []byte     // the step's own value
}

// SplitTried is the inverse of WithTried. The error wraps store.ErrDamaged.
func SplitTried(data []byte) (t Tried, err error) {
	t.Value = data
	if err = cutHead(formatLed, &t.Value, &t.Lead); err != nil {
		return Tried{}, err
	}
	if err = cutHead(formatTried, &t.Value, &t.Causes); err != nil {
		return Tried{}, err
	}
	for _, f := range t.Causes {
		if f == nil {
			return Tried{}, fmt.Errorf("failed attempt without a cause: %w", store.ErrDamaged)
		}
	}
	return t, nil
}

// cutHead takes a head of a format off a value, and decodes it, if there is one.
func cutHead(format byte, value *[]byte, into any) error {
	data := *value
	if len(data) == 0 || data[0] != format {
		return nil
	}
	size, n := binary.Uvarint(data[1:])
	if n <= 0 || size > uint64(len(data)-1-n) {
		return fmt.Errorf("what is recorded of attempts is cut off: %w", store.ErrDamaged)
	}
	rest := data[1+n:]
	*value = nil
	if len(rest) > int(size) {
		*value = rest[size:]
	}
	return decode(rest[:size], into)
}
