package stored

import "github.com/stet-run/stet/store"

// stalledPrefix begins the reason of a run that has stalled instead of failing.
const stalledPrefix = string(CauseFailure) + ": "

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
// failing, or the fault of its code for which it has stalled. It is nil for other runs. The
// error wraps store.ErrDamaged.
func RunFailed(run *store.Run) (*Failure, error) {
	cause := CauseOf(run)
	switch {
	case run.Status == store.Failed, cause == CauseFailure:
	case cause.IsBug() && run.Marks&store.Undoing == 0: // otherwise the output is what the run ends with
	default:
		return nil, nil
	}
	return DecodeFailure(run.Output)
}
