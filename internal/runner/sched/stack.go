package sched

import (
	"reflect"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// stack recognises a goroutine's stack by addresses: those between two that were
// found to be on it are on it too, as long as it has not been moved. It is what
// is cheap enough to ask at every operation. A stack that has moved is looked at
// again; the memory that it has left may make a foreign one pass for it, so a
// stack that is refused is foreign, and one that is accepted nearly always own.
type stack struct {
	low, high atomic.Uintptr
}

// grow makes the goroutine's stack grow once, while it is nearly empty, to what
// decoding a value needs; later it would be copied frame by frame. Most calls
// stand in the part that it touches.
//
//go:noinline
func (s *stack) grow() {
	var room [3 << 10]byte
	touch(&room)
	low := uintptr(unsafe.Pointer(&room))
	s.low.Store(low)
	s.high.Store(low + uintptr(len(room)))
}

//go:noinline
func touch(room *[3 << 10]byte) { room[0] = 1 }

// near is how far from what is known an address may be to extend it.
const near = 16 << 10

// own reports whether the caller runs on the goroutine of a branch.
func (s *stack) own() bool {
	var here byte
	at := uintptr(unsafe.Pointer(&here))
	low, high := s.low.Load(), s.high.Load()
	if low <= at && at <= high {
		return true
	}
	if !onBranch() {
		return false
	}
	if at+near < low || at > high+near {
		low, high = at, at
	}
	s.low.Store(min(low, at))
	s.high.Store(max(high, at))
	return true
}

var (
	branchMain = reflect.ValueOf((*Branch).main).Pointer()
	coroutine  = "runtime.corostart" // the outermost function of an iter.Pull, which runs in step with its caller
)

// onBranch reports whether the goroutine is that of a branch, by the functions
// that it has begun with.
func onBranch() bool {
	var few [64]uintptr
	pcs := few[:]
	n := runtime.Callers(0, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*len(pcs))
		n = runtime.Callers(0, pcs)
	}
	for _, pc := range pcs[max(n-4, 0):n] {
		if f := runtime.FuncForPC(pc - 1); f != nil && (f.Entry() == branchMain || f.Name() == coroutine) {
			return true
		}
	}
	return false
}
