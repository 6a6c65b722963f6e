package stored

import (
	"encoding/binary"
	"fmt"

	"github.com/stet-run/stet/store"
)

// The headers that say who has started, sent, published or assigned something, and why.
const (
	ByHeader  = "stet.by"
	WhyHeader = "stet.why"
)

// formatAssigned is the format byte of the value of a promise that was resolved with headers.
// After it come their length, the headers, and the value as it would be without them.
const formatAssigned = 5

// WithHeaders returns the stored form of the value of a promise: with the headers of the
// request that has resolved it. Without headers it returns the value itself.
func WithHeaders(headers, value []byte) []byte {
	if len(headers) == 0 {
		return value
	}
	data := make([]byte, 0, 1+binary.MaxVarintLen64+len(headers)+len(value))
	data = append(binary.AppendUvarint(append(data, formatAssigned), uint64(len(headers))), headers...)
	return append(data, value...)
}

// SplitHeaders is the inverse of WithHeaders. The error wraps store.ErrDamaged.
func SplitHeaders(data []byte) (headers, value []byte, err error) {
	if len(data) == 0 || data[0] != formatAssigned {
		return nil, data, nil
	}
	size, n := binary.Uvarint(data[1:])
	if n <= 0 || size > uint64(len(data)-1-n) {
		return nil, nil, fmt.Errorf("headers of a promise's value are cut off: %w", store.ErrDamaged)
	}
	rest := data[1+n:]
	if size > 0 {
		headers = rest[:size]
	}
	if rest = rest[size:]; len(rest) > 0 {
		value = rest
	}
	return headers, value, nil
}
