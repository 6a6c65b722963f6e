package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

func TestExitCodeSaysWhatTheErrorIs(t *testing.T) {
	notFound := fmt.Errorf("run x: %w", stet.ErrNotFound)
	ended := fmt.Errorf("run y: %w", stet.ErrTerminal)
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitDone},
		{errors.New("disk full"), exitFailed},
		{store.ErrDamaged, exitFailed},
		{context.Canceled, exitFailed},
		{usage(errors.New("no such flag")), exitUsage},
		{fmt.Errorf("ls: %w", store.ErrBadCursor), exitUsage},
		{fmt.Errorf("start: %w", stet.ErrTooLarge), exitUsage},
		{notFound, exitNotFound},
		{hintedError{notFound, "look again"}, exitNotFound},
		{stet.ErrUnknownWorkflow, exitNotFound},
		{ended, exitConflict},
		{stet.ErrAlreadyResolved, exitConflict},
		{conflictError{errors.New("exists")}, exitConflict},
		{notCarriedOutError{fmt.Errorf("pause a schedule: %w", context.DeadlineExceeded)}, exitNotCarriedOut},
		{unsuccessfulError{fmt.Errorf("of a child: %w", stet.ErrNotFound)}, exitUnsuccessful},
		{joinRuns([]error{notFound, notFound}), exitNotFound},
		{joinRuns([]error{notFound, ended}), exitFailed},
		{errors.Join(joinRuns([]error{ended}), nil), exitConflict},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exit code of %v: got %d, want %d", c.err, got, c.want)
		}
	}
}

// TestEscapedJSON has the same value, and nothing in it controls a terminal.
func TestEscapedJSON(t *testing.T) {
	for _, value := range []string{"plain", "日本\u3000語 é \u00a0", "\x1b[31m", "\x7f", "\u0080\u009b31m\u009f",
		"\u202e\u2066 bidi \u200f", "\u2028\u2029\ufeff", "\U000e0041 tag \U0001f600", "a\x9bb"} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		raw := append(append([]byte{'"'}, value...), '"')
		for _, text := range [][]byte{text, raw} {
			got := escaped(text)
			for _, r := range string(got) {
				if r != '\x1b' && r != ' ' && !unicode.IsGraphic(r) {
					t.Errorf("%q became %q", text, got)
				}
			}
			var a, b any
			if json.Unmarshal(text, &a) == nil && (json.Unmarshal(got, &b) != nil || a != b) {
				t.Errorf("%q became %q, another value", text, got)
			}
		}
	}
}

func TestGridAlignsByWidthOnTheScreen(t *testing.T) {
	g := &grid{}
	g.add("日本", "failed", "a b")
	g.add("order-1", "queued", "")
	want := "日本     failed  a b\norder-1  queued\n"
	if got := g.String(); got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	g.style = func(row, column int) lipgloss.Style {
		if column == 1 {
			return statusStyle(store.Failed)
		}
		return lipgloss.NewStyle()
	}
	if got := g.String(); !strings.Contains(got, "\x1b[31mfailed\x1b[m  a b") {
		t.Errorf("no red status in %q", got)
	}
	if got := (&grid{}).String(); got != "" {
		t.Errorf("an empty table is %q", got)
	}
}

func TestTextsAreSafeForATerminal(t *testing.T) {
	if got, want := short("a\n\x1b[2Jb   c\u202e", 100), "a �[2Jb c�"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := short("0123456789", 5), "0123…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := printable("a\tb\nc\rd"), "a\tb\nc�d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDurationHasAboutThreeDigits(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"}, {0, "0s"}, {1234567, "1.23ms"}, {123456789, "123ms"}, {1234567890, "1.23s"}, {61400 * time.Millisecond, "1m1s"},
		{3*time.Hour + 59*time.Minute + 40*time.Second, "4h0m"}, {25*time.Hour + 31*time.Minute, "1d2h"}, {365 * 24 * time.Hour, "365d0h"},
	} {
		if got := duration(c.d); got != c.want {
			t.Errorf("duration(%s): got %s, want %s", c.d, got, c.want)
		}
	}
}

func TestProgressShowsOnATerminalOnly(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, 30, "cancel", 4)
	for range 4 {
		p.step()
	}
	p.end()
	shown := strings.Split(out.String(), clearLine)
	if want := "cancel [========        ] 2/4"; len(shown) != 7 || shown[3] != want {
		t.Errorf("got %q, want the fourth to be %q", shown, want)
	}
	if last := shown[len(shown)-1]; last != "" {
		t.Errorf("the bar is still there: %q", last)
	}
	out.Reset()
	none := newProgress(&out, 0, "cancel", 4)
	none.step()
	none.end()
	if out.Len() > 0 {
		t.Errorf("without a terminal: got %q", out.String())
	}
}

func TestScreenDrawsInPlaceWhatFits(t *testing.T) {
	t.Setenv("CLICOLOR_FORCE", "1") // keep the sequences although this is no terminal
	var out strings.Builder
	s := screen{w: &out, size: size{width: 6, height: 4}}
	for _, text := range []string{"one\n", "one\n", "a line too long\n2\n3\n4\n5\n"} {
		if err := s.draw(text); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "one\n\x1b[1A\x1b[Ja line\n2\n… and \n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFailureIsPrintedWithAllItsCauses(t *testing.T) {
	v := &api.Failure{
		Message: "step pay failed after 3 attempts: boom", Code: "step", Attempts: 3,
		Causes: []*api.Failure{
			{Message: "busy", Causes: []*api.Failure{{Message: "line"}}},
			{Message: "save: tx: closed", Causes: []*api.Failure{
				{Message: "tx: closed", Causes: []*api.Failure{{Message: "closed"}, {Message: "gone", Causes: []*api.Failure{
					{Message: "closed", Stack: "main.go:4"}, // says where
				}}}},
			}},
			{Message: "panic: boom", Stack: "goroutine 1\n\tmain.go:3\n"},
		},
	}
	want := `step pay failed after 3 attempts: boom
attempt 1:
  busy
  caused by:
    line
attempt 2:
  save: tx: closed
  caused by:
    gone
    caused by:
      closed
      main.go:4
attempt 3:
  panic: boom
  goroutine 1
  	main.go:3
`
	if got := v.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestValuesOfOtherFormatsAreNamed(t *testing.T) {
	for _, c := range []struct{ stored, want string }{
		{"\x01{\"a\":1}", `{"a":1}`},
		{"\x01{broken", `"8 bytes of another format"`},
		{"\x28\x00\x01", `"3 bytes of another format"`},
		{"", `"0 bytes of another format"`},
	} {
		if got := string(api.Value([]byte(c.stored))); got != c.want {
			t.Errorf("value %q: got %s, want %s", c.stored, got, c.want)
		}
	}
	if got := api.Value(nil); got != nil {
		t.Errorf("no value: got %s", got)
	}
}
