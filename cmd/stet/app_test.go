package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/codecheck"
	"github.com/stet-run/stet/store/files"
)

// The workflows of the application that the scripts run.
var (
	double = stet.Define("double", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
	})
	resize = stet.Define("resize", func(ctx stet.Context, n int) (int, error) {
		return stet.Task[int, int]("resize").Run(ctx, n)
	})
	fails = stet.Define("fails", func(ctx stet.Context, _ any) (int, error) {
		return stet.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			return 0, fmt.Errorf("try %d: %w", stet.Attempt(ctx), errors.New("card declined"))
		}, stet.Retry{Attempts: 2, First: time.Millisecond})
	})
	panics = stet.Define("panics", func(ctx stet.Context, _ any) (int, error) {
		return stet.Step(ctx, "explode", func(context.Context) (int, error) { panic("boom") }, stet.Retry{Attempts: 1})
	})
	retries = stet.Define("retries", func(ctx stet.Context, _ any) (int, error) {
		return stet.Step(ctx, "call", func(context.Context) (int, error) { return 0, errors.New("line busy") },
			stet.Retry{First: time.Hour, Max: time.Hour})
	})
	// stubborn is paused after two failures.
	stubborn = stet.Define("stubborn", func(ctx stet.Context, _ any) (int, error) {
		return stet.Step(ctx, "call", func(ctx context.Context) (int, error) {
			if n := stet.Attempt(ctx); n < 4 {
				return 0, fmt.Errorf("try %d: line busy", n)
			}
			return 4, nil
		}, stet.Retry{First: time.Millisecond, Max: time.Millisecond})
	}, stet.PauseAfter(2))
	sleepy = stet.Define("sleepy", func(ctx stet.Context, _ any) (int, error) {
		return 1, stet.Sleep(ctx, "long", time.Hour)
	})

	name  = stet.Message[string]("name")
	greet = stet.Define("greet", func(ctx stet.Context, _ any) (string, error) {
		n, err := name.Receive(ctx)
		if err != nil {
			return "", err
		}
		return stet.Step(ctx, "compose", func(context.Context) (string, error) { return "hello " + n, nil })
	})
	approve = stet.Define("approve", func(ctx stet.Context, _ any) (string, error) {
		p, err := stet.NewPromise[string](ctx, "decision")
		if err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "tell", func(context.Context) error {
			return os.WriteFile("token", []byte(p.Token()), 0o644)
		}); err != nil {
			return "", err
		}
		return p.Await(ctx)
	})
	fan = stet.Define("fan", func(ctx stet.Context, items []string) ([]string, error) {
		return stet.Map(ctx, "pack", items, func(ctx stet.Context, item string) (string, error) {
			return stet.Step(ctx, "pick", func(context.Context) (string, error) { return "picked " + item, nil })
		})
	})
	// parent has a child that has a child, one that fails, and one that goes on
	// without it.
	parent = stet.Define("parent", func(ctx stet.Context, _ any) (int, error) {
		if _, err := greet.Detach(ctx, nil); err != nil {
			return 0, err
		}
		if _, err := fails.Call(ctx, nil); err == nil {
			return 0, errors.New("the child has not failed")
		}
		return middle.Call(ctx, 20)
	})
	// guards waits beside a child that waits.
	guards = stet.Define("guards", func(ctx stet.Context, _ any) (string, error) {
		if err := stet.Do(ctx, "open", func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		if _, err := greet.Go(ctx, nil); err != nil {
			return "", err
		}
		return name.Receive(ctx)
	})
	middle = stet.Define("middle", func(ctx stet.Context, n int) (int, error) { return double.Call(ctx, n+1) })
	// report shows what it does, answers updates, and ends when it is requested to.
	report = stet.Define("report", func(ctx stet.Context, _ any) (string, error) {
		lines, percent := stet.Stream[string]("lines"), stet.Value[int]("percent")
		if err := errors.Join(lines.Append(ctx, "begin for "+stet.Header(ctx, "tenant")), percent.Set(ctx, 0)); err != nil {
			return "", err
		}
		setLimit := stet.Update[int, string]("set-limit")
		for {
			r, err := setLimit.Receive(ctx)
			if err != nil {
				return "", err
			}
			if r.Value < 0 {
				if err := r.Reject(ctx, errors.New("a limit is not negative")); err != nil {
					return "", err
				}
				continue
			}
			if r.Value == 0 {
				return "done", stet.SetTags(ctx, stet.Tags{"size": "small"})
			}
			err = errors.Join(lines.Append(ctx, fmt.Sprint("limit ", r.Value)), percent.Set(ctx, r.Value),
				r.Answer(ctx, fmt.Sprint("now ", r.Value)))
			if err != nil {
				return "", err
			}
		}
	})
	// hangs executes a step until it is cancelled. lookout waits until that shows.
	hangs = stet.Define("hangs", func(ctx stet.Context, _ any) (int, error) {
		return 0, stet.Do(ctx, "call the bank", func(ctx context.Context) error {
			if err := stet.Heartbeat(ctx, "half"); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		})
	})
	lookout = stet.Define("lookout", func(ctx stet.Context, id string) (int, error) {
		return 0, stet.Do(ctx, "look", func(ctx context.Context) error {
			for e := stet.EngineOf(ctx); ; {
				entries, err := e.Runs().History(ctx, id, stet.HistoryQuery{Values: true})
				if err != nil || len(entries) > 0 && !entries[0].Executing.IsZero() {
					return err
				}
				soon, cancel := context.WithTimeout(ctx, time.Second)
				_, _ = e.Store().Changed(soon) // a hint, which may be lost
				cancel()
			}
		})
	})
	// speaks emits a line in each of its two attempts.
	speaks = stet.Define("speaks", func(ctx stet.Context, _ any) (int, error) {
		return 0, stet.Do(ctx, "say", func(ctx context.Context) error {
			if err := stet.Stream[string]("lines").Emit(ctx, "hello"); err != nil || stet.Attempt(ctx) == 2 {
				return err
			}
			return errors.New("interrupted")
		}, stet.Retry{First: time.Millisecond})
	})
	// forgets keeps the newest two of its lines.
	forgets = stet.Define("forgets", func(ctx stet.Context, n int) (int, error) {
		for i := range n {
			if err := stet.Stream[int]("lines").Append(ctx, i, stet.Keep(2)); err != nil {
				return i, err
			}
		}
		return n, nil
	})
	// edited names its step as the environment says, so that another start of the
	// application is another version of the code.
	edited = stet.Define("edited", func(ctx stet.Context, _ any) (string, error) {
		//stetvet:ignore io each process of the test has another environment
		if err := stet.Do(ctx, "step-"+os.Getenv("VERSION"), func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		return name.Receive(ctx)
	})
	// approval waits for a name, but in its second version.
	approval = stet.Define("approval", func(ctx stet.Context, _ any) (string, error) {
		//stetvet:ignore io each process of the test has another environment
		if os.Getenv("VERSION") == "1" {
			return name.Receive(ctx)
		}
		stet.Removed(ctx, "name")
		return stet.Step(ctx, "approve", func(context.Context) (string, error) { return "approved", nil })
	})
	// retyped charges a card, and packs a parcel that is of another type from the second
	// version on.
	retyped = stet.Define("retyped", func(ctx stet.Context, _ any) (int, error) {
		err := stet.Do(ctx, "charge", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error { return os.WriteFile("refunded", nil, 0o644) }))
		if err != nil {
			return 0, err
		}
		parcel := struct{ Weight int }{}
		//stetvet:ignore io each process of the test has another environment
		if os.Getenv("VERSION") < "2" {
			parcel.Weight, err = stet.Step(ctx, "pack", func(context.Context) (int, error) { return 7, nil })
		} else {
			parcel, err = stet.Step(ctx, "pack", func(context.Context) (struct{ Weight int }, error) { return parcel, nil })
		}
		if err != nil {
			return 0, err
		}
		n, err := goes.Receive(ctx)
		return parcel.Weight + n, err
	})
	goes = stet.Message[int]("go")
	// saga is undone, at once or with trouble, or sleeps before.
	saga = stet.Define("saga", func(ctx stet.Context, how string) (int, error) {
		if err := stet.Do(ctx, "reserve", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error { return nil })); err != nil {
			return 0, err
		}
		if _, err := stet.Step(ctx, "charge", func(context.Context) (string, error) { return "ch-1", nil },
			stet.Undo(func(_ context.Context, charge string) error {
				switch _, err := os.Stat("mended"); {
				case how == "late":
					return errors.New("bank is closed")
				case how == "stuck" && err != nil:
					return stet.Permanent(fmt.Errorf("no charge %s", charge))
				}
				return nil
			}, stet.Retry{First: time.Hour, Max: time.Hour})); err != nil {
			return 0, err
		}
		if how == "sleeps" {
			return 0, stet.Sleep(ctx, "long", time.Hour)
		}
		return 0, errors.New("sold out")
	})
	// trip gives back what it has booked with one supplier, and books with another one. Its
	// second version keeps it.
	trip = stet.Define("trip", func(ctx stet.Context, how string) (string, error) {
		undoOn := stet.UndoOnFailure
		//stetvet:ignore io each process of the test has another environment
		if os.Getenv("VERSION") == "2" {
			undoOn = stet.UndoOnCancel
		}
		book := func(supplier string) (string, error) {
			return stet.Saga(ctx, "book", func(ctx stet.Context) (string, error) {
				err := stet.Do(ctx, "hotel", func(context.Context) error { return nil },
					stet.UndoDo(func(context.Context) error {
						if _, err := os.Stat("open"); how == "stuck" && err != nil {
							return stet.Permanent(errors.New("the hotel is closed"))
						}
						return nil
					}))
				if err != nil {
					return "", err
				}
				return stet.Step(ctx, "flight", func(context.Context) (string, error) {
					if supplier == "north" {
						return "", stet.Permanent(errors.New("no seat"))
					}
					return supplier + " 7", nil
				})
			}, stet.Key(supplier), undoOn)
		}
		flight, err := book("north")
		if err != nil {
			flight, err = book("south")
		}
		if err != nil {
			return "", err
		}
		passenger, err := name.Receive(ctx)
		return passenger + " flies with " + flight, err
	})
	// turns is a loop that keeps its last three iterations, in each of two
	// incarnations.
	turns = stet.Define("turns", func(ctx stet.Context, n int) (int, error) {
		sum, err := stet.Loop(ctx, "add", 0, func(ctx stet.Context, sum int) (next stet.Next[int, int], err error) {
			if sum, err = stet.Step(ctx, "one", func(context.Context) (int, error) { return sum + 1, nil }); sum == n {
				return next.Break(sum), err
			}
			return next.Continue(sum), err
		}, stet.LoopOptions{Every: 5, Keep: 3})
		if err == nil && n == 21 {
			err = stet.ContinueAsNew(n + 1)
		}
		return sum, err
	})
	// listener waits for a job, and for news that it publishes itself.
	listener = stet.Define("listener", func(ctx stet.Context, _ any) (string, error) {
		jobs := stet.Topic[string]{Name: "jobs", Mode: stet.Consumed, Visible: stet.Retained}
		job, err := jobs.Receive(ctx, stet.Named("job"))
		if err != nil {
			return "", err
		}
		if _, err := stet.Publish(ctx, stet.Topic[string]{Name: "news"}, "did "+job); err != nil {
			return "", err
		}
		return stet.Topic[string]{Name: "news"}.Receive(ctx)
	})
	// careful stalls instead of failing.
	careful = stet.Define("careful", func(ctx stet.Context, _ any) (int, error) {
		return stet.Step(ctx, "weigh", func(context.Context) (int, error) { return 0, errors.New("scales are broken") },
			stet.Retry{Attempts: 1})
	}, stet.StallOnFailure)
)

