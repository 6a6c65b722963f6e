package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// scheduled says for what its run was started, after a while.
var scheduled = stet.Define("scheduled", func(ctx stet.Context, takes time.Duration) (string, error) {
	name, at, ok := stet.ScheduledFor(ctx)
	if err := stet.Sleep(ctx, "work", takes); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s %t", name, at.Format(time.RFC3339Nano), ok), nil
})

func listed(t *testing.T, e *stet.Engine, name string) []store.Run {
	t.Helper()
	page, err := e.Store().List(t.Context(),
		store.Filter{Tags: []store.Pair{{Key: "stet.schedule", Value: name}}, Values: true, Limit: store.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(page.Runs)
	return page.Runs
}

func info(t *testing.T, e *stet.Engine, name string) *stet.ScheduleInfo {
	t.Helper()
	i, err := e.Schedules().Info(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// C11: cron and interval; a run for each instant, named for it.
func TestScheduleStartsARunForEachInstant(t *testing.T) {
	t.Parallel()
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{scheduled}}, func(t *testing.T, env *stettest.Env) {
		e := env.Engine // it is 2000-01-01T00:00Z in a bubble
		ok(t, scheduled.Schedule(t.Context(), e, "nightly", time.Minute, stet.Schedule{
			Cron: "0 3 * * *", Zone: "Europe/Berlin", Tags: stet.Tags{"team": "a"}, Headers: stet.Headers{"tenant": "x"},
		}))
		ok(t, scheduled.Schedule(t.Context(), e, "often", 0, stet.Schedule{Every: 6 * time.Hour, Offset: time.Hour}))
		time.Sleep(3*24*time.Hour + time.Hour)
		runs := listed(t, e, "nightly")
		if len(runs) != 3 {
			t.Fatalf("expected a run for each of three nights, got %d", len(runs))
		}
		for i, run := range runs {
			at := time.Date(2000, 1, 1+i, 2, 0, 0, 0, time.UTC).Format(time.RFC3339)
			if run.ID != "nightly/"+at || run.Status != store.Succeeded ||
				string(run.Output) != fmt.Sprintf("\x01\"nightly %s true\"", at) {
				t.Errorf("expected the run of %s, got %s %s %q", at, run.ID, run.Status, run.Output)
			}
			if run.Created.Sub(store.TimeOf(time.Date(2000, 1, 1+i, 2, 0, 0, 0, time.UTC))) > time.Second {
				t.Errorf("expected it to begin in time, got %s", run.Created)
			}
			if fmt.Sprint(run.Tags) != "[{stet.schedule nightly} {team a}]" ||
				!strings.Contains(string(run.Headers), `"tenant":"x"`) {
				t.Errorf("expected tags and headers, got %v %s", run.Tags, run.Headers)
			}
		}
		if n := len(listed(t, e, "often")); n != 12 {
			t.Errorf("expected a run each six hours from the first one on, got %d", n)
		}
		got := info(t, e, "nightly")
		if got.Workflow != "scheduled" || got.Started != 3 || got.Skipped != 0 || len(got.Past) != 3 ||
			len(got.Running) != 0 || got.Past[2].RunID != runs[2].ID {
			t.Errorf("expected three starts, got %+v", got)
		}
		want := stet.Schedule{
			Cron: "0 3 * * *", Zone: "Europe/Berlin", Overlap: stet.SkipOverlap, CatchUp: time.Hour,
			Tags: stet.Tags{"team": "a"}, Headers: stet.Headers{"tenant": "x"},
		}
		if fmt.Sprint(got.Schedule) != fmt.Sprint(want) {
			t.Errorf("expected %+v, got %+v", want, got.Schedule)
		}
		if len(got.Next) != 5 || !got.Next[0].Equal(time.Date(2000, 1, 4, 2, 0, 0, 0, time.UTC)) {
			t.Errorf("expected the next five, got %v", got.Next)
		}
		all, err := e.Schedules().List(t.Context())
		if err != nil || len(all) != 2 || all[0].Name != "often" {
			t.Errorf("expected both, got %v (%v)", all, err)
		}
		page, err := e.Store().List(t.Context(), store.Filter{})
		if err != nil || slices.ContainsFunc(page.Runs, func(r store.Run) bool { return strings.HasPrefix(r.ID, "stet.") }) {
			t.Errorf("expected schedules not to be listed as runs (%v)", err)
		}
	})
}

// C11: overlap policy skip, buffer one, allow, cancel previous.
func TestScheduleOverlap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		overlap stet.Overlap
		want    string // hours of the starts, and how the runs have ended
	}{
		{stet.SkipOverlap, "1 succeeded, 4 succeeded, 7 succeeded"},
		{stet.BufferOne, "1 succeeded, 2 succeeded, 4 succeeded"}, // another one is buffered, and waits while it is paused
		{stet.AllowOverlap, "1 succeeded, 2 succeeded, 3 succeeded, 4 succeeded, 5 succeeded, 6 succeeded, 7 succeeded, 8 running"},
		{stet.CancelPrevious, "1 cancelled, 2 cancelled, 3 cancelled, 4 cancelled, 5 cancelled, 6 cancelled, 7 cancelled, 8 suspended"},
	} {
		t.Run(c.overlap.String(), func(t *testing.T) {
			stettest.Run(t, stet.Config{Workflows: []stet.Definition{scheduled}}, func(t *testing.T, env *stettest.Env) {
				ok(t, scheduled.Schedule(t.Context(), env.Engine, "s", 150*time.Minute,
					stet.Schedule{Every: time.Hour, Overlap: c.overlap}))
				time.Sleep(8*time.Hour + time.Second)
				ok(t, env.Engine.Schedules().Pause(t.Context(), "s", stet.Act{}))
				time.Sleep(100 * time.Minute)
				var got []string
				for _, run := range listed(t, env.Engine, "s") {
					at, err := time.Parse(time.RFC3339, strings.TrimPrefix(run.ID, "s/"))
					if err != nil {
						t.Fatal(err)
					}
					status := run.Status.String()
					if run.Status == store.Suspended && c.overlap == stet.AllowOverlap {
						status = "running"
					}
					got = append(got, fmt.Sprint(at.Hour(), " ", status))
				}
				if s := strings.Join(got, ", "); s != c.want {
					t.Errorf("got  %s\nwant %s", s, c.want)
				}
				i := info(t, env.Engine, "s")
				if n := i.Started + i.Skipped; n != 8 && !(n == 7 && !i.Buffered.IsZero()) {
					t.Errorf("expected each of 8 instants to be started or skipped, got %d and %d", i.Started, i.Skipped)
				}
			})
		})
	}
}

