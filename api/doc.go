// Package api has the JSON forms in which the HTTP API, its Go client and the command line
// speak of runs, queues, topics, schedules and the rest: one type each, made from what the
// engine returns. Names are snake_case and carry their units; times are RFC 3339 in UTC.
//
// Fields are only ever added. A reader leaves out what it does not know. The package holds
// data alone: no function of it reads a store or changes anything.
package api
