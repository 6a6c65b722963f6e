package verbs

// Texts of refusals that depend on more than the row of the run.
const (
	// BeingCancelled refuses a pause: the run is about to end.
	BeingCancelled = "the run is being cancelled"
	// NotItsParent refuses the cancel of a run as a child of a run that has not started it.
	NotItsParent = "another run has started it"
	// AlreadyCancelling refuses a second cancel.
	AlreadyCancelling = "the run is already being cancelled"
	// AlreadyPausing refuses a pause while the bodies of another one are waited for.
	AlreadyPausing = "the run is already being paused"
	// Terminated refuses a pause or a cancel that a terminate has overtaken.
	Terminated = "the run was terminated"
	// Withdrawn refuses a pause that a resume has withdrawn before it took effect.
	Withdrawn = "the pause was withdrawn by a resume"
	// Undoing refuses a cancel of a run whose compensations are executed.
	Undoing = "undoing has begun, which fixes the outcome; terminate ends the run at once and lists what is owed"
)

// A verdict is stored as one of these letters, after "no" with the reason.
const (
	yes = 'y'
	no  = 'n'
)

// Yes returns the stored form of the verdict that accepts a verb.
func Yes() []byte { return []byte{yes} }

// No returns the stored form of the verdict that refuses a verb.
func No(reason string) []byte { return append([]byte{no}, reason...) }

// DecodeVerdict returns whether a verb was accepted, and if not why.
func DecodeVerdict(verdict []byte) (accepted bool, reason string) {
	if len(verdict) == 0 {
		return false, ""
	}
	if verdict[0] == yes {
		return true, ""
	}
	return false, string(verdict[1:])
}
