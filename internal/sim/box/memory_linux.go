package box

import (
	"context"
	"syscall"

	"github.com/tetratelabs/wazero/experimental"
)

// memory is the memory of a machine: a reserved span of addresses, of which the first bytes are in
// use. It grows without being copied, and goes back to the system when the machine ends.
type memory struct{ span []byte }

// withMemory lets the machines that are begun with the context have such memory.
func withMemory(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(
		func(_, most uint64) experimental.LinearMemory {
			span, err := syscall.Mmap(-1, 0, int(most), syscall.PROT_READ|syscall.PROT_WRITE,
				syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
			if err != nil {
				panic(err)
			}
			return &memory{span}
		},
	))
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.span)) {
		return nil
	}
	return m.span[:size:size]
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {
	if err := syscall.Munmap(m.span); err != nil {
		panic(err)
	}
	m.span = nil
}
