package relay

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
)

// Marshal returns the stored form of a value: of a struct the names and forms of the exported
// fields that are not zero, so that a later version may have more. It knows structs, pointers,
// slices, arrays of bytes, texts of any bytes, booleans and integers, and panics for others.
func Marshal(v any) []byte { return appendValue(nil, reflect.ValueOf(v)) }

// Unmarshal reads what Marshal has written into the value that v points to, which is zero. A
// field that it does not know is an error: it would be lost.
func Unmarshal(data []byte, v any) error {
	rest, err := readValue(data, reflect.ValueOf(v).Elem())
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes are left", len(rest))
	}
	return err
}

func appendText(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

func appendValue(out []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.String:
		return appendText(out, v.String())
	case reflect.Bool:
		if v.Bool() {
			return append(out, 1)
		}
		return append(out, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(out, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(out, v.Uint())
	case reflect.Pointer:
		if v.IsNil() {
			return append(out, 0)
		}
		return appendValue(append(out, 1), v.Elem())
	case reflect.Array:
		for i := range v.Len() {
			out = append(out, byte(v.Index(i).Uint()))
		}
		return out
	case reflect.Slice:
		if v.IsNil() {
			return append(out, 0)
		}
		out = binary.AppendUvarint(out, uint64(v.Len())+1)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(out, v.Bytes()...)
		}
		for i := range v.Len() {
			out = appendValue(out, v.Index(i))
		}
		return out
	case reflect.Struct:
		count := uint64(0)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !v.Field(i).IsZero() {
				count++
			}
		}
		out = binary.AppendUvarint(out, count)
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
				out = appendValue(appendText(out, f.Name), v.Field(i))
			}
		}
		return out
	}
	panic(fmt.Sprintf("relay: a value of type %s has no stored form", v.Type()))
}

var errShort = fmt.Errorf("it ends too early")

func readUint(data []byte) (n uint64, rest []byte, err error) {
	n, size := binary.Uvarint(data)
	if size <= 0 {
		return 0, nil, errShort
	}
	return n, data[size:], nil
}

func readText(data []byte) (text, rest []byte, err error) {
	n, rest, err := readUint(data)
	if err == nil && n > uint64(len(rest)) {
		err = errShort
	}
	if err != nil {
		return nil, nil, err
	}
	return rest[:n], rest[n:], nil
}

func readValue(data []byte, v reflect.Value) (rest []byte, err error) {
	switch v.Kind() {
	case reflect.String:
		text, rest, err := readText(data)
		v.SetString(string(text))
		return rest, err
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, size := binary.Varint(data)
		if size <= 0 || v.OverflowInt(n) {
			return nil, errShort
		}
		v.SetInt(n)
		return data[size:], nil
	case reflect.Array:
		if len(data) < v.Len() {
			return nil, errShort
		}
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(data[i]))
		}
		return data[v.Len():], nil
	case reflect.Struct:
		return readStruct(data, v)
	}
	n, rest, err := readUint(data)
	if err != nil {
		return nil, err
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(n != 0)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.OverflowUint(n) {
			return nil, errShort
		}
		v.SetUint(n)
	case reflect.Pointer:
		if n != 0 {
			v.Set(reflect.New(v.Type().Elem()))
			return readValue(rest, v.Elem())
		}
	case reflect.Slice:
		if n == 0 {
			return rest, nil
		}
		if n--; n > uint64(len(rest)) { // each element takes a byte at least
			return nil, errShort
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(slices.Clone(rest[:n:n]))
			if n == 0 {
				v.Set(reflect.MakeSlice(v.Type(), 0, 0))
			}
			return rest[n:], nil
		}
		v.Set(reflect.MakeSlice(v.Type(), int(n), int(n)))
		for i := range int(n) {
			if rest, err = readValue(rest, v.Index(i)); err != nil {
				return nil, err
			}
		}
	default:
		return nil, fmt.Errorf("a value of type %s has no stored form", v.Type())
	}
	return rest, nil
}

func readStruct(data []byte, v reflect.Value) (rest []byte, err error) {
	count, rest, err := readUint(data)
	for ; err == nil && count > 0; count-- {
		var name []byte
		if name, rest, err = readText(rest); err != nil {
			break
		}
		f := v.FieldByName(string(name))
		if !f.IsValid() {
			return nil, fmt.Errorf("the field %q of %s is not known here: a later version has written it", name, v.Type())
		}
		rest, err = readValue(rest, f)
	}
	return rest, err
}
