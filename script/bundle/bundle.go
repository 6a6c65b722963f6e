// Package bundle makes one script of files: it follows relative imports and strips types.
// It is apart from package script, so that a program that executes scripts links no bundler.
package bundle

import (
	"errors"
	"fmt"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// ErrSource says that a file does not parse, or imports what is not there. The text has all
// places, as file:line:column.
var ErrSource = errors.New("the script cannot be bundled")

// File returns the script of a JavaScript or TypeScript file and of what it imports by a
// relative path, for script.Compile. Errors wrap ErrSource.
func File(path string) (string, error) {
	return bundled(api.BuildOptions{EntryPoints: []string{path}})
}

// Source is File for a text. name is that of the file in errors; its ending says whether it
// is TypeScript. It may import nothing.
func Source(name, text string) (string, error) {
	loader := api.LoaderJS
	if strings.HasSuffix(name, ".ts") {
		loader = api.LoaderTS
	}
	return bundled(api.BuildOptions{Stdin: &api.StdinOptions{Contents: text, Sourcefile: name, Loader: loader}})
}

func bundled(o api.BuildOptions) (string, error) {
	o.Bundle, o.Write, o.LogLevel = true, false, api.LogLevelSilent
	o.Format, o.GlobalName = api.FormatIIFE, "__script"
	o.Target, o.Sourcemap = api.ES2018, api.SourceMapInline
	o.SourcesContent = api.SourcesContentExclude
	o.Supported = map[string]bool{"async-await": true}
	result := api.Build(o)
	var problems []string
	for _, m := range result.Errors {
		text := m.Text
		if m.Location != nil {
			text = fmt.Sprintf("%s:%d:%d: %s", m.Location.File, m.Location.Line, m.Location.Column+1, text)
		}
		problems = append(problems, text)
	}
	if len(problems) > 0 || len(result.OutputFiles) != 1 {
		return "", fmt.Errorf("%s: %w", strings.Join(problems, "; "), ErrSource)
	}
	return string(result.OutputFiles[0].Contents), nil
}
