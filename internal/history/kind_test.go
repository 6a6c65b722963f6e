package history

import (
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
)

// A new kind of operation has to say what becomes of its entries.
func TestEveryKindIsInTheTable(t *testing.T) {
	for k := store.Kind(1); !strings.HasPrefix(k.String(), "kind("); k++ {
		if int(k) >= len(kinds) || kinds[k] == nil {
			t.Errorf("kinds has no value for %s", k)
		}
	}
}
