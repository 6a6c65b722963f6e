//go:build !unix

package servers

import (
	"fmt"
	"os/exec"
)

// lockFile fails: shared servers are for systems with locks of files.
func lockFile(string) (release func(), err error) {
	return nil, fmt.Errorf("%w: shared servers need a Unix system", ErrMissing)
}

func detach(*exec.Cmd) {}
