package stettest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

var word = stet.Message[string]("word")

func with(workflows ...stet.Definition) stet.Config { return stet.Config{Workflows: workflows} }

// start starts a run and fails the test if it cannot.
func start[In, Out any](
	t *testing.T, env *stettest.Env, w *stet.Workflow[In, Out], in In, opts ...stet.StartOption,
) *stet.Run[Out] {
	t.Helper()
	r, err := w.Start(t.Context(), env.Engine, in, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// want fails the test unless the run ends with the result.
func want[Out comparable](t *testing.T, r *stet.Run[Out], out Out) {
	t.Helper()
	if got, err := r.Wait(t.Context()); err != nil || got != out {
		t.Errorf("run %s ends with %v, %v; want %v", r.ID(), got, err, out)
	}
}

// near fails the test unless so much virtual time has passed, except for the
// nanoseconds of the order of step bodies.
func near(t *testing.T, env *stettest.Env, d time.Duration) {
	t.Helper()
	if got := env.Elapsed(); got < d || got > d+10*time.Microsecond {
		t.Errorf("%v of virtual time have passed, want %v", got, d)
	}
}

// A year of sleep, with an operation before it and one after it.
func TestSleepTakesNoTime(t *testing.T) {
	w := stet.Define("yearly", func(ctx stet.Context, _ int) (string, error) {
		begun := stet.Now(ctx)
		if err := stet.Sleep(ctx, "year", year); err != nil {
			return "", err
		}
		return stet.Step(ctx, "done", func(context.Context) (string, error) {
			//stetvet:ignore context the misuse is what is tested
			return stet.Now(ctx).Sub(begun).Round(time.Millisecond).String(), nil
		})
	})
	real := time.Now()
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		want(t, start(t, env, w, 0), year.String())
		near(t, env, year)
	})
	// A ticker of a minute in the engine would take several here, and an hour with the race detector.
	ages := stet.Define("ages", func(ctx stet.Context, _ int) (int, error) { return 0, stet.Sleep(ctx, "ages", 90*year) })
	stettest.Run(t, with(ages), func(t *testing.T, env *stettest.Env) {
		want(t, start(t, env, ages, 0), 0)
		near(t, env, 90*year)
	})
	if took := time.Since(real); took > time.Minute {
		t.Errorf("ninety years have taken %v: does something in the engine tick?", took)
	}
}

// sleepers runs so many runs that each sleep for a year.
func sleepers(t *testing.T, runs int) {
	w := stet.Define("yearly", func(ctx stet.Context, i int) (int, error) {
		return i, stet.Sleep(ctx, "year", year)
	})
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		inputs := make([]int, runs)
		for i := range inputs {
			inputs[i] = i
		}
		all, err := w.StartAll(t.Context(), env.Engine, inputs, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range all {
			want(t, r, i)
		}
		near(t, env, year)
	})
}

func TestManySleepers(t *testing.T) { sleepers(t, 100) }

// BenchmarkYear runs 1,000 runs that each sleep a year. It is to take less than one
// second.
func BenchmarkYear(b *testing.B) {
	for b.Loop() {
		ok := testing.RunTests(func(string, string) (bool, error) { return true, nil },
			[]testing.InternalTest{{Name: "year", F: func(t *testing.T) { sleepers(t, 1000) }}})
		if !ok {
			b.Fatal("the test has failed")
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/1000runs")
}

func TestReplacedSteps(t *testing.T) {
	declined := errors.New("declined")
	real := func(context.Context) (string, error) { return "real", nil }
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		var got []string
		for _, key := range []string{"a", "b"} {
			v, err := stet.Step(ctx, "pick", real, stet.Key(key))
			if err != nil {
				return "", err
			}
			got = append(got, v)
		}
		for range 2 {
			v, err := stet.Step(ctx, "charge", real)
			if err != nil {
				return "", err
			}
			got = append(got, v)
		}
		return strings.Join(got, " "), nil
	}, stet.Retry{First: time.Hour, Max: day, Factor: 2, Jitter: stet.None})
	for _, c := range []struct {
		name    string
		replace func(*stettest.Env)
		want    string
		elapsed time.Duration
		calls   map[string]int
	}{
		{name: "nothing", replace: func(*stettest.Env) {}, want: "real real real real",
			calls: map[string]int{"pick": 2, "pick/[a]": 1, "charge": 1, "charge#2": 1, "none": 0}},
		{name: "by name", replace: func(env *stettest.Env) {
			env.Replace("pick", stettest.Returns("fake"))
		}, want: "fake fake real real"},
		{name: "by location", replace: func(env *stettest.Env) {
			env.Replace("pick/[b]", stettest.Returns("fake"))
			env.Replace("charge#2", stettest.Returns("second"))
		}, want: "real fake real second"},
		{name: "a location goes before a name", replace: func(env *stettest.Env) {
			env.Replace("pick", stettest.Returns("name"))
			env.Replace("pick/[a]", stettest.Returns("location"))
		}, want: "location name real real"},
		{name: "its own again", replace: func(env *stettest.Env) {
			env.Replace("pick", stettest.Returns("fake"))
			env.Replace("pick", nil)
		}, want: "real real real real"},
		{name: "a sequence of attempts", replace: func(env *stettest.Env) {
			env.Replace("pick/[a]", stettest.Sequence(stettest.Fails(declined), stettest.Fails(declined), stettest.Own))
		}, want: "real real real real", elapsed: 3 * time.Hour, calls: map[string]int{"pick/[a]": 3, "pick": 4}},
		{name: "a body that takes time", replace: func(env *stettest.Env) {
			env.Replace("charge", stettest.Takes(5*time.Minute, stettest.Own))
		}, want: "real real real real", elapsed: 10 * time.Minute},
		{name: "it knows its step", replace: func(env *stettest.Env) {
			env.Replace("charge#2", func(ctx context.Context) (any, error) {
				info, _ := stet.StepOf(ctx)
				return fmt.Sprint(info.Location, " ", stet.Attempt(ctx), " ", len(stet.IdempotencyKey(ctx))), nil
			})
		}, want: "real real real charge#2 1 32"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
				c.replace(env)
				want(t, start(t, env, w, 0), c.want)
				near(t, env, c.elapsed)
				for step, n := range c.calls {
					if got := env.Attempts(step); got != n {
						t.Errorf("%d attempts of %s, want %d", got, step, n)
					}
				}
			})
		})
	}
}

