package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestAPreviewChangesNothingAndIsRight: what a preview says is what the verb does then, and
// the run's row, history, inbox and audit are the same before and after it.
func TestAPreviewChangesNothingAndIsRight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		word, done := stet.Message[string]("word"), func(context.Context) error { return nil }
		w := stet.Define("w", func(ctx stet.Context, how string) (string, error) {
			if err := stet.Do(ctx, "reserve", done, stet.UndoDo(done)); err != nil {
				return "", err
			}
			if _, err := word.Receive(ctx); err != nil {
				return "", err
			}
			if err := stet.Do(ctx, "charge", done, stet.UndoDo(done)); err != nil {
				return "", err
			}
			if how == "own" {
				return "", errors.New("no rule")
			}
			return "", stet.Do(ctx, "send", func(context.Context) error { return errors.New("lost") }, stet.Retry{Attempts: 1})
		}, stet.UndoOnRollback)
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		for i, c := range []struct {
			how  string
			verb store.ItemKind
			at   string
			want stet.Preview
		}{
			{"step", store.ItemRetry, "", stet.Preview{From: "send", TakenBack: []string{"send"}}},
			{"own", store.ItemRetry, "", stet.Preview{}},
			{"step", store.ItemRewind, "charge", stet.Preview{
				From: "charge", TakenBack: []string{"charge", "send"}, Owed: []string{"charge"}}},
			{"step", store.ItemRewind, "/", stet.Preview{From: "/", TakenBack: []string{"reserve", "word", "charge", "send"},
				Owed: []string{"reserve", "charge"}, Messages: 1}},
			{"step", store.ItemEdit, "send", stet.Preview{}},
		} {
			r, err := w.Start(t.Context(), e, c.how, stet.ID(fmt.Sprint("r", i)))
			if err != nil {
				t.Fatal(err)
			}
			if err := word.Send(t.Context(), e, r.ID(), "x"); err != nil {
				t.Fatal(err)
			}
			info, err := e.Runs().Wait(t.Context(), r.ID())
			if err != nil || info.Status != store.Failed {
				t.Fatalf("it is %+v, %v", info, err)
			}
			rows := func() any {
				s, _, err := e.Store().Load(t.Context(), []store.RunNo{info.Number})
				if err != nil {
					t.Fatal(err)
				}
				audit, err := e.Store().Audit(t.Context(), info.Number)
				if err != nil {
					t.Fatal(err)
				}
				items, err := e.Store().Inbox(t.Context(), info.Number)
				if err != nil {
					t.Fatal(err)
				}
				return []any{s, audit, items}
			}
			before := rows()
			p, err := e.Runs().Preview(t.Context(), r.ID(), c.verb, c.at)
			if err != nil || !reflect.DeepEqual(*p, c.want) {
				t.Errorf("%s of %s: the preview is %+v, %v; want %+v", c.verb, c.how, p, err, c.want)
			}
			for at, want := range map[string]error{"nowhere": stet.ErrRefused, "~": stet.ErrInvalid} {
				if _, err := e.Runs().Preview(t.Context(), r.ID(), store.ItemRewind, at); !errors.Is(err, want) {
					t.Errorf("a preview of a rewind to %s: %v; want %v", at, err, want)
				}
			}
			if after := rows(); !reflect.DeepEqual(before, after) {
				t.Errorf("the preview has changed the run:\n%+v\n%+v", before, after)
			}
			ok, err := false, error(nil)
			switch c.verb {
			case store.ItemRetry:
				ok, err = e.Runs().Retry(t.Context(), r.ID(), stet.Act{})
			case store.ItemRewind:
				ok, err = e.Runs().Rewind(t.Context(), r.ID(), c.at, stet.Act{})
			default:
				continue
			}
			if !ok {
				t.Fatal(err)
			}
			audit, err := e.Runs().Audit(t.Context(), r.ID())
			n := len(p.TakenBack)
			says := fmt.Sprint("took back ", n, " completions")
			if err != nil || n > 0 && !strings.Contains(audit[0].Detail, says) {
				t.Errorf("it says %d, and the audit %+v, %v", n, audit, err)
			}
		}
		if _, err := e.Runs().Preview(t.Context(), "none", store.ItemRetry, ""); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("of a run that is not there: %v", err)
		}
		if _, err := e.Runs().Preview(t.Context(), "r0", store.ItemCancel, ""); !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("of a cancel: %v", err)
		}
	})
}

// TestAPreviewNamesTheChildrenThatARewindCancels: those that live and would end with their parent, and
// these are what the rewind cancels then.
func TestAPreviewNamesTheChildrenThatARewindCancels(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, _ store.Store) {
		kid := stet.Define("kid", func(ctx stet.Context, waits bool) (int, error) {
			if !waits {
				return 1, nil
			}
			_, err := word.Receive(ctx)
			return 2, err
		})
		parent := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
			if _, err := say(ctx, "first", "a"); err != nil {
				return "", err
			}
			if _, err := kid.Call(ctx, false, stet.Named("ended")); err != nil {
				return "", err
			}
			if _, err := kid.Go(ctx, true, stet.Named("left"), stet.LeaveChild); err != nil {
				return "", err
			}
			if _, err := kid.Go(ctx, true, stet.Named("waits")); err != nil {
				return "", err
			}
			return word.Receive(ctx)
		})
		e := serve(t, with(cfg, kid, parent))
		ctx := testContext(t)
		r := begin(t, e, parent, 0, stet.ID("r"))
		waitsFor(t, e, "r", "receive")
		if ok, err := e.Runs().Pause(ctx, "r", stet.Act{}); !ok {
			t.Fatal(err)
		}
		child := func(name string) string {
			t.Helper()
			entries, err := e.Runs().History(ctx, "r", stet.HistoryQuery{Values: true, At: []string{name}})
			if err != nil || len(entries) != 1 {
				t.Fatal(entries, err)
			}
			waitStatus(t, e, entries[0].Run, store.Suspended)
			return entries[0].Run
		}
		left, waits := child("left"), child("waits")
		p, err := e.Runs().Preview(ctx, "r", store.ItemRewind, "first")
		want := stet.Preview{From: "first", TakenBack: []string{"first", "ended"}, Cancelled: []string{waits}}
		if err != nil || !reflect.DeepEqual(*p, want) {
			t.Errorf("the preview is %+v, %v; want %+v", p, err, want)
		}
		waitStatus(t, e, waits, store.Suspended) // as it was
		if ok, err := e.Runs().Rewind(ctx, r.ID(), "first", stet.Act{}); !ok {
			t.Fatal(err)
		}
		if info, err := e.Runs().Wait(ctx, waits); err != nil || info.Status != store.Cancelled {
			t.Errorf("the child ends as %+v, %v; want it cancelled", info, err)
		}
		waitStatus(t, e, left, store.Suspended)
		audit, err := e.Runs().Audit(ctx, "r")
		if err != nil || len(audit) != 2 || !strings.Contains(audit[1].Detail, "1 children cancelled") {
			t.Errorf("the audit is %+v, %v", audit, err)
		}
	})
}
