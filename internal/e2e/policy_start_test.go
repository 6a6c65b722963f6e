package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestPoliciesOfAStart: what a start says counts in place of the definition, also when the run
// continues as new, is retried or forked. Nobody else has it.
func TestPoliciesOfAStart(t *testing.T) {
	t.Parallel()
	word := stet.Message[string]("word")
	waits := stet.Define("waits", func(ctx stet.Context, from string) (string, error) {
		if from == "again" {
			return "", stet.ContinueAsNew("goes on")
		}
		if from == "fails" {
			return "", errors.New("broken")
		}
		return word.Receive(ctx)
	}, stet.MaxRunTime(time.Hour))
	for _, c := range []struct {
		name, input string
		opts        []stet.StartOption
		want        time.Duration
		status      store.Status
	}{
		{"as defined", "", nil, time.Hour, store.Cancelled},
		{"run time", "", []stet.StartOption{stet.MaxRunTime(time.Minute)}, time.Minute, store.Cancelled},
		{"longer", "", []stet.StartOption{stet.MaxRunTime(3 * time.Hour)}, 3 * time.Hour, store.Cancelled},
		{"without limit", "", []stet.StartOption{stet.MaxRunTime(stet.None), stet.MaxSuspension(5 * time.Hour)},
			5 * time.Hour, store.Cancelled},
		{"suspension", "", []stet.StartOption{stet.MaxSuspension(time.Minute)}, time.Minute, store.Cancelled},
		{"continued", "again", []stet.StartOption{stet.MaxRunTime(time.Minute)}, time.Minute, store.Cancelled},
		{"fails", "fails", nil, 0, store.Failed},
		{"stalls", "fails", []stet.StartOption{stet.StallOnFailure}, 0, store.Stalled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := serve(t, stet.Config{Workflows: []stet.Definition{waits}})
				begun := time.Now()
				r, err := waits.Start(t.Context(), e, c.input, append(c.opts, stet.Headers{"tenant": "a"})...)
				if err != nil {
					t.Fatal(err)
				}
				info, err := e.Runs().Wait(t.Context(), r.ID())
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took.Round(10*time.Second) != c.want || info.Status != c.status {
					t.Errorf("it is %s after %s; want %s after %s", info.Status, took, c.status, c.want)
				}
				if len(info.Headers) != 1 || info.Headers["tenant"] != "a" {
					t.Errorf("its headers are %v", info.Headers)
				}
			})
		})
	}
	t.Run("child and fork", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			parent := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
				if own := stet.Header(ctx, "stet-policy"); own != "" {
					return own, nil
				}
				id, err := waits.Detach(ctx, "")
				if err == nil {
					err = stet.Do(ctx, "pay", func(context.Context) error { return nil })
				}
				if err == nil {
					_, err = word.Receive(ctx)
				}
				return id, err
			})
			e := serve(t, stet.Config{Workflows: []stet.Definition{parent, waits}})
			r, err := parent.Start(t.Context(), e, 1, stet.MaxRunTime(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if info, err := e.Runs().Wait(t.Context(), r.ID()); err != nil || info.Status != store.Cancelled ||
				info.Policy != (stet.RunPolicy{MaxRunTime: time.Minute}) {
				t.Fatalf("the run is %+v, %v", info, err)
			}
			page, _, err := e.Runs().List(t.Context(), store.Filter{Workflows: []string{"waits"}})
			if err != nil || len(page) != 1 || page[0].Status.Terminal() || len(page[0].Headers) != 0 {
				t.Fatalf("its child is %+v, %v; want one that goes on without a policy", page, err)
			}
			id, err := e.Runs().Fork(t.Context(), r.ID(), "pay", stet.Act{})
			if err != nil {
				t.Fatal(err)
			}
			info, err := e.Runs().Wait(t.Context(), id)
			if err != nil || info.Status != store.Cancelled || !strings.Contains(info.Reason, "ran longer than 1m") {
				t.Fatalf("its fork is %+v, %v", info, err)
			}
		})
	})
	t.Run("children", func(t *testing.T) {
		forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, _ *gated, _ store.Store) {
			parent := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
				started, err := waits.Go(ctx, "", stet.Named("go"), stet.MaxRunTime(2*time.Minute), stet.LeaveChild)
				if err != nil {
					return "", err
				}
				if err := stet.Sleep(ctx, "rest", 30*time.Second); err != nil { // is evicted, or parked
					return "", err
				}
				if _, err := waits.Detach(ctx, "again", stet.Named("alone"), stet.MaxSuspension(4*time.Minute)); err != nil {
					return "", err
				}
				_, err = waits.Call(ctx, "", stet.Named("called"), stet.MaxRunTime(time.Minute))
				_, late := started.Await(ctx)
				return fmt.Sprint(err, "; ", late), nil
			}, stet.MaxRunTime(time.Hour))
			cfg.Workflows, cfg.LeaseTTL = []stet.Definition{parent, waits}, 24*time.Hour
			e := serve(t, cfg)
			begun := time.Now()
			r, err := parent.Start(t.Context(), e, 1, stet.Headers{"tenant": "a"}, stet.MaxRunTime(3*time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, "ran longer than 1m0s") ||
				!strings.Contains(got, "ran longer than 2m0s") {
				t.Errorf("its children ended with %s", got)
			}
			if took := time.Since(begun); took.Round(10*time.Second) != 2*time.Minute {
				t.Errorf("it took %s", took)
			}
			if err := takes(t.Context(), 4*time.Minute); err != nil {
				t.Fatal(err)
			}
			page, _, err := e.Runs().List(t.Context(), store.Filter{Workflows: []string{"waits"}})
			if err != nil || len(page) != 3 {
				t.Fatalf("there are %+v, %v", page, err)
			}
			for _, info := range page {
				if info.Status != store.Cancelled || info.Headers["tenant"] != "a" || len(info.Headers) != 1 ||
					info.Policy == (stet.RunPolicy{}) {
					t.Errorf("a child is %s with %v and %+v: %s", info.Status, info.Headers, info.Policy, info.Reason)
				}
			}
		})
	})
	t.Run("schedule", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := serve(t, stet.Config{Workflows: []stet.Definition{waits}})
			every := stet.Schedule{Every: 24 * time.Hour, Headers: stet.Headers{"tenant": "a"}}
			err := waits.Schedule(t.Context(), e, "daily", "", every, stet.MaxRunTime(time.Minute), stet.StallOnFailure,
				stet.UntilCarriedOut())
			if err != nil {
				t.Fatal(err)
			}
			want := stet.RunPolicy{MaxRunTime: time.Minute, OnFailure: stet.StallOnFailure}
			info, err := e.Schedules().Info(t.Context(), "daily")
			if err != nil || info.Policy != want || len(info.Schedule.Headers) != 1 {
				t.Errorf("the schedule is %+v, %v", info, err)
			}
			id, err := e.Schedules().Trigger(t.Context(), "daily", stet.Act{})
			if err != nil {
				t.Fatal(err)
			}
			run, err := e.Runs().Wait(t.Context(), id)
			if err != nil || run.Policy != want || !strings.Contains(run.Reason, "ran longer than 1m") {
				t.Errorf("its run is %+v, %v", run, err)
			}
		})
	})
	t.Run("refused", func(t *testing.T) {
		e := serve(t, stet.Config{Workflows: []stet.Definition{waits}})
		for _, opt := range []stet.StartOption{stet.MaxRunTime(-5), stet.MaxSuspension(-5), stet.OnFailure(7), stet.OnBug(7),
			stet.Headers{"stet-policy": "{}"}} {
			if _, err := waits.Start(t.Context(), e, "", opt); !errors.Is(err, stet.ErrInvalid) {
				t.Errorf("%#v: %v", opt, err)
			}
		}
		parent := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
			_, err := waits.Go(ctx, "", stet.MaxRunTime(-5))
			_, later := waits.Call(ctx, "", stet.OnBug(9))
			return fmt.Sprint(errors.Is(err, stet.ErrInvalid), errors.Is(later, stet.ErrInvalid)), nil
		})
		other := serve(t, stet.Config{Workflows: []stet.Definition{parent, waits}})
		if got, err := run(t, other, parent, 0); got != "true true" {
			t.Errorf("a child that is given what is wrong: %s, %v", got, err)
		}
		if err := waits.Schedule(t.Context(), e, "s", "", stet.Schedule{Every: time.Hour}, stet.MaxRunTime(-5)); !errors.Is(
			err, stet.ErrInvalid) {
			t.Errorf("a schedule that is given what is wrong: %v", err)
		}
		big := stet.Headers{"k": strings.Repeat("x", store.MaxHeaders-20)}
		if _, err := waits.Start(t.Context(), e, "", big, stet.StallOnFailure); !errors.Is(err, stet.ErrTooLarge) {
			t.Errorf("headers and a policy that are too large together: %v", err)
		}
	})
}

