package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// The pause doubles from look to look where the system gives notice of writes.
func TestPace(t *testing.T) {
	p := pace{noticed: true}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000} {
		if got := p.next(sight{idle: true}, false); got != want*time.Millisecond {
			t.Fatalf("expected a pause of %d ms, got %v", want, got)
		}
	}
	if got := p.next(sight{}, true); got != watchBusy {
		t.Errorf("expected a pause of %v after a notice, got %v", watchBusy, got)
	}
	if got := p.next(sight{own: true}, true); got != watchOwn {
		t.Errorf("expected a pause of %v after the notice of an own write, got %v", watchOwn, got)
	}
	for _, want := range []time.Duration{64, 1000, 1000} {
		if got := p.next(sight{idle: true}, false); got != want*time.Millisecond {
			t.Fatalf("expected a pause of %d ms some time after an own write, got %v", want, got)
		}
	}
	if got := p.next(sight{}, true); got != watchBusy {
		t.Errorf("expected a pause of %v after another notice, got %v", watchBusy, got)
	}
	for _, want := range []time.Duration{1, 2, 4} { // it is still writing
		if got := p.next(sight{blind: true}, want == 1); got != want*time.Millisecond {
			t.Fatalf("expected a pause of %d ms while nothing can be seen, got %v", want, got)
		}
	}
	for _, want := range []time.Duration{4, 64, 1000} {
		if got := p.next(sight{own: want == 4}, false); got != want*time.Millisecond {
			t.Fatalf("expected a pause of %d ms when its write is over, got %v", want, got)
		}
	}
	p = pace{}
	for idle, want := range map[bool]time.Duration{false: watchBusy, true: watchIdle} {
		if got := p.next(sight{idle: idle}, false); got != want {
			t.Errorf("expected a pause of %v without notices, got %v", want, got)
		}
	}
}

// A process that waits for changes of a quiet file reads it about once a second, and learns
// of a write by the system's notice.
func TestQuietFileIsSeldomRead(t *testing.T) {
	s := open(t, testPath(t))
	other := open(t, s.Path())
	looks := trace(t, s.write.c)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), watchNoticed/2)
	defer cancel()
	if _, err := s.Changed(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("expected nothing to change, got %v", err)
	}
	if s.watch.log == nil {
		if os.Getenv("STET_TEST_STRICT") == "1" && runtime.GOOS == "linux" {
			t.Fatal("expected notices of writes, found none: raise fs.inotify.max_user_instances")
		}
		t.Skip("the system gives no notice of writes to files of this folder")
	}
	if got, most := len(looks()), 12+int(time.Since(begun)/watchNoticed); got > most {
		t.Errorf("expected %d looks at most, got %d", most, got)
	}
	for i := range 2 * mayMiss {
		apply(t, other, start(fmt.Sprint(i)))
		if _, err := s.Changed(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Where writes of others were found without a notice, the file is read as often as a system
// without notices needs it.
func TestLostNotices(t *testing.T) {
	s := open(t, testPath(t))
	looks := trace(t, s.write.c)
	s.watch.missed.Store(mayMiss)
	ctx, cancel := context.WithTimeout(t.Context(), watchNoticed/2)
	defer cancel()
	if _, err := s.Changed(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("expected nothing to change, got %v", err)
	}
	if got := len(looks()); got < 20 {
		t.Errorf("expected a look each %v or %v, got %d in %v", watchBusy, watchIdle, got, watchNoticed/2)
	}
}
