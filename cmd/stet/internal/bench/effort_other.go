//go:build !unix

package bench

// used is not known here.
func used() (effort, bool) { return effort{}, false }
