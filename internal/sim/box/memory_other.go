//go:build !linux

package box

import "context"

// withMemory leaves the memory of machines to the runtime.
func withMemory(ctx context.Context) context.Context { return ctx }
