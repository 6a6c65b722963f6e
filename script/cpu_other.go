//go:build !unix

package script

import "time"

// processor is the clock: how long the process has had a processor is not known here.
func processor() time.Duration { return time.Duration(time.Now().UnixNano()) }
