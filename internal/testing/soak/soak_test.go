package soak_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/soak"
)

func TestCasesFollowTheVariable(t *testing.T) {
	for _, c := range []struct {
		value     string
		cases, of int
		on        bool
	}{
		{"", 100, 300, false}, {"", 1, 2, false}, {"1", 300, 300, false}, {"10", 3000, 300, true},
	} {
		t.Setenv("STET_SOAK", c.value)
		if got := soak.Cases(t, c.of); got != c.cases || soak.On() != c.on {
			t.Errorf("STET_SOAK=%q: expected %d of %d cases and %t, found %d and %t",
				c.value, c.cases, c.of, c.on, got, soak.On())
		}
	}
}

// A week of make test tries each numbered case that make check tries.
func TestAWeekTriesEachNumber(t *testing.T) {
	for _, n := range []int{1, 2, 3, 40, 300, 1000} {
		t.Setenv("STET_SOAK", "")
		tried := map[int]bool{}
		for day := range soak.Week {
			t.Setenv("STET_TEST_DAY", strconv.Itoa(20_000+day))
			first, end := soak.Range(t, n)
			if size := end - first; size < 1 || size > n/3+1 {
				t.Errorf("day %d: expected a third of %d cases, found %d to %d", day, n, first, end)
			}
			for i := first; i < end; i++ {
				tried[i] = true
			}
		}
		t.Setenv("STET_SOAK", "1")
		if first, end := soak.Range(t, n); first != 0 || end != n || len(tried) != n || !tried[0] || !tried[n-1] {
			t.Errorf("of %d cases a week tries %d, and make check those from %d to %d", n, len(tried), first, end)
		}
	}
}

// A test that takes more parts than a week has days would leave some out.
func TestMorePartsThanDaysAreRefused(t *testing.T) {
	for _, parts := range []int{0, soak.Week + 1} {
		f := &fatal{TB: t}
		func() {
			defer func() { _ = recover() }() // the end of a test that has failed
			soak.Part(f, 0, parts)
		}()
		if !strings.Contains(f.said, "expected 1 to 7 parts") {
			t.Errorf("%d parts: it says %q", parts, f.said)
		}
	}
}

// fatal keeps what ends a test.
type fatal struct {
	testing.TB
	said string
}

func (f *fatal) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f.said)
}

func TestPartChangesByTheDay(t *testing.T) {
	for _, c := range []struct {
		day        string
		shift, of  int
		wantedPart int
	}{{"0", 0, 4, 0}, {"7", 0, 4, 3}, {"7", 1, 4, 0}, {"8", 1, 4, 1}} {
		t.Setenv("STET_TEST_DAY", c.day)
		if got := soak.Part(t, c.shift, c.of); got != c.wantedPart {
			t.Errorf("day %s, shift %d: expected part %d of %d, found %d", c.day, c.shift, c.wantedPart, c.of, got)
		}
	}
}