// TestRetentionOfAStart: the retention that a start gives counts in place of the definition's,
// for each way to end, also of a run that a verb ends while it rests.
func TestRetentionOfAStart(t *testing.T) {
	t.Parallel()
	word := stet.Message[string]("word")
	waits := stet.Define("waits", func(ctx stet.Context, _ int) (string, error) {
		text, err := word.Receive(ctx)
		if text == "fail" {
			err = errors.New("broken")
		}
		return text, err
	}, stet.KeepFor(24*time.Hour))
	parent := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
		return waits.Call(ctx, 0, stet.KeepFor(stet.None))
	})
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, stet.Config{Workflows: []stet.Definition{waits, parent}})
		own := stet.Retention{Succeeded: stet.AtOnce, Failed: stet.None, Cancelled: time.Hour}
		for _, id := range []string{"succeeds", "fails", "cancelled", "as defined"} {
			opts := []stet.StartOption{stet.ID(id), own}
			if id == "as defined" {
				opts = opts[:1]
			}
			begin(t, e, waits, 0, opts...)
		}
		begin(t, e, parent, 0)
		time.Sleep(time.Minute)
		page, _, err := e.Runs().List(t.Context(), store.Filter{Workflows: []string{"waits"}})
		if err != nil || len(page) != 5 {
			t.Fatal(page, err)
		}
		child := page[0].ID
		for id, text := range map[string]string{"succeeds": "", "fails": "fail", "as defined": "", child: ""} {
			if err := word.Send(t.Context(), e, id, text); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Runs().Cancel(t.Context(), "cancelled", stet.Act{}); err != nil {
			t.Fatal(err)
		}
		ids := func() string {
			page, _, err := e.Runs().List(t.Context(), store.Filter{Workflows: []string{"waits"}})
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, r := range page {
				all = append(all, strings.ReplaceAll(r.ID, child, "child"))
			}
			return strings.Join(slices.Sorted(slices.Values(all)), ", ")
		}
		for _, c := range []struct {
			wait time.Duration
			want string
		}{
			{50 * time.Second, "as defined, cancelled, child, fails, succeeds"},
			{3 * time.Minute, "as defined, cancelled, child, fails"},
			{time.Hour, "as defined, child, fails"}, {24 * time.Hour, "child, fails"}, {48 * time.Hour, "child, fails"},
		} {
			if time.Sleep(c.wait); ids() != c.want {
				t.Errorf("after another %s there are %s; want %s", c.wait, ids(), c.want)
			}
		}
		info, err := e.Runs().Info(t.Context(), "fails")
		if err != nil || info.Policy != (stet.RunPolicy{Retention: own}) {
			t.Errorf("the policy is %+v, %v", info.Policy, err)
		}
	})
	for _, bad := range []stet.Retention{{Succeeded: -3}, {Failed: -time.Hour}} {
		e := serve(t, stet.Config{Workflows: []stet.Definition{waits}})
		if _, err := waits.Start(t.Context(), e, 0, bad); !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("a start with %+v: %v", bad, err)
		}
	}
}
