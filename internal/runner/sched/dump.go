package sched

import (
	"bytes"
	"runtime/pprof"
	"strings"
)

// cutStack is the number of frames from which on a profile may lack the outermost ones, and with them the
// place where a goroutine has begun.
const cutStack = 128

// Stacks returns the stacks of the goroutines of this process that execute code of
// branches and are not parked: each once, after the number of goroutines that have it.
// It does not stop the process while it looks at them.
func Stacks() string {
	var all bytes.Buffer
	// It fails if writing does.
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
	var stacks []string
	for g := range strings.SplitSeq(all.String(), "\n\n") {
		addresses, _, _ := strings.Cut(g, "\n#")
		begun := strings.Contains(g, "sched.(*Branch).main+") || strings.Count(addresses, " 0x") >= cutStack
		if begun && !strings.Contains(g, "sched.(*Branch).park+") {
			stacks = append(stacks, g)
		}
	}
	return strings.Join(stacks, "\n\n")
}
