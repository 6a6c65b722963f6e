// Package wire carries the calls of a store between machines.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Encode returns v, which is made of numbers, texts, structs, pointers, arrays and slices. It
// tells nil from empty, which the contract of a store does as well.
func Encode(v any) []byte {
	of := reflect.ValueOf(v)
	at := reflect.New(of.Type())
	at.Elem().Set(of)
	return codecOf(of.Type()).encode(nil, at.UnsafePointer())
}

// Decode sets what the pointer v points to.
func Decode(b []byte, v any) (err error) {
	d := decoder{b}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decode a %T: %v", v, p)
		}
	}()
	of := reflect.ValueOf(v)
	codecOf(of.Type().Elem()).decode(&d, of.UnsafePointer())
	if len(d.b) > 0 {
		return fmt.Errorf("decode a %T: %d bytes too many", v, len(d.b))
	}
	return nil
}

// codec is how the values of a type are carried. It is made once: most of what a machine does in a
// world is to send and to receive.
type codec struct {
	encode func(b []byte, at unsafe.Pointer) []byte
	decode func(d *decoder, at unsafe.Pointer)
}

var codecs sync.Map // of *codec, by reflect.Type

func codecOf(t reflect.Type) *codec {
	if c, ok := codecs.Load(t); ok {
		return c.(*codec)
	}
	c := newCodec(t)
	codecs.Store(t, c)
	return c
}

func newCodec(t reflect.Type) *codec {
	switch t.Kind() {
	case reflect.Bool:
		return &codec{
			func(b []byte, at unsafe.Pointer) []byte {
				if *(*bool)(at) {
					return append(b, 1)
				}
				return append(b, 0)
			},
			func(d *decoder, at unsafe.Pointer) { *(*bool)(at) = d.take(1)[0] != 0 },
		}
	case reflect.Int:
		return signed[int]()
	case reflect.Int8:
		return signed[int8]()
	case reflect.Int32:
		return signed[int32]()
	case reflect.Int64:
		return signed[int64]()
	case reflect.Uint8:
		return unsigned[uint8]()
	case reflect.Uint32:
		return unsigned[uint32]()
	case reflect.Uint64:
		return unsigned[uint64]()
	case reflect.String:
		return &codec{
			func(b []byte, at unsafe.Pointer) []byte {
				s := *(*string)(at)
				return append(binary.AppendUvarint(b, uint64(len(s))), s...)
			},
			func(d *decoder, at unsafe.Pointer) { *(*string)(at) = string(d.take(int(d.uvarint()))) },
		}
	case reflect.Pointer:
		return pointer(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &codec{encodeBytes, decodeBytes}
		}
		return slice(t)
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return block(t.Len())
		}
		return array(t.Len(), t.Elem())
	case reflect.Struct:
		return structure(t)
	}
	panic(fmt.Sprintf("a %s cannot be carried", t))
}

func signed[T int | int8 | int32 | int64]() *codec {
	return &codec{
		func(b []byte, at unsafe.Pointer) []byte { return binary.AppendVarint(b, int64(*(*T)(at))) },
		func(d *decoder, at unsafe.Pointer) {
			u := d.uvarint() // as binary.Varint reads it
			*(*T)(at) = T(int64(u>>1) ^ -int64(u&1))
		},
	}
}

func unsigned[T uint8 | uint32 | uint64]() *codec {
	return &codec{
		func(b []byte, at unsafe.Pointer) []byte { return binary.AppendUvarint(b, uint64(*(*T)(at))) },
		func(d *decoder, at unsafe.Pointer) { *(*T)(at) = T(d.uvarint()) },
	}
}

// later returns what looks for the codec of a type when it is first needed.
func later(t reflect.Type) func() *codec {
	var found atomic.Pointer[codec]
	return func() *codec {
		c := found.Load()
		if c == nil {
			c = codecOf(t)
			found.Store(c)
		}
		return c
	}
}

func pointer(t reflect.Type) *codec {
	of := later(t.Elem()) // it may be of the type around it
	return &codec{
		func(b []byte, at unsafe.Pointer) []byte {
			to := *(*unsafe.Pointer)(at)
			if to == nil {
				return append(b, 0)
			}
			return of().encode(append(b, 1), to)
		},
		func(d *decoder, at unsafe.Pointer) {
			if d.take(1)[0] != 0 {
				to := reflect.New(t.Elem())
				reflect.NewAt(t, at).Elem().Set(to)
				of().decode(d, to.UnsafePointer())
			}
		},
	}
}

func encodeBytes(b []byte, at unsafe.Pointer) []byte {
	data := *(*[]byte)(at)
	if data == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(data))+1), data...)
}

func decodeBytes(d *decoder, at unsafe.Pointer) {
	if n := int(d.uvarint()) - 1; n >= 0 {
		*(*[]byte)(at) = append([]byte{}, d.take(n)...)
	}
}

func slice(t reflect.Type) *codec {
	of := later(t.Elem())
	size := t.Elem().Size()
	return &codec{
		func(b []byte, at unsafe.Pointer) []byte {
			// Slices of all types are laid out alike.
			data := *(*[]struct{})(at)
			if data == nil {
				return append(b, 0)
			}
			b = binary.AppendUvarint(b, uint64(len(data))+1)
			first, each := unsafe.Pointer(unsafe.SliceData(data)), of()
			for i := range len(data) {
				b = each.encode(b, unsafe.Add(first, uintptr(i)*size))
			}
			return b
		},
		func(d *decoder, at unsafe.Pointer) {
			n := int(d.uvarint()) - 1
			if n < 0 {
				return
			}
			if n > len(d.b) { // each takes a byte at least
				panic(errShort)
			}
			made := reflect.MakeSlice(t, n, n)
			reflect.NewAt(t, at).Elem().Set(made)
			first, each := made.UnsafePointer(), of()
			for i := range n {
				each.decode(d, unsafe.Add(first, uintptr(i)*size))
			}
		},
	}
}

// block is an array of bytes.
func block(n int) *codec {
	return &codec{
		func(b []byte, at unsafe.Pointer) []byte { return append(b, unsafe.Slice((*byte)(at), n)...) },
		func(d *decoder, at unsafe.Pointer) { copy(unsafe.Slice((*byte)(at), n), d.take(n)) },
	}
}

func array(n int, t reflect.Type) *codec {
	of, size := codecOf(t), t.Size()
	return &codec{
		func(b []byte, at unsafe.Pointer) []byte {
			for i := range n {
				b = of.encode(b, unsafe.Add(at, uintptr(i)*size))
			}
			return b
		},
		func(d *decoder, at unsafe.Pointer) {
			for i := range n {
				of.decode(d, unsafe.Add(at, uintptr(i)*size))
			}
		},
	}
}

func structure(t reflect.Type) *codec {
	type field struct {
		*codec
		at uintptr
	}
	fields := make([]field, t.NumField())
	for i := range fields {
		fields[i] = field{codecOf(t.Field(i).Type), t.Field(i).Offset}
	}
	return &codec{
		func(b []byte, at unsafe.Pointer) []byte {
			for i := range fields {
				b = fields[i].encode(b, unsafe.Add(at, fields[i].at))
			}
			return b
		},
		func(d *decoder, at unsafe.Pointer) {
			for i := range fields {
				fields[i].decode(d, unsafe.Add(at, fields[i].at))
			}
		},
	}
}

type decoder struct{ b []byte }

var errShort = errors.New("it ends too early")

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		panic(errShort)
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		panic(errShort)
	}
	d.b = d.b[n:]
	return v
}
