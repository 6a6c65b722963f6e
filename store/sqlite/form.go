package sqlite

import (
	"regexp"
	"strings"
	"sync"
)

// form returns SQLite's form of a statement that both SQL stores execute: tables are
// written stet.name there, parameters $1, and what Postgres needs to be told of a type
// ::type.
func form(text string) string {
	if known, ok := forms.Load(text); ok {
		return known.(string)
	}
	out := dialect.Replace(types.ReplaceAllString(text, ""))
	forms.Store(text, out)
	return out
}

var (
	forms   sync.Map // of texts; there are as many as package sqlstore has statements
	dialect = strings.NewReplacer("stet.", "stet_", "$", "?", "greatest(", "max(")
	types   = regexp.MustCompile(`::[a-z]+(\[\])?`)
)
