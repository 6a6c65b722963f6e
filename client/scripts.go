package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/stet-run/stet/api"
)

// Scripts are the scripts of a server's store. Safe for concurrent use.
type Scripts struct{ client *Client }

// ScriptsOf returns the scripts of the server's store.
func ScriptsOf(c *Client) Scripts { return Scripts{c} }

// List returns the scripts by name, without their versions.
func (s Scripts) List(ctx context.Context) (*api.Scripts, error) {
	return get[api.Scripts](ctx, s.client, "scripts", nil)
}

// Info returns a script with its versions.
func (s Scripts) Info(ctx context.Context, name string) (*api.Script, error) {
	return get[api.Script](ctx, s.client, path("scripts", name), nil)
}

// Source returns the source of a version; 0: the current one.
func (s Scripts) Source(ctx context.Context, name string, version int) (*api.ScriptSource, error) {
	query := url.Values{}
	if version != 0 {
		query.Set("version", strconv.Itoa(version))
	}
	return get[api.ScriptSource](ctx, s.client, path("scripts", name, "source"), query)
}

// Deploy makes code the current version of a script. Nobody compiles it on the way:
// script.Compile says first whether it is well. Version 0: no node has decided within 10 s; the
// request stands.
func (s Scripts) Deploy(ctx context.Context, name string, d api.DeployScript) (*api.DeployedScript, error) {
	return post[api.DeployedScript](ctx, s.client, path("scripts", name), "", nil, d)
}
