package committer

import "github.com/stet-run/stet/store"

// logDropped logs the messages of a turn that no run has taken. The code that has sent
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
			if it == nil || it.Kind != store.ItemMessage {
				continue
			}
			why := ""
			switch answer.Outcome {
			case store.NotFound:
				why = "there is no such run"
			case store.Ended:
				why = "the run has ended"
			default:
				continue
			}
			c.cfg.Log.Warn("a message is dropped", "message", it.Name, "from_number", turn.Run, "to", sends[i].RunID,
				"reason", why)
		}
	}
}
