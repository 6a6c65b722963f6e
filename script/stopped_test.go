package script

import (
	"errors"
	"strings"
	"testing"

	"github.com/dop251/goja"
)

// TestPlaceBetweenCallbacks: code that is to be stopped notes where it waits for a promise. That is
// its place if it is stopped between two callbacks, where no call is under way.
func TestPlaceBetweenCallbacks(t *testing.T) {
	r := &run{compiled: &compiled{name: "endless"}, vm: goja.New(), top: &scope{}, stopped: new(stopped)}
	r.vm.SetAsyncContextTracker((*tracker)(r))
	if err := r.vm.Set("stop", func() { r.stopped.stop(r.vm, "late", nil) }); err != nil {
		t.Fatal(err)
	}
	_, err := r.vm.RunScript("endless.js", "stop()\nconst p = () => Promise.resolve().then(p); p()")
	var at *goja.InterruptedError
	if !errors.As(err, &at) {
		t.Fatalf("expected code that is stopped, found %v", err)
	}
	if text := r.stopped.where(at); !strings.Contains(text, "late") || !strings.Contains(text, "endless.js:1:") {
		t.Errorf("stopped in a call: expected why, and the place endless.js:1, found %q", text)
	}

	r.vm.ClearInterrupt()
	r.stopped = new(stopped)
	err = r.vm.Set("stop", func() {
		r.stopped.late.Store(true)
		go r.stopped.stop(r.vm, "late", nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.vm.RunScript("endless.js", "stop()\nconst q = () => Promise.resolve().then(q); q()")
	if !errors.As(err, &at) {
		t.Fatalf("expected code that is stopped, found %v", err)
	}
	between := &goja.InterruptedError{} // one that no call has seen: chance seldom brings it about
	if text := r.stopped.where(between); !strings.Contains(text, "endless.js:2:") {
		t.Errorf("stopped between two callbacks: expected the place endless.js:2, found %q", text)
	}
}
