package sim

import "slices"

// rare are the situations that a soak must reach: what was never there was never tried. Each is a
// count of Result.Reached.
var rare = []string{
	// Faults at the store, and what they lead to.
	"answer lost: Acquire", "answer lost: Apply", "answer lost: Claim", "answer lost: Commit", "answer lost: Load",
	"answer lost: Register", "answer lost: Release", "answer lost: Renew",
	"batch of turns written apart",
	"batch repeated", "hint lost", "item repeated", "message cut", "node died", "request lost", "turn fenced",
	"fault away", "fault cut", "fault deploy", "fault drift", "fault freeze", "fault hints", "fault jump", "fault kill",
	"fault linger", "fault lose", "fault mute", "fault slow", "fault stop", "fault storelag", "fault unheard",
	"fault refuse", "request refused", "connection flaps", "node joined later", "node left for good",
	"adoption after a lost answer",
	"fault twin", "replaced by a later process", "node with a clock that drifts",
	// Ownership.
	"body executed again", "body killed its node", "run stalled: poison", "run taken over from a body on a queue",
	"stopped and gave back", "takeover", "takeover in the middle of an undo",
	// Runs.
	"begin of a run that was delayed", "branch won", "cancelled at rest, owing",
	"child cancelled at the end of its parent",
	"effect undone at the end of a run", "later version", "loop pruned", "message selected",
	"body failed for good", "ready run claimed in a healed world", "run woken in a healed world",
	"result of a detached child", "fork succeeded", "granted cancel", "granted terminate",
	"run cancelled", "run deleted", "run failed", "run swept", "turn still ready", "turn still ready at the end", "undone",
	"undone with a permit",
	"wait ended by its time",
	// Tasks.
	"task accepted", "task leased again", "task failed", "task not wanted", "task answered late", "task answered twice",
	// Operators.
	"act cancel done", "act delete done", "act edit done", "act fork done", "act nudge done", "act pause done",
	"act replay letter done", "act discard letter done", "dead letter removed", "dead letter sent again",
	"act retry done", "act rewind done", "act set queue done", "act terminate done", "act trigger done",
	"history changed by an operator", "history changed after a loop was pruned", "item returned", "result edited",
	// What is sent.
	"event kept by its topic",
	"act publish done", "act send done", "act update done", "dead letter", "message consumed without an entry of its own",
	"promise assigned by another run", "received from code: event", "received from code: receive",
	"received from code: update", "received in the order of code", "request of code answered",
	// Queues and schedules.
	"instants a later instant took its place", "instants a run of the schedule had not ended",
	"instants it came too late for the catch-up window", "instants the schedule was paused", "queue is full",
	"queue of runs is full", "rate is used up", "run of a schedule", "schedule was paused",
	"instant of a zone whose clocks are changed", "started again after its deletion",
	// Scenes that were played to their point.
	"scene of claims lost", "scene of code to code", "scene of commits lost", "scene of ended parent",
	"scene of event for one", "scene of fast clock", "scene of full rate",
	"scene of letter again", "scene of paused race", "scene of quiet sleeps",
	"scene of letters at once", "scene of wait in vain",
}

// rareOnDisk are those that a soak of worlds with SQLite must reach.
var rareOnDisk = []string{
	"answer lost: Commit", "batch repeated", "disk was full", "fault full disk", "node died", "power cut",
	"power cut in a commit", "power cut that has lost writes", "run succeeded", "takeover",
}

// Unreached returns the situations that a soak must reach and that were not. reached are counts of
// Result.Reached, added.
func Unreached(reached map[string]int) []string { return missing(rare, reached) }

// UnreachedOnDisk is Unreached for worlds with SQLite.
func UnreachedOnDisk(reached map[string]int) []string { return missing(rareOnDisk, reached) }

func missing(of []string, reached map[string]int) []string {
	return slices.DeleteFunc(slices.Clone(of), func(s string) bool { return reached[s] > 0 })
}

// Soaks is how many worlds reach every one of them, if all is well: the rarest was in seven of so many. SoaksOnDisk is
// that of worlds with SQLite.
const (
	Soaks       = 20_000
	SoaksOnDisk = 100
)
