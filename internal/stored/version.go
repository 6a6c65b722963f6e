package stored

import (
	"fmt"

	"github.com/stet-run/stet/store"
)

// decision is the value of a version.
type decision struct {
	Version int `cbor:"1,keyasint"`
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
