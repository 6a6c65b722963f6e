package store

import (
	"context"
	"time"
)

// Objects keeps large values outside a store, for example in a folder (package
// store/files) or in an object storage. A name is 1 to 500 bytes of letters,
// digits and ._-/ without empty parts, parts of more than 255 bytes or parts that begin
// with a point; its content never changes. Names may be compared without case: no two
// names of the engine differ by that alone.
//
// All methods are safe for concurrent use. An error wraps ErrUnavailable where it
// is worth trying again.
type Objects interface {
	// Put writes an object, which is durable when Put returns. If an object of that name
	// exists, it counts as written now.
	Put(ctx context.Context, name string, content []byte) error
	// Get returns the content of an object, which belongs to the caller.
	// fs.ErrNotExist: no object has that name.
	Get(ctx context.Context, name string) ([]byte, error)
	// Delete deletes an object. It is no error if no object has that name.
	Delete(ctx context.Context, name string) error
	// List returns up to 1,000 objects whose names come after the given one, in the byte
	// order of names. An empty list is the end.
	List(ctx context.Context, after string) ([]Object, error)
}

// Object is an object without its content.
type Object struct {
	Name    string
	Written time.Time // by the clock of the object storage
}
