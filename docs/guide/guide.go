// Package guide holds the pages of the guide, so that a program can show them.
package guide

import "embed"

// Pages are the pages, as repair.md and so on.
//
//go:embed *.md
var Pages embed.FS
