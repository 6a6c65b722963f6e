// Package soak tells tests how much to try. The environment decides, not the test:
//
//	STET_SOAK unset   a third of the usual random cases: make test, which a person waits for
//	STET_SOAK=1       the usual cases: make check
//	STET_SOAK=10      ten times as many, and tests that take too long otherwise: make soak
//
//	STET_TEST_FAULTS unset   without the tests that call Faults: make test
//	STET_TEST_FAULTS=1       with them: make faults, make check
//
//	STET_TEST_DAY=N   the day that Part goes by, instead of today's
package soak

import (
	"os"
	"strconv"
	"testing"
	"time"
)

const (
	variable = "STET_SOAK"
	faults   = "STET_TEST_FAULTS"
	day      = "STET_TEST_DAY"
)

// quick is the part of the usual cases that is tried where the variable is not set.
const quick = 3

// Week is how many days in a row of make test try everything that make check tries.
const Week = 7

// Faults leaves the test to make faults, which runs every test that begins with this call: a test that kills, moves,
// cuts or promotes real servers or processes, or that needs a browser for more than a first look. It is the first
// statement of the test. docs/proof.md lists each such test with the test of make test that proves the same in the
// simulation or within one process; a test of package budget compares the two.
func Faults(t testing.TB) {
	t.Helper()
	if !WithFaults() {
		t.Skip("make faults runs it, or STET_TEST_FAULTS=1")
	}
}

// WithFaults reports whether the tests that call Faults run.
func WithFaults() bool { return os.Getenv(faults) != "" }

// Part returns which of so many parts a test takes today, counted from 0, where it cannot try all of them: another part
// each day, so that as many days try everything. Tests that differ in shift take different parts on the same day. More
// than Week parts fail the test: a week would leave some out.
func Part(t testing.TB, shift, parts int) int {
	t.Helper()
	if parts < 1 || parts > Week {
		t.Fatalf("expected 1 to %d parts, which a week of days tries, found %d", Week, parts)
	}
	part := (today(t) + shift) % parts
	t.Logf("part %d of %d: %s=%d tries it again", part, parts, day, today(t))
	return part
}

// today counts the days since 1970 by UTC.
func today(t testing.TB) int {
	t.Helper()
	text := os.Getenv(day)
	if text == "" {
		return int(time.Now().Unix() / (24 * 60 * 60))
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s: expected a number of days since 1970, found %q", day, text)
	}
	return n
}

// Usual reports whether at least the usual number of cases is tried, so that a test may
// expect that even a rare case was among them.
func Usual(t testing.TB) bool {
	t.Helper()
	return os.Getenv(variable) != "" && !testing.Short()
}

// On reports whether more than the usual cases are tried: tests that take too long
// otherwise run only then.
func On() bool {
	n, err := strconv.Atoi(os.Getenv(variable))
	return err == nil && n > 1
}

// Times returns the factor for tests that cannot try a part of their cases: 1 if the
// variable is not set. The test fails if the variable is no number from 1.
func Times(t testing.TB) int {
	t.Helper()
	if os.Getenv(variable) == "" {
		return 1
	}
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil || n < 1 {
		t.Fatalf("%s: expected a number from 1, found %q", variable, os.Getenv(variable))
	}
	return n
}

// Range returns which cases to try where n are usual and a number decides each, as a seed does: those from first up to
// and without end, counted from 0. Where the variable is not set it is a third of them, and another third each day: the
// same numbers every day would never try the others. Each third has at least one case.
func Range(t testing.TB, n int) (first, end int) {
	t.Helper()
	if os.Getenv(variable) != "" {
		return 0, n * Times(t)
	}
	part := Part(t, 0, quick)
	first = n * part / quick
	return first, max(n*(part+1)/quick, first+1)
}

// Cases returns how many cases to try where n are usual: at least one. They are new ones each time, or differ in size
// alone; Range is for cases with a number.
func Cases(t testing.TB, n int) int {
	t.Helper()
	if os.Getenv(variable) == "" {
		return max(1, n/quick)
	}
	return n * Times(t)
}
