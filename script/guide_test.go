package script

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/script/internal/bounds"
)

// TestTableOfLimits: the guide's table has each limit with the value that the code has.
func TestTableOfLimits(t *testing.T) {
	page, err := os.ReadFile("../docs/guide/scripts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Limits\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]string{} // limits by what they bound
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, " | "); len(cells) == 3 && cells[1] != "at most" {
			rows[strings.TrimPrefix(cells[0], "| ")] = cells[1]
		}
	}
	limits := map[string]any{
		"a script, bundled":                                            fmt.Sprint(MaxSource, " bytes"),
		"a file for the bundler":                                       fmt.Sprint(bounds.MaxFile, " bytes"),
		"all files for the bundler":                                    fmt.Sprint(bounds.MaxFiles, " bytes"),
		"brackets that are open at one place":                          bounds.MaxBrackets,
		"words and signs of a statement, with those around it":         bounds.MaxSigns,
		"parameter lists of arrow functions within each other":         bounds.MaxArrows,
		"opening brackets, also in texts and comments":                 bounds.MaxOpening,
		"time to compile":                                              maxCompile,
		"time of the processor between two waits":                      time.Second,
		"growth of the heap between two waits":                         fmt.Sprint(maxGrowth, " bytes"),
		"nested calls":                                                 maxFrames,
		"operations under way":                                         maxPending,
		"characters of a string":                                       maxText,
		"elements of an array, or of a value":                          maxArray,
		"levels of a value, of JSON, and of joined arrays":             maxDepth,
		"characters that a search in a text compares":                  maxSearch,
		"elements that are sorted without a function":                  maxSorted,
		"characters for `normalize`, `localeCompare` and `parseFloat`": maxBrief,
		"characters of a text that are iterated, as by `[...text]`":    maxArray,
		"heap of what an isolated script keeps over a wait":            fmt.Sprint(maxKept, " bytes"),
		"inputs and result of an isolated script between two waits":    fmt.Sprint(maxCalls, " bytes"),
		"stack of an isolated script":                                  fmt.Sprint(maxStack, " bytes"),
	}
	if maxCode != time.Second {
		t.Errorf("the time between two waits: expected %s, found %s", time.Second, maxCode)
	}
	for what, limit := range limits {
		if rows[what] != fmt.Sprint(limit) {
			t.Errorf("%s: expected %v in the table of the guide, found %q", what, limit, rows[what])
		}
		delete(rows, what)
	}
	if len(rows) > 0 {
		t.Errorf("the table of the guide has rows that this test does not know: %v", rows)
	}
	for _, constant := range []string{
		fmt.Sprintf("maxText = %d << 20,", maxText>>20), fmt.Sprintf("maxArray = %d,", maxArray),
		fmt.Sprintf("maxDepth = %d,", maxDepth), "maxSearch = 1e9;", "maxBrief = 1 << 20,",
		fmt.Sprintf("maxSorted = %d;", maxSorted),
	} {
		if !strings.Contains(preludeSource, constant) {
			t.Errorf("prelude.js: expected %s", constant)
		}
	}
}
