package toolbox

import (
	"context"
	"io/fs"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	runsAt  = "stet://runs/"
	guideAt = "stet://guide/"
)

// addResources adds runs, their histories, and the pages of the guide.
func (t *tools) addResources() {
	t.server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "run", URITemplate: runsAt + "{id}", MIMEType: "application/json",
		Description: "How a run stands. Its ID is percent-encoded.",
	}, t.readRun)
	t.server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "history", URITemplate: runsAt + "{id}/history", MIMEType: "application/json",
		Description: "The first entries of the history of a run; get_history has the others.",
	}, t.readRun)
	if t.box.options.Guide == nil {
		return
	}
	pages, err := fs.Glob(t.box.options.Guide, "*.md")
	if err != nil {
		panic(err) // the pattern is fixed
	}
	for _, file := range pages {
		name := strings.TrimSuffix(file, ".md")
		t.server.AddResource(&mcp.Resource{
			Name: name, URI: guideAt + name, MIMEType: "text/markdown", Description: "A page of the guide: " + name,
		}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			text, err := fs.ReadFile(t.box.options.Guide, file)
			if err != nil {
				return nil, err
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: string(text)}}}, nil
		})
	}
}

// readRun reads a run, or its history.
func (t *tools) readRun(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	encoded, whole := strings.CutSuffix(strings.TrimPrefix(r.Params.URI, runsAt), "/history")
	id, err := url.PathUnescape(encoded)
	if err != nil || id == "" {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	c := &call{tools: t}
	var out *reply
	if whole {
		out, err = history(ctx, c, getHistory{Run: id})
	} else {
		out, err = get(ctx, c, getRun{Run: id})
	}
	verdict := "answered"
	if err != nil {
		verdict = "refused"
	}
	t.box.options.Log.Info("agent", "resource", true, "identity", t.who, "runs", []string{id}, "verdict", verdict)
	if refused := asError(err); refused != nil && refused.Code == "not_found" {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	if err != nil {
		return nil, err
	}
	text, err := out.text()
	if err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: text}}}, nil
}
