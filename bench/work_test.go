package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestOnceFindsWhatIsMissingAndWhatIsDouble(t *testing.T) {
	tally := newTally(3)
	tally.note(0)
	if err := tally.once(1); err != nil {
		t.Error(err)
	}
	if err := tally.once(2); err == nil {
		t.Error("expected an error of a body that was not executed")
	}
	tally.note(2)
	if err := tally.once(1); err == nil {
		t.Error("expected an error of a body that nobody has asked for")
	}
	tally.note(0)
	if err := tally.once(1); err == nil || tally.again() != 1 {
		t.Errorf("expected an error of a body that was executed twice, found %v, %d", err, tally.again())
	}
}

func TestTextsAreNotCompressible(t *testing.T) {
	text := newText()
	a, b := text(1000), text(1000)
	if len(a) != 1000 || a == b || strings.Count(a, a[:8]) > 1 {
		t.Errorf("found %q and %q", a[:20], b[:20])
	}
}

func TestStepsOfAKilledProcessAreCounted(t *testing.T) {
	executed := make([]int, 2)
	for line, want := range map[string]int{"step 1": 1, "step 2": -1, "step x": -1, "end": -1} {
		if got := noteStep(executed, line); got != want {
			t.Errorf("%q: expected %d, found %d", line, want, got)
		}
	}
	if executed[1] != 1 || executed[0] != 0 {
		t.Errorf("found %v", executed)
	}
}

func TestInParallelEndsWithTheFirstError(t *testing.T) {
	want := errors.New("full")
	err := inParallel(t.Context(), 100, 3, func(_ context.Context, i int) error {
		if i == 5 {
			return want
		}
		return nil
	})
	if !errors.Is(err, want) {
		t.Errorf("found %v", err)
	}
}

func TestUntilEndsAtItsLimit(t *testing.T) {
	if met, err := until(t.Context(), 0, func() (bool, error) { return false, nil }); met || err != nil {
		t.Errorf("found %t, %v", met, err)
	}
	if met, err := until(t.Context(), time.Hour, func() (bool, error) { return true, nil }); !met || err != nil {
		t.Errorf("found %t, %v", met, err)
	}
}

func TestWithDatabase(t *testing.T) {
	for dsn, want := range map[string]string{
		"host=/tmp user=x dbname=postgres":            "host=/tmp user=x dbname=postgres dbname=b",
		"postgres://u:p@h:5432/postgres?sslmode=none": "postgres://u:p@h:5432/b?sslmode=none",
	} {
		if got, err := withDatabase(dsn, "b"); err != nil || got != want {
			t.Errorf("expected %s, found %s, %v", want, got, err)
		}
	}
}

func TestCommandLineIsChecked(t *testing.T) {
	for _, args := range []string{"--store redis", "--workloads queue,nothing", "--turns 0", "queue", "--conns 2"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s: expected an error", args)
		}
	}
	o, err := parse(strings.Fields("--store sqlite --workloads queue --subjects dbos --jobs 5"))
	if err != nil || o.sizes.Jobs != 5 {
		t.Fatalf("found %+v, %v", o, err)
	}
	var names []string
	for _, e := range entries {
		if e.takesPart("queue", o.store, o.subjects) {
			names = append(names, e.Name)
		}
	}
	if got := strings.Join(names, "; "); got != "stet; DBOS; DBOS, tuned" {
		t.Errorf("found %s", got)
	}
}
