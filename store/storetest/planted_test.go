package storetest

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/testing/soak"
)

// TestPlantedBugs: the suite notices every one of these defects of a store, by a
// case or by random operations, and none in a store without a defect. Under STET_SOAK
// random operations are tried too where a case notices; with -short every fifth defect.
func TestPlantedBugs(t *testing.T) {
	cases, byCases, byRandom := measured(t), 0, 0
	for i, d := range slices.Concat(defects, feedDefects) {
		if testing.Short() && i%5 != 0 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			named := cases
			if d.found != "" {
				named = slices.DeleteFunc(slices.Clone(cases), func(c measuredCase) bool { return c.of+"/"+c.name != d.found })
			}
			name, seed := failingCase(t, named, d), 0
			if d.found != "" && name == "" {
				t.Errorf("%s does not notice it", d.found)
			}
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
}

// TestEachCaseEnds: with each defect, each case ends, whether it notices it or not. TestPlantedBugs tries the fast ones
// first, so which pairs it meets differs from run to run.
func TestEachCaseEnds(t *testing.T) {
	if !soak.Usual(t) {
		t.Skip("STET_SOAK=1 tries each case with each defect")
	}
	cases := measured(t)
	for _, d := range slices.Concat(defects, feedDefects) {
		for _, c := range cases {
			c.fails(t, d)
		}
	}
}

// measuredCase is a case and how long it takes.
type measuredCase struct {
	testCase
	of    string // its group
	takes time.Duration
}

// fails reports whether the case fails with the defect.
func (c *measuredCase) fails(t *testing.T, d *defect) bool {
	clock := newClock()
	return failsAlone(t, func(tb testing.TB) { runCase(c.testCase, newKit(tb, d.open(clock.Now), clock, 3*time.Second)) })
}

// measured returns all cases, the fast ones first: a fast one notices most defects. None may fail without a defect.
func measured(t *testing.T) (cases []measuredCase) {
	for _, g := range groups() {
		for _, c := range g.cases {
			m, begun := measuredCase{testCase: c, of: g.name}, time.Now()
			if m.fails(t, &defect{}) {
				t.Errorf("%s/%s fails without a defect", g.name, c.name)
			}
			m.takes = time.Since(begun)
			cases = append(cases, m)
		}
	}
	slices.SortFunc(cases, func(a, b measuredCase) int { return cmp.Compare(a.takes, b.takes) })
	return cases
}

// failingCase returns the first case that fails with the defect, or "".
func failingCase(t *testing.T, cases []measuredCase, d *defect) string {
	for _, c := range cases {
		if c.fails(t, d) {
			return c.of + "/" + c.name
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

// failsAlone reports whether fn fails the test that it is given, which is not t. The limit of a case passes there as
// soon as all that it does waits, and never because the machine is busy.
func failsAlone(t *testing.T, fn func(testing.TB)) (failed bool) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			fn(r)
		}()
		<-done
		failed = r.Failed()
	})
	return failed
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
