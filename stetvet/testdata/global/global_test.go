package global

import "github.com/stet-run/stet"

// What a test assigns changes for the workflows of tests, and not for the code.
func swap() { swapped = 2 }

func badInTest(ctx stet.Context) int {
	swap()         // want `global: swap → a write of swapped`
	return swapped // want `global: a read of swapped, which changes`
}
