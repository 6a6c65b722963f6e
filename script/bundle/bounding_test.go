package bundle_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/script/internal/bounds"
)

// TestBounds: a file that is too large or too deep is refused with its place, also one that another imports. One that
// is just within is bundled.
func TestBounds(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	script := func(value string) string { return "export default function () { return " + value + " }\n" }
	for name, c := range map[string]struct {
		files map[string]string
		want  string // "": it is bundled
	}{
		"within":          {map[string]string{"a.ts": script(nested(bounds.MaxBrackets - 1))}, ""},
		"deep":            {map[string]string{"a.ts": script(nested(bounds.MaxBrackets))}, "a.ts:1:236: expected at most 200 brackets"},
		"deep, of data":   {map[string]string{"a.ts": `import b from "./b.json"; export default b`, "b.json": nested(201)}, "b.json:1:201"},
		"deep, imported":  {map[string]string{"a.ts": `export { default } from "./b"`, "b.js": script(nested(201))}, "b.js:1:236"},
		"long":            {map[string]string{"a.ts": script("a" + strings.Repeat("+a", bounds.MaxSigns))}, "4000 words and signs"},
		"large":           {map[string]string{"a.ts": "//" + strings.Repeat(" ", bounds.MaxFile)}, "found 1048578"},
		"an apostrophe":   {map[string]string{"a.ts": `export { default } from "./b"`, "b.tsx": "export default () => <p>it's</p>"}, ""},
		"brackets of JSX": {map[string]string{"a.ts": `import "./b"`, "b.tsx": strings.Repeat("(", bounds.MaxOpening+1)}, "opening brackets"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write(t, folder, c.files)
			_, err := bundle.File(filepath.Join(folder, "a.ts"))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.Is(err, bundle.ErrSource) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("expected ErrSource with %s, found %v", c.want, err)
			}
			if len(c.files) > 1 {
				return
			}
			_, err = bundle.Source("a.ts", c.files["a.ts"])
			refused := errors.Is(err, bundle.ErrSource) && strings.Contains(err.Error(), c.want)
			if c.want == "" && err != nil || c.want != "" && !refused {
				t.Errorf("of a text: expected ErrSource with %s, found %v", c.want, err)
			}
		})
	}
}
