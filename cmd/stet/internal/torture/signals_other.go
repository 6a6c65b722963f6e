//go:build !unix

package torture

import (
	"errors"
	"os"
	"time"
)

// canPause: here processes cannot be stopped for a while.
const canPause = false

func suspend(*os.Process) error { return errors.ErrUnsupported }
func resume(*os.Process) error  { return errors.ErrUnsupported }
func dump(*os.Process) error    { return errors.ErrUnsupported }

// machineTime returns the machine's clock, in microseconds since the epoch.
func machineTime() int64 { return time.Now().UnixMicro() }
