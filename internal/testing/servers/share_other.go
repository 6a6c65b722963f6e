//go:build !linux

package servers

// favor does nothing: only Linux shares the processors out by session.
func favor() {}
