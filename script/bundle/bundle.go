// Package bundle makes one script of files: it follows relative imports and strips types.
// It is apart from package script, so that a program that executes scripts links no bundler.
package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// ErrSource says that a file does not parse, imports what is not there, or is too large: a file may have 1 MiB, the
// files of a script 8 MiB, with 200 brackets that are open at one place, and 4,000 words and signs in a statement. The
// text has all places, as file:line:column.
var ErrSource = errors.New("the script cannot be bundled")

// File returns the script of a JavaScript or TypeScript file and of what it imports by a
// relative path, or from a package in node_modules, for script.Compile. No tsconfig.json counts,
// and no package.json but those of such packages: the same files give the same script, in
// whichever folder they are. Errors wrap ErrSource.
func File(path string) (string, error) {
	return bundled(api.BuildOptions{EntryPoints: []string{path}})
}

// Read is File that returns the files, too, by their paths relative to the folder of path, the
// file itself first. Errors wrap ErrSource, or are those of reading the files.
func Read(path string) (code string, files []Text, err error) {
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	name := filepath.Base(path)
	result, err := built(api.BuildOptions{EntryPoints: []string{"./" + name}, AbsWorkingDir: folder, Metafile: true})
	if err != nil {
		return "", nil, err
	}
	var made struct {
		Inputs map[string]struct{} `json:"inputs"`
	}
	if err := json.Unmarshal([]byte(result.Metafile), &made); err != nil {
		return "", nil, fmt.Errorf("what the bundler says of %s: %w", path, err)
	}
	names := slices.Sorted(maps.Keys(made.Inputs))
	slices.SortStableFunc(names, func(a, b string) int {
		switch name {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	for _, input := range names {
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(input)))
		if err != nil {
			return "", nil, err
		}
		files = append(files, Text{input, string(text)})
	}
	return string(result.OutputFiles[0].Contents), files, nil
}

// Text is a file of a script.
type Text struct{ Name, Text string }

// Source is File for a text. name is that of the file in errors; its ending says whether it
// is TypeScript. It may import nothing.
func Source(name, text string) (string, error) {
	loader := api.LoaderJS
	if strings.HasSuffix(name, ".ts") {
		loader = api.LoaderTS
	}
	if err := fits(name, text); err != nil {
		return "", fmt.Errorf("%w: %w", err, ErrSource)
	}
	return bundled(api.BuildOptions{Stdin: &api.StdinOptions{Contents: text, Sourcefile: name, Loader: loader}})
}

func bundled(o api.BuildOptions) (string, error) {
	result, err := built(o)
	if err != nil {
		return "", err
	}
	return string(result.OutputFiles[0].Contents), nil
}

func built(o api.BuildOptions) (*api.BuildResult, error) {
	o.Bundle, o.Write, o.LogLevel = true, false, api.LogLevelSilent
	o.Format, o.GlobalName = api.FormatIIFE, "__script"
	o.Target, o.Sourcemap = api.ES2018, api.SourceMapInline
	o.SourcesContent = api.SourcesContentExclude
	// What a script does not have of regular expressions is left for script.Compile, which refuses it with its place.
	o.Supported = map[string]bool{"async-await": true, "regexp-match-indices": true, "regexp-set-notation": true,
		"for-await": false, "async-generator": false} // which the interpreter lacks: written with what it has
	// Nothing that the files of the script do not name may count: see resolving.
	o.TsconfigRaw, o.Plugins = `{"compilerOptions": {}}`, []api.Plugin{resolving, bounding()}
	o.Platform, o.MainFields, o.Conditions = api.PlatformNeutral, []string{"module", "main"}, []string{"module"}
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
		return nil, fmt.Errorf("%s: %w", strings.Join(problems, "; "), ErrSource)
	}
	return &result, nil
}
