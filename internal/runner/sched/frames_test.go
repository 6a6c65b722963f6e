package sched

import (
	"runtime"
	"testing"
)

// deep calls fn so many frames further down.
//
//go:noinline
func deep(frames int, fn func()) int {
	if frames == 0 {
		fn()
		return 0
	}
	return deep(frames-1, fn) + 1
}

// TestCalledFrom: a function that a panic has called is seen as such, however deep it and the
// panic are, on a stack that has grown, after a recovery, and beside another goroutine that
// panics; and no other one is.
func TestCalledFrom(t *testing.T) {
	exact := runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" // others say that it may be
	expect := func(t *testing.T, want bool) {
		t.Helper()
		if got := calledFrom(inPanic); got != want && (want || exact) {
			t.Errorf("expected %t, found %t", want, got)
		}
		if got := panickedAt() != ""; got != want {
			t.Errorf("the whole stack: expected %t, found %t", want, got)
		}
	}
	for _, frames := range []int{0, 1, 10, 1000, 20_000} {
		for _, below := range []int{0, 1, 10, 1000} {
			panicked := make(chan struct{})
			go func() {
				defer close(panicked)
				defer func() {
					_ = recover()
					expect(t, true) // what has recovered has not returned
				}()
				defer expect(t, true)
				defer func() { deep(below, func() { expect(t, true) }) }()
				deep(frames, func() { panic("of the test") })
			}()
			<-panicked
			expect(t, false)
			func() {
				defer func() { deep(below, func() { expect(t, false) }) }()
				func() {
					defer func() { _ = recover() }()
					deep(frames, func() { var none *int; *none = 1 })
				}()
				deep(below, func() { expect(t, false) })
			}()
		}
	}
	func() {
		defer func() { _ = recover() }()
		defer func() {
			func() {
				defer func() { _ = recover() }()
				panic("in a deferred function")
			}()
			expect(t, true)
		}()
		panic("of the test")
	}()
	expect(t, false)
}

func BenchmarkCalledFrom(b *testing.B) {
	deep(16, func() {
		for b.Loop() {
			if calledFrom(inPanic) {
				b.Fatal("nothing panics")
			}
		}
	})
}