// A replaced step fails like a real one: with a StepError, the registered errors,
// and as often as its Retry says.
func TestReplacedStepThatFails(t *testing.T) {
	declined := errors.New("declined")
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		retry := stet.Retry{Attempts: 3, First: time.Minute, Max: time.Hour, Factor: 1, Jitter: stet.None}
		return "", stet.Do(ctx, "charge", func(context.Context) error { return nil }, retry)
	})
	cfg := stet.Config{Workflows: []stet.Definition{w}, Errors: []stet.ErrorCode{stet.Sentinel("declined", declined)}}
	for name, c := range map[string]struct {
		body     stettest.Body
		attempts int
		elapsed  time.Duration
	}{
		"each time":   {stettest.Fails(declined), 3, 2 * time.Minute},
		"permanently": {stettest.Fails(stet.Permanent(declined)), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
				env.Replace("charge", c.body)
				_, err := start(t, env, w, 0).Wait(t.Context())
				var step *stet.StepError
				if !errors.Is(err, declined) || !errors.As(err, &step) || step.Attempts != c.attempts ||
					env.Attempts("charge") != c.attempts {
					t.Errorf("the run ends with %v after %d attempts", err, env.Attempts("charge"))
				}
				near(t, env, c.elapsed)
			})
		})
	}
}

// A step's timeout and its time for all attempts are virtual as well.
func TestTimeoutOfAStepThatHangs(t *testing.T) {
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		return "", stet.Do(ctx, "call", func(context.Context) error { return nil },
			stet.Retry{Attempts: 2, First: time.Minute, Max: time.Hour, Jitter: stet.None, Timeout: time.Hour})
	})
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		env.Replace("call", stettest.Hangs())
		if _, err := start(t, env, w, 0).Wait(t.Context()); !errors.Is(err, stet.ErrTimeout) {
			t.Errorf("the run ends with %v", err)
		}
		near(t, env, 2*time.Hour+time.Minute)
	})
}

// approval waits for a message, a promise and a cancel.
var approval = stet.Define("approval", func(ctx stet.Context, _ int) (string, error) {
	w, err := word.Receive(ctx, stet.Within(3*day))
	if err != nil {
		return "", err
	}
	p, err := stet.NewPromise[string](ctx, "signed")
	if err != nil {
		return "", err
	}
	if err := stet.Do(ctx, "mail", func(context.Context) error { tokens <- p.Token(); return nil }); err != nil {
		return "", err
	}
	signed, err := p.Await(ctx, stet.Within(30*day))
	return w + " " + signed, err
})

var tokens chan string

