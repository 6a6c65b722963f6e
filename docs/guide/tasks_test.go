package guide_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// What the tasks work with.
type (
	Order    struct{ ID, Customer string }
	Charge   struct{ ID string }
	Decision struct{ OK bool }
	Cursor   struct{ Seen int }
	Page     struct {
		Items int
		Last  bool
	}
)

type bank struct{}

func (bank) Charge(context.Context, Order, string) (Charge, error) { return Charge{"c-1"}, nil }
func (bank) Refund(context.Context, Charge, string) error          { return nil }

type carrier struct{}

func (carrier) Book(_ context.Context, o Order) error {
	if o.Customer == "the moon" {
		return stet.Permanent(ErrNoRoute)
	}
	return nil
}

type terminal struct{}

func (terminal) Charge(_ context.Context, o Order) (Charge, error) {
	if o.Customer == "Bob" {
		return Charge{}, stet.Permanent(&Declined{"expired"})
	}
	return Charge{"c-1"}, nil
}

type feed struct{}

func (feed) After(_ context.Context, seen int) (Page, error) {
	return Page{Items: 10, Last: seen >= 90}, nil
}

// Retry.
func charge(ctx stet.Context, o Order) (Charge, error) {
	return stet.Step(ctx, "charge", func(ctx context.Context) (Charge, error) {
		return bank{}.Charge(ctx, o, stet.IdempotencyKey(ctx))
	}, stet.Retry{Attempts: 8, First: time.Second, Max: time.Minute, Timeout: 20 * time.Second})
}

// Wait for a person.
var Approved = stet.Message[Decision]("approved")

func approve(ctx stet.Context, _ Order) (bool, error) {
	d, err := Approved.Receive(ctx, stet.Within(72*time.Hour))
	if errors.Is(err, stet.ErrTimeout) {
		return false, nil // nobody has decided
	}
	return d.OK, err
}

type Point struct{ X, Y float64 }

var Position = stet.Message[Point]("position")

var trips = stet.Define("trip", trip, stet.DiscardDeadLetters(Position)) // the last positions are of no use

func trip(ctx stet.Context, _ string) (Point, error) { return Position.Receive(ctx) }

// Wait for an event.
type Job struct{ Name string }

var Jobs = stet.Topic[Job]{Name: "jobs", Mode: stet.Consumed, Expiry: time.Hour}

func work(ctx stet.Context, _ int) (string, error) {
	job, err := Jobs.Receive(ctx, stet.Within(time.Minute))
	if errors.Is(err, stet.ErrTimeout) {
		return "nothing to do", nil
	}
	return job.Name, err
}

// Loop.
func follow(ctx stet.Context, from Cursor) (int, error) {
	return stet.Loop(ctx, "poll", from, func(ctx stet.Context, c Cursor) (next stet.Next[Cursor, int], err error) {
		page, err := stet.Step(ctx, "fetch", func(ctx context.Context) (Page, error) { return feed{}.After(ctx, c.Seen) })
		if err != nil {
			return next, err
		}
		c.Seen += page.Items
		if page.Last {
			return next.Break(c.Seen), nil
		}
		return next.Continue(c), stet.Sleep(ctx, "pause", time.Minute)
	})
}

// Fan out.
func measure(ctx stet.Context, pages []string) ([]int, error) {
	return stet.Map(ctx, "measure", pages, func(ctx stet.Context, url string) (int, error) {
		return stet.Step(ctx, "head", func(ctx context.Context) (int, error) { return length(ctx, url) })
	}, stet.MapLimit(8), stet.KeyBy(func(url string) string { return url }))
}

func length(_ context.Context, url string) (int, error) {
	if !strings.HasPrefix(url, "http") {
		return 0, stet.Permanent(http.ErrNotSupported)
	}
	return len(url), nil
}

// Keep to a limit.
func makeQueues(ctx context.Context, e *stet.Engine) error {
	return errors.Join(
		e.Queues().Create(ctx, "imports", stet.QueueSettings{Concurrency: 20, PerKey: 2}),
		e.Queues().Create(ctx, "model", stet.QueueSettings{Concurrency: 8, Rate: 60, Per: time.Minute}),
		e.Queues().Create(ctx, "tokens", stet.QueueSettings{RatePerKey: 20_000, Per: time.Minute}),
	)
}

func importFor(
	ctx context.Context, e *stet.Engine, imports *stet.Workflow[string, int], customer, file string,
) (*stet.Run[int], error) {
	return imports.Start(ctx, e, file, stet.OnQueue{Name: "imports", Key: customer})
}

func summarise(ctx stet.Context, text string) (string, error) {
	return stet.Step(ctx, "summarise", func(ctx context.Context) (string, error) {
		return model{}.Summarise(ctx, text)
	}, stet.OnStepQueue("model"), stet.Retry{Attempts: 6})
}

func answer(ctx stet.Context, customer, text string) (string, error) {
	return stet.Step(ctx, "answer", func(ctx context.Context) (string, error) {
		reply, tokens := model{}.Answer(ctx, text)
		return reply, stet.Spent(ctx, tokens)
	}, stet.Permit{Queue: "tokens", Key: customer, Cost: 1000})
}

