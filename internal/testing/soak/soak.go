// Package soak tells tests how much more than usual they are to do: the environment
// variable STET_SOAK, a number from 1, which make soak sets. What takes too long for
// every run of the tests runs only if it is set.
package soak

import (
	"os"
	"strconv"
	"testing"
)

const variable = "STET_SOAK"

// On reports whether the variable is set.
func On() bool { return os.Getenv(variable) != "" }

// Times returns by how much to multiply what is tried: 1 if the variable is not set. The
// test fails if it is no number from 1.
func Times(t testing.TB) int {
	t.Helper()
	if !On() {
		return 1
	}
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil || n < 1 {
		t.Fatalf("%s: expected a number from 1, found %q", variable, os.Getenv(variable))
	}
	return n
}