func TestActsAtAnInstant(t *testing.T) {
	stettest.Run(t, with(approval), func(t *testing.T, env *stettest.Env) {
		tokens = make(chan string, 1)
		r := start(t, env, approval, 0)
		env.At(2*day, func(ctx context.Context) error { return word.Send(ctx, env.Engine, r.ID(), "yes") })
		env.At(12*day, func(ctx context.Context) error { return env.Engine.Resolve(ctx, <-tokens, "Ada") })
		want(t, r, "yes Ada")
		near(t, env, 12*day)
	})
	stettest.Run(t, with(approval), func(t *testing.T, env *stettest.Env) {
		r := start(t, env, approval, 0)
		env.At(4*day, func(ctx context.Context) error { return word.Send(ctx, env.Engine, r.ID(), "late") })
		if _, err := r.Wait(t.Context()); !errors.Is(err, stet.ErrTimeout) {
			t.Errorf("the run ends with %v", err)
		}
		near(t, env, 3*day)
	})
	stettest.Run(t, with(approval), func(t *testing.T, env *stettest.Env) {
		r := start(t, env, approval, 0)
		env.At(day, func(ctx context.Context) error { _, err := r.Cancel(ctx, stet.Act{Why: "enough"}); return err })
		if _, err := r.Wait(t.Context()); !errors.Is(err, stet.ErrCancelled) {
			t.Errorf("the run ends with %v", err)
		}
		near(t, env, day)
	})
}

// Acts of one instant happen in the order of the calls of At.
func TestActsOfOneInstant(t *testing.T) {
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		words := ""
		for range 10 {
			v, err := word.Receive(ctx)
			if err != nil {
				return "", err
			}
			words += v
		}
		return words, nil
	})
	for range 5 {
		stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
			r := start(t, env, w, 0)
			for i := range 10 {
				env.At(day, func(ctx context.Context) error { return word.Send(ctx, env.Engine, r.ID(), fmt.Sprint(i)) })
			}
			want(t, r, "0123456789")
		})
	}
}

// When the test is over it waits also for a body that ignores the end of its context.
func TestBodyThatOutlivesTheTest(t *testing.T) {
	ended := false
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		return "", stet.Do(ctx, "s", func(context.Context) error { time.Sleep(year); ended = true; return nil })
	})
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		start(t, env, w, 0)
		time.Sleep(day)
	})
	if !ended {
		t.Error("the body has not ended")
	}
}

// A test may also sleep itself, and then look at its runs, which wait.
func TestSettle(t *testing.T) {
	stettest.Run(t, with(approval), func(t *testing.T, env *stettest.Env) {
		tokens = make(chan string, 1)
		r := start(t, env, approval, 0)
		env.Settle()
		info, err := r.Info(t.Context())
		if err != nil || info.Status != store.Suspended || len(info.WaitsFor) != 1 || info.WaitsFor[0].Names[0] != "word" {
			t.Errorf("the run is %+v, %v", info, err)
		}
		time.Sleep(day)
		if err := word.Send(t.Context(), env.Engine, r.ID(), "yes"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		info, err = r.Info(t.Context())
		if err != nil || info.Status != store.Suspended ||
			info.WaitsFor[0].Kind != "promise" && info.WaitsFor[0].Kind != "timer" {
			t.Errorf("the run is %+v, %v", info, err)
		}
	})
}

// Settle waits until every body that needs no time has been executed, one after the other.
func TestSettleExecutesBodies(t *testing.T) {
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		_, err := stet.Map(ctx, "all", []string{"a", "b", "c"}, func(ctx stet.Context, name string) (int, error) {
			return 0, errors.Join(stet.Do(ctx, "first", nothing), stet.Do(ctx, "second", nothing))
		})
		if err != nil {
			return "", err
		}
		return word.Receive(ctx)
	})
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		r := start(t, env, w, 0)
		env.Settle()
		if n := env.Attempts("first") + env.Attempts("second"); n != 6 {
			t.Errorf("%d bodies were executed, want 6", n)
		}
		if info, err := r.Info(t.Context()); err != nil || info.Status != store.Suspended {
			t.Errorf("the run is %+v, %v", info, err)
		}
		near(t, env, 0)
	})
}

// TestActsWaitForWhatTheFormerHasCaused: of several acts at one instant each begins when
// the bodies that the former has caused have ended.
func TestActsWaitForWhatTheFormerHasCaused(t *testing.T) {
	steps.Store(0)
	var seen []int // bodies that were executed by the time of each act
	stettest.Run(t, with(stepper), func(t *testing.T, env *stettest.Env) {
		for i := range 3 {
			env.At(day, func(ctx context.Context) error {
				seen = append(seen, int(steps.Load()))
				_, err := stepper.Start(ctx, env.Engine, i)
				return err
			})
		}
		time.Sleep(2 * day)
	})
	if want := []int{0, 5, 10}; !slices.Equal(seen, want) {
		t.Errorf("the acts have found %v bodies executed, want %v", seen, want)
	}
}

// steps counts the bodies of stepper, which is five steps in a row.
var steps atomic.Int64