// application is a user's program: an engine with the workflows above, on app.db or the
// server that STET_DB names.
// With the argument register it ends as soon as their names are known there; with
// check it replays live runs against its code.
func application() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "check" {
		return check(ctx)
	}
	if err := work(ctx, stop, len(os.Args) > 1 && os.Args[1] == "register", os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// check is the application's own check of a store against its code.
func check(ctx context.Context) int {
	o := &opener{db: os.Getenv("STET_DB"), log: slog.New(slog.DiscardHandler)}
	db, err := o.open(context.Background(), false)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer db.Close()
	e, err := stet.New(ctx, stet.Config{Store: db, Workflows: []stet.Definition{double, edited, retyped, trip}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return codecheck.Command(ctx, e, os.Args[2:], os.Stdout, os.Stderr)
}

func work(ctx context.Context, stop func(), register bool, log io.Writer) (err error) {
	address := "app.db"
	if db := os.Getenv("STET_DB"); strings.Contains(db, "://") {
		address = db
	}
	db, err := (&opener{db: address, log: slog.New(slog.DiscardHandler)}).open(context.Background(), true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var values stet.Payloads
	if values.Keys, err = parseKeys(os.Getenv("APP_KEYS")); err != nil {
		return err
	}
	if dir := os.Getenv("APP_OBJECTS"); dir != "" {
		if values.Objects, err = files.Open(dir); err != nil {
			return err
		}
		values.Offload = 5000
	}
	e, err := stet.New(ctx, stet.Config{
		Store: db, Payloads: values, Node: cmp.Or(os.Getenv("NODE"), "app"), Build: "build-" + os.Getenv("VERSION"),
		Workflows: []stet.Definition{
			double, resize,
			fails, panics, retries, sleepy, greet, approve, fan, report, parent, guards, middle, edited, retyped, saga, turns,
			approval, careful, stubborn, listener, hangs, lookout, speaks, forgets, trip,
		},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
		OnRecover: func(stet.Recovery) { // it owns the store now, and has registered before
			if register {
				stop()
			}
		},
	})
	if err != nil {
		return err
	}
	return e.Run(ctx)
}
