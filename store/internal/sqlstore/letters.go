package sqlstore

import (
	"fmt"
	"strings"

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

// Answered is NoLetters as a list in SQL.
var Answered = strings.NewReplacer("[", "(", "]", ")", " ", ",").Replace(fmt.Sprint(NoLetters))
