package api

import (
	"errors"
	"net/http"
	"slices"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// Problem is an error of the API, as application/problem+json of RFC 9457.
type Problem struct {
	// Type is the address of the error's explanation, relative to the API: errors#CODE.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Code names the error for programs. It never changes.
	Code string `json:"code"`
	// Detail says for people what was expected, what was found and what to do.
	Detail string `json:"detail,omitempty"`
	// RequestID names the request in the server's log.
	RequestID string `json:"request_id"`
}

// Error explains a code of a Problem.
type Error struct {
	Code    string `json:"code"`
	Status  int    `json:"status"`
	Meaning string `json:"meaning"`

	err error
}

// Errors is the answer of the endpoint that explains errors.
type Errors struct {
	Errors []Error `json:"errors"`
}

// The codes that stand for no error of the engine.
const (
	CodeInternal        = "internal"
	CodeUnauthenticated = "unauthenticated"
	CodeForbidden       = "forbidden"
	CodeNoEndpoint      = "no_endpoint"
	CodeMethod          = "method_not_allowed"
	CodeHost            = "foreign_host"
	CodeCrossSite       = "cross_site"
	CodeMediaType       = "media_type"
	CodeRate            = "rate"
	CodeBusy            = "busy"
	CodeSlow            = "slow"
	CodeNotReady        = "not_ready"
	CodePointer         = "pointer"
	CodeFailed          = "failed"
)

// errorTable has all codes. The first row whose error an error is counts, so what wraps
// another stands before it.
var errorTable = []Error{
	{"not_found", http.StatusNotFound, "there is no such run, promise, topic, schedule, letter, node or hook",
		stet.ErrNotFound},
	{"unknown_workflow", http.StatusNotFound, "no node has ever registered a workflow of this name",
		stet.ErrUnknownWorkflow},
	{"no_queue", http.StatusNotFound, "there is no queue of this name", stet.ErrNoQueue},
	{"exists", http.StatusConflict, "the ID is taken by a run that differs, or that must not exist", stet.ErrExists},
	{"ended", http.StatusConflict, "the run has ended", stet.ErrTerminal},
	{"pending", http.StatusAccepted, "the owner of the run has not decided yet; the request stands", stet.ErrPending},
	{"refused", http.StatusConflict, "what the request is about does not allow it as it stands, and detail says why",
		stet.ErrRefused},
	{"already_resolved", http.StatusConflict, "the promise was assigned by another call", stet.ErrAlreadyResolved},
	{"key_used", http.StatusConflict, "the key was used for another request", stet.ErrKeyUsed},
	{"unanswered", http.StatusConflict, "the run has ended, or continued as new, without an answer to the update",
		stet.ErrUnanswered},
	{"gone", http.StatusConflict, "the lease counts no more: it was ended or released, or another worker has the task",
		stet.ErrLeaseGone},
	{"cancelled", http.StatusConflict, "the task of the lease is wanted no more", stet.ErrLeaseCancelled},
	{"topic_full", http.StatusTooManyRequests, "the topic keeps as many events as it may", stet.ErrTopicFull},
	{"inbox_full", http.StatusTooManyRequests, "the run has not received as many messages as it may have",
		stet.ErrInboxFull},
	{"bad_cursor", http.StatusBadRequest, "the cursor was not made for this query", store.ErrBadCursor},
	{"too_large", http.StatusRequestEntityTooLarge, "a value or the request is over the limit", stet.ErrTooLarge},
	{"input", http.StatusBadRequest, "the input does not fit the workflow", stet.ErrInput},
	{"invalid", http.StatusBadRequest, "an argument is not allowed; nothing has changed", stet.ErrInvalid},
	{"sealed", http.StatusConflict, "a value is encrypted or kept elsewhere, and cannot be read here", stet.ErrSealed},
	{"unknown_key", http.StatusConflict, "a value is encrypted with a key that this server does not have",
		stet.ErrUnknownKey},
	{"held", http.StatusServiceUnavailable, "another process works on the store, and nobody else can meanwhile",
		stet.ErrHeld},
	{"outcome_unknown", http.StatusServiceUnavailable, "the store did not answer: the act may have happened or not",
		store.ErrUnknown},
	{"unavailable", http.StatusServiceUnavailable, "the store cannot be reached now, or has no room",
		store.ErrUnavailable},
	{"closed", http.StatusServiceUnavailable, "the server is stopping", store.ErrClosed},
	{CodeUnauthenticated, http.StatusUnauthorized, "no valid credential came with the request", nil},
	{CodeForbidden, http.StatusForbidden, "the role or the limit of the identity does not allow it", nil},
	{CodeNoEndpoint, http.StatusNotFound, "there is no endpoint at this path", nil},
	{CodeMethod, http.StatusMethodNotAllowed, "the endpoint does not have this method", nil},
	{CodeHost, http.StatusMisdirectedRequest, "the request names a host that this server is not", nil},
	{CodeCrossSite, http.StatusForbidden, "a page of another origin has made the request", nil},
	{CodeMediaType, http.StatusUnsupportedMediaType, "the body must be application/json, and not encoded", nil},
	{CodeRate, http.StatusTooManyRequests, "the identity makes too many requests", nil},
	{CodeBusy, http.StatusServiceUnavailable, "the server has as many of these under way as it may", nil},
	{CodeSlow, http.StatusServiceUnavailable, "the store has not answered the query in time", nil},
	{CodeNotReady, http.StatusServiceUnavailable, "this process does not do what it is there for; its log says why", nil},
	{CodeFailed, http.StatusConflict, "the run has failed the update, and says why", nil},
	{CodePointer, http.StatusUnprocessableEntity, "a pointer of the webhook finds nothing in the body", nil},
	{CodeInternal, http.StatusInternalServerError, "something else; the server's log has it by request_id", nil},
}

// AllErrors returns the codes with their meanings.
func AllErrors() Errors { return Errors{slices.Clone(errorTable)} }

// ErrorOf returns the row of an error. Of one that is in no row it returns that of
// CodeFailed if a run has recorded it, and otherwise that of CodeInternal. What a recorded
// failure wraps does not count: it says nothing of the request, and to look behind it would
// call the types of the application.
func ErrorOf(err error) Error {
	for _, row := range errorTable {
		if row.err != nil && is(err, row.err) {
			return row
		}
	}
	if record := (*stet.FailureRecord)(nil); errors.As(err, &record) {
		return ErrorByCode(CodeFailed)
	}
	return ErrorByCode(CodeInternal)
}

// is is errors.Is that does not look behind recorded failures.
func is(err, target error) bool {
	if err == target {
		return true
	}
	if e, ok := err.(interface{ As(target any) bool }); ok {
		if record := (*stet.FailureRecord)(nil); e.As(&record) {
			return false
		}
	}
	if e, ok := err.(interface{ Is(target error) bool }); ok && e.Is(target) {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return is(e.Unwrap(), target)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return is(err, target) })
	}
	return false
}

// ErrorByCode returns the row of a code; of an unknown one the zero Error.
func ErrorByCode(code string) Error {
	for _, row := range errorTable {
		if row.Code == code {
			return row
		}
	}
	return Error{}
}

// Err returns the error of the engine that the code stands for, or nil.
func (e Error) Err() error { return e.err }
