package sqlstore

import (
	"fmt"

	"github.com/stet-run/stet/store"
)

// NoLetters are the kinds of items that never become dead letters.
var NoLetters = func() (list []int64) {
	for kind := store.ItemKind(1); kind < 255; kind++ {
		if kind.Valid() && !kind.CanBeDead() {
			list = append(list, int64(kind))
		}
	}
	return list
}()

// LeftOut is the condition for an item i whose value Load and Claim leave out.
var LeftOut = fmt.Sprintf("i.kind IN ({message},{update}) AND length(i.val)>=%d", store.LargeValue)
