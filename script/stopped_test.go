package script

import (
	"errors"
	"strings"
	"testing"

	"github.com/dop251/goja"
)

// TestPlaceBetweenCallbacks: code under a watch notes where it waits for a promise. That is its
// place if it is stopped between two callbacks, where no call is under way.
func TestPlaceBetweenCallbacks(t *testing.T) {
	r := &interpreter{compiled: &compiled{name: "endless"}, vm: goja.New(), top: &scope{}, stopped: new(stopped)}
	r.vm.SetAsyncContextTracker((*tracker)(r))
	for name, f := range map[string]func(){
		"ask":  func() { r.stopped.ask() },
		"stop": func() { r.stopped.stop(r.vm, "late") },
	} {
		if err := r.vm.Set(name, f); err != nil {
			t.Fatal(err)
		}
	}
	stoppedAt := func(code string) *goja.InterruptedError {
		t.Helper()
		_, err := r.vm.RunScript("endless.js", code)
		var at *goja.InterruptedError
		if !errors.As(err, &at) {
			t.Fatalf("expected code that is stopped, found %v", err)
		}
		r.vm.ClearInterrupt()
		return at
	}
	at := stoppedAt("ask()\nPromise.resolve().then(() => {})\nstop(); for (;;) {}")
	if text := r.stopped.where(at); !strings.Contains(text, "late") || !strings.Contains(text, "endless.js:3:") {
		t.Errorf("stopped in a call: expected why, and its place endless.js:3, found %q", text)
	}

	// Of one that no call has seen, which chance seldom brings about.
	r.stopped = new(stopped)
	_ = stoppedAt("ask()\nconst p = () => Promise.resolve()\n.then(stop).then(p)\np()")
	if text := r.stopped.where(&goja.InterruptedError{}); !strings.Contains(text, "endless.js:3:") {
		t.Errorf("stopped between two callbacks: expected the place endless.js:3, found %q", text)
	}
	_ = stoppedAt("ask()\nPromise.resolve().then(stop).then(p)")
	if text := r.stopped.where(&goja.InterruptedError{}); !strings.Contains(text, "endless.js:2:") {
		t.Errorf("asked again: expected the last place endless.js:2, found %q", text)
	}
}

// TestWatchAsks: the watch of a stretch asks for its place from its first look on, and again.
func TestWatchAsks(t *testing.T) {
	asked := make(chan struct{})
	w := &watch{ask: func() { asked <- struct{}{} }, interrupt: func(string) {}}
	w.start(func() {})
	for range 3 {
		<-asked
	}
	go func() {
		for range asked {
		}
	}()
	if w.end() {
		t.Error("a watch that has looked may be used again")
	}
	close(asked)
}
