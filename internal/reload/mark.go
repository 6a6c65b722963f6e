package reload

import (
	"encoding/json"
	"time"

	"github.com/stet-run/stet/store"
)

// tried is the field of a run's first wait that names the latest build that has executed
// the code and recorded nothing. Who shows waits knows no such field.
const tried = "tried"

// Mark adds to the waits of a suspended run that a build has executed its code and recorded
// nothing. Where there are no waits nothing is noted, and the run is loaded again by the
// next process.
func Mark(waits []byte, build string) []byte {
	var list []map[string]json.RawMessage
	if json.Unmarshal(waits, &list) != nil || len(list) == 0 || list[0] == nil {
		return waits
	}
	name, err := json.Marshal(build)
	if err != nil {
		return waits
	}
	list[0][tried] = name
	marked, err := json.Marshal(list)
	if err != nil {
		return waits
	}
	return marked
}

// left reports whether the code of a run of an earlier build was not executed by this build
// or a later one since. The run has its waits.
func left(run *store.Run, build string) bool {
	var list []struct {
		Tried string `json:"tried"`
	}
	return json.Unmarshal(run.Waits, &list) != nil || len(list) == 0 || list[0].Tried < build
}

// LostWake reports whether a suspended run waits until a time and has no wake time: it would
// never go on by itself. The run has its waits.
func LostWake(run *store.Run) bool {
	var list []struct {
		Until *time.Time `json:"until"`
	}
	if run.WakeAt != 0 || json.Unmarshal(run.Waits, &list) != nil {
		return false
	}
	for i := range list {
		if list[i].Until != nil {
			return true
		}
	}
	return false
}
