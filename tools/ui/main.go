// Command ui builds the dashboard: it bundles server/ui/src, and the libraries in
// server/ui/vendor, into server/ui/dist. From the repository's root:
//
//	GOWORK=off go -C tools run ./ui
//
// It is a build by a Go library, so neither building nor verifying needs Node. What it
// writes is committed: a test of this package builds again, in memory, and compares.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root, err := folder()
	if err == nil {
		err = write(root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ui:", err)
		os.Exit(1)
	}
}

// write builds the dashboard into its folder dist, which afterwards has nothing else.
func write(root string) error {
	files, err := build(root)
	if err != nil {
		return err
	}
	dist := filepath.Join(root, "dist")
	old, err := os.ReadDir(dist)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, f := range old {
		if _, ok := files[f.Name()]; !ok {
			if err := os.Remove(filepath.Join(dist, f.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dist, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
