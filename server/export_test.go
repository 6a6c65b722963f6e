package server

import (
	"net/http"

	"github.com/stet-run/stet/server/internal/endpoint"
)

// TableOf returns the table that a handler serves.
func TableOf(h http.Handler) []endpoint.Endpoint { return h.(*server).table }
