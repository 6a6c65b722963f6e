package stored

import (
	"strings"

	"github.com/stet-run/stet/store"
)

// stalledPrefix begins the reason of a run that has stalled instead of failing.
const stalledPrefix = "failure: "

// StalledReason returns the reason of a run that stalls with this failure instead of
// failing.
func StalledReason(output []byte) string {
	f, err := DecodeFailure(output)
	if err != nil {
		return stalledPrefix
	}
	return stalledPrefix + f.Message
}

// RunFailed returns the failure with which a run has ended, or has stalled instead of
// failing. It is nil for other runs. The error wraps store.ErrDamaged.
func RunFailed(run *store.Run) (*Failure, error) {
	if run.Status == store.Failed || run.Status == store.Stalled && strings.HasPrefix(run.Reason, stalledPrefix) {
		return DecodeFailure(run.Output)
	}
	return nil, nil
}
