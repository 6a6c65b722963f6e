package script

import "time"

// Processor is the processor time of the process, for benchmarks.
var Processor = processor

// ShortLimits has code stopped after 50 ms, as long as a test executes many runaways.
func ShortLimits(t interface{ Cleanup(func()) }) {
	before := maxCode
	maxCode = 50 * time.Millisecond
	t.Cleanup(func() { maxCode = before })
}
