//go:build !linux || !(amd64 || arm64)

package box

import (
	"bytes"
	"context"

	"github.com/tetratelabs/wazero/api"
)

// image is what is copied to the memory of each machine. The data of a program is: its begin copies it.
type image struct{ bytes []byte }

func prepare(wasm []byte) (module []byte, begin *image, err error) {
	module, err = join(wasm)
	return module, nil, err
}

// newImage returns a memory with data at an address, which is 0.
func newImage(_ int, data []byte) (*image, error) { return &image{bytes.Clone(data)}, nil }

// fill writes the image to the memory of a machine.
func (i *image) fill(mem api.Memory) { mem.Write(0, i.bytes) }

func (*image) close() error { return nil }

// with leaves the memory of machines to the runtime.
func (*image) with(ctx context.Context) context.Context { return ctx }