// C11: pause, trigger now, backfill; managed at run time.
func TestScheduleVerbs(t *testing.T) {
	t.Parallel()
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{scheduled}}, func(t *testing.T, env *stettest.Env) {
		e, ctx := env.Engine, t.Context()
		ok(t, scheduled.Schedule(ctx, e, "s", 90*time.Minute, stet.Schedule{Every: time.Hour, Paused: true},
			stet.RefuseExisting))
		time.Sleep(150 * time.Minute)
		i := info(t, e, "s")
		if i.Started != 0 || !i.Schedule.Paused || len(i.Next) != 0 || i.PausedAt.IsZero() {
			t.Errorf("expected it to begin paused, got %+v", i)
		}
		id, err := e.Schedules().Trigger(ctx, "s", stet.Act{})
		ok(t, err)
		if !strings.HasPrefix(id, "s/2000-01-01T02:30:00.00") {
			t.Errorf("expected a run named for the instant, got %q", id)
		}
		if _, err := e.Schedules().Trigger(ctx, "s", stet.Act{}); !errors.Is(err, stet.ErrRefused) {
			t.Errorf("expected no run beside it, got %v", err)
		}
		ok(t, e.Schedules().Resume(ctx, "s", stet.Act{}))
		ok(t, e.Schedules().Backfill(ctx, "s", time.Date(1999, 12, 31, 20, 0, 0, 0, time.UTC),
			time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC), stet.Act{}))
		time.Sleep(10 * time.Minute)
		if i := info(t, e, "s"); i.Skipped != 2 || i.Past[0].Count != 1 || i.Backfills != 1 || len(i.Running) != 1 {
			t.Errorf("expected what passed while it was paused to be skipped, and the backfill to wait, got %+v", i)
		}
		ok(t, e.Schedules().Pause(ctx, "s", stet.Act{Why: "for now"}))
		time.Sleep(6 * time.Hour)
		var ids []string
		for _, run := range listed(t, e, "s") {
			ids = append(ids, strings.TrimPrefix(run.ID, "s/"))
		}
		if s := strings.Join(ids[1:], " "); s != "1999-12-31T20:00:00Z 1999-12-31T21:00:00Z 1999-12-31T22:00:00Z" {
			t.Errorf("expected the backfill to start one after another, got %s", s)
		}
		if i := info(t, e, "s"); i.PauseReason != "for now" || i.Backfills != 0 || i.Started != 4 {
			t.Errorf("expected it to be paused and the backfill done, got %+v", i)
		}
		ok(t, e.Schedules().Delete(ctx, "s", stet.Act{}))
		for name, err := range map[string]error{
			"pause": e.Schedules().Pause(ctx, "s", stet.Act{}), "resume": e.Schedules().Resume(ctx, "s", stet.Act{}),
			"delete":     e.Schedules().Delete(ctx, "s", stet.Act{}),
			"backfill":   e.Schedules().Backfill(ctx, "never", time.Unix(1, 0), time.Unix(2, 0), stet.Act{}),
			"trigger":    func() error { _, err := e.Schedules().Trigger(ctx, "never", stet.Act{}); return err }(),
			"show":       func() error { _, err := e.Schedules().Info(ctx, "s"); return err }(),
			"show never": func() error { _, err := e.Schedules().Info(ctx, "never"); return err }(),
		} {
			if !errors.Is(err, stet.ErrNotFound) {
				t.Errorf("%s: expected ErrNotFound, got %v", name, err)
			}
		}
		all, err := e.Schedules().List(ctx)
		if err != nil || len(all) != 0 {
			t.Errorf("expected none, got %v (%v)", all, err)
		}
	})
}

