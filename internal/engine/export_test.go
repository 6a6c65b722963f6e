package engine

import "testing"

// ReadsOfALine limits the waiting runs that a look reads to n, until the test ends.
func ReadsOfALine(t *testing.T, n int) {
	former := window
	window = n
	t.Cleanup(func() { window = former })
}
