package resources

import (
	"context"
	"net/http"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/server/internal/view"
)

// scripts are the endpoints that show scripts: their sources are values.
type scripts struct{ *Server }

func (s scripts) table() []endpoint.Endpoint {
	return []endpoint.Endpoint{
		endpoint.New(http.MethodGet, "scripts", access.Read, s.list, "the scripts, with their current versions"),
		endpoint.New(http.MethodGet, "scripts/{name}", access.Read, s.one, "a script with its versions"),
		endpoint.New(http.MethodGet, "scripts/{name}/source", access.Values, s.source, "the source of a version"),
		endpoint.New(http.MethodPost, "scripts/{name}", access.Admin, s.deploy,
			"make code the current version of a script").IsLong(),
		endpoint.New(http.MethodGet, "runs/{id}/script", access.Values, s.run,
			"the source that a run of a script executes, and the lines at which it stands").IsHeavy(),
	}
}

func (s scripts) list(ctx context.Context, c *endpoint.Call, _ nothing) (*api.Scripts, error) {
	list, err := view.Scripts{View: c.View}.List(ctx)
	return &api.Scripts{Scripts: list}, err
}

func (s scripts) one(ctx context.Context, c *endpoint.Call, in named) (*api.Script, error) {
	return view.Scripts{View: c.View}.Info(ctx, in.Name)
}

type scriptSource struct {
	named
	Version int `query:"version" doc:"number of the version; default: the current one"`
}

func (s scripts) source(ctx context.Context, c *endpoint.Call, in scriptSource) (*api.ScriptSource, error) {
	v := view.Scripts{View: c.View}
	if in.Version == 0 {
		info, err := v.Info(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		in.Version = info.Current
	}
	return v.Source(ctx, in.Name, in.Version)
}

type deployScript struct {
	named
	Wait time.Duration    `query:"wait" doc:"how long to wait until it is done; default 10s, at most 60s"`
	Body api.DeployScript `body:""`
}

func (s scripts) deploy(ctx context.Context, c *endpoint.Call, in deployScript) (*api.DeployedScript, error) {
	out := &api.DeployedScript{Name: in.Name}
	_, err := decided(ctx, c, "./"+api.PathSegment(in.Name), in.Wait, func(ctx context.Context) (err error) {
		out.Version, err = view.Scripts{View: c.View}.Deploy(ctx, in.Name, &in.Body)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s scripts) run(ctx context.Context, c *endpoint.Call, in oneRun) (*api.RunScript, error) {
	return view.Scripts{View: c.View}.Run(ctx, in.ID, s.Scripts)
}
