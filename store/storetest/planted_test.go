package storetest

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/soak"
)

// TestPlantedBugs: the suite notices every one of these defects of a store, by a
// case or by random operations, and none in a store without a defect. Under STET_SOAK
// random operations are tried too where a case notices; with -short every fifth defect.
func TestPlantedBugs(t *testing.T) {
	byCases, byRandom := 0, 0
	for i, d := range slices.Concat(defects, feedDefects) {
		if testing.Short() && i%5 != 0 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			name, seed := failingCase(t, d), 0
			if name == "" || soak.On() {
				seed = failingSeed(t, d)
			}
			switch {
			case name == "" && seed == 0:
				t.Error("nothing notices it")
			case seed == 0:
				t.Logf("noticed by %s", name)
			default:
				t.Logf("noticed by %q and by seed %d", name, seed)
			}
			byCases += min(len(name), 1)
			byRandom += min(seed, 1)
		})
	}
	t.Logf("of %d defects, cases notice %d and random operations %d", len(defects)+len(feedDefects), byCases, byRandom)
	t.Run("none", func(t *testing.T) {
		if name := failingCase(t, &defect{}); name != "" {
			t.Errorf("%s fails without a defect", name)
		}
	})
}

// failingCase returns the first case that fails with the defect, or "".
func failingCase(t *testing.T, d *defect) string {
	for _, g := range groups() {
		for _, c := range g.cases {
			clock := newClock()
			if failsAlone(t, func(tb testing.TB) { runCase(c, newKit(tb, d.open(clock.Now), clock, 3*time.Second)) }) {
				return g.name + "/" + c.name
			}
		}
	}
	return ""
}

// failingSeed returns the first of five seeds whose operations fail with the
// defect, or 0.
func failingSeed(t *testing.T, d *defect) int {
	for seed := 1; seed <= 5; seed++ {
		fails := failsAlone(t, func(tb testing.TB) {
			if _, _, err := explore(tb, d.open, uint64(seed)); err != nil {
				tb.Error(err)
			}
		})
		if fails {
			return seed
		}
	}
	return 0
}

// failsAlone reports whether fn fails the test that it is given, which is not t.
func failsAlone(t *testing.T, fn func(testing.TB)) bool {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(r)
	}()
	<-done
	return r.Failed()
}

// recorder is a test whose failure fails no other test.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Error(...any)          { r.Fail() }
func (r *recorder) Errorf(string, ...any) { r.Fail() }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
