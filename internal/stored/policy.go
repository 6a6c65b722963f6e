package stored

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// PolicyHeader is the reserved header of a run that holds its own Policy. It is given to
// nobody, and no child, message or event inherits it.
const PolicyHeader = "stet-policy"

// Policy is what the start of a run says in place of its workflow's definition. In every
// field 0 is what the definition says.
type Policy struct {
	MaxRun       time.Duration `json:"max_run_ns,omitempty"`       // negative: without limit
	MaxSuspended time.Duration `json:"max_suspended_ns,omitempty"` // negative: without limit
	OnFailure    uint8         `json:"on_failure,omitempty"`       // 1: the run ends; 2: it stalls
	OnBug        uint8         `json:"on_bug,omitempty"`           // 1: the run stalls; 2: it fails
	// How long the run is kept after its end. KeepAtOnce: as short as can be; other
	// negative ones: for ever.
	KeepSucceeded time.Duration `json:"keep_succeeded_ns,omitempty"`
	KeepFailed    time.Duration `json:"keep_failed_ns,omitempty"`
	KeepCancelled time.Duration `json:"keep_cancelled_ns,omitempty"`
	// Above are the IDs of the run's ancestors that are on a queue, the nearest first, one a line. What the run and
	// its steps ask of a queue has them, so that the queue knows when ancestors hold what their descendants wait for.
	Above string `json:"above,omitempty"`
}

// maxAbove and maxAboveBytes bound Policy.Above: it shares the bytes of a run's headers with those of its caller.
const (
	maxAbove      = 8
	maxAboveBytes = 512
)

// Ancestors returns the IDs in Above.
func (p Policy) Ancestors() []string {
	if p.Above == "" {
		return nil
	}
	return strings.Split(p.Above, "\n")
}

// AboveChild returns what Above is of a child of a run with these headers, which has the ID of parent; "": the parent
// is on no queue.
func AboveChild(headers []byte, parent string) string {
	_, p := SplitPolicy(headers)
	above := p.Ancestors()
	if parent != "" {
		above = slices.Insert(above, 0, parent)
	}
	text := ""
	for i := 0; i < min(len(above), maxAbove) && len(text)+1+len(above[i]) <= maxAboveBytes; i++ {
		text += "\n" + above[i]
	}
	return strings.TrimPrefix(text, "\n")
}

// KeepAtOnce is the shortest retention.
const KeepAtOnce time.Duration = -2

// Keep returns what a run with the stored headers says, if it ends with the status, of how
// long it is kept: as store.Update.Keep.
func Keep(headers []byte, end store.Status) store.Delay {
	if !end.Terminal() {
		return 0
	}
	_, p := SplitPolicy(headers)
	keep := map[store.Status]time.Duration{
		store.Succeeded: p.KeepSucceeded, store.Failed: p.KeepFailed, store.Cancelled: p.KeepCancelled,
	}[end]
	switch {
	case keep == KeepAtOnce:
		return 1
	case keep < 0:
		return store.KeepForever
	case keep > 0:
		return min(max(store.Delay(keep.Microseconds()), 1), store.MaxDelay)
	}
	return 0
}

// Put returns the stored headers with the policy, which is not zero.
func (p Policy) Put(headers []byte) ([]byte, error) {
	all := map[string]string{}
	if len(headers) > 0 {
		if err := json.Unmarshal(headers, &all); err != nil {
			return nil, err
		}
	}
	own, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	all[PolicyHeader] = string(own)
	return json.Marshal(all)
}

// policyKey is in all headers that have a policy.
var policyKey = []byte(`"` + PolicyHeader + `"`)

// SplitPolicy returns the headers of a run without its policy, and that. What cannot be
// read is no policy.
func SplitPolicy(headers []byte) (rest []byte, p Policy) {
	if !bytes.Contains(headers, policyKey) {
		return headers, p
	}
	return splitPolicy(headers)
}

func splitPolicy(headers []byte) (rest []byte, p Policy) {
	var all map[string]string
	if json.Unmarshal(headers, &all) != nil {
		return headers, p
	}
	if own, ok := all[PolicyHeader]; !ok || json.Unmarshal([]byte(own), &p) != nil {
		return headers, Policy{}
	}
	if delete(all, PolicyHeader); len(all) == 0 {
		return nil, p
	}
	rest, _ = json.Marshal(all) // strings always can be
	return rest, p
}

// Headers returns the headers of a run without its policy.
func Headers(headers []byte) []byte {
	rest, _ := SplitPolicy(headers)
	return rest
}

// Over puts the policy over what a definition says.
func (p Policy) Over(maxRun, maxSuspended *time.Duration, stallFailed, failBugs *bool) {
	if p.MaxRun != 0 {
		*maxRun = max(p.MaxRun, 0)
	}
	if p.MaxSuspended != 0 {
		*maxSuspended = max(p.MaxSuspended, 0)
	}
	if p.OnFailure != 0 {
		*stallFailed = p.OnFailure == 2
	}
	if p.OnBug != 0 {
		*failBugs = p.OnBug == 2
	}
}
