//go:build !wasip1

package life

// Is panics: there is life in worlds alone.
func Is(func() error) { panic("a machine lives in a world only: see internal/sim/run") }
