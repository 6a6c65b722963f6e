package endpoint

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/internal/view"
)

// Error is a problem that stands for no error of the engine.
type Error struct {
	Code   string // one of the constants of package api
	Detail string
	Wait   int // seconds after which to try again; 0: not said
}

// Error returns the detail.
func (e *Error) Error() string { return e.Detail }

// gzipFrom is the length from which answers are compressed.
const gzipFrom = 1 << 10

// answer sends JSON.
func (c *Call) answer(body []byte) {
	if c.Request.Method == http.MethodGet && c.status == http.StatusOK {
		c.SendTagged(JSON, body)
		return
	}
	c.Send(c.status, JSON, body)
}

// SendTagged sends a body with its entity tag, or 304 to a client that names it.
func (c *Call) SendTagged(media string, body []byte) {
	tag := tagOf(body)
	c.Writer.Header().Set("ETag", tag)
	if Matches(c.Request, tag) {
		c.Writer.WriteHeader(http.StatusNotModified)
		return
	}
	c.Send(http.StatusOK, media, body)
}

// encode returns an answer as JSON.
func encode(out any) ([]byte, error) {
	if fast, ok := out.(interface{ AppendJSON([]byte) ([]byte, error) }); ok {
		body, err := fast.AppendJSON(nil)
		return append(body, '\n'), err
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(out)
	return body.Bytes(), err
}

// TagOf returns the entity tag of an answer.
func TagOf(out any) (string, error) {
	body, err := encode(out)
	return tagOf(body), err
}

func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// Matches reports whether a request names the entity tag in If-None-Match.
func Matches(r *http.Request, tag string) bool {
	for _, known := range strings.Split(r.Header.Get("If-None-Match"), ",") {
		if known = strings.TrimSpace(known); known == tag || known == "W/"+tag || known == "*" {
			return true
		}
	}
	return false
}

var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// Send sends a body, compressed if it is worth it and the client takes it.
func (c *Call) Send(status int, media string, body []byte) {
	header := c.Writer.Header()
	header.Set("Content-Type", media)
	header.Add("Vary", "Accept-Encoding")
	if len(body) >= gzipFrom && acceptsGzip(c.Request) {
		var packed bytes.Buffer
		w := compressors.Get().(*gzip.Writer)
		w.Reset(&packed)
		_, _ = w.Write(body) // a buffer takes all
		_ = w.Close()
		compressors.Put(w)
		header.Set("Content-Encoding", "gzip")
		body = packed.Bytes()
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	c.Writer.WriteHeader(status)
	if c.Request.Method != http.MethodHead {
		_, _ = c.Writer.Write(body) // the client has gone
	}
}

// acceptsGzip reports whether the client takes gzip.
func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			weight, weighted := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
			value, err := strconv.ParseFloat(weight, 64)
			return !weighted || err == nil && value > 0
		}
	}
	return false
}

// Problem sends an error as application/problem+json. What is behind an error of the server
// goes to the log only.
func (c *Call) Problem(err error) {
	row, detail, wait := api.ErrorOf(err), err.Error(), 0
	own := (*Error)(nil)
	switch {
	case errors.As(err, &own):
		row, wait = api.ErrorByCode(own.Code), own.Wait
	case errors.Is(err, view.ErrDenied):
		row = api.ErrorByCode(api.CodeForbidden)
	case row.Code == api.CodeInternal && errors.Is(err, context.DeadlineExceeded):
		row = api.ErrorByCode(api.CodeSlow)
	case row.Code == api.CodeInternal && c.Request.Context().Err() != nil:
		row = api.ErrorByCode("closed")
	}
	if row.Status >= http.StatusInternalServerError {
		if own == nil {
			c.Log.Error("a request to the server has failed", "request", c.RequestID, "code", row.Code, "error", err)
			detail = ""
		}
	}
	header := c.Writer.Header()
	if row.Status == http.StatusServiceUnavailable || row.Status == http.StatusTooManyRequests {
		header.Set("Retry-After", strconv.Itoa(max(wait, 1)))
	}
	if row.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="stet"`)
	}
	header.Del("ETag")
	body, encodeErr := json.Marshal(api.Problem{
		Type: strings.Repeat("../", depth(c.Request)) + "errors#" + row.Code, Title: row.Meaning, Status: row.Status,
		Code: row.Code, Detail: detail, RequestID: c.RequestID,
	})
	if encodeErr != nil {
		panic(encodeErr) // texts and numbers always encode
	}
	c.Send(row.Status, api.ProblemType, append(body, '\n'))
}

// depth returns how many segments of a request's path stand below the first one after Base.
func depth(r *http.Request) int {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), Base)
	if !ok {
		return 0
	}
	return strings.Count(rest, "/")
}
