// Package ui has the files of the dashboard as the server sends them: built from the sources
// in src, and committed in dist.
package ui

import (
	"embed"
	"io/fs"
)

//go:embed dist
var built embed.FS

// Files returns the files of the dashboard; index.html is the page.
func Files() fs.FS {
	files, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return files
}
