//go:build !linux

package bench

// hardware returns nothing: this system does not say it in a file.
func hardware() (processor string, memory int64) { return "", 0 }
