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
	for _, c := range []struct {
		of      string
		seen    sight
		noticed bool
		want    time.Duration
		listens bool
	}{
		{"a notice of an own write", sight{own: true}, true, watchOwn, false},
		{"another one meanwhile", sight{own: true}, false, watchOwn, false},
		{"it is still writing", sight{blind: true}, false, watchOwn, false},
		{"it has not written since", sight{}, false, 4 * watchOwn, true},
		{"a notice that was late", sight{}, true, watchOwn, true},
		{"another one", sight{}, true, watchOwn, true},
		{"some time later", sight{}, false, 4 * watchOwn, true},
		{"later", sight{}, false, 16 * watchOwn, true},
		{"and later", sight{idle: true}, false, 64 * watchOwn, true},
		{"at last", sight{idle: true}, false, watchNoticed, true},
		{"a notice of a write that is not there yet", sight{}, true, watchBusy, false},
		{"it is not there yet", sight{}, false, 2 * watchBusy, true},
		{"a notice while it writes", sight{blind: true}, true, watchBusy, false},
		{"it still writes", sight{blind: true}, false, 2 * watchBusy, true},
		{"its own", sight{own: true}, false, watchOwn, false},
		{"some time later", sight{}, false, 4 * watchOwn, true},
		{"a write of another", sight{changed: true}, true, watchOwn, true},
		{"a write of another, later", sight{changed: true}, false, 4 * watchOwn, true},
		{"a notice of another", sight{changed: true}, true, watchBusy, false},
	} {
		if got := p.next(c.seen, c.noticed); got != c.want || p.listens() != c.listens {
			t.Fatalf("%s: expected a pause of %v and that it listens %t, got %v and %t", c.of, c.want, c.listens, got,
				p.listens())
		}
	}
	p = pace{}
	for idle, want := range map[bool]time.Duration{false: watchBusy, true: watchIdle} {
		if got := p.next(sight{idle: idle}, false); got != want {
			t.Errorf("expected a pause of %v without notices, got %v", want, got)
		}
	}
	p = pace{virtual: true}
	for _, c := range []struct {
		seen sight
		want time.Duration
	}{
		{sight{}, 1}, {sight{idle: true}, 2}, {sight{idle: true}, 4}, {sight{own: true}, 1}, {sight{}, 2}, {sight{changed: true}, 1},
		{sight{}, 2}, {sight{blind: true}, 1},
	} {
		if got := p.next(c.seen, false); got != c.want*time.Millisecond {
			t.Fatalf("%+v: expected a pause of %d ms in virtual time, got %v", c.seen, c.want, got)
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
