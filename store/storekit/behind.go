package storekit

import (
	"fmt"

	"github.com/stet-run/stet/store"
)

// Behind returns an error wrapping store.ErrWentBack if a store has only the batches of a
// boot up to the number there, and the boot knows the result of a later one (law 29).
func Behind(there, last int64) error {
	if there >= last {
		return nil
	}
	return fmt.Errorf("%w: expected the node's batch %d, which was acknowledged, found %d as the last one",
		store.ErrWentBack, last, there)
}
