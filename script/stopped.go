package script

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"
)

// untilStopped is how long a stretch that is to be stopped may take to come by a callback.
const untilStopped = 20 * time.Millisecond

// stopped is a stretch that a watch stops. The interpreter stops between two instructions.
// Between two callbacks of promises there is none: it then has no call to name as the place. So
// a stretch that waits for promises notes where it does, once it is to be stopped.
type stopped struct {
	late  atomic.Bool
	cut   atomic.Bool // the interpreter is interrupted
	place string      // written and read by the goroutine of the stretch
}

// stop interrupts a stretch when it has had the time to note its place, unless it ends before.
func (s *stopped) stop(vm *goja.Runtime, why string, ended <-chan struct{}) {
	s.late.Store(true)
	select {
	case <-ended:
	case <-time.After(untilStopped):
		vm.Interrupt(why)
		s.cut.Store(true)
	}
}

// note is called where code of the stretch waits for a promise.
func (s *stopped) note(vm *goja.Runtime) {
	if s == nil || !s.late.Load() || s.place != "" {
		return
	}
	var place bytes.Buffer
	for _, frame := range vm.CaptureCallStack(0, nil) {
		place.WriteString("\tat ")
		frame.Write(&place)
		place.WriteByte('\n')
	}
	s.place = place.String()
}

// where returns why a stretch was stopped, and where it was, or has last waited.
func (s *stopped) where(at *goja.InterruptedError) string {
	if len(at.Stack()) > 0 {
		return at.String()
	}
	return at.String() + s.place
}
