package stet

import "github.com/stet-run/stet/store"

// CommitsOf gives a hint after this process has committed something of the run with the number,
// until stop is called, which may be more than once: for programs that show how a run stands, as
// package server does. A hint is kept until it is taken from the channel, which is never closed,
// and stands for everything before. What other processes commit gives none: look at the store from
// time to time as well. Safe for concurrent use.
func CommitsOf(e *Engine, run store.RunNo) (hints <-chan struct{}, stop func()) {
	return e.inner.Waiters().Commits(run)
}
