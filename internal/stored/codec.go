package stored

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/store"
)

var (
	encoder = must(cbor.CoreDetEncOptions().EncMode())
	decoder = must(cbor.DecOptions{
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

// encode returns v's stored form. The types of this package always encode.
func encode(v any) []byte { return must(encoder.Marshal(v)) }

func decode(data []byte, v any) error {
	if err := decoder.Unmarshal(data, v); err != nil {
		return fmt.Errorf("record of %d bytes: %w (%w)", len(data), store.ErrDamaged, err)
	}
	return nil
}
