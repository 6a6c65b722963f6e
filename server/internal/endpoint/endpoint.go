// Package endpoint has what an endpoint of the HTTP API is: one row of a table, made by one
// call with its method, path, right, function and summary. From the types of the function
// come the decoding of requests, the encoding of answers, and the OpenAPI document.
//
// It decides nothing about access: package server does, by the row's right, before it serves
// the row.
package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"

	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/view"
)

// Base is the path under which the endpoints are.
const Base = "/api/v1/"

// The media types of answers.
const (
	JSON   = "application/json"
	Binary = "application/octet-stream"
	Events = "text/event-stream"
	Lines  = "application/x-ndjson" // a JSON value in each line
)

// Endpoint is a row of the table.
type Endpoint struct {
	Method  string
	Path    string // below Base, as "runs/{id}"
	Right   access.Right
	Summary string
	In, Out reflect.Type // of the request: a struct; of the answer: nil if it is no JSON
	Media   string       // of the answer
	Status  int          // of the usual answer
	// Heavy says that the call may read much of the store, so that only some are under way
	// at a time. Long says that it may wait, or stream, so that no time bounds it.
	Heavy, Long bool

	serve func(*Call) error
}

// Call is one request to an endpoint.
type Call struct {
	Writer    http.ResponseWriter
	Request   *http.Request
	Who       *access.Identity // nil: the endpoint is public
	View      *view.View       // what Who may see; nil likewise
	RequestID string
	Log       *slog.Logger
	MaxBody   int64
	// Enter is called between the reading of the request and the endpoint's function, and returns
	// what gives the place back: before bytes are sent. nil: it needs no place.
	Enter func(*Call) (leave func(), err error)

	status int
}

// Answered sets the status of the answer, in place of the endpoint's.
func (c *Call) Answered(status int) { c.status = status }

// New returns an endpoint whose function returns the answer, which is sent as JSON.
func New[In, Out any](
	method, path string, right access.Right, fn func(context.Context, *Call, In) (Out, error), summary string,
) Endpoint {
	e := Endpoint{
		Method: method, Path: path, Right: right, Summary: summary, Media: JSON, Status: http.StatusOK,
		In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out](),
	}
	e.check()
	e.serve = func(c *Call) error {
		in, err := decode[In](c)
		if err != nil {
			return err
		}
		c.status = e.Status
		body, err := produce(c, in, fn)
		if err != nil {
			return err
		}
		c.answer(body)
		return nil
	}
	return e
}

// produce returns the answer of an endpoint's function as JSON, and holds a place meanwhile.
func produce[In, Out any](c *Call, in In, fn func(context.Context, *Call, In) (Out, error)) ([]byte, error) {
	if c.Enter != nil {
		leave, err := c.Enter(c)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	out, err := fn(c.Request.Context(), c, in)
	if err != nil {
		return nil, err
	}
	return encode(out)
}

// Raw returns an endpoint whose function writes the answer itself. An error that it returns
// before it has written anything becomes a problem.
func Raw[In any](
	method, path string, right access.Right, media string, fn func(context.Context, *Call, In) error, summary string,
) Endpoint {
	e := Endpoint{
		Method: method, Path: path, Right: right, Summary: summary, Media: media, Status: http.StatusOK,
		In: reflect.TypeFor[In](),
	}
	e.check()
	e.serve = func(c *Call) error {
		in, err := decode[In](c)
		if err != nil {
			return err
		}
		return fn(c.Request.Context(), c, in)
	}
	return e
}

// IsHeavy returns the endpoint as one that may read much of the store. It panics for one of Raw,
// which would hold its place while the client reads.
func (e Endpoint) IsHeavy() Endpoint {
	if e.Media != JSON || e.Out == nil {
		panic(fmt.Sprintf("%s %s: expected an endpoint of New", e.Method, e.Path))
	}
	e.Heavy = true
	return e
}

// Answers returns the endpoint with another status of its usual answer.
func (e Endpoint) Answers(status int) Endpoint { e.Status = status; return e }

// Sends returns the endpoint with the type of what a stream has: of events a struct with what
// each has, by its name in JSON; of lines one with a field for each form of a line.
func (e Endpoint) Sends(each reflect.Type) Endpoint { e.Out = each; return e }

// IsLong returns the endpoint as one that may wait or stream.
func (e Endpoint) IsLong() Endpoint { e.Long = true; return e }

// Serve decodes the request, calls the function and sends its answer. An error means that
// nothing was sent.
func (e *Endpoint) Serve(c *Call) error { return e.serve(c) }

// Pattern returns the method and path as http.ServeMux takes them.
func (e *Endpoint) Pattern() string { return e.Method + " " + Base + e.Path }

// check panics if the types of an endpoint cannot be decoded: the table is wrong.
func (e *Endpoint) check() {
	if e.In.Kind() != reflect.Struct {
		panic(fmt.Sprintf("%s %s: the request is no struct", e.Method, e.Path))
	}
	for _, f := range Fields(e.In) {
		if f.Place == "body" && e.Method == http.MethodGet {
			panic(fmt.Sprintf("%s %s: a body", e.Method, e.Path))
		}
	}
}
