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
	read  time.Time // when the read of them began; zero: never

	turn sync.Mutex // is held by the request that waits until an unknown token may be looked up
}

const (
	// freshFor is how long a list of tokens counts.
	freshFor = time.Second / 2
	// lookUpEvery is how often unknown tokens, which may be guesses, have the list read again.
	lookUpEvery = 20 * time.Millisecond
)

// Authenticate implements access.Authenticator.
func (l *tokenList) Authenticate(r *http.Request) (*access.Identity, error) {
	token, ok := bearer(r)
	if !ok || !strings.HasPrefix(token, "stet_") || strings.HasPrefix(token, oncePrefix) {
		return nil, nil
	}
	asked, hash := time.Now(), sha256.Sum256([]byte(token))
	known, err := l.list(r.Context(), asked.Add(-freshFor))
	if err == nil && known[hash] == nil { // it may have been created a moment ago
		known, err = l.again(r.Context(), asked)
	}
	if err != nil {
		return nil, err
	}
	info := known[hash]
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

// again returns the tokens as of a read that has begun since a token was asked for. All that wait share one.
func (l *tokenList) again(ctx context.Context, asked time.Time) (map[[sha256.Size]byte]*stet.TokenInfo, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	read := l.read
	l.mu.Unlock()
	if wait := time.Until(read.Add(lookUpEvery)); wait > 0 && read.Before(asked) {
		pause := time.NewTimer(wait)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return l.list(ctx, asked)
}

// list returns the tokens, by their hashes, as of a read that has begun since a time. Concurrent requests read the
// store once.
func (l *tokenList) list(ctx context.Context, since time.Time) (map[[sha256.Size]byte]*stet.TokenInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begun := time.Now()
	if !l.read.IsZero() && !l.read.Before(since) {
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
