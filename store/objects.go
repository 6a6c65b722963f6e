package store

import (
	"context"
	"time"
)

// Objects keeps large values outside a store, for example in a folder (package
// store/files) or in an object storage. A name is 1 to 500 bytes of letters,
// digits and ._-/ without empty parts or parts that begin with a point; its
// content never changes.
//
// All methods are safe for concurrent use. An error wraps ErrUnavailable where it
// is worth trying again.
type Objects interface {
	// Put writes an object. It is durable when Put returns. An object of the name
	// may be there; it is then as if it had been written now.
	Put(ctx context.Context, name string, content []byte) error
	// Get returns the content of an object, which belongs to the caller.
	// fs.ErrNotExist: there is none of the name.
	Get(ctx context.Context, name string) ([]byte, error)
	// Delete deletes an object. It is no error if there is none.
	Delete(ctx context.Context, name string) error
	// List returns up to 1,000 objects whose names come after the given one, in
	// the byte order of names; none is the end.
	List(ctx context.Context, after string) ([]Object, error)
}

// Object is an object without its content.
type Object struct {
	Name    string
	Written time.Time // by the clock of where it is kept
}
