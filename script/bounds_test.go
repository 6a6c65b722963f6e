package script_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/internal/bounds"
	"github.com/stet-run/stet/stettest"
)

// TestBoundsOfSources: a source just within each bound compiles. One just above it is refused with what was expected
// and found, before a parser enters it, and a deploy of it changes nothing.
func TestBoundsOfSources(t *testing.T) {
	const head = "async function workflow() { return "
	for name, c := range map[string]struct {
		source func(n int) string
		most   int
		want   string
	}{
		"size": {func(n int) string { return head + "1 } //" + strings.Repeat(" ", n-len(head)-6) }, script.MaxSource,
			"script case: expected at most 262144 bytes, found 262145"},
		"brackets": {func(n int) string { return head + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" },
			bounds.MaxBrackets - 1, "case.js:1:235: expected at most 200 brackets"},
		"templates": {func(n int) string { return head + strings.Repeat("`${", n) + "1" + strings.Repeat("}`", n) + "}" },
			bounds.MaxBrackets - 1, "case.js:1:633: expected at most 200 brackets"},
		"sums": {func(n int) string { return head + "1" + strings.Repeat("+1", n) + "}" }, (bounds.MaxSigns - 8) / 2,
			"expected at most 4000 words and signs"},
		"arrows": {func(n int) string { return head + strings.Repeat("(a = ", n) + "1" + strings.Repeat(") => 1", n) + "}" },
			bounds.MaxArrows, "expected at most 4 parameter lists of arrow functions"},
		"BigInt": {func(n int) string { return head + strings.Repeat("1", n) + "n}" }, 0, "a script has no BigInt"},
	} {
		t.Run(name, func(t *testing.T) {
			stettest.Run(t, stet.Config{Library: open(t)}, func(t *testing.T, env *stettest.Env) {
				ctx, e := t.Context(), env.Engine
				if c.most > 0 {
					if _, err := script.Compile("case", c.source(c.most), nil); err != nil {
						t.Fatalf("within the bound: %v", err)
					}
				}
				deploy(ctx, t, e, "case", "return 1")
				_, err := script.Deploy(ctx, e, "case", stet.ScriptCode{Code: c.source(c.most + 1)}, stet.Act{})
				if !errors.Is(err, script.ErrSource) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("expected ErrSource with %s, found %v", c.want, err)
				}
				info, err := stet.ScriptsOf(e).Info(ctx, "case")
				if err != nil || info.Current != 1 || len(info.Versions) != 1 {
					t.Errorf("expected version 1 alone, found %+v, %v", info, err)
				}
			})
		})
	}
}
