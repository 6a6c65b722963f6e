package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// atOnce is a policy without pauses, for so many attempts.
func atOnce(attempts int) stet.Retry {
	return stet.Retry{Attempts: attempts, First: time.Microsecond, Factor: 1, Max: time.Microsecond}
}

// failing returns the body of a step that succeeds at its nth attempt.
func failing(n int, value string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if a := stet.Attempt(ctx); a < n {
			return "", fmt.Errorf("reason %d of %s", a, value[:1])
		}
		return value, nil
	}
}

// wantFailures checks the failed attempts of an entry, numbered from first to last.
func wantFailures(t testing.TB, e *stet.HistoryEntry, name string, first, last int) {
	t.Helper()
	if len(e.Failures) != last-first+1 {
		t.Errorf("%s, %s: %d failed attempts, want %d to %d: %+v", e.Location, e.State, len(e.Failures), first, last,
			e.Failures)
		return
	}
	for i, f := range e.Failures {
		want := fmt.Sprintf("reason %d of %s", first+i, name)
		if f.Message != want || f.Code != "error" || f.Number != first+i {
			t.Errorf("%s: attempt %d: %+v, want %q", e.Location, first+i, f, want)
		}
		if f.Began.Before(e.Started) || f.Ended.Before(f.Began) || i > 0 && f.Began.Before(e.Failures[i-1].Ended) ||
			!e.Ended.IsZero() && e.Ended.Before(f.Ended) {
			t.Errorf("%s: attempt %d lasted from %s to %s, the step from %s to %s", e.Location, f.Number, f.Began, f.Ended,
				e.Started, e.Ended)
		}
	}
}

