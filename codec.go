package stet

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/stored"
)

// Codec turns values into bytes and back. Inputs, step results, messages and
// promise values pass through it; workflow code always gets the decoded copy.
// Implementations are safe for concurrent use.
type Codec interface {
	// Format is stored before each value and chooses the codec when it is read.
	// 1 is JSON; 2 to 31 are reserved; codecs of users take 32 to 255.
	Format() byte
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// JSON is the default codec: encoding/json.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Format() byte                       { return 1 }
func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// codecs encodes with the first and decodes with whichever wrote the value.
type codecs []Codec

// none is the type of "no value": what a step without a result stores.
type none struct{}

// encode returns v's stored form: a format byte and the codec's bytes, or nil
// for no value.
func (c codecs) encode(v any) ([]byte, error) {
	if _, ok := v.(none); ok {
		return nil, nil
	}
	data, err := marshal(c[0], v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return data, nil
}

// decode is the inverse of encode; v is a pointer.
func (c codecs) decode(data []byte, v any) error {
	if data == nil {
		return nil // no value leaves the zero value
	}
	if len(data) == 0 {
		return fmt.Errorf("decode %T: a stored value has no format byte", v)
	}
	if err := payload.Readable(data); err != nil {
		return fmt.Errorf("decode %s: %w", reflect.TypeOf(v).Elem(), err)
	}
	for _, codec := range c {
		if codec.Format() != data[0] {
			continue
		}
		if err := unmarshal(codec, data[1:], v); err != nil {
			return fmt.Errorf("decode %s: %w", reflect.TypeOf(v).Elem(), err)
		}
		return nil
	}
	if data[0] == JSON.Format() { // of a task, which has no codec of users
		if err := unmarshal(JSON, data[1:], v); err != nil {
			return fmt.Errorf("decode %s: %w", reflect.TypeOf(v).Elem(), err)
		}
		return nil
	}
	return fmt.Errorf("decode %s: %w", reflect.TypeOf(v).Elem(), noCodec(data[0]))
}

// noCodec is the error for a value of a format for which this process has no codec.
type noCodec byte

func (f noCodec) Error() string {
	return fmt.Sprintf("the value has format %d; add its codec to Config.Codecs", byte(f))
}

// Is reports whether target is ErrLacks.
func (f noCodec) Is(target error) bool { return target == ErrLacks }

// marshal calls a codec, and returns what it has made behind its format byte. A value on which
// it panics does not encode.
func marshal(c Codec, v any) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			data, err = nil, fmt.Errorf("the codec of format %d panicked: %v", c.Format(), p)
		}
	}()
	if c == JSON {
		return marshalJSON(v)
	}
	if data, err = c.Marshal(v); err != nil {
		return nil, err
	}
	return append([]byte{c.Format()}, data...), nil
}

// jsonWriter takes what its encoder writes behind the format byte, without a copy between.
type jsonWriter struct {
	encoder *json.Encoder
	data    []byte
}

// Write is called once for each value, with all of it.
func (w *jsonWriter) Write(p []byte) (int, error) {
	if w.data == nil {
		w.data = append(make([]byte, 0, 1+len(p)), JSON.Format())
	}
	w.data = append(w.data, p...)
	return len(p), nil
}

var jsonWriters = sync.Pool{New: func() any {
	w := new(jsonWriter)
	w.encoder = json.NewEncoder(w)
	return w
}}

// marshalJSON returns what json.Marshal does, behind the format byte of JSON. One that panics
// leaves its writer to the collector.
func marshalJSON(v any) ([]byte, error) {
	w := jsonWriters.Get().(*jsonWriter)
	err := w.encoder.Encode(v)
	data := w.data
	w.data = nil
	jsonWriters.Put(w)
	if err != nil {
		return nil, err
	}
	return data[:len(data)-1], nil // without the line feed
}

// unmarshal calls a codec. One that panics does not decode.
func unmarshal(c Codec, data []byte, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the codec of format %d panicked: %v", c.Format(), p)
		}
	}()
	return c.Unmarshal(data, v)
}

// decoding decodes what arrives for a wait: what does not decode is refused, and what does
// is not decoded again when it is handed over.
type decoding[T any] struct {
	codecs codecs
	of     *byte // the first one of the value that was decoded last; nil: none
	value  T
}

// decodingOf returns a decoding for the code of a run.
func decodingOf[T any](ctx Context) *decoding[T] {
	ctx.mustBeGiven()
	return &decoding[T]{codecs: ctx.env.engine.codecs}
}

// check decodes a value. It returns why that is impossible, or nil. What this process
// cannot read does not count: it may well decode.
func (d *decoding[T]) check(data []byte) error {
	v, err := decodeAs[T](d.codecs, data)
	switch {
	case errors.Is(err, ErrSealed), errors.Is(err, ErrLacks):
		return nil
	case err == nil && len(data) > 0:
		d.of, d.value = &data[0], v
	}
	return err
}

// result returns the value that the code gets; what is its name.
func (d *decoding[T]) result(ctx Context, name string, data []byte) (T, error) {
	if len(data) > 0 && &data[0] == d.of {
		once := *d
		*d = decoding[T]{codecs: d.codecs} // each call gets a copy of its own
		return once.value, nil
	}
	return decodeResult[T](ctx, name, data)
}

// decodeAs decodes data as a T.
func decodeAs[T any](c codecs, data []byte) (T, error) {
	var v T
	err := c.decode(data, &v)
	return v, err
}

// position returns a text that says where in the input a JSON error stands.
func position(err error) string {
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case errors.As(err, &shape) && shape.Field != "":
		return fmt.Sprintf(" (field %s, offset %d)", shape.Field, shape.Offset)
	case errors.As(err, &shape):
		return fmt.Sprintf(" (offset %d)", shape.Offset)
	case errors.As(err, &syntax):
		return fmt.Sprintf(" (offset %d)", syntax.Offset)
	}
	return ""
}

// encodingFailure is the failure of a value that cannot cross the journal.
func encodingFailure(err error) *stored.Failure {
	if errors.Is(err, ErrTooLarge) {
		return &stored.Failure{Code: stored.CodeTooLarge, Message: err.Error()}
	}
	return &stored.Failure{Code: stored.CodeEncoding, Message: err.Error()}
}

// encode returns the recorded form of a value that the code of a workflow gives to an
// operation; what names it in errors.
func (c Context) encode(what string, v any) ([]byte, error) {
	data, err := c.env.engine.encodeValue(what, v)
	return data, c.unencodable(err)
}

// unencodable stops the run for a value of its code that does not encode or is too large: that
// is a fault of the code (see OnBug). It returns err where the run goes on.
func (c Context) unencodable(err error) error {
	if err != nil {
		c.branch.Unencodable(encodingFailure(err))
	}
	return err
}

// unrecorded is the error of an operation in a body whose value does not encode or is too
// large. The run stalls if the body returns it.
type unrecorded struct{ err error }

func (u *unrecorded) Error() string { return u.err.Error() }
func (u *unrecorded) Unwrap() error { return u.err }
