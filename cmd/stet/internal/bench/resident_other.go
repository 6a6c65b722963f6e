//go:build !linux

package bench

// residentMemory is not known here.
func residentMemory() int64 { return 0 }
