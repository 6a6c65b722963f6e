// Package access says who may do what with the HTTP API: identities, their roles, and the
// rights that endpoints ask for. It authenticates nobody; package server has the
// authenticators, and an application may bring its own.
package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// Right is what an endpoint asks of the identity that calls it.
type Right uint8

const (
	// Public is no right: anybody may call, without a credential.
	Public Right = iota + 1
	// Read is to see runs, queues, topics, schedules and nodes, without values.
	Read
	// Values is to see inputs, results, messages, headers, heartbeats and texts of errors.
	Values
	// Call is to start runs, to send to them, to publish, and to assign promises by token.
	Call
	// Operate is to change what runs do, and queues, schedules and dead letters.
	Operate
	// Admin is to manage tokens, to drain nodes and to read the store's own audit.
	Admin
	// Work is to lease tasks, to renew and to end what was leased.
	Work
)

var rightNames = [...]string{"", "public", "read", "values", "call", "operate", "admin", "work"}

// String returns the right as documents name it: "read", "operate", …
func (r Right) String() string {
	if r > 0 && int(r) < len(rightNames) {
		return rightNames[r]
	}
	return fmt.Sprintf("right(%d)", uint8(r))
}

// Role is a set of rights. The zero Role has none, and is invalid.
type Role string

const (
	Viewer        Role = "viewer"   // reads, without values
	Caller        Role = "caller"   // reads without values; starts, sends and answers
	Operator      Role = "operator" // reads all, and changes runs, queues, schedules and letters
	Administrator Role = "admin"    // may do everything
	Worker        Role = "worker"   // leases tasks and ends them, and nothing else
)

// Roles returns the roles, those with fewer rights first.
func Roles() []Role { return []Role{Worker, Viewer, Caller, Operator, Administrator} }

var rights = map[Role][]Right{
	Viewer:        {Public, Read},
	Caller:        {Public, Read, Call},
	Operator:      {Public, Read, Values, Call, Operate},
	Administrator: {Public, Read, Values, Call, Operate, Admin, Work},
	Worker:        {Public, Work},
}

// ParseRole returns the role with the name. The error wraps store.ErrInvalid.
func ParseRole(name string) (Role, error) {
	if _, ok := rights[Role(name)]; !ok {
		return "", fmt.Errorf("role: expected one of %v, found %q: %w", Roles(), name, store.ErrInvalid)
	}
	return Role(name), nil
}

// May reports whether the role has the right.
func (r Role) May(right Right) bool { return slices.Contains(rights[r], right) }

// Identity is who has made a request.
type Identity struct {
	// Name stands in audits and headers as the one who acted: 1 to 255 bytes without control
	// characters. Two identities of one name are the same.
	Name string
	Role Role
	// Workflows limits the identity to the runs of these workflows, and to the topics,
	// queues and schedules of Named. Empty: no limit.
	Workflows []string
	// Named are the topics, queues and schedules that an identity with Workflows may see and
	// change, as "topic:jobs", "queue:model", "schedule:nightly". Without Workflows it has
	// no meaning. Of a Worker they are the names of the tasks that it may lease, as
	// "task:resize", or their beginning, as "task:media-*".
	Named []string
	// Until is when a session of a browser must end; zero: after 8 hours.
	Until time.Time
}

// Limited reports whether the identity is limited to some workflows.
func (i *Identity) Limited() bool { return len(i.Workflows) > 0 }

// Sees reports whether runs of the workflow are within the limit.
func (i *Identity) Sees(workflow string) bool {
	return !i.Limited() || slices.Contains(i.Workflows, workflow)
}

// SeesNamed reports whether an object is within the limit, where kind is topic, queue or
// schedule.
func (i *Identity) SeesNamed(kind, name string) bool {
	return !i.Limited() || slices.Contains(i.Named, kind+":"+name)
}

// Works reports whether the identity may lease tasks of the name. What is limited to workflows
// may not: a task may be of any.
func (i *Identity) Works(name string) bool {
	if !i.Role.May(Work) || i.Limited() {
		return false
	}
	return i.Role != Worker || slices.ContainsFunc(i.Named, func(bound string) bool {
		bound, ok := strings.CutPrefix(bound, "task:")
		if prefix, all := strings.CutSuffix(bound, "*"); all {
			return ok && strings.HasPrefix(name, prefix)
		}
		return ok && bound == name
	})
}

// Check returns what is wrong with an identity, wrapping store.ErrInvalid, or nil.
func (i *Identity) Check() error {
	if err := store.CheckRunID(i.Name); err != nil {
		return fmt.Errorf("name of an identity: expected 1 to 255 bytes without control characters, found %q: %w",
			i.Name, store.ErrInvalid)
	}
	_, err := ParseRole(string(i.Role))
	return err
}

// Browser is an authenticator at which a person logs in elsewhere, as at an identity
// provider: the server sends the browser there, and begins a session when it returns.
type Browser interface {
	Authenticator
	// Title names the place for people, as "Example Inc.".
	Title() string
	// Begin returns the address to which a browser is sent, and a state, which its cookie
	// keeps meanwhile: nobody else must be able to read or make one.
	Begin(ctx context.Context) (address, state string, err error)
	// Finish returns the token of a session, which Authenticate knows as a Bearer token, for
	// the state of Begin and the parameters with which the browser has returned. An error
	// that wraps ErrDenied refuses the person.
	Finish(ctx context.Context, state string, answer url.Values) (token string, err error)
}

// ErrDenied says that a credential is there and is not valid: unknown, revoked, expired, or
// from a place that may not present it. Authenticators wrap it.
var ErrDenied = errors.New("credential not valid")

// Authenticator finds out who makes a request.
type Authenticator interface {
	// Authenticate returns the identity of a request, nil if the request has no credential
	// of the authenticator's kind, so that the next one is asked. An error that wraps
	// ErrDenied refuses the request; another one says that the credential could not be
	// looked at. It must not change the request, and is safe for concurrent use.
	Authenticate(r *http.Request) (*Identity, error)
}
