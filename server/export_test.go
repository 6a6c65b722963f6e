package server

import (
	"net/http"

	"github.com/stet-run/stet/server/internal/endpoint"
)

// Behind is a handler before another one.
type Behind struct {
	http.Handler
	Next http.Handler
}

// TableOf returns the table that a handler serves, or the one behind it.
func TableOf(h http.Handler) []endpoint.Endpoint {
	if b, ok := h.(Behind); ok {
		h = b.Next
	}
	return h.(*server).table
}
