// Package inprocess calls a handler of the HTTP API in the same process, so that what else a
// process serves has the rights that the API gives, and no second way to the engine.
package inprocess

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/stet-run/stet/client"
)

// Client returns a client whose requests are served by the handler, and cross no network.
// They carry the credential of the request outer, and come from where that comes from; nil:
// they carry none. Each has the headers more, too.
func Client(h http.Handler, outer *http.Request, more http.Header) (*client.Client, error) {
	return client.New("http://stet.invalid/", client.Options{HTTP: &http.Client{Transport: &inside{h, outer, more}}})
}

// inside serves requests by a handler.
type inside struct {
	handler http.Handler
	outer   *http.Request
	more    http.Header
}

// own reports whether a header is of the request that crosses no network, and not of the
// credential of the outer one.
func own(name string) bool {
	for _, prefix := range []string{"Content-", "Accept", "If-", "Mcp-", "Sec-", "Origin", "Connection", "Upgrade",
		"Range", "Last-Event-Id", "Idempotency-Key", "Transfer-", "Te", "Trailer", "Expect"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// RoundTrip implements http.RoundTripper.
func (i *inside) RoundTrip(r *http.Request) (*http.Response, error) {
	served := r.Clone(r.Context())
	served.RequestURI = r.URL.RequestURI()
	if served.Body == nil {
		served.Body = http.NoBody
	}
	if o := i.outer; o != nil {
		for name, values := range o.Header {
			if _, set := served.Header[name]; !set && !own(name) {
				served.Header[name] = values
			}
		}
		served.RemoteAddr, served.TLS, served.Host = o.RemoteAddr, o.TLS, o.Host
	}
	for name, values := range i.more {
		served.Header[name] = values
	}
	answer := &recorder{header: http.Header{}}
	i.handler.ServeHTTP(answer, served)
	_ = served.Body.Close() // the handler has what it wanted of it
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	status := answer.status
	if status == 0 {
		status = http.StatusOK
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: answer.header, Request: r,
		Body: io.NopCloser(&answer.body), ContentLength: int64(answer.body.Len()),
	}, nil
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(data []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(data)
}