func TestScheduleThatIsThere(t *testing.T) {
	t.Parallel()
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{scheduled}}, func(t *testing.T, env *stettest.Env) {
		e, ctx := env.Engine, t.Context()
		s := stet.Schedule{Every: time.Hour}
		ok(t, scheduled.Schedule(ctx, e, "s", 0, s))
		ok(t, scheduled.Schedule(ctx, e, "s", 0, s, stet.RefuseExisting)) // the same
		if err := scheduled.Schedule(ctx, e, "s", time.Second, s, stet.RefuseExisting); !errors.Is(err, stet.ErrExists) {
			t.Errorf("expected ErrExists, got %v", err)
		}
		time.Sleep(90 * time.Minute)
		s.Every = 30 * time.Minute
		ok(t, scheduled.Schedule(ctx, e, "s", 0, s))
		time.Sleep(time.Hour + time.Second)
		if n := len(listed(t, e, "s")); n != 3 {
			t.Errorf("expected a run at one hour, and each half hour after 01:30, got %d", n)
		}
	})
}

// C11: no double fire across nodes or restarts: several processes on one store, of
// which each ends now and then or loses its way to the store, with commits that
// arrive late.
func TestScheduleAcrossProcesses(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 16} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { acrossProcesses(t, slots) })
		})
	}
}

