// Package resources has the functions of the HTTP API's endpoints, and the table of them.
// Each takes what a request says, asks the View of the identity, and returns what package
// api has for it. None of them looks at rights: the table says which right a row needs.
package resources

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/server/internal/live"
	"github.com/stet-run/stet/server/internal/view"
	"github.com/stet-run/stet/store"
)

// Server is what the endpoints work on.
type Server struct {
	Engine *stet.Engine
	// Login changes a token for a cookie, and Logout takes the cookie away.
	Login  func(ctx context.Context, c *endpoint.Call, token string) (*access.Identity, error)
	Logout func(*endpoint.Call)
	// Ways says how to log in. Elsewhere sends a browser to where its person logs in, and
	// Returned begins a session when it returns.
	Ways      func() *api.Ways
	Elsewhere func(context.Context, *endpoint.Call) error
	Returned  func(context.Context, *endpoint.Call, url.Values) error
	// Again returns an error if the identity of a call may not go on with it.
	Again func(*endpoint.Call) error
	// Refused counts a wrong signature of a webhook's call, and returns the refusal. Admit returns an
	// error if the one whose signature was good makes more calls than it may.
	Refused   func(c *endpoint.Call, why error) error
	Admit     func(*endpoint.Call) error
	Live      *live.Reads
	Scripts   view.Placer // nil: nobody knows where scripts stand
	Links     []api.Link
	Following func(change int) // called for each follower that begins or ends; nil: nobody

	first     []string // segments of the paths, sorted
	counts    shared[*api.Counts]
	followers *endpoint.Shares
	bulks     *endpoint.Shares
	exports   *endpoint.Shares
	lists     *endpoint.Distinct // that are followed
}

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, stet.ErrInvalid)...)
}

// limit returns how many rows a page has.
func limit(asked, usual, most int) (int, error) {
	switch {
	case asked == 0:
		return usual, nil
	case asked < 0 || asked > most:
		return 0, invalid("limit: expected 1 to %d, found %d", most, asked)
	}
	return asked, nil
}

// withValues reads the parameter values.
func withValues(text string) (bool, error) {
	switch text {
	case "", "all":
		return true, nil
	case "none":
		return false, nil
	}
	return false, invalid("values: expected none or all, found %.100q", text)
}

// bound seals cursors of a store, so that one is of use for its own question only: the same
// list, query and order, by an identity with the same limit.
type bound string

func binding(list, query, order string, who *access.Identity) bound {
	workflows := slices.Sorted(slices.Values(who.Workflows))
	return bound(strings.Join(append([]string{list, query, order}, workflows...), "\x00"))
}

const sumLength = 8

func (b bound) sum(cursor string) []byte {
	sum := sha256.Sum256([]byte(string(b) + "\x00\x00" + cursor))
	return sum[:sumLength]
}

func (b bound) seal(cursor string) string {
	if cursor == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(b.sum(cursor), cursor...))
}

func (b bound) open(sealed string) (string, error) {
	if sealed == "" {
		return "", nil
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(data) <= sumLength || string(b.sum(string(data[sumLength:]))) != string(data[:sumLength]) {
		return "", fmt.Errorf("cursor: expected next of a page of this very list and query: %w", store.ErrBadCursor)
	}
	return string(data[sumLength:]), nil
}

type nothing struct{}

func (s *Server) errors(context.Context, *endpoint.Call, nothing) (api.Errors, error) {
	return api.AllErrors(), nil
}

func (s *Server) info(ctx context.Context, c *endpoint.Call, _ nothing) (*api.Info, error) {
	d, err := s.Engine.Describe(ctx)
	if err != nil {
		return nil, err
	}
	info := &api.Info{Version: version(), Identity: *identityOf(c.Who), Now: d.Now.Time(), Store: api.Store{
		ID: d.ID, Kind: d.Kind, Schema: d.Schema, Slots: d.Slots, Durable: d.Durable,
	}}
	info.Resources = s.first
	info.Links = s.Links
	for _, name := range d.Workflows {
		if c.Who.Sees(name) && !store.IsEntity(name) {
			info.Workflows = append(info.Workflows, name)
		}
	}
	return info, nil
}

// version returns the version of the module that this package is part of.
func version() string {
	const module = "github.com/stet-run/stet"
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(build.Deps, &build.Main) {
		if m.Path == module && m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}
