//go:build !unix

package servers

import (
	"errors"
	"os/exec"
)

func unprivileged(*exec.Cmd) {}

func own(string) error { return nil }

// pause makes a process stand still, or go on.
func pause(int, bool) error {
	return errors.New("expected a system that can make a process stand still")
}
