package resources

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/store"
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

// logins has the endpoints by which people log in elsewhere, and what people did.
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

type storeAudit struct {
	Who    string `query:"who" doc:"exactly; empty: anybody's"`
	Verb   string `query:"verb" doc:"exactly; empty: any"`
	About  string `query:"about" doc:"what the acts are about begins so, as queue mail; empty: all"`
	Limit  int    `query:"limit" doc:"acts in a page, up to 1000; default 100"`
	Cursor string `query:"cursor" doc:"next of the page before"`
}

// audit answers with the store's own audit.
func (s logins) audit(ctx context.Context, c *endpoint.Call, in storeAudit) (*api.Audits, error) {
	if err := c.View.MayAdminister(); err != nil {
		return nil, err
	}
	size, err := limit(in.Limit, store.DefaultPage, maxRuns)
	if err != nil {
		return nil, err
	}
	f := stet.AuditFilter{By: in.Who, Verb: in.Verb, About: in.About, Limit: size + 1}
	bound := binding("audit", in.Who+"\x00"+in.Verb, in.About, c.Who)
	before, err := bound.open(in.Cursor)
	if err != nil {
		return nil, err
	}
	if before != "" {
		number, err := strconv.ParseInt(before, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cursor: %w", store.ErrBadCursor)
		}
		f.Before = store.ItemNo(number)
	}
	found, err := stet.AuditOf(s.Engine).List(ctx, f)
	if err != nil {
		return nil, err
	}
	page := &api.Audits{Audit: []api.Audit{}}
	if len(found) > size {
		found = found[:size]
		page.Next = bound.seal(strconv.FormatInt(int64(found[size-1].Number), 10))
	}
	for i := range found {
		page.Audit = append(page.Audit, api.StoreAuditOf(&found[i]))
	}
	return page, nil
}

// cutText cuts what an audit says of a query.
func cutText(text string) string {
	if len(text) > 250 {
		return text[:250] + "…"
	}
	return text
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
