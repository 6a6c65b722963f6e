package judge

import (
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/sim/plan"
)

// scene counts a scene that was played to its point: what happens beside it may spoil it.
func (o *oracle) scene() {
	got, timedOut, ended := 0, 0, 0
	for _, id := range o.plan.Cast {
		d := o.dumps[id]
		if d == nil {
			return
		}
		if d.Status == "succeeded" {
			ended++
		}
		for _, line := range d.Lines {
			switch _, value, _ := strings.Cut(line, "="); {
			case strings.HasPrefix(value, "act "):
				got++
			case value == plan.TimedOut:
				timedOut++
			}
		}
	}
	reached := ended == len(o.plan.Cast)
	switch o.plan.Scene {
	case "":
		return
	case plan.LettersAtOnce:
		reached = reached && got > 1 && timedOut == 0
	case plan.EndedParent:
		d := o.dumps[o.plan.Cast[0]]
		reached = d.Status == "cancelled" && len(d.Lines) == 0
	case plan.EventForOne, plan.LetterAgain:
		reached = reached && got == 1
	case plan.WaitInVain:
		reached = reached && got == 1 && timedOut == 1
	case plan.CodeToCode:
		// The second one, which sends, has succeeded.
		if reached && timedOut > 0 && !slices.ContainsFunc(o.plan.Cast, func(id string) bool {
			return o.changed[id] || o.dropped[id]
		}) {
			o.violated("16: code has sent a message or a value to another run, which has waited for it in vain during %s",
				plan.VeryLong)
		}
	case plan.ClaimsLost:
		reached = reached && o.reached["adoption after a lost answer"] > 0
	case plan.CommitsLost:
		reached = reached && o.reached["request lost"] > 0
	}
	if reached {
		o.count("scene of " + o.plan.Scene)
	}
}
