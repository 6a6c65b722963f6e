package server

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/stet-run/stet/server/access"
)

// Proxy returns an authenticator that believes the header of a proxy which has authenticated
// the person: only of requests that come from the networks, by their sockets. From elsewhere
// the header is not looked at. A header that is there twice is refused, because a client may
// have added one. identity returns who the header's value stands for; nil refuses it.
func Proxy(header string, networks []netip.Prefix, identity func(value string) *access.Identity) access.Authenticator {
	return Func(func(r *http.Request) (*access.Identity, error) {
		values := r.Header.Values(header)
		if len(values) == 0 || !within(r.RemoteAddr, networks) {
			return nil, nil
		}
		if len(values) > 1 || values[0] == "" {
			return nil, fmt.Errorf("header of a proxy: expected one value, found %d: %w", len(values), access.ErrDenied)
		}
		who := identity(values[0])
		if who == nil {
			return nil, fmt.Errorf("header of a proxy: nobody that is known: %w", access.ErrDenied)
		}
		return who, nil
	})
}

// within reports whether a socket's address is of one of the networks.
func within(remote string, networks []netip.Prefix) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, network := range networks {
		if network.Contains(address.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// ClientCert returns an authenticator by the certificates of clients: those alone whose chain
// the TLS server has verified (tls.VerifyClientCertIfGiven or
// tls.RequireAndVerifyClientCert). identity returns who a certificate stands for; nil
// refuses it.
func ClientCert(identity func(*x509.Certificate) *access.Identity) access.Authenticator {
	return Func(func(r *http.Request) (*access.Identity, error) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
			return nil, nil
		}
		who := identity(r.TLS.VerifiedChains[0][0])
		if who == nil {
			return nil, fmt.Errorf("client certificate: nobody that is known: %w", access.ErrDenied)
		}
		return who, nil
	})
}
