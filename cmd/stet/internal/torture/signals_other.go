//go:build !unix

package torture

import (
	"errors"
	"os"
)

// canPause: here processes cannot be stopped for a while.
const canPause = false

func suspend(*os.Process) error { return errors.ErrUnsupported }
func resume(*os.Process) error  { return errors.ErrUnsupported }
func dump(*os.Process) error    { return errors.ErrUnsupported }
