package api

import "time"

// Info says what a server serves, and who the caller is for it.
type Info struct {
	Version   string    `json:"version"` // of stet
	Store     Store     `json:"store"`
	Identity  Identity  `json:"identity"`
	Workflows []string  `json:"workflows,omitempty"` // that a node has ever registered
	Now       time.Time `json:"now"`                 // by the store's clock
	// Resources are the first parts of the paths that the server has: runs, queues, events, …
	Resources []string `json:"resources"`
	// Links lead from the page of a run to what others know of it.
	Links []Link `json:"links,omitempty"`
}

// Link is a template of an address of a run's logs or trace. {id}, {number}, {workflow}, {trace}
// (of its header traceparent), {created}, {started} and {ended} stand for what they say of the
// run, as a part of an address; {ended} of one that goes on is now.
type Link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// ViaHeader is the header by which a program says that an agent acts for the identity of a
// request: ViaMCP. The rights are those of the identity; audits name mcp:NAME.
const (
	ViaHeader = "Stet-Via"
	ViaMCP    = "mcp"
)

// Store describes a store.
type Store struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"` // memory, sqlite, postgres or redis
	Schema  int    `json:"schema"`
	Slots   int    `json:"slots"`
	Durable string `json:"durable"` // what survives, and what can be lost
}

// Identity is who makes a request.
type Identity struct {
	Name      string   `json:"name"`
	Role      string   `json:"role" words:"Role"`    // viewer, caller, operator, admin or worker
	Rights    []string `json:"rights" words:"Right"` // read, values, call, operate, admin
	Workflows []string `json:"workflows,omitempty"`  // that it is limited to; none: no limit
	Named     []string `json:"named,omitempty"`      // topics, queues and schedules within the limit
}

// Health says whether a server is well.
type Health struct {
	OK bool `json:"ok"`
}
