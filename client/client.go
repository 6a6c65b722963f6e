// Package client calls the HTTP API of a store from Go, with the forms of package api:
//
//	c, err := client.New("https://ops.example.com/stet/", client.Options{Token: token})
//	…
//	run, err := c.Run(ctx, "order-4711")
//	if errors.Is(err, stet.ErrNotFound) {
//
// Its errors are *Error, and wrap the error of package stet that the server's engine has
// returned, so that a program branches as it would with an engine of its own.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// Options are what New takes beside the address.
type Options struct {
	// Token is an access token of the store; "": none is sent, as where a client certificate
	// says who calls.
	Token string
	// HTTP makes the requests. Default: a client without a time limit of its own; the context
	// of each call bounds it. Its CheckRedirect is not asked: no redirect is followed, because the
	// token is for the server at the address alone.
	HTTP *http.Client
}

// Client calls a server. Safe for concurrent use.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// New returns a client for the server at an address: where its dashboard is, with the prefix
// under which it is mounted. It calls nobody yet. The error wraps store.ErrInvalid.
func New(address string, o Options) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("address of the server: expected http://HOST or https://HOST, found %q: %w", address,
			store.ErrInvalid)
	}
	base.Path, base.RawPath = strings.TrimSuffix(base.Path, "/")+"/api/v1/", ""
	base.RawQuery, base.Fragment = "", ""
	if o.HTTP == nil {
		o.HTTP = &http.Client{}
	}
	staying := *o.HTTP
	staying.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: base, token: o.Token, http: &staying}, nil
}

// Error is a refusal of the server.
type Error struct{ api.Problem }

// Error returns the detail, or what the code means.
func (e *Error) Error() string {
	if e.Detail != "" {
		return e.Detail
	}
	return fmt.Sprintf("%s (%s, request %s)", e.Title, e.Code, e.RequestID)
}

// Unwrap returns the error of the engine that the code stands for, or nil.
func (e *Error) Unwrap() error { return api.ErrorByCode(e.Code).Err() }

// maxAnswer bounds what is read of an answer.
const maxAnswer = 256 << 20

// call is a request.
type call struct {
	method, path string
	query        url.Values
	key          string // idempotency key; "": none
	last         string // ID of the last event that was seen; "": none
	body         any    // nil: none
	into         any    // a pointer for the answer; nil: it is not wanted
}

// path returns the address of a resource, each part as a segment.
func path(parts ...string) string {
	for i := range parts {
		parts[i] = api.PathSegment(parts[i])
	}
	return strings.Join(parts, "/")
}

// send makes a request. The answer is one of success; the caller closes its body.
func (c *Client) send(ctx context.Context, q call) (*http.Response, error) {
	address := c.base.String() + q.path
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	var content io.Reader
	if q.body != nil {
		data, err := json.Marshal(q.body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w: %w", q.method, q.path, err, store.ErrInvalid)
		}
		content = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, address, content)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %w", q.method, q.path, err, store.ErrInvalid)
	}
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if q.key != "" {
		r.Header.Set("Idempotency-Key", q.key)
	}
	if q.last != "" {
		r.Header.Set("Last-Event-ID", q.last)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	stands := answer.StatusCode == http.StatusAccepted && answer.Header.Get("Content-Type") == api.ProblemType
	if answer.StatusCode < http.StatusMultipleChoices && !stands { // a request that stands is a problem of code pending
		return answer, nil
	}
	data, err := read(answer)
	if err != nil {
		return nil, err
	}
	problem := &Error{}
	if to := answer.Header.Get("Location"); to != "" && answer.StatusCode < http.StatusBadRequest && !stands {
		return nil, fmt.Errorf("%s %s: expected an answer of stet, found a redirect to %.200q, which is not followed: "+
			"give the address of the server itself", q.method, q.path, to)
	}
	if json.Unmarshal(data, &problem.Problem) != nil || problem.Code == "" {
		return nil, fmt.Errorf("%s %s: expected an answer of stet, found status %d: is the address right?", q.method, q.path,
			answer.StatusCode)
	}
	return nil, problem
}

// read reads the body of an answer and closes it.
func read(answer *http.Response) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return nil, fmt.Errorf("%w: %w: %w", store.ErrUnavailable, store.ErrUnknown, err)
	}
	return data, nil
}

func (c *Client) do(ctx context.Context, q call) error {
	answer, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	data, err := read(answer)
	if err != nil || q.into == nil {
		return err
	}
	if err := json.Unmarshal(data, q.into); err != nil {
		return fmt.Errorf("%s %s: the answer: %w", q.method, q.path, err)
	}
	return nil
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	into := new(T)
	if err := c.do(ctx, call{method: http.MethodGet, path: path, query: query, into: into}); err != nil {
		return nil, err
	}
	return into, nil
}

func post[T any](ctx context.Context, c *Client, path, key string, query url.Values, body any) (*T, error) {
	into := new(T)
	q := call{method: http.MethodPost, path: path, query: query, key: key, body: body, into: into}
	if err := c.do(ctx, q); err != nil {
		return nil, err
	}
	return into, nil
}

// Page says which part of a list is wanted.
type Page struct {
	Limit  int    // rows; 0: 100
	Cursor string // Next of the page before; "": the first page
}

func (p Page) query() url.Values {
	query := url.Values{}
	if p.Limit != 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		query.Set("cursor", p.Cursor)
	}
	return query
}

// waitFor returns the parameter that has the server wait; 0: its default.
func waitFor(wait time.Duration) url.Values {
	query := url.Values{}
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	return query
}
