package toolbox

import (
	"context"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/cmd/stet/internal/inprocess"
)

// Inside returns a client of a handler of the HTTP API in the same process: requests cross no
// network. They carry the credential of the request outer, and come from where it comes
// from; nil: they carry none.
func Inside(h http.Handler, outer *http.Request) (*client.Client, error) {
	return inprocess.Client(h, outer, http.Header{api.ViaHeader: {api.ViaMCP}})
}

// Outside returns a client of a server: each request says that an agent acts.
func Outside(address, token string) (*client.Client, error) {
	return client.New(address, client.Options{Token: token, HTTP: &http.Client{Transport: via{http.DefaultTransport}}})
}

// via adds the header by which a server knows that an agent acts.
type via struct{ next http.RoundTripper }

func (v via) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(api.ViaHeader, api.ViaMCP)
	return v.next.RoundTrip(r)
}

// callerKey is the key of the caller in the context of a request.
type callerKey struct{}

// caller is who makes a request.
type caller struct {
	client *client.Client
	who    string
}

// Handler serves the protocol over HTTP beside a handler of the HTTP API, with its
// identities and their rights: a request without a credential that it knows is refused as
// the API would. It keeps no sessions.
func (b *Box) Handler(h http.Handler) http.Handler {
	crossSite := http.NewCrossOriginProtection()
	served := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		from := r.Context().Value(callerKey{}).(caller)
		return b.Server(from.client, from.who)
	}, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // the API's own, which knows the names of proxies, comes before
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := crossSite.Check(r); err != nil {
			http.Error(w, "the request comes from another site", http.StatusForbidden)
			return
		}
		c, err := Inside(h, r)
		if err != nil {
			http.Error(w, "internal", http.StatusInternalServerError)
			return
		}
		info, err := c.Info(r.Context())
		if err != nil {
			refuse(w, err)
			return
		}
		ctx := context.WithValue(r.Context(), callerKey{}, caller{c, info.Identity.Name})
		served.ServeHTTP(w, r.WithContext(ctx))
	})
}

// refuse answers as the API has.
func refuse(w http.ResponseWriter, err error) {
	status, text := http.StatusServiceUnavailable, "the API does not answer"
	if refused := (*client.Error)(nil); errors.As(err, &refused) {
		status, text = refused.Status, refused.Error()
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="stet"`)
	}
	http.Error(w, text, status)
}
