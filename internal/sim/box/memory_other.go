//go:build !linux || !(amd64 || arm64)

package box

import "context"

// image is not used here: the data of a program is copied to each machine.
type image struct{}

func prepare(wasm []byte) (module []byte, begin *image, err error) {
	module, err = join(wasm)
	return module, nil, err
}

func (*image) close() error { return nil }

// with leaves the memory of machines to the runtime.
func (*image) with(ctx context.Context) context.Context { return ctx }
