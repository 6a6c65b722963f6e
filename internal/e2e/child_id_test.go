package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// named waits for a message. The IDs of its runs follow from their input.
var named = stet.Define("named", func(ctx stet.Context, _ string) (string, error) { return goOn.Receive(ctx) },
	stet.IDFrom(func(text string) string { return text }))

// askingFor is a parent that calls a child with its input and the ID.
func askingFor(id string) *stet.Workflow[int, int] {
	return stet.Define("asking", func(ctx stet.Context, n int) (int, error) { return square.Call(ctx, n, stet.ID(id)) })
}

func TestChildHasTheIDOfItsOption(t *testing.T) {
	e, r := parent(t, func(ctx stet.Context) (string, error) {
		n, err := square.Call(ctx, 4, stet.ID("square-4"))
		if err != nil {
			return "", err
		}
		other, err := square.Go(ctx, 5, stet.Named("other"), stet.ID("square-5"))
		if err != nil {
			return "", err
		}
		m, err := other.Await(ctx)
		if err != nil {
			return "", err
		}
		id, err := square.Detach(ctx, 6, stet.Named("third"), stet.ID("square-6"))
		if err != nil {
			return "", err
		}
		k, err := stet.Await[int](ctx, "end", id)
		return fmt.Sprint(n, m, k, other.RunID(ctx), id), err
	})
	got, err := r.Wait(testContext(t))
	want := "16 25 36square-5square-6"
	if err != nil || strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Fatalf("expected %q, found %q (%v)", want, got, err)
	}
	var ids []string
	for _, c := range children(t, e, r.ID()) {
		ids = append(ids, c.ID)
	}
	if got := strings.Join(ids, " "); got != "square-4 square-5 square-6" {
		t.Errorf("expected children square-4, square-5 and square-6, found %s", got)
	}
	letters, _, err := e.DeadLetters().List(testContext(t), store.DeadFilter{})
	if err != nil || len(letters) != 0 {
		t.Errorf("expected no dead letter, found %v (%v)", letters, err)
	}
}

func TestIDFromCountsForAChild(t *testing.T) {
	code := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
		f, err := named.Go(ctx, "acme")
		if err != nil {
			return "", err
		}
		text, err := f.Await(ctx)
		return f.RunID(ctx) + " " + text, err
	})
	cfg := family(code)
	cfg.Workflows = append(cfg.Workflows, named)
	e := serve(t, cfg)
	r, err := code.Start(testContext(t), e, 0)
	if err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, r.ID(), store.Suspended)
	if err := goOn.Send(testContext(t), e, "named/acme", "now"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(testContext(t)); err != nil || got != "named/acme now" {
		t.Fatalf("expected named/acme now, found %q (%v)", got, err)
	}
}

func TestAChildIsTheRunThatHasItsID(t *testing.T) {
	asking := askingFor("shared")
	e := serve(t, family(asking))
	ctx := testContext(t)
	if _, err := square.Start(ctx, e, 7, stet.ID("shared")); err != nil {
		t.Fatal(err)
	}
	first, err := asking.Start(ctx, e, 7)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := first.Wait(ctx); err != nil || got != 49 {
		t.Errorf("expected the result of the run that is there, 49, found %d (%v)", got, err)
	}
	second, err := asking.Start(ctx, e, 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = second.Wait(ctx); !errors.Is(err, stet.ErrExists) || !strings.Contains(err.Error(), "shared") {
		t.Errorf("another input: expected ErrExists that names the run, found %v", err)
	}
	if _, err := told.Start(ctx, e, "", stet.ID("of another workflow")); err != nil {
		t.Fatal(err)
	}
	third, err := square.Start(ctx, e, 1, stet.ID("third"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := third.Wait(ctx); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	page, err := e.Store().List(ctx, store.Filter{Workflows: []string{"square"}})
	if err != nil || len(page.Runs) != 2 {
		t.Errorf("expected the two runs that were started by hand, found %d (%v)", len(page.Runs), err)
	}
}

// TestARunIsCancelledByItsOwnParentAlone: neither a run that found its child there, nor one that
// has lost a race for the ID, cancels it.
func TestARunIsCancelledByItsOwnParentAlone(t *testing.T) {
	waiting := stet.Define("waiting", func(ctx stet.Context, _ int) (string, error) {
		return told.Call(ctx, "", stet.ID("shared"))
	})
	e := serve(t, family(waiting))
	ctx := testContext(t)
	owner, err := waiting.Start(ctx, e, 1)
	if err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, owner.ID(), store.Suspended)
	waitStatus(t, e, "shared", store.Suspended)
	guest, err := waiting.Start(ctx, e, 2)
	if err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, guest.ID(), store.Suspended)
	if _, err := guest.Cancel(ctx, stet.Act{}); err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, guest.ID(), store.Cancelled)
	answers, _, err := e.Store().Apply(ctx, []store.Command{{RunID: "shared", Item: &store.Item{
		Kind: store.ItemCancel, ID: "by another", Origin: "by another", Value: []byte("its parent has ended"),
		Headers: []byte(`{"stet-parent":"999999"}`),
	}}})
	if err != nil || answers[0].Outcome != store.Applied {
		t.Fatal(answers, err)
	}
	if err := goOn.Send(ctx, e, "shared", "fine"); err != nil {
		t.Fatal(err)
	}
	if got, err := owner.Wait(ctx); err != nil || got != "fine" {
		t.Errorf("expected fine, found %q (%v)", got, err)
	}
}