// TestFailedAttemptsStay: a step that has succeeded at last says why its former attempts
// failed, and when they began and ended: after a replay in another process, a rewind to
// behind it, in a fork, and in a file that is replayed; also a compensation, and a step whose
// value is large, or none. They are encrypted as values are. The code and those who read the
// value get it without them; and what had no failed attempt is stored as it was.
func TestFailedAttemptsStay(t *testing.T) {
	t.Parallel()
	for name, payloads := range map[string]stet.Payloads{
		"plain": {}, "encrypted": {Keys: []stet.PayloadKey{payloadKey("k")}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "app.db")
			open := func() store.Store {
				s, err := sqlite.Open(t.Context(), file)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			large := "l" + strings.Repeat("arge", 5000)
			var undone string
			w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
				var got []string
				for _, s := range []struct {
					name  string
					n     int
					value string
				}{{"once", 1, "once"}, {"thrice", 3, "thrice"}, {"many", 12, "many"}, {"large", 2, large}} {
					v, err := stet.Step(ctx, s.name, failing(s.n, s.value), atOnce(20))
					if err != nil {
						return "", err
					}
					got = append(got, v)
				}
				if err := stet.Do(ctx, "nothing", func(ctx context.Context) error {
					_, err := failing(2, "nothing")(ctx)
					return err
				}, atOnce(20)); err != nil {
					return "", err
				}
				heavy, err := stet.Step(ctx, "undone", failing(2, "u"+large), atOnce(20),
					stet.Undo(func(ctx context.Context, v string) error {
						undone = v
						_, err := failing(2, "compensation")(ctx)
						return err
					}, atOnce(20)))
				if err != nil {
					return "", err
				}
				v, err := word.Receive(ctx)
				if err != nil {
					return "", err
				}
				return strings.Join(got, ",") + heavy + v, errors.New("undo it")
			})
			cfg := stet.Config{Workflows: []stet.Definition{w}, Payloads: payloads}
			want := func(e *stet.Engine, id string, open bool) {
				t.Helper()
				found := map[string]*stet.HistoryEntry{}
				entries, err := e.Runs().History(testContext(t), id, stet.HistoryQuery{Values: true})
				if err != nil {
					t.Fatal(err)
				}
				for i := range entries {
					found[entries[i].Location] = &entries[i]
				}
				wantFailures(t, found["once"], "o", 1, 0)
				wantFailures(t, found["thrice"], "t", 1, 2)
				wantFailures(t, found["many"], "m", 4, 11)
				wantFailures(t, found["large"], "l", 1, 1)
				wantFailures(t, found["nothing"], "n", 1, 1)
				wantFailures(t, found["undone"], "u", 1, 1)
				if !open {
					wantFailures(t, found["undone/undo"], "c", 1, 1)
				}
				for at, value := range map[string]string{"once": "once", "thrice": "thrice", "many": "many", "large": large} {
					var got string
					if err := found[at].Decode(&got); err != nil || got != value {
						t.Errorf("%s is %.20q, %v", at, got, err)
					}
				}
			}
			first := startProcess(t, open(), cfg)
			r, err := w.Start(testContext(t), first.Engine, 0, stet.ID("r"))
			if err != nil {
				t.Fatal(err)
			}
			waitStatus(t, first.Engine, r.ID(), store.Suspended)
			want(first.Engine, "r", true)
			first.handle.die()
			first.bury(t)

			s := open()
			second := startProcess(t, s, cfg)
			if _, err := second.Runs().Pause(testContext(t), "r", stet.Act{}); err != nil {
				t.Fatal(err)
			}
			fork, err := second.Runs().Fork(testContext(t), "r", "undone", stet.Act{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := second.Runs().Rewind(testContext(t), "r", "undone", stet.Act{}); err != nil {
				t.Fatal(err)
			}
			if _, err := second.Runs().Resume(testContext(t), "r", stet.Act{}); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{fork, "r"} {
				if err := word.Send(testContext(t), second.Engine, id, "go"); err != nil {
					t.Fatal(err)
				}
				_, err := w.Handle(second.Engine, id).Wait(testContext(t))
				if err == nil || !strings.Contains(err.Error(), "undo it") {
					t.Errorf("%s: %v", id, err)
				}
				want(second.Engine, id, false)
				if undone != "u"+large {
					t.Errorf("%s: the compensation got %.20q", id, undone)
				}
				var exported bytes.Buffer
				if err := second.Runs().Export(testContext(t), id, &exported); err != nil {
					t.Fatal(err)
				}
				if err := second.Replay(testContext(t), &exported); err != nil {
					t.Errorf("replay of %s: %v", id, err)
				}
			}
			info, err := second.Runs().Info(testContext(t), "r")
			if err != nil {
				t.Fatal(err)
			}
			raw, err := s.History(testContext(t), store.HistoryQuery{
				Run: info.Number, Incarnation: info.Incarnation, Values: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range raw {
				e := &raw[i]
				if name == "encrypted" && bytes.Contains(e.Value, []byte("reason")) {
					t.Errorf("the store has the reasons of %s", location.Loc(e.Loc))
				}
				if name == "plain" && location.Loc(e.Loc).String() == "once" && string(e.Value) != "\x01\"once\"" {
					t.Errorf("a step without a failed attempt is stored as %q", e.Value)
				}
			}
		})
	}
}

// TestFailedAttemptsCrashEverywhere: wherever the process ends, the step that has succeeded
// at its third attempt has the causes of the first two.
func TestFailedAttemptsCrashEverywhere(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				v, err := stet.Step(ctx, "thrice", failing(3, "thrice"), atOnce(20))
				if err != nil {
					return "", err
				}
				err = stet.Sleep(ctx, "nap", time.Hour)
				return v, err
			})
			on := stettest.On(func(tb testing.TB) func() store.Store {
				open := s.open(tb)
				handle := open()
				tb.Cleanup(func() {
					e, err := stet.New(context.Background(), stet.Config{Store: handle})
					if err != nil {
						tb.Fatal(err)
					}
					runs, _, err := e.Runs().List(context.Background(), store.Filter{})
					if err != nil || len(runs) != 1 {
						tb.Fatalf("%d runs, %v", len(runs), err)
					}
					entries, err := e.Runs().History(context.Background(), runs[0].ID, stet.HistoryQuery{
						At: []string{"thrice"}, Values: true})
					if err != nil || len(entries) != 1 {
						tb.Fatalf("%d entries, %v", len(entries), err)
					}
					wantFailures(tb, &entries[0], "t", 1, 2)
				})
				return open
			})
			got, err := stettest.CrashEverywhere(t, w, "", crashFaults(t, s.name), on)
			if err != nil || got != "thrice" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
