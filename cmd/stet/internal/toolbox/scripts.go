package toolbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/bundle"
)

// maxSource is how much of a source one answer has. Escapes may double it.
const maxSource = 12 << 10

func getScripts(ctx context.Context, c *call, in getScript) (*reply, error) {
	if in.Name == "" {
		found, err := client.ScriptsOf(c.client).List(ctx)
		if err != nil {
			return nil, err
		}
		return part("scripts", found.Scripts, in.Cursor)
	}
	info, err := client.ScriptsOf(c.client).Info(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	info.Versions = info.Versions[:min(len(info.Versions), 20)]
	data := map[string]any{"script": info}
	if c.box.options.NoValues {
		return dataOf(data, ""), nil
	}
	source, err := client.ScriptsOf(c.client).Source(ctx, in.Name, in.Version)
	if err != nil {
		return nil, err
	}
	i := 0
	if in.File != "" {
		i = slices.IndexFunc(source.Files, func(f api.ScriptFile) bool { return f.Name == in.File })
	}
	if i < 0 || i >= len(source.Files) {
		return nil, invalid("file: expected one of version %d, found %.100q", source.Version, in.File)
	}
	file := source.Files[i]
	from := 0
	if in.Cursor != "" {
		if from, err = strconv.Atoi(in.Cursor); err != nil || from < 0 || from > len(file.Text) {
			return nil, invalid("cursor: expected next of an answer about this file")
		}
	}
	next, text := "", begin(file.Text[from:], maxSource)
	if from += len(text); from < len(file.Text) {
		next = strconv.Itoa(from)
	}
	names := make([]string, len(source.Files))
	for n, f := range source.Files {
		names[n] = f.Name
	}
	data["version"], data["files"], data["file"], data["source"] = source.Version, names, file.Name, text
	return dataOf(data, next), nil
}

type deployScript struct {
	Why
	Name       string `json:"name" jsonschema:"of the script, which is that of its workflow"`
	Source     string `json:"source" jsonschema:"one file, which imports nothing and exports its function by default"`
	TypeScript bool   `json:"typescript,omitempty" jsonschema:"the source is TypeScript"`
}

// planDeploy compiles a script, and shows what would become the current version.
func planDeploy(ctx context.Context, c *call, in *deployScript) (*plan, error) {
	ending := ".js"
	if in.TypeScript {
		ending = ".ts"
	}
	file := api.ScriptFile{Name: in.Name + ending, Text: in.Source}
	code, err := bundle.Source(file.Name, file.Text)
	if err == nil {
		_, err = script.Compile(in.Name, code, nil)
	}
	switch {
	case errors.Is(err, bundle.ErrSource), errors.Is(err, script.ErrSource):
		return nil, invalid("source: %s", strings.TrimSpace(err.Error()))
	case err != nil:
		return nil, err
	}
	now := standing{Run: "script " + in.Name, Status: "not there"}
	info, err := client.ScriptsOf(c.client).Info(ctx, in.Name)
	switch {
	case err == nil:
		now.Status = fmt.Sprintf("at version %d", info.Current)
	case !errors.Is(err, stet.ErrNotFound):
		return nil, err
	}
	return &plan{
		what: "makes the source the current version of the script named below: runs that begin from then on execute it, " +
			"runs that have begun keep their version",
		runs: []standing{now},
		preview: map[string]any{
			"script": in.Name, "bytes": len(in.Source), "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(in.Source))),
			"begins": begin(in.Source, 200),
		},
		do: func(ctx context.Context, _ string) (any, error) {
			out, err := client.ScriptsOf(c.client).Deploy(ctx, in.Name,
				api.DeployScript{Code: code, Files: []api.ScriptFile{file}, Reason: in.Reason})
			if err != nil {
				return nil, err
			}
			return map[string]any{"script": out.Name, "version": out.Version, "stands": out.Version == 0}, nil
		},
	}, nil
}
