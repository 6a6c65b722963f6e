package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/oidc"
	"github.com/stet-run/stet/store"
)

// oidcFlags name an identity provider.
type oidcFlags struct {
	issuer, client, redirect, name string
	roles, audiences               []string
}

func (f *oidcFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.issuer, "oidc-issuer", "", "let people in by the OpenID Connect provider at this `URL`")
	flags.StringVar(&f.client, "oidc-client", "", "`ID` of the application there; its secret is in STET_OIDC_SECRET")
	flags.StringVar(&f.redirect, "oidc-redirect", "",
		"`URL` to which it returns browsers: the dashboard's, and api/v1/login/callback; default: programs alone log in")
	flags.StringArrayVar(&f.roles, "oidc-role", nil,
		"`CLAIM=VALUE:ROLE`, like groups=ops:operator: who gets which role; the first that fits counts")
	flags.StringSliceVar(&f.audiences, "oidc-audience", nil,
		"`names` for which tokens of programs may be, beside the client")
	flags.StringVar(&f.name, "oidc-name", "",
		"`claim` that names people in audits; default: email, if it is verified")
}

// provider returns the identity provider, nil if there is none.
func (f *oidcFlags) provider(ctx context.Context) (*oidc.Provider, error) {
	if f.issuer == "" {
		if f.client != "" || f.redirect != "" || len(f.roles) > 0 {
			return nil, usage(errors.New("--oidc-client, --oidc-redirect and --oidc-role: expected --oidc-issuer, too"))
		}
		return nil, nil
	}
	c := oidc.Config{
		Issuer: f.issuer, ClientID: f.client, ClientSecret: os.Getenv("STET_OIDC_SECRET"), RedirectURL: f.redirect,
		Audiences: f.audiences, NameClaim: f.name,
	}
	for _, text := range f.roles {
		claim, rest, ok := strings.Cut(text, "=")
		at := strings.LastIndexByte(rest, ':')
		if !ok || at < 0 {
			return nil, usage(fmt.Errorf("--oidc-role: expected CLAIM=VALUE:ROLE, found %q", text))
		}
		c.Roles = append(c.Roles, oidc.Rule{Claim: claim, Value: rest[:at], Role: access.Role(rest[at+1:])})
	}
	p, err := oidc.New(ctx, c)
	if errors.Is(err, store.ErrInvalid) {
		err = usage(err)
	}
	return p, err
}
