package sqlite

import (
	"regexp"
	"strings"
	"sync"

	"github.com/stet-run/stet/store/internal/words"
)

// form returns SQLite's form of a statement of package sqlstore.
func form(text string) string {
	if known, ok := forms.Load(text); ok {
		return known.(string)
	}
	out := words.SQL(dialect.Replace(types.ReplaceAllString(text, "")))
	forms.Store(text, out)
	return out
}

var (
	forms   sync.Map // of texts, as many as package sqlstore has
	types   = regexp.MustCompile(`::[a-z]+(\[\])?`)
	dialect = strings.NewReplacer("stet.", "stet_", "$", "?", "greatest(", "max(", "/*sqlite", "", "*/", "")
)
