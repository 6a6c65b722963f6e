//go:build amd64 || arm64

package box

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// image is a file with the first bytes of the memory of machines. Machines map it and copy what they
// change, page by page: these are several megabytes, of which a machine changes little.
type image struct{ fd int }

// prepare takes the data out of a program, into an image.
func prepare(wasm []byte) (module []byte, begin *image, err error) {
	module, at, data, err := split(wasm)
	if err != nil {
		return nil, nil, err
	}
	begin, err = newImage(at, data)
	return module, begin, err
}

// newImage returns a memory with data at an address, and zeros before and behind it.
func newImage(at int, data []byte) (*image, error) {
	fd, err := unix.MemfdCreate("stet-simulation", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	for done := 0; done < len(data); {
		n, err := unix.Pwrite(fd, data[done:], int64(at+done))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("write a file in memory: %w", err), unix.Close(fd))
		}
		done += n
	}
	// Zeros take no room before they are used.
	return &image{fd}, unix.Ftruncate(fd, mostPages<<16)
}

// fill is for where machines do not map the image.
func (*image) fill(api.Memory) {}

func (i *image) close() error { return unix.Close(i.fd) }

// with lets the machines that are begun with the context have memory that begins with the image: a
// span of addresses, of which the first bytes are in use. It grows without being copied, and goes
// back to the system when the machine ends.
func (i *image) with(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(
		func(_, most uint64) experimental.LinearMemory {
			span, err := unix.Mmap(i.fd, 0, int(most), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_NORESERVE)
			if err != nil {
				panic(err)
			}
			return &memory{span}
		},
	))
}

// memory is the memory of a machine.
type memory struct{ span []byte }

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.span)) {
		return nil
	}
	return m.span[:size:size]
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {
	if err := unix.Munmap(m.span); err != nil {
		panic(err)
	}
	m.span = nil
}