type model struct{}

func (model) Answer(_ context.Context, text string) (string, int) { return text[:1], 15_000 }

func (model) Summarise(_ context.Context, text string) (string, error) { return text[:1], nil }

func TestLimits(t *testing.T) {
	imports := stet.Define("import", func(ctx stet.Context, file string) (int, error) {
		return len(file), stet.Sleep(ctx, "read", time.Hour)
	})
	summaries := stet.Define("summarise", summarise)
	answers := stet.Define("answer", func(ctx stet.Context, customer string) (string, error) {
		return answer(ctx, customer, "text")
	})
	definitions := []stet.Definition{imports, summaries, answers}
	stettest.Run(t, stet.Config{Workflows: definitions}, func(t *testing.T, env *stettest.Env) {
		begun := time.Now()
		if err := makeQueues(t.Context(), env.Engine); err != nil {
			t.Fatal(err)
		}
		var files []*stet.Run[int]
		for range 4 {
			run, err := importFor(t.Context(), env.Engine, imports, "acme", "a.csv")
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, run)
		}
		for _, customer := range []string{"acme", "acme", "zenith"} { // 15,000 tokens each, of 20,000 for each customer
			run, err := answers.Start(t.Context(), env.Engine, customer)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := run.Wait(t.Context()); err != nil || got != "t" || time.Since(begun) > time.Minute {
				t.Errorf("after %s %s got %q, %v", time.Since(begun), customer, got, err)
			}
		}
		var texts []*stet.Run[string]
		for range 150 {
			run, err := summaries.Start(t.Context(), env.Engine, "text")
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, run)
		}
		for _, run := range texts {
			if got, err := run.Wait(t.Context()); err != nil || got != "t" {
				t.Errorf("got %q, %v", got, err)
			}
		}
		if d := time.Since(begun); d < 2*time.Minute || d > 3*time.Minute {
			t.Errorf("150 summaries at 60 a minute took %s", d)
		}
		for _, run := range files {
			if got, err := run.Wait(t.Context()); err != nil || got != 5 {
				t.Errorf("got %d, %v", got, err)
			}
		}
		if d := time.Since(begun); d < 2*time.Hour || d > 2*time.Hour+time.Minute {
			t.Errorf("four imports of an hour, two at a time, took %s", d)
		}
	})
}

// Undo.
func book(ctx stet.Context, o Order) (Charge, error) {
	charge, err := stet.Step(ctx, "charge", func(ctx context.Context) (Charge, error) {
		return bank{}.Charge(ctx, o, stet.IdempotencyKey(ctx))
	}, stet.Undo(func(ctx context.Context, c Charge) error {
		return bank{}.Refund(ctx, c, stet.IdempotencyKey(ctx))
	}))
	if err != nil {
		return charge, err
	}
	return charge, stet.Do(ctx, "book", func(ctx context.Context) error { return carrier{}.Book(ctx, o) })
}

// Recognise an error.
var ErrNoRoute = errors.New("no route")

// Declined is what the bank answers.
type Declined struct{ Reason string }

func (d *Declined) Error() string { return "declined: " + d.Reason }

// Codes are the errors that workflows recognise: stet.Config{Errors: Codes}.
var Codes = []stet.ErrorCode{
	stet.Sentinel("no-route", ErrNoRoute),
	stet.ErrorType[*Declined]("declined"),
}

func pay(ctx stet.Context, o Order) (string, error) {
	_, err := stet.Step(ctx, "charge", func(ctx context.Context) (Charge, error) {
		return terminal{}.Charge(ctx, o)
	}, stet.Retry{Attempts: 2})
	if declined, ok := errors.AsType[*Declined](err); ok {
		return "ask for another card: " + declined.Reason, nil
	}
	return "paid", err
}

// Undo a part, and go another way.
func deliver(ctx stet.Context, o Order) (Charge, error) {
	charge, err := stet.Saga(ctx, "to the door", func(ctx stet.Context) (Charge, error) { return book(ctx, o) })
	if errors.Is(err, ErrNoRoute) { // the charge is refunded by now
		o.Customer = "depot"
		charge, err = stet.Saga(ctx, "to the depot", func(ctx stet.Context) (Charge, error) { return book(ctx, o) })
	}
	return charge, err
}

// Run again and again.
func everyNight(ctx context.Context, e *stet.Engine, report *stet.Workflow[string, string]) error {
	return report.Schedule(ctx, e, "nightly", "sales", stet.Schedule{
		Cron: "0 3 * * *", Zone: "Europe/Berlin",
		Overlap: stet.BufferOne,
		CatchUp: 6 * time.Hour,
	})
}

func report(ctx stet.Context, team string) (string, error) {
	_, night, _ := stet.ScheduledFor(ctx)
	return stet.Step(ctx, "write", func(context.Context) (string, error) {
		return team + " on " + night.Format(time.DateOnly), nil
	})
}