var stepper = stet.Define("stepper", func(ctx stet.Context, _ int) (int, error) {
	for range 5 {
		if err := stet.Do(ctx, "s", func(context.Context) error { steps.Add(1); return nil }); err != nil {
			return 0, err
		}
	}
	return 0, nil
})

func nothing(context.Context) error { return nil }

// Step bodies of many branches and runs begin in one order, each time, and the
// histories are equal to the byte.
func TestSameOrderEachTime(t *testing.T) {
	w := stet.Define("w", func(ctx stet.Context, n int) (string, error) {
		var order []string
		_, err := stet.Map(ctx, "map", []int{0, 1, 2, 3, 4, 5, 6, 7}, func(ctx stet.Context, i int) (int, error) {
			if i%3 == 0 {
				if err := stet.Sleep(ctx, "nap", time.Duration(stet.Random(ctx).Int64N(int64(time.Hour)))); err != nil {
					return 0, err
				}
			}
			v, err := stet.Step(ctx, "s", func(ctx context.Context) (int, error) {
				time.Sleep(time.Duration(i%2) * time.Second)
				if stet.Attempt(ctx) == 1 && i%4 == 0 {
					return 0, errors.New("once more")
				}
				return i, nil
			})
			order = append(order, fmt.Sprint(v))
			return v, err
		})
		return strings.Join(order, " "), err
	})
	var first []byte
	for i := range 10 {
		var histories bytes.Buffer
		stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
			for n := range 5 {
				start(t, env, w, n, stet.ID(fmt.Sprint("r", n)))
			}
			for n := range 5 {
				id := fmt.Sprint("r", n)
				if _, err := env.Engine.Runs().Wait(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if err := env.Engine.Runs().Export(t.Context(), id, &histories); err != nil {
					t.Fatal(err)
				}
			}
		})
		switch {
		case i == 0:
			first = histories.Bytes()
		case !bytes.Equal(first, histories.Bytes()):
			t.Fatalf("test %d has other histories:\n%s\nand\n%s", i, first, histories.Bytes())
		}
	}
}

// Steps may use what was made outside of the bubble, at no cost of virtual time.
func TestOutside(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "pong")
	}))
	defer server.Close()
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		got, err := stet.Step(ctx, "ping", func(ctx context.Context) (string, error) {
			if err := stet.Heartbeat(ctx, "half"); err != nil {
				return "", err
			}
			request, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
			if err != nil {
				return "", err
			}
			response, err := http.DefaultClient.Do(request) // keeps its connection
			if err != nil {
				return "", err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			return string(body), err
		}, stet.Retry{Timeout: time.Hour})
		if err != nil {
			return "", err
		}
		return got, stet.Sleep(ctx, "year", year)
	})
	for range 2 {
		stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
			env.Outside("ping")
			want(t, start(t, env, w, 0), "pong")
			near(t, env, year)
		})
	}
	panics := stet.Define("panics", func(ctx stet.Context, _ int) (string, error) {
		return "", stet.Do(ctx, "s", func(context.Context) error { panic("out there") }, stet.Retry{Attempts: 1})
	})
	stettest.Run(t, with(panics), func(t *testing.T, env *stettest.Env) {
		env.Outside("s")
		if _, err := start(t, env, panics, 0).Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "out there") {
			t.Errorf("the run ends with %v", err)
		}
	})
}

// Around of the config still stands around each body, replaced ones included.
func TestAroundOfTheConfig(t *testing.T) {
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		return stet.Step(ctx, "s", func(context.Context) (string, error) { return "real", nil })
	})
	var seen []string
	cfg := with(w)
	cfg.Around = func(ctx context.Context, step stet.StepInfo, next func(context.Context) error) error {
		err := next(ctx)
		seen = append(seen, fmt.Sprint(step.Location, err))
		return err
	}
	stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
		env.Replace("s", stettest.Returns("fake"))
		want(t, start(t, env, w, 0), "fake")
	})
	if !slices.Equal(seen, []string{"s<nil>"}) {
		t.Errorf("Around has seen %q", seen)
	}
}

// TestAStepThatFailsWithoutEnd gives up, and says so: by default there is no limit of attempts.
func TestAStepThatFailsWithoutEnd(t *testing.T) {
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		return 0, stet.Do(ctx, "ask", func(context.Context) error { return errors.New("no answer") })
	})
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{w}}, func(t *testing.T, env *stettest.Env) {
		run, err := w.Start(t.Context(), env.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = run.Wait(t.Context())
		if err == nil || !strings.Contains(err.Error(), "ask has failed 10000 times in a row") ||
			!strings.Contains(err.Error(), "no answer") {
			t.Errorf("it ends with %v", err)
		}
	})
}