func acrossProcesses(t *testing.T, slots int) {
	s := memory.New(memory.Slots(slots))
	body := stet.Define("scheduled", func(stet.Context, int) (int, error) { return 0, nil })
	names := []string{"s1", "s2", "s3", "s4", "s5"}
	times := stet.Schedule{Every: 10 * time.Second, Overlap: stet.AllowOverlap, CatchUp: stet.None}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	process := func(name string, lives time.Duration, rng *rand.Rand) {
		all.Go(func() {
			for life := 0; ctx.Err() == nil; life++ {
				rng := rand.New(rand.NewPCG(rng.Uint64(), 1)) // the former life's may still be in use
				w := &wire{Store: s.Join()}
				e, err := stet.New(ctx, stet.Config{
					Store: w, Workflows: []stet.Definition{body}, Node: fmt.Sprint(name, life), Build: "b",
					Logger:   slog.New(slog.DiscardHandler),
					LeaseTTL: 3 * time.Second, Renew: time.Second, Grace: time.Second,
				})
				if err != nil {
					t.Error(err)
					return
				}
				for _, schedule := range names {
					if err := body.Schedule(ctx, e, schedule, 0, times); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
				living, end := context.WithTimeout(ctx, lives)
				all.Go(func() {
					for living.Err() == nil {
						select {
						case <-time.After(time.Duration(rng.IntN(20)) * time.Second):
						case <-living.Done():
						}
						w.set(true, rng.IntN(2) == 0)
						time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
						w.set(false, false)
					}
				})
				_ = e.Run(living) // it may end while its wire is cut, and says so
				end()
			}
		})
	}
	process("a", 41*time.Second, rand.New(rand.NewPCG(1, 1)))
	process("b", 67*time.Second, rand.New(rand.NewPCG(1, 2)))
	process("c", 103*time.Second, rand.New(rand.NewPCG(1, 3)))
	time.Sleep(20*time.Minute + 5*time.Second)
	cancel()
	all.Wait()
	// it judges the dead by the leases that they had
	calm := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{body}})
	time.Sleep(25 * time.Second)
	for _, name := range names {
		i := info(t, calm, name)
		first, err := time.Parse(time.RFC3339, "2000-01-01T00:00:10Z")
		ok(t, err)
		want := int64(i.Next[0].Sub(first) / (10 * time.Second))
		runs := listed(t, calm, name)
		for n, run := range runs {
			if id := name + "/" + first.Add(time.Duration(n)*10*time.Second).Format(time.RFC3339); run.ID != id ||
				run.Status != store.Succeeded {
				t.Fatalf("expected run %d to be %s and to have succeeded, got %s, which is %s", n, id, run.ID, run.Status)
			}
		}
		if want < 120 || i.Started != want || i.Skipped != 0 || int64(len(runs)) != want {
			t.Errorf("%s: expected each of %d instants to be started once, got %d started, %d skipped, %d runs",
				name, want, i.Started, i.Skipped, len(runs))
		}
	}
}

