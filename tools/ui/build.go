package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// copied are the files of src that stand in dist as they are.
var copied = []string{"index.html", "icons.svg"}

// libraries says where a bundle finds what the sources import by name.
var libraries = map[string]string{
	"preact":               "preact/dist/preact.mjs",
	"preact/hooks":         "preact/hooks/dist/hooks.mjs",
	"preact/jsx-runtime":   "preact/jsx-runtime/dist/jsxRuntime.mjs",
	"@preact/signals":      "signals/dist/signals.mjs",
	"@preact/signals-core": "signals-core/dist/signals-core.mjs",
}

// folder returns server/ui, from the folder of this module or any inside it.
func folder() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		root := filepath.Join(at, "server", "ui")
		if _, err := os.Stat(filepath.Join(root, "src", "app.tsx")); err == nil {
			return root, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", errors.New("expected to run inside the repository, found no server/ui/src/app.tsx above")
		}
		at = up
	}
}

// build returns the files of the dashboard by name: the same bytes for the same sources,
// wherever they stand.
func build(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range copied {
		content, err := os.ReadFile(filepath.Join(root, "src", name))
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	alias := map[string]string{}
	for name, file := range libraries {
		alias[name] = filepath.Join(root, "vendor", filepath.FromSlash(file))
	}
	result := api.Build(api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: filepath.Join(root, "src", "app.tsx"), OutputPath: "app"},
			{InputPath: filepath.Join(root, "src", "app.css"), OutputPath: "app"},
		},
		AbsWorkingDir: root, Outdir: filepath.Join(root, "dist"), Bundle: true, Write: false,
		Format: api.FormatESModule, Target: api.ES2022, Platform: api.PlatformBrowser, Alias: alias,
		JSX: api.JSXAutomatic, JSXImportSource: "preact", TsconfigRaw: "{}",
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true, LegalComments: api.LegalCommentsNone,
		Charset: api.CharsetUTF8, LogLevel: api.LogLevelSilent,
		Banner: map[string]string{"js": notice, "css": ""},
	})
	if err := problems(result.Errors, result.Warnings); err != nil {
		return nil, err
	}
	for _, out := range result.OutputFiles {
		files[filepath.Base(out.Path)] = bytes.TrimSpace(out.Contents)
	}
	return files, nil
}

// notice says whose code is in the script, as the licences want it.
const notice = "/* stet's dashboard. With preact, @preact/signals, @preact/signals-core: MIT, " +
	"(c) 2015-present Jason Miller, (c) 2022-present Preact Team; see server/ui/vendor. */"

// problems returns what esbuild has found, one line each; a warning counts as well.
func problems(lists ...[]api.Message) error {
	var lines []string
	for _, list := range lists {
		for _, m := range list {
			where := ""
			if m.Location != nil {
				where = fmt.Sprintf("%s:%d: ", m.Location.File, m.Location.Line)
			}
			lines = append(lines, where+m.Text)
		}
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}
