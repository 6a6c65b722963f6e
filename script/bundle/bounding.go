package bundle

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/stet-run/stet/script/internal/bounds"
)

// bounding returns the plugin that looks at each file before the bundler parses it: nothing stops the bundler in a file
// that is too deep for its stack, which ends the process.
func bounding() api.Plugin {
	var total atomic.Int64
	return api.Plugin{Name: "bounds", Setup: func(build api.PluginBuild) {
		build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "file"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			info, err := os.Stat(a.Path)
			if err != nil {
				return api.OnLoadResult{}, err
			}
			name := filepath.Base(a.Path)
			if info.Size() > bounds.MaxFile {
				return api.OnLoadResult{}, tooLarge(name, info.Size())
			}
			if n := total.Add(info.Size()); n > bounds.MaxFiles {
				return api.OnLoadResult{}, fmt.Errorf("%s: expected files of at most %d bytes, found %d with this one: import "+
					"less, or do in a task what needs a large library", name, bounds.MaxFiles, n)
			}
			text, err := os.ReadFile(a.Path)
			if err != nil {
				return api.OnLoadResult{}, err
			}
			return api.OnLoadResult{}, fits(name, string(text)) // without contents the bundler reads the file
		})
	}}
}

func tooLarge(name string, size int64) error {
	return fmt.Errorf("%s: expected at most %d bytes, found %d: pass data as input, or do in a task what needs it", name,
		bounds.MaxFile, size)
}

// fits returns an error if a file exceeds the bounds of a source.
func fits(name, text string) error {
	if len(text) > bounds.MaxFile {
		return tooLarge(name, int64(len(text)))
	}
	switch filepath.Ext(name) {
	case ".jsx", ".tsx": // whose texts are no words of the language
		return bounds.Count(name, text)
	}
	return bounds.Check(name, text)
}