func TestScheduleBadInput(t *testing.T) {
	t.Parallel()
	e := serve(t, stet.Config{Workflows: []stet.Definition{scheduled}})
	ctx := t.Context()
	hourly := stet.Schedule{Every: time.Hour}
	for name, err := range map[string]error{
		"no times":     scheduled.Schedule(ctx, e, "s", 0, stet.Schedule{}),
		"bad cron":     scheduled.Schedule(ctx, e, "s", 0, stet.Schedule{Cron: "61 * * * *"}),
		"bad zone":     scheduled.Schedule(ctx, e, "s", 0, stet.Schedule{Cron: "1 * * * *", Zone: "Mars"}),
		"bad policy":   scheduled.Schedule(ctx, e, "s", 0, stet.Schedule{Every: time.Hour, Overlap: 9}),
		"bad window":   scheduled.Schedule(ctx, e, "s", 0, stet.Schedule{Every: time.Hour, CatchUp: time.Millisecond}),
		"bad name":     scheduled.Schedule(ctx, e, strings.Repeat("n", 65), 0, hourly),
		"no name":      scheduled.Schedule(ctx, e, "", 0, hourly),
		"own tag":      scheduled.Schedule(ctx, e, "s", 0, stet.Schedule{Every: time.Hour, Tags: stet.Tags{"stet.schedule": "x"}}),
		"bad tag":      scheduled.Schedule(ctx, e, "s", 0, stet.Schedule{Every: time.Hour, Tags: stet.Tags{"a b": "x"}}),
		"bad existing": scheduled.Schedule(ctx, e, "s", 0, hourly, stet.ReplaceFailed),
		"backfill":     e.Schedules().Backfill(ctx, "s", time.Now(), time.Now().Add(-time.Hour), stet.Act{}),
		"pause":        e.Schedules().Pause(ctx, "", stet.Act{}),
		"long reason":  e.Schedules().Pause(ctx, "s", stet.Act{Why: strings.Repeat("x", 5000)}),
	} {
		if !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("%s: expected ErrInvalid, got %v", name, err)
		}
	}
	if err := stet.Ref[int, int]("nobody").Schedule(ctx, e, "s", 0, hourly); !errors.Is(err, stet.ErrUnknownWorkflow) {
		t.Errorf("expected ErrUnknownWorkflow, got %v", err)
	}
	long := stet.Headers{"k": strings.Repeat("x", store.MaxHeaders-20)}
	if err := scheduled.Schedule(ctx, e, "s", 0,
		stet.Schedule{Every: time.Hour, Headers: long}); !errors.Is(err, stet.ErrTooLarge) {
		t.Errorf("expected ErrTooLarge with the schedule's own headers, got %v", err)
	}
	if all, err := e.Schedules().List(ctx); err != nil || len(all) != 0 {
		t.Errorf("expected nothing to have changed, got %v (%v)", all, err)
	}
	for _, o := range []stet.Overlap{stet.SkipOverlap, stet.BufferOne, stet.AllowOverlap, stet.CancelPrevious} {
		text, err := o.MarshalText()
		var back stet.Overlap
		if err := errors.Join(err, back.UnmarshalText(text)); err != nil || back != o {
			t.Errorf("expected %s to survive, got %s (%v)", o, back, err)
		}
	}
}

// TestScheduleBeforeItsOwner: a request is durable, and carried out when an owner is there.
func TestScheduleBeforeItsOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		cfg := stet.Config{Store: s, Workflows: []stet.Definition{scheduled}, Build: "b",
			Logger: slog.New(slog.DiscardHandler)}
		e, err := stet.New(t.Context(), cfg)
		ok(t, err)
		ok(t, scheduled.Schedule(t.Context(), e, "s", 0, stet.Schedule{Every: time.Hour}))
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := e.Schedules().Pause(short, "s", stet.Act{}); !errors.Is(err, stet.ErrPending) {
			t.Errorf("expected the request to stand, got %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		time.Sleep(2 * time.Hour)
		i := info(t, e, "s")
		if !i.Schedule.Paused || i.Started != 0 {
			t.Errorf("expected both to have been carried out, got %+v", i)
		}
		stop()
		ok(t, <-ended)
	})
}

