package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/server/access"
)

// Tokens returns an authenticator that knows the access tokens of the engine's store, as
// stet token create and the endpoint tokens make them. A request has one as
// "Authorization: Bearer stet_…". A revoked one is refused within a second.
func Tokens(engine *stet.Engine) access.Authenticator { return &tokenList{engine: engine} }

// tokenList knows the tokens of a store, as of a moment ago.
type tokenList struct {
	engine *stet.Engine

	mu    sync.Mutex
	known map[[sha256.Size]byte]*stet.TokenInfo
	read  time.Time // zero: never
}

// freshFor is how long a list of tokens counts.
const freshFor = time.Second / 2

// Authenticate implements access.Authenticator.
func (l *tokenList) Authenticate(r *http.Request) (*access.Identity, error) {
	token, ok := bearer(r)
	if !ok || !strings.HasPrefix(token, "stet_") || strings.HasPrefix(token, oncePrefix) {
		return nil, nil
	}
	known, err := l.list(r.Context())
	if err != nil {
		return nil, err
	}
	info := known[sha256.Sum256([]byte(token))]
	switch {
	case info == nil:
		return nil, fmt.Errorf("token: unknown or revoked: %w", access.ErrDenied)
	case !info.Expires.IsZero() && !time.Now().Before(info.Expires):
		return nil, fmt.Errorf("token %s: expired: %w", info.ID, access.ErrDenied)
	}
	return &access.Identity{
		Name: info.Name, Role: access.Role(info.Role), Workflows: info.Workflows, Named: info.Named, Until: info.Expires,
	}, nil
}

// list returns the tokens, by their hashes. Concurrent requests read the store once.
func (l *tokenList) list(ctx context.Context) (map[[sha256.Size]byte]*stet.TokenInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begun := time.Now()
	if !l.read.IsZero() && begun.Sub(l.read) < freshFor {
		return l.known, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTime)
	defer cancel()
	found, err := stet.TokensOf(l.engine).List(ctx)
	if err != nil {
		return nil, err
	}
	l.known, l.read = make(map[[sha256.Size]byte]*stet.TokenInfo, len(found)), begun
	for i := range found {
		l.known[found[i].Hash] = &found[i]
	}
	return l.known, nil
}

// bearer returns the token of a request.
func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}
