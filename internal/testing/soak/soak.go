// Package soak tells tests how many cases to try, by the environment variable STET_SOAK:
//
//	unset   a third of the usual cases: make test, which a person waits for
//	1       the usual cases: make check
//	10      ten times as many, and tests that take too long otherwise: make soak
package soak

import (
	"os"
	"strconv"
	"testing"
)

const variable = "STET_SOAK"

// quick is the part of the usual cases that is tried where the variable is not set.
const quick = 3

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

// Cases returns how many cases to try where n are usual: at least one.
func Cases(t testing.TB, n int) int {
	t.Helper()
	if os.Getenv(variable) == "" {
		return max(1, n/quick)
	}
	return n * Times(t)
}
