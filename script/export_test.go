package script

import (
	"runtime/debug"
	"slices"
	"time"
)

// Processor is the processor time of the process, for benchmarks.
var Processor = processor

// ShortLimits has code stopped after 50 ms, as long as a test executes many runaways.
func ShortLimits(t interface{ Cleanup(func()) }) {
	before := maxCode
	maxCode = 50 * time.Millisecond
	t.Cleanup(func() { maxCode = before })
}

// LimitsUnderRace has code stopped after ten seconds where the race detector makes it take ten times as long.
func LimitsUnderRace(t interface{ Cleanup(func()) }) {
	info, _ := debug.ReadBuildInfo()
	if info == nil || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return
	}
	before := maxCode
	maxCode = 10 * time.Second
	t.Cleanup(func() { maxCode = before })
}
