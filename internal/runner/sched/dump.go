package sched

import (
	"bytes"
	"runtime"
)

// Stacks returns the stacks of the goroutines of this process that execute code of
// branches and are not parked.
func Stacks() string {
	buf := make([]byte, 256<<10)
	buf = buf[:runtime.Stack(buf, true)]
	var stacks [][]byte
	for g := range bytes.SplitSeq(buf, []byte("\n\n")) {
		head, _, _ := bytes.Cut(g, []byte("\n"))
		if bytes.Contains(g, []byte("sched.(*Branch).main")) && !bytes.Contains(head, []byte("chan receive")) {
			stacks = append(stacks, g)
		}
	}
	return string(bytes.Join(stacks, []byte("\n\n")))
}
