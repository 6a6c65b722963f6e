package server

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/internal/endpoint"
)

// A credential is checked before anything is counted: a wrong one takes nothing from others at
// its address, which is that of all clients at a proxy. Refusals alone are counted. The same
// credential of one address is refused with 429 above the bound. Other credentials of that
// address, which may be guesses, are refused later and later ones at once with 429.
const (
	refusalsPerMinute = 10
	refusalDelay      = time.Second
	// maxDelayed bounds the refusals that are delayed at the same time.
	maxDelayed = 64
)

// refusals counts refused credentials.
type refusals struct {
	same    *rates // by address and credential
	guesses *rates // by address
	delayed chan struct{}
}

func newRefusals() *refusals {
	perSecond := float64(refusalsPerMinute) / 60
	return &refusals{
		same: newRates(perSecond, refusalsPerMinute), guesses: newRates(perSecond, refusalsPerMinute),
		delayed: make(chan struct{}, maxDelayed),
	}
}

// refuse counts a refused credential of a request, and returns why it is refused: detail, or that
// there were too many. It blocks for refusalDelay, or until the request ends, where an address has
// shown many credentials. message and why are for the log.
func (s *server) refuse(r *http.Request, credential, detail, message string, why error) error {
	from := addressOf(r)
	sum := sha256.Sum256([]byte(credential))
	tooMany := &endpoint.Error{Code: api.CodeRate, Detail: "too many credentials from this address were refused", Wait: 6}
	if !s.refusals.same.allow(from + "\x00" + string(sum[:])) {
		return tooMany
	}
	s.log.Warn(message, "request", callOf(r).RequestID, "from", from, "error", why)
	if !s.refusals.guesses.allow(from) {
		select {
		case s.refusals.delayed <- struct{}{}:
		default:
			return tooMany
		}
		defer func() { <-s.refusals.delayed }()
		delay := time.NewTimer(refusalDelay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-r.Context().Done():
		}
	}
	return &endpoint.Error{Code: api.CodeUnauthenticated, Detail: detail}
}

// credentialOf returns all that a request presents as a credential in the usual places.
func credentialOf(r *http.Request) string {
	text := fmt.Sprintf("%q %q", r.Header.Values("Authorization"), r.Header.Values("Cookie"))
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		text += string(r.TLS.PeerCertificates[0].Raw)
	}
	return text
}

// admit counts a request of a name whose credential is good. The error says that the name has made
// as many requests as it may.
func (s *server) admit(name string) error {
	if s.requests.allow(name) {
		return nil
	}
	return &endpoint.Error{Code: api.CodeRate, Detail: fmt.Sprintf("expected at most %d requests per second",
		s.options.Rate), Wait: 1}
}