func TestEveryNight(t *testing.T) {
	w := stet.Define("report", report)
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{w}}, func(t *testing.T, env *stettest.Env) {
		if err := everyNight(t.Context(), env.Engine, w); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour) // virtual; it was midnight, UTC
		got, err := w.Handle(env.Engine, "nightly/2000-01-01T02:00:00Z").Wait(t.Context())
		if err != nil || got != "sales on 2000-01-01" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// Change code under running workflows.
func ship(ctx stet.Context, o Order) (string, error) {
	if stet.Version(ctx, "check the address", 1) >= 1 {
		err := stet.Do(ctx, "address", func(ctx context.Context) error { return carrier{}.Book(ctx, o) })
		if err != nil {
			return "", err
		}
	}
	stet.Removed(ctx, "print a label") // the carrier prints them now
	return stet.Step(ctx, "ship", func(context.Context) (string, error) { return "shipped", nil })
}

func notify(ctx stet.Context, o Order) error {
	name := "mail" // until November
	if stet.Version(ctx, "mail became message", 1) >= 1 {
		name = "message"
	}
	return stet.Do(ctx, name, func(ctx context.Context) error { return carrier{}.Book(ctx, o) })
}

func weigh(ctx stet.Context, o Order) (int, error) {
	grams, err := stet.Step(ctx, "weigh", func(context.Context) (int, error) { return len(o.ID) * 100, nil })
	if err != nil { // not: var grams int; stet.Do(… { grams = 100 })
		return 0, err
	}
	return grams, nil
}

// TestRenamedStep takes up a run that has recorded the step under its former name.
func TestRenamedStep(t *testing.T) {
	db := memory.New()
	former := func(ctx stet.Context, o Order) (int, error) {
		err := stet.Do(ctx, "mail", func(context.Context) error { return nil })
		if err == nil {
			_, err = Approved.Receive(ctx)
		}
		return 0, err
	}
	renamed := func(ctx stet.Context, o Order) (int, error) {
		if err := notify(ctx, o); err != nil {
			return 0, err
		}
		if _, err := Approved.Receive(ctx); err != nil {
			return 0, err
		}
		return weigh(ctx, o)
	}
	// with executes runs by some code while fn works.
	with := func(code func(stet.Context, Order) (int, error), fn func(*stet.Engine, *stet.Workflow[Order, int]) error) {
		t.Helper()
		w := stet.Define("order", code)
		e, err := stet.New(t.Context(), stet.Config{Store: db, Workflows: []stet.Definition{w}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		err = fn(e, w)
		stop()
		if err := errors.Join(err, <-ended); err != nil {
			t.Fatal(err)
		}
	}
	with(former, func(e *stet.Engine, w *stet.Workflow[Order, int]) error {
		if _, err := w.Start(t.Context(), e, Order{ID: "123"}, stet.ID("former")); err != nil {
			return err
		}
		for { // until it has recorded its first step
			info, err := e.Runs().Info(t.Context(), "former")
			if err != nil || info.Status == store.Suspended {
				return err
			}
		}
	})
	with(renamed, func(e *stet.Engine, w *stet.Workflow[Order, int]) error {
		if _, err := w.Start(t.Context(), e, Order{ID: "12"}, stet.ID("new")); err != nil {
			return err
		}
		for id, want := range map[string]int{"former": 300, "new": 200} {
			if err := Approved.Send(t.Context(), e, id, Decision{OK: true}); err != nil {
				return err
			}
			if got, err := w.Handle(e, id).Wait(t.Context()); got != want || err != nil {
				t.Errorf("%s: got %d, %v", id, got, err)
			}
		}
		return nil
	})
}

// Test.
func TestApproval(t *testing.T) {
	w := stet.Define("approve", approve)
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{w}}, func(t *testing.T, env *stettest.Env) {
		run, err := w.Start(t.Context(), env.Engine, Order{ID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := run.Wait(t.Context()); ok || err != nil { // three days, in no time
			t.Errorf("got %t, %v", ok, err)
		}
	})
}

func TestBookingSurvivesEveryCrash(t *testing.T) {
	got, err := stettest.CrashEverywhere(t, stet.Define("book", book), Order{ID: "1"})
	if err != nil || got.ID != "c-1" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestTripDropsItsLastPositions, and takes the first.
func TestTripDropsItsLastPositions(t *testing.T) {
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{trips}}, func(t *testing.T, env *stettest.Env) {
		e := env.Engine
		r, err := trips.Start(t.Context(), e, "", stet.FirstMessage(Position, Point{1, 2}),
			stet.FirstMessage(Position, Point{3, 4}))
		if err != nil {
			t.Fatal(err)
		}
		if at, err := r.Wait(t.Context()); err != nil || at != (Point{1, 2}) {
			t.Errorf("the trip ended at %v, %v", at, err)
		}
		if left, _, err := e.DeadLetters().List(t.Context(), store.DeadFilter{}); err != nil || len(left) != 0 {
			t.Errorf("the dead letters are %v, %v; want none", left, err)
		}
	})
}
