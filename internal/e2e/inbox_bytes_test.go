package e2e_test

import (
	"testing"

	"github.com/stet-run/stet/stettest/enginetest"
)

// TestASmallMessageBehindLargeOnes is not parallel: it counts all that the process allocates.
func TestASmallMessageBehindLargeOnes(t *testing.T) {
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) { enginetest.SmallBehindLarge(t, s.open) })
	}
}