func TestAParentEndsItsNamedChild(t *testing.T) {
	waiting := stet.Define("waiting", func(ctx stet.Context, _ int) (string, error) {
		return told.Call(ctx, "", stet.ID("kid"))
	})
	e := serve(t, family(waiting))
	r, err := waiting.Start(testContext(t), e, 0)
	if err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, r.ID(), store.Suspended)
	if _, err := r.Cancel(testContext(t), stet.Act{}); err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, "kid", store.Cancelled)
}

// TestARewoundParentStartsItsNamedChildAgain: the former child gives up the ID, whether it had ended
// or is cancelled by the rewind.
func TestARewoundParentStartsItsNamedChildAgain(t *testing.T) {
	for name, ended := range map[string]bool{"that had ended": true, "that waits": false} {
		t.Run(name, func(t *testing.T) {
			code := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
				if err := stet.Do(ctx, "first", func(context.Context) error { return nil }); err != nil {
					return "", err
				}
				a, err := told.Call(ctx, "", stet.ID("kid"))
				if err != nil {
					return "", err
				}
				b, err := goOn.Receive(ctx)
				return a + b, err
			})
			e := serve(t, family(code))
			ctx := testContext(t)
			r, err := code.Start(ctx, e, 0)
			if err != nil {
				t.Fatal(err)
			}
			waitStatus(t, e, r.ID(), store.Suspended)
			waitStatus(t, e, "kid", store.Suspended)
			kid, err := e.Runs().Info(ctx, "kid")
			if err != nil {
				t.Fatal(err)
			}
			if ended {
				if err := goOn.Send(ctx, e, "kid", "first"); err != nil {
					t.Fatal(err)
				}
				waitStatus(t, e, "kid", store.Succeeded)
				untilRun(t, e, r.ID(), func(info *stet.RunInfo) bool {
					return len(info.WaitsFor) == 1 && info.WaitsFor[0].Kind == "receive"
				})
			} else {
				waitStatus(t, e, r.ID(), store.Suspended)
			}
			if _, err := e.Runs().Pause(ctx, r.ID(), stet.Act{}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Runs().Rewind(ctx, r.ID(), "first", stet.Act{}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Runs().Resume(ctx, r.ID(), stet.Act{}); err != nil {
				t.Fatal(err)
			}
			untilRun(t, e, "kid", func(info *stet.RunInfo) bool {
				return info.Number != kid.Number && info.Status == store.Suspended
			})
			if err := goOn.Send(ctx, e, "kid", "second "); err != nil {
				t.Fatal(err)
			}
			if err := goOn.Send(ctx, e, r.ID(), "end"); err != nil {
				t.Fatal(err)
			}
			if got, err := r.Wait(ctx); err != nil || got != "second end" {
				t.Errorf("expected second end, found %q (%v)", got, err)
			}
			if old, err := e.Runs().Info(ctx, fmt.Sprintf("kid@%d", kid.Number)); err != nil || !old.Status.Terminal() {
				t.Errorf("expected the former child as kid@%d, ended, found %+v (%v)", kid.Number, old, err)
			}
		})
	}
}

func TestEachIncarnationHasItsNamedChild(t *testing.T) {
	code := stet.Define("parent", func(ctx stet.Context, n int) (int, error) {
		got, err := square.Call(ctx, n, stet.ID("of the day"))
		if err != nil || n == 3 {
			return got, err
		}
		return 0, stet.ContinueAsNew(n + 1)
	})
	e := serve(t, family(code))
	r, err := code.Start(testContext(t), e, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(testContext(t)); err != nil || got != 9 {
		t.Fatalf("expected 9, found %d (%v)", got, err)
	}
	if got := len(children(t, e, r.ID())); got != 3 {
		t.Errorf("expected three children, found %d", got)
	}
	letters, _, err := e.DeadLetters().List(testContext(t), store.DeadFilter{})
	if err != nil || len(letters) != 0 {
		t.Errorf("expected no dead letter, found %v (%v)", letters, err)
	}
}

func TestBadIDsOfChildren(t *testing.T) {
	for name, c := range map[string]struct {
		id   stet.ID
		want string
	}{
		"of an entity":  {"stet.queue/x", "stet."},
		"of the parent": {"the-parent", "other than that of its parent"},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := parent(t, func(ctx stet.Context) (int, error) { return square.Call(ctx, 1, c.id) })
			_, err := r.Wait(testContext(t))
			if !errors.Is(err, stet.ErrInvalid) && !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("expected ErrInvalid that says %q, found %v", c.want, err)
			}
			if got := len(children(t, e, r.ID())); got != 0 {
				t.Errorf("expected no child, found %d", got)
			}
		})
	}
}
