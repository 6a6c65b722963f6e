// Package wire carries the calls of a store between machines.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
)

// Encode returns v, which is made of numbers, texts, structs, pointers, arrays and slices. It
// tells nil from empty, which the contract of a store does as well.
func Encode(v any) []byte { return encode(nil, reflect.ValueOf(v)) }

// Decode sets what the pointer v points to.
func Decode(b []byte, v any) (err error) {
	d := decoder{b}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decode a %T: %v", v, p)
		}
	}()
	d.decode(reflect.ValueOf(v).Elem())
	if len(d.b) > 0 {
		return fmt.Errorf("decode a %T: %d bytes too many", v, len(d.b))
	}
	return nil
}

func encode(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.Float64:
		return binary.AppendUvarint(b, math.Float64bits(v.Float()))
	case reflect.String:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		return append(b, v.String()...)
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return encode(append(b, 1), v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return append(b, 0)
		}
		b = binary.AppendUvarint(b, uint64(v.Len())+1)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(b, v.Bytes()...)
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			b = encode(b, v.Index(i))
		}
		return b
	case reflect.Struct:
		for i := range v.NumField() {
			b = encode(b, v.Field(i))
		}
		return b
	}
	panic(fmt.Sprintf("a %s cannot be carried", v.Type()))
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

func (d *decoder) decode(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(d.take(1)[0] != 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, n := binary.Varint(d.b)
		if n <= 0 {
			panic(errShort)
		}
		d.b = d.b[n:]
		v.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(d.uvarint())
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(d.uvarint()))
	case reflect.String:
		v.SetString(string(d.take(int(d.uvarint()))))
	case reflect.Pointer:
		if d.take(1)[0] != 0 {
			v.Set(reflect.New(v.Type().Elem()))
			d.decode(v.Elem())
		}
	case reflect.Slice:
		n := int(d.uvarint()) - 1
		if n < 0 {
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(append([]byte{}, d.take(n)...))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			d.decode(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			d.decode(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("a %s cannot be carried", v.Type()))
	}
}
