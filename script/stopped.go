package script

import (
	"bytes"
	"sync/atomic"

	"github.com/dop251/goja"
)

// stopped is a stretch that a watch may stop. The interpreter stops between two instructions.
// Between two callbacks of promises there is none: it then has no call to name as the place. So
// a stretch that waits for a promise notes where it does, as often as the watch asks.
type stopped struct {
	asked atomic.Bool
	cut   atomic.Bool // the interpreter is interrupted
	place string      // written and read by the goroutine of the stretch
}

// ask has the stretch note where it waits for a promise next.
func (s *stopped) ask() { s.asked.Store(true) }

// stop interrupts the stretch.
func (s *stopped) stop(vm *goja.Runtime, why string) {
	vm.Interrupt(why)
	s.cut.Store(true)
}

// note is called where code of the stretch waits for a promise.
func (s *stopped) note(vm *goja.Runtime) {
	if s == nil || !s.asked.Load() {
		return
	}
	s.asked.Store(false)
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
