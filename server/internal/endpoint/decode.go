package endpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// Field is a field of a request: a parameter, or the body.
type Field struct {
	Name  string // of the parameter
	Place string // path, query, header or body
	Doc   string
	Type  reflect.Type
	Index []int
}

// All is the name of a query parameter, a field of type url.Values, that takes all of them:
// of an address that another site makes.
const All = "*"

// RawBody is the name of a body that the endpoint gets as it was sent.
const RawBody = "raw"

// Fields returns the fields of a request's type, by their tags: path, query and header name
// a parameter, body is the whole body, without unknown fields unless it is "lenient", and
// not looked at if it is "raw", which is of type []byte.
// Fields of embedded structs count as their own.
func Fields(in reflect.Type) []Field {
	var fields []Field
	for _, f := range reflect.VisibleFields(in) {
		if f.Anonymous {
			continue
		}
		found := false
		for _, place := range []string{"path", "query", "header", "body"} {
			if name, ok := f.Tag.Lookup(place); ok {
				fields = append(fields, Field{name, place, f.Tag.Get("doc"), f.Type, f.Index})
				found = true
			}
		}
		if !found {
			panic(fmt.Sprintf("%s.%s: no tag says where the field is", in, f.Name))
		}
	}
	return fields
}

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, stet.ErrInvalid)...)
}

// decode reads a request. The error wraps stet.ErrInvalid, stet.ErrTooLarge, or is an *Error.
func decode[In any](c *Call) (in In, err error) {
	into := reflect.ValueOf(&in).Elem()
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return in, invalid("query: %v", err)
	}
	withBody := false
	for _, f := range Fields(into.Type()) {
		field := into.FieldByIndex(f.Index)
		switch f.Place {
		case "path":
			text, err := api.ParseUnescaped(c.Request.PathValue(f.Name))
			if err == nil {
				err = set(field, []string{text})
			}
			if err != nil {
				return in, fmt.Errorf("%s: %w", f.Name, err)
			}
		case "query":
			if f.Name == All {
				field.Set(reflect.ValueOf(query))
				query = nil
			} else if values, ok := query[f.Name]; ok {
				if err := set(field, values); err != nil {
					return in, fmt.Errorf("%s: %w", f.Name, err)
				}
				delete(query, f.Name)
			}
		case "header":
			if values := c.Request.Header.Values(f.Name); len(values) > 0 {
				if err := set(field, values); err != nil {
					return in, fmt.Errorf("%s: %w", f.Name, err)
				}
			}
		case "body":
			withBody = true
			if f.Name == RawBody {
				data, err := c.content()
				if err != nil {
					return in, err
				}
				field.SetBytes(data)
			} else if err := c.body(field.Addr().Interface(), f.Name == "lenient"); err != nil {
				return in, err
			}
		}
	}
	if len(query) > 0 {
		var names []string
		for name := range query {
			names = append(names, name)
		}
		slices.Sort(names)
		return in, invalid("query: this endpoint has no parameter %.100q", names[0])
	}
	if !withBody && c.Request.ContentLength > 0 {
		return in, invalid("expected no body, found %d bytes", c.Request.ContentLength)
	}
	return in, nil
}

// set gives a field the value of a parameter.
func set(field reflect.Value, values []string) error {
	if field.Type() == reflect.TypeFor[[]string]() {
		field.Set(reflect.ValueOf(values))
		return nil
	}
	if len(values) != 1 {
		return invalid("expected one value, found %d", len(values))
	}
	text := values[0]
	switch field.Interface().(type) {
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return invalid("expected a duration like 30s, found %.100q", text)
		}
		field.SetInt(int64(d))
		return nil
	case time.Time:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return invalid("expected a time like 2026-01-31T12:00:00Z, found %.100q", text)
		}
		field.Set(reflect.ValueOf(t))
		return nil
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, field.Type().Bits())
		if err != nil {
			return invalid("expected a whole number, found %.100q", text)
		}
		field.SetInt(n)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil && text != "" {
			return invalid("expected true or false, found %.100q", text)
		}
		field.SetBool(b || text == "")
	default:
		panic(fmt.Sprintf("a parameter of type %s", field.Type()))
	}
	return nil
}

// body reads the body as JSON into a pointer. Without a body it leaves it alone. lenient says
// that fields which it does not know are ignored: later callers may send more.
func (c *Call) body(into any, lenient bool) error {
	data, err := c.content()
	if err != nil || len(data) == 0 {
		return err
	}
	if media, _, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type")); err != nil || media != JSON {
		return &Error{Code: api.CodeMediaType, Detail: fmt.Sprintf("expected Content-Type: application/json, found %.100q",
			c.Request.Header.Get("Content-Type"))}
	}
	if lenient {
		if err := json.Unmarshal(data, into); err != nil {
			return invalid("body: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		if err := bounded("", reflect.ValueOf(into)); err != nil {
			return fmt.Errorf("body: %w", err)
		}
		return nil
	}
	if err := Unmarshal(data, into); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return nil
}

// content reads the body, up to the bound.
func (c *Call) content() ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, c.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, fmt.Errorf("body: expected at most %d bytes: %w", tooLarge.Limit, stet.ErrTooLarge)
	}
	if err != nil {
		return nil, invalid("body: %v", err)
	}
	return data, nil
}

// Unmarshal decodes JSON, one value and nothing after it, and refuses fields that it does
// not know. The error wraps store.ErrInvalid.
func Unmarshal(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(err.Error(), "json: "), store.ErrInvalid)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("expected one value, found more after it: %w", store.ErrInvalid)
	}
	return bounded("", reflect.ValueOf(into))
}

// mostMS is how many milliseconds a time.Duration holds: 292 years.
const mostMS = int64(math.MaxInt64 / time.Millisecond)

// bounded refuses a value in which a field of milliseconds, by its name, is more than a duration holds: whoever makes
// one of it would get another time. at is the path to the value.
func bounded(at string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return bounded(at, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := bounded(fmt.Sprintf("%s[%d]", at, i), v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && at != "" {
				name = at + "." + name
			}
			if err := bounded(cmp.Or(name, at), v.Field(i)); err != nil { // one without a name is embedded
				return err
			}
		}
	case reflect.Int64:
		if n := v.Int(); strings.HasSuffix(at, "_ms") && (n > mostMS || n < -mostMS) {
			return fmt.Errorf("%s: expected at most %d milliseconds, which are 292 years, found %d: %w", at, mostMS, n,
				store.ErrInvalid)
		}
	}
	return nil
}