// TestScheduleOfSealedValues: the policy for payloads covers what a schedule keeps.
func TestScheduleOfSealedValues(t *testing.T) {
	t.Parallel()
	echo := stet.Define("echo", func(_ stet.Context, text string) (int, error) { return len(text), nil })
	text := strings.Repeat("secret word ", 2000)
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		cfg := stet.Config{
			Store: s, Workflows: []stet.Definition{echo}, ParkFor: time.Second, Logger: slog.New(slog.DiscardHandler),
			Payloads: stet.Payloads{Compress: 1000, Keys: []stet.PayloadKey{payloadKey("k1")}},
		}
		e := serve(t, cfg)
		ok(t, echo.Schedule(t.Context(), e, "s", text, stet.Schedule{Every: time.Hour}))
		time.Sleep(3*time.Hour + time.Minute) // it leaves memory in between
		for _, run := range listed(t, e, "s") {
			if string(run.Output) != "\x01"+fmt.Sprint(len(text)) {
				t.Errorf("expected the length of the text, got %q", run.Output)
			}
		}
		if i := info(t, e, "s"); i.Started != 3 || !strings.Contains(string(i.Input), "secret") {
			t.Errorf("expected three starts and a readable input, got %+v", i)
		}
		page, err := s.List(t.Context(), store.Filter{IDs: []string{"stet.schedule/s"}})
		ok(t, err)
		entries, err := s.History(t.Context(), store.HistoryQuery{Run: page.Runs[0].No, Values: true})
		ok(t, err)
		for _, e := range entries {
			if strings.Contains(string(e.Value), "secret") || strings.Contains(string(e.Value), "echo") {
				t.Errorf("expected nothing of it to be readable in the store, found it at %s", e.Loc)
			}
		}
	})
}

// C10, C11: the runs of a schedule stand on its queue.
func TestScheduleOnAQueue(t *testing.T) {
	t.Parallel()
	annotated := stet.Define("annotated", func(ctx stet.Context, takes time.Duration) (string, error) {
		return "", stet.Sleep(ctx, "work", takes)
	}, stet.OnQueue{Name: "q", Priority: 1})
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{scheduled, annotated}},
		func(t *testing.T, env *stettest.Env) {
			e := env.Engine
			hourly := stet.Schedule{Every: time.Hour, Overlap: stet.AllowOverlap}
			place := stet.OnQueue{Name: "q", Key: "tenant", Priority: 7}
			if err := scheduled.Schedule(t.Context(), e, "hourly", 0, hourly, place); !errors.Is(err, stet.ErrNoQueue) {
				t.Errorf("a schedule on a queue that does not exist: %v", err)
			}
			if err := scheduled.Schedule(t.Context(), e, "hourly", 0, hourly,
				stet.OnQueue{Key: "x"}); !errors.Is(err, stet.ErrInvalid) {
				t.Errorf("a queue without a name: %v", err)
			}
			ok(t, e.Queues().Create(t.Context(), "q", stet.QueueSettings{Concurrency: 1}))
			ok(t, scheduled.Schedule(t.Context(), e, "hourly", 90*time.Minute, hourly, place))
			ok(t, annotated.Schedule(t.Context(), e, "other", 0, stet.Schedule{Every: 24 * time.Hour}))
			ok(t, annotated.Schedule(t.Context(), e, "aside", 0, stet.Schedule{Every: 24 * time.Hour}, stet.OnQueue{}))
			time.Sleep(2*time.Hour + time.Minute)
			if q, err := e.Queues().Info(t.Context(), "q"); err != nil || q.Held != 1 || q.Waiting != 1 || q.Granted != 1 {
				t.Errorf("the first run works for 90 minutes, the second one waits: %+v, %v", q, err)
			}
			time.Sleep(time.Hour)
			runs := listed(t, e, "hourly")
			if len(runs) != 3 || runs[0].Status != store.Succeeded || runs[1].Started.Sub(runs[0].Ended) > time.Second ||
				runs[2].Status != store.Queued {
				t.Errorf("%+v", runs)
			}
			got, err := e.Runs().Info(t.Context(), runs[2].ID)
			if err != nil || got.OnQueue == nil || got.OnQueue.OnQueue != place || !got.OnQueue.Waits {
				t.Errorf("%+v, %v", got, err)
			}
			if i := info(t, e, "hourly"); i.OnQueue == nil || *i.OnQueue != place {
				t.Errorf("%+v", i)
			}
			if i := info(t, e, "other"); i.OnQueue == nil || *i.OnQueue != (stet.OnQueue{Name: "q", Priority: 1}) {
				t.Errorf("as the definition says: %+v", i)
			}
			if i := info(t, e, "aside"); i.OnQueue != nil {
				t.Errorf("on no queue: %+v", i)
			}
		})
}
