package journal

import (
	"fmt"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
)

// Undecodable is a stored value that does not fit the type which the code has for it.
type Undecodable struct {
	What     string // is stored: "result of pack"
	Recorded string // its form, shortened
	Wanted   string // the type
	Reason   string // of the codec
	Lacks    error  // what this process lacks to read it, so that nobody can say whether it fits; nil: nothing
}

// Error says all of it.
func (u *Undecodable) Error() string { return u.What + ": decode " + u.Wanted + ": " + u.Reason }

// Stall returns the stall of a run whose code has no use for the value.
func (u *Undecodable) Stall(loc location.Loc) *Stall {
	s := &Stall{
		Cause: stored.CauseDecode, Location: loc.String(), Recorded: u.Recorded,
		Asked:  fmt.Sprintf("%s is no %s: %s", u.What, u.Wanted, u.Reason),
		Remedy: "restore the type, or edit what is recorded, and resume the run",
	}
	if loc == "" {
		s.Location = ""
		s.Remedy = "restore the type, or start another run, and resume or terminate this one"
	}
	return s
}
