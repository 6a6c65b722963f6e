package stet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Headers are small keys and values that accompany a run: a trace, a tenant. Given
// to Start they can be read in the workflow and its steps, its children inherit
// them, and messages that its steps send carry them. Given to Send they go with
// the message. They cannot be changed. Together they are at most 4 KiB, encoded as
// JSON.
type Headers map[string]string

func (h Headers) applyStart(o *startOptions) (err error) {
	o.headers, err = h.encode(o.headers)
	return err
}

func (h Headers) applyChild(o *childOptions) { o.heads = h }

func (h Headers) applySend(o *sendOptions) { o.headers = append(o.headers, h) }

// encode returns the stored form of headers over others that are stored.
func (h Headers) encode(under []byte) ([]byte, error) {
	all, err := decodeHeaders(under)
	if err != nil {
		return nil, err
	}
	if all == nil {
		all = Headers{}
	}
	for key, value := range h {
		if key == "" {
			return nil, fmt.Errorf("headers: expected a key, found an empty one: %w", ErrInvalid)
		}
		if key == stored.PolicyHeader || key == stored.ExpiryHeader {
			return nil, fmt.Errorf("headers: expected a key other than %q, which is reserved: %w", key, ErrInvalid)
		}
		all[key] = value
	}
	if len(all) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(all)
	switch {
	case err != nil:
		return nil, fmt.Errorf("headers: %w: %w", err, ErrInvalid)
	case len(data) > store.MaxHeaders:
		return nil, fmt.Errorf("headers have %d bytes, more than the limit of %d: %w", len(data), store.MaxHeaders,
			ErrTooLarge)
	}
	return data, nil
}

// decodeHeaders is the inverse of encode.
func decodeHeaders(data []byte) (Headers, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if h, ok := plainHeaders(data); ok {
		return h, nil
	}
	var h Headers
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, fmt.Errorf("headers: %w: %w", store.ErrDamaged, err)
	}
	return h, nil
}

// plainHeaders decodes what json.Marshal makes of ASCII texts in which nothing is escaped, which
// is nearly always, in a fifth of the time. ok is false of anything else.
func plainHeaders(data []byte) (h Headers, ok bool) {
	text := string(data)
	inner, found := strings.CutPrefix(text, `{"`)
	special := func(r rune) bool { return r < ' ' || r >= utf8.RuneSelf || r == '\\' }
	if inner, ok = strings.CutSuffix(inner, `"}`); !found || !ok || strings.ContainsFunc(inner, special) {
		return nil, false
	}
	h = make(Headers, 2)
	for {
		key, rest, found := strings.Cut(inner, `":"`)
		value, next, more := strings.Cut(rest, `","`)
		if !found || strings.ContainsRune(key, '"') || strings.ContainsRune(value, '"') {
			return nil, false
		}
		h[key] = value
		if !more {
			return h, true
		}
		inner = next
	}
}

// Header returns a header of the run, or "".
func Header(ctx Context, key string) string {
	ctx.mustBeGiven()
	env := ctx.env
	if env.headers == nil {
		env.headers, _ = decodeHeaders(stored.Headers(env.run.Headers)) // were written by encode
	}
	return env.headers[key]
}

// headersOf returns the stored headers of the run whose step ctx belongs to.
func headersOf(ctx context.Context) []byte {
	if a := steps.AttemptOf(ctx); a != nil {
		return a.Headers
	}
	return nil
}
