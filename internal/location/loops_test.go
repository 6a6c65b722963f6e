package location

import (
	"fmt"
	"testing"
)

func TestLoopsOfALocation(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"fetch":                           "",
		"poll/~3":                         "poll ~3;",
		"poll/~3/fetch":                   "poll ~3;",
		"a/[k]#2/poll#2/~300/in/~0/[x]/y": "a/[k]#2/poll#2 ~300;a/[k]#2/poll#2/~300/in ~0;",
	} {
		loc, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for loop, n := range loc.Loops() {
			got += fmt.Sprintf("%s ~%d;", loop, n)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
		for loop := range loc.Loops() {
			if !loop.Contains(loc) {
				t.Errorf("%s is not in its loop %s", loc, loop)
			}
			break // one is enough
		}
	}
	for range Loc("\xff").Loops() {
		t.Error("a malformed location is in a loop")
	}
}

// TestIterationsAreARange that has neither the keys nor the names beside them.
func TestIterationsAreARange(t *testing.T) {
	loop := Loc("").Name("poll", 1)
	from, to := loop.Iterations()
	for loc, want := range map[Loc]bool{
		loop: false, loop.Iteration(0): true, loop.Iteration(1 << 40): true, loop.Iteration(7).Name("fetch", 3): true,
		loop.Key("k", 1): false, loop.Name("n", 1): false, Loc("").Name("poll", 2): false,
		Loc("").Name("poll", 2).Iteration(1): false,
	} {
		if got := string(loc) >= from && string(loc) < to; got != want {
			t.Errorf("%s in the iterations of poll: %t, want %t", loc, got, want)
		}
	}
}
