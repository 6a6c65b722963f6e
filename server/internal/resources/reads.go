package resources

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/store"
)

func (s *Server) openAPI(_ context.Context, c *endpoint.Call, _ nothing) error {
	c.SendTagged(endpoint.JSON, Document)
	return nil
}

func (s *Server) live(context.Context, *endpoint.Call, nothing) (api.Health, error) {
	return api.Health{OK: true}, nil
}

// ready says whether the process does what it is there for. A stranger learns no more than
// that; the log has the reasons.
func (s *Server) ready(ctx context.Context, c *endpoint.Call, _ nothing) (api.Health, error) {
	if err := s.Engine.Ready(ctx); err != nil {
		c.Log.Warn("this process is not ready", "error", err)
		return api.Health{}, &endpoint.Error{Code: api.CodeNotReady, Detail: "this process is not ready"}
	}
	return api.Health{OK: true}, nil
}

func (s *Server) shape(ctx context.Context, c *endpoint.Call, in oneRun) (*api.Shape, error) {
	shape, err := c.View.Shape(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return api.ShapeOf(shape), nil
}

func (s *Server) inbox(ctx context.Context, c *endpoint.Call, in oneRun) (api.Inbox, error) {
	items, err := c.View.Inbox(ctx, in.ID)
	return api.Inbox{Items: items}, err
}

func (s *Server) audit(ctx context.Context, c *endpoint.Call, in oneRun) (api.Audits, error) {
	acts, err := c.View.Audit(ctx, in.ID)
	return api.Audits{Audit: acts}, err
}

type children struct {
	oneRun
	Limit  int    `query:"limit" doc:"runs in a page, up to 1000; default 100"`
	Cursor string `query:"cursor" doc:"next of the page before"`
}

func (s *Server) children(ctx context.Context, c *endpoint.Call, in children) (*api.Runs, error) {
	f := store.Filter{Values: true}
	var err error
	if f.Limit, err = limit(in.Limit, store.DefaultPage, maxRuns); err != nil {
		return nil, err
	}
	bound := binding("children", in.ID, "", c.Who)
	if f.Cursor, err = bound.open(in.Cursor); err != nil {
		return nil, err
	}
	runs, next, err := c.View.Children(ctx, in.ID, f)
	if runs == nil {
		runs = []*api.Run{}
	}
	return &api.Runs{Runs: runs, Next: bound.seal(next)}, err
}

type shownValues struct {
	oneRun
	Name string `query:"name" doc:"only the value of this name, however large it is"`
}

func (s *Server) values(ctx context.Context, c *endpoint.Call, in shownValues) (*api.Shown, error) {
	return c.View.Shown(ctx, in.ID, in.Name)
}

type stream struct {
	oneRun
	Name  string `path:"name" doc:"of the stream"`
	After int64  `query:"after" doc:"only items at higher positions"`
	Limit int    `query:"limit" doc:"up to 1000; default 100"`
}

func (s *Server) items(ctx context.Context, c *endpoint.Call, in stream) (*api.StreamItems, error) {
	size, err := limit(in.Limit, store.DefaultPage, maxRuns)
	if err != nil {
		return nil, err
	}
	items, err := c.View.Items(ctx, in.ID, in.Name, in.After, size)
	return &api.StreamItems{Items: items}, err
}

func (s *Server) promises(ctx context.Context, c *endpoint.Call, in oneRun) (api.Promises, error) {
	promises, err := c.View.Promises(ctx, in.ID)
	return api.Promises{Promises: promises}, err
}

type oneValue struct {
	oneRun
	At string `query:"at" doc:"input, output, or the location of an entry"`
}

func (s *Server) value(ctx context.Context, c *endpoint.Call, in oneValue) error {
	if in.At == "" {
		return invalid("at: expected input, output or a location, found none")
	}
	value, err := c.View.Value(ctx, in.ID, in.At)
	if err != nil {
		return err
	}
	asDownload(c.Writer, "value.json")
	c.Send(http.StatusOK, endpoint.Binary, value)
	return nil
}

// asDownload has a browser save the answer, whatever is in it.
func asDownload(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
}

const (
	// maxExports bounds the runs that are exported at the same time, each of which is in memory as a whole. An identity
	// has half of them.
	maxExports = 4
	// exportTime bounds one export: the client may read slowly.
	exportTime = 10 * time.Minute
)

func (s *Server) export(ctx context.Context, c *endpoint.Call, in oneRun) error {
	leave := s.exports.Take(c.Who.Name)
	if leave == nil {
		return &endpoint.Error{Code: api.CodeBusy,
			Detail: "the server exports as many runs as it may, in all or for one identity", Wait: 10}
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	w := &begun{Call: c, ctx: ctx}
	err := c.View.Export(ctx, in.ID, w)
	if err != nil && w.begun {
		c.Log.Error("an export has failed on its way", "request", c.RequestID, "error", err)
		panic(http.ErrAbortHandler) // so that the client does not take it for whole
	}
	return err
}

// begun is the writer of a download, which begins with the first byte.
type begun struct {
	*endpoint.Call
	ctx   context.Context // after its end nothing is written
	begun bool
}

func (b *begun) Write(data []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if !b.begun {
		b.begun = true
		asDownload(b.Writer, "run.stet")
		b.Writer.Header().Set("Content-Type", endpoint.Binary)
	}
	return b.Writer.Write(data)
}

func (s *Server) deletions(ctx context.Context, c *endpoint.Call, _ nothing) (api.Deletions, error) {
	list, err := c.View.Deletions(ctx)
	return api.Deletions{Deletions: list}, err
}
