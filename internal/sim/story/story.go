// Package story tells what happens in a simulated world in words.
package story

import (
	"cmp"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
)

// Story tells what happens in a world in words: faults, acts, bodies, takeovers, and the promise that is
// broken. A trace has a thousand lines for each of these.
type Story struct {
	Now  func() time.Duration
	Line func(string) // nil: nobody listens
}

// Tell tells something.
func (s *Story) Tell(format string, args ...any) {
	if s.Line != nil {
		s.Line(fmt.Sprintf("%10.3f s  ", s.Now().Seconds()) + fmt.Sprintf(format, args...))
	}
}

// Fault tells of a fault when it begins.
func (s *Story) Fault(f plan.Fault, of *plan.Plan) {
	if s.Line == nil {
		return
	}
	who := "the client"
	if f.Node >= 0 && f.Node < len(of.Nodes) {
		who = of.Nodes[f.Node].Name
	}
	requests := "requests"
	if f.Method != "" {
		requests = "requests to " + f.Method
	}
	share := fmt.Sprintf("%g %% of its %s", 100*f.Share, requests)
	what := map[string]string{
		plan.Kill:     fmt.Sprintf("%s dies in one of its next calls, and begins again %s later", who, f.Lasts),
		plan.Stop:     fmt.Sprintf("%s is asked to stop, and begins again %s later", who, f.Lasts),
		plan.Deploy:   fmt.Sprintf("%s is asked to stop, and begins again %s later, with the next build", who, f.Lasts),
		plan.Freeze:   fmt.Sprintf("%s executes nothing for %s", who, f.Lasts),
		plan.Twin:     fmt.Sprintf("another process of %s begins; the former one executes nothing for %s", who, f.Lasts),
		plan.Cut:      fmt.Sprintf("%s is cut off from the store for %s", who, f.Lasts),
		plan.Mute:     fmt.Sprintf("%s gets no answer for %s", who, f.Lasts),
		plan.Lose:     fmt.Sprintf("%s loses %s for %s, before they are carried out", who, share, f.Lasts),
		plan.Unheard:  fmt.Sprintf("%s loses the answers to %s for %s", who, share, f.Lasts),
		plan.Refuse:   fmt.Sprintf("the store refuses %s of %s for %s", share, who, f.Lasts),
		plan.Slow:     fmt.Sprintf("%s sends and gets slowly for %s", who, f.Lasts),
		plan.Hints:    fmt.Sprintf("%s gets no hints for %s", who, f.Lasts),
		plan.Jump:     fmt.Sprintf("the clock of the day of %s is set by %s", who, f.Lasts),
		plan.Drift:    fmt.Sprintf("the clocks of %s go %g times as fast for %s", who, f.Share, f.Lasts),
		plan.Linger:   fmt.Sprintf("the store does not see for %s that connections of %s have ended", f.Lasts, who),
		plan.Away:     fmt.Sprintf("the store answers nobody for %s", f.Lasts),
		plan.StoreLag: fmt.Sprintf("the store executes nothing for %s", f.Lasts),
		plan.PowerCut: fmt.Sprintf("the power of the store is cut for %s", f.Lasts),
		plan.Full:     fmt.Sprintf("the disk of the store is full for %s", f.Lasts),
		plan.Lies:     "the disk of the store keeps nothing of what is synced",
	}[f.Kind]
	if f.Period > 0 {
		what += fmt.Sprintf(", half of each %s", f.Period)
	}
	s.Tell("FAULT  %s", what)
}

// Note tells what a machine says.
func (s *Story) Note(n plan.Note) {
	if s.Line == nil {
		return
	}
	act := n.Op
	if n.Act > 0 {
		act = fmt.Sprintf("act %d, %s", n.Act, n.Op)
	} else if n.Op == plan.Restart {
		act = "start"
	}
	if of := cmp.Or(n.Run, n.Value); of != "" {
		act += " of " + of
	}
	switch n.Kind {
	case plan.Called:
		s.Tell("%s is requested", act)
	case plan.Done:
		s.Tell("%s is done %s", act, n.Value)
	case plan.Refused:
		s.Tell("%s is refused: %s", act, n.Err)
	case plan.Unknown:
		s.Tell("%s is given up without an answer: %s", act, n.Err)
	case plan.Executes:
		s.Tell("%s: its code begins on %s", n.Run, n.Node)
	case plan.BodyBegins:
		s.Tell("%s: attempt %d of %s begins on %s, as %s", n.Run, n.Attempt, n.Op, n.Node, n.Exec)
	case plan.BodyEnds:
		end := "succeeds"
		if n.Err != "" {
			end = "fails: " + n.Err
		}
		s.Tell("%s: attempt %d of %s on %s %s", n.Run, n.Attempt, n.Op, n.Node, end)
	case plan.UndoBegins:
		s.Tell("%s: %s is being undone on %s", n.Run, n.Op, n.Node)
	case plan.UndoEnds:
		s.Tell("%s: %s is undone on %s", n.Run, n.Op, n.Node)
	case plan.Leased:
		s.Tell("%s: a worker of %s has got attempt %d of %s, as %s", n.Run, n.Node, n.Attempt, n.Op, n.Exec)
	case plan.Accepted:
		s.Tell("%s: the answer of %s counts %s", n.Run, n.Exec, n.Err)
	case plan.Stalled:
		s.Tell("%s is stalled, %s: %s", n.Run, n.Value, n.Err)
	case plan.Found:
		s.Tell("%s is %s at the end %s", n.Run, n.Dump.Status, n.Dump.Error)
	case plan.Settled:
		s.Tell("nothing lives any more")
	case plan.Stuck:
		s.Tell("these do not end: %s", n.Value)
	}
}
