package server

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// progressWithin bounds one read of a body and one write of an answer.
	progressWithin = 10 * time.Second
	// writtenAtOnce is how many bytes one write has at most: a deadline is for these alone.
	writtenAtOnce = 16 << 10
)

// Deadlines returns a handler that ends a connection without progress for 10 seconds: where the
// client neither reads the answer of h, nor sends the body that it has announced. The handler of
// New has these deadlines; Deadlines is for what an application serves at its side. It bounds
// neither how long h works, nor how long it waits between two writes. Deadlines that h sets itself
// are replaced at its next read or write. A ResponseWriter without deadlines has none.
func Deadlines(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { withDeadlines(w, r, h.ServeHTTP) })
}

// withDeadlines serves a request. At its end the answer is sent, and the connection is of use for
// the next one.
func withDeadlines(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	control := http.NewResponseController(w)
	answer := &timedWriter{ResponseWriter: w, control: control}
	if r.Body != nil && r.Body != http.NoBody {
		answer.body = &timedBody{ReadCloser: r.Body, control: control}
		served := *r
		served.Body = answer.body
		r = &served
	}
	serve(answer, r)
	_ = answer.FlushError()
	_ = control.SetWriteDeadline(time.Time{})
}

// timedWriter sets a deadline for each write.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	body    *timedBody // of the request; nil: it has none
}

// Write implements io.Writer.
func (t *timedWriter) Write(data []byte) (written int, err error) {
	for {
		part := data[:min(len(data), writtenAtOnce)]
		t.extend()
		n, err := t.ResponseWriter.Write(part)
		written += n
		if data = data[len(part):]; err != nil || len(data) == 0 {
			return written, err
		}
	}
}

// FlushError sends what was written, as http.ResponseController does.
func (t *timedWriter) FlushError() error {
	t.extend()
	return t.control.Flush()
}

// extend sets the deadline of a write. net/http first reads the rest of a body that the handler has
// not read, which has the same time.
func (t *timedWriter) extend() {
	if t.body != nil && !t.body.over.Load() {
		_ = t.control.SetReadDeadline(time.Now().Add(progressWithin))
	}
	_ = t.control.SetWriteDeadline(time.Now().Add(progressWithin)) // a recorder of a test has none
}

// Unwrap lets http.ResponseController find the rest of the writer.
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// timedBody sets a deadline for each read. After the last one there is none: it would end the
// request's context.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	over    atomic.Bool
}

// Read implements io.Reader.
func (t *timedBody) Read(into []byte) (int, error) {
	if !t.over.Load() {
		_ = t.control.SetReadDeadline(time.Now().Add(progressWithin))
	}
	n, err := t.ReadCloser.Read(into)
	if err != nil && !t.over.Swap(true) && errors.Is(err, io.EOF) {
		_ = t.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
