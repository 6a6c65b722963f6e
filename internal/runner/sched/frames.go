//go:build amd64 || arm64

package sched

// calledFrom reports whether a function on the goroutine's stack returns to pc. It follows
// the frame pointers, which code of Go has on these processors, as the execution tracer of
// Go's runtime does; that is fifty times faster than runtime.Callers. It reads nothing but
// the goroutine's own stack, from the frame of its caller upwards, and ends where a frame
// does not lie above the former one: what is no chain of frames is reported as false.
func calledFrom(pc uintptr) bool
