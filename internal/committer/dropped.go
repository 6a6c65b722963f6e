package committer

import (
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// dropped are the lines of the log about what code sends.
var dropped = map[store.ItemKind]string{
	store.ItemMessage: "a message is dropped", store.ItemUpdate: "an update is dropped",
	store.ItemResolution: "a resolution is dropped",
}

// logDropped logs the messages, updates and resolutions of a turn that no run has taken. The code that has sent
// them cannot know it: the answer comes after its turn.
func (c *Committer) logDropped(turn *store.Turn, result *store.TurnResult) {
	n := 0
	for _, sends := range turn.Sent(result.Verdict) {
		for i := range sends {
			if n == len(result.Sends) {
				return
			}
			answer, it := &result.Sends[n], sends[i].Item
			n++
			if it == nil || dropped[it.Kind] == "" {
				continue
			}
			why, name := "", it.Name
			if it.Kind == store.ItemResolution {
				name = location.Loc(it.Loc).String()
			}
			switch answer.Outcome {
			case store.NotFound:
				why = "there is no such run"
			case store.Ended:
				why = "the run has ended"
			case store.Duplicate: // by another act: a repeat of this one is applied
				why = "another one was there before"
			default:
				continue
			}
			c.cfg.Log.Warn(dropped[it.Kind], it.Kind.String(), name, "from_number", turn.Run, "to", sends[i].RunID,
				"reason", why)
		}
	}
}
