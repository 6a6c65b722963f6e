package engine

import "testing"

// ReadsOfALine makes looks into lines read so many of those that wait, until the test ends.
func ReadsOfALine(t *testing.T, n int) {
	former := window
	window = n
	t.Cleanup(func() { window = former })
}
