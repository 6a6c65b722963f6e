package resources

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
)

type login struct {
	Body api.Login `body:""`
}

func (s *Server) login(ctx context.Context, c *endpoint.Call, in login) (*api.Identity, error) {
	who, err := s.Login(ctx, c, in.Body.Token)
	if err != nil {
		return nil, err
	}
	return identityOf(who), nil
}

// logins has the endpoints by which people log in elsewhere.
type logins struct{ *Server }

func (s logins) ways(context.Context, *endpoint.Call, nothing) (*api.Ways, error) {
	return s.Ways(), nil
}

func (s logins) elsewhere(ctx context.Context, c *endpoint.Call, _ nothing) error {
	return s.Elsewhere(ctx, c)
}

type returned struct {
	Answer url.Values `query:"*" doc:"what the identity provider adds to the address"`
}

func (s logins) returned(ctx context.Context, c *endpoint.Call, in returned) error {
	return s.Returned(ctx, c, in.Answer)
}

type logout struct {
	Body api.Reason `body:""`
}

func (s *Server) logout(_ context.Context, c *endpoint.Call, _ logout) (*api.Done, error) {
	s.Logout(c)
	return &api.Done{Done: true}, nil
}

func identityOf(who *access.Identity) *api.Identity {
	v := &api.Identity{
		Name: who.Name, Role: string(who.Role), Rights: []string{}, Workflows: who.Workflows, Named: who.Named,
	}
	for _, right := range []access.Right{access.Read, access.Values, access.Call, access.Operate, access.Admin,
		access.Work} {
		if who.Role.May(right) {
			v.Rights = append(v.Rights, right.String())
		}
	}
	return v
}

// tokenTime is how long a token counts, if nothing else is said.
const tokenTime = 90 * 24 * time.Hour

type createToken struct {
	Body api.CreateToken `body:""`
}

func (s *Server) createToken(ctx context.Context, c *endpoint.Call, in createToken) (*api.CreatedToken, error) {
	if err := c.View.MayAdminister(); err != nil {
		return nil, err
	}
	info := stet.TokenInfo{Name: in.Body.Name, Role: in.Body.Role, Workflows: in.Body.Workflows, Named: in.Body.Named}
	switch {
	case in.Body.ExpiresInMS > 0:
		info.Expires = time.Now().Add(time.Duration(in.Body.ExpiresInMS) * time.Millisecond)
	case in.Body.ExpiresInMS == 0:
		info.Expires = time.Now().Add(tokenTime)
	case in.Body.ExpiresInMS != -1:
		return nil, invalid("expires_in_ms: expected a number of milliseconds or -1, found %d", in.Body.ExpiresInMS)
	}
	token, err := stet.TokensOf(s.Engine).Create(ctx, info, stet.Act{By: c.Who.Name, Why: in.Body.Reason})
	if err != nil {
		return nil, err
	}
	c.Answered(http.StatusCreated)
	return &api.CreatedToken{Token: token}, nil
}

func (s *Server) tokens(ctx context.Context, c *endpoint.Call, _ nothing) (*api.Tokens, error) {
	if err := c.View.MayAdminister(); err != nil {
		return nil, err
	}
	found, err := stet.TokensOf(s.Engine).List(ctx)
	list := &api.Tokens{Tokens: []api.Token{}}
	for i := range found {
		list.Tokens = append(list.Tokens, api.TokenOf(&found[i]))
	}
	return list, err
}

type oneToken struct {
	ID   string     `path:"id" doc:"of the token"`
	Body api.Reason `body:""`
}

func (s *Server) revoke(ctx context.Context, c *endpoint.Call, in oneToken) (*api.Done, error) {
	if err := c.View.MayAdminister(); err != nil {
		return nil, err
	}
	return done(stet.TokensOf(s.Engine).Revoke(ctx, in.ID, stet.Act{By: c.Who.Name, Why: in.Body.Reason}))
}
