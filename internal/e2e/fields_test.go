package e2e_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// leftZero are the fields that TestFieldsOfARunAreFilled does not fill, with the reason.
var leftZero = map[string]string{
	"stet.RunInfo.Suspect":     "a process has to die while it executes the run: TestSuspectsAreTriedByHalves",
	"api.Run.Suspect":          "the same",
	"stet.RunError.Owed":       "a run that was terminated while it is undone: TestTerminateListsWhatIsOwed",
	"api.Run.Owed":             "the same",
	"stet.UnservedError.Build": "several versions of the code: TestUnservedRunsSaySo",
	"stet.UnservedError.Group": "several groups of nodes: TestUnservedRunsSaySo",
	"stet.UnservedError.Lacks": "a process that lacks something: TestWhatAProcessLacksIsNotRecorded",
	"stet.UnservedError.Node":  "a process that lacks something: TestWhatAProcessLacksIsNotRecorded",
	"api.Run.Slot":             "these stores have one shard, whose slot is 0",
	"api.Run.RewindBefore":     "the server fills it in",
	"api.Message.By":           "the server writes it",
}

// filled collects which fields have had a value.
type filled map[string]bool

// look walks through a value. Types of other packages are leaves.
func (f filled) look(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			f.look(v.Elem())
		} else if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct {
			f.declare(v.Type().Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			f.declare(v.Type().Elem())
		}
		for i := range v.Len() {
			f.look(v.Index(i))
		}
	case reflect.Struct:
		t := v.Type()
		if !ours(t) {
			return
		}
		f.declare(t)
		for i := range t.NumField() {
			if field := t.Field(i); field.IsExported() {
				if !v.Field(i).IsZero() {
					f[t.String()+"."+field.Name] = true
				}
				f.look(v.Field(i))
			}
		}
	default:
	}
}

// declare enters the fields of a type that had no value yet.
func (f filled) declare(t reflect.Type) {
	if !ours(t) {
		return
	}
	for i := range t.NumField() {
		if name := t.String() + "." + t.Field(i).Name; t.Field(i).IsExported() && !f[name] {
			f[name] = false
		}
	}
}

// ours reports whether a type is one of packages stet and api, and has fields to be read.
func ours(t reflect.Type) bool {
	path := t.PkgPath()
	return (path == "github.com/stet-run/stet" || path == "github.com/stet-run/stet/api") &&
		t != reflect.TypeFor[stet.RawValue]()
}

// TestFieldsOfARunAreFilled reads runs that do everything, and fails for each field of the public types and of the
// forms of package api that had no value at any time: what is not filled is shown as nothing, or as the year 1.
func TestFieldsOfARunAreFilled(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { fillFields(t, s.open(t)) })
		})
	}
}

func fillFields(t *testing.T, open func() store.Store) {
	var (
		news     = stet.Topic[string]{Name: "news", Visible: stet.Retained}
		quiet    = stet.Topic[string]{Name: "quiet"}
		nothing  = func(context.Context) error { return nil }
		hourly   = stet.Retry{First: time.Hour, Max: time.Hour, Jitter: stet.None}
		busyLine = func(context.Context) (string, error) { return "", errors.New("line busy") }
		queue    = stet.OnQueue{Name: "few", Key: "acme", Priority: 7}
	)
	waits := stet.Define("waits", func(ctx stet.Context, _ string) (string, error) {
		p, err := stet.NewPromise[string](ctx, "p")
		if err != nil {
			return "", err
		}
		return p.Await(ctx)
	})
	all := stet.Define("all", func(ctx stet.Context, round int) (string, error) {
		if round == 0 {
			return "", stet.ContinueAsNew(1)
		}
		_, sagaErr := stet.Saga(ctx, "saga", func(ctx stet.Context) (string, error) {
			_, err := stet.Step(ctx, "undone", func(ctx context.Context) (string, error) {
				if stet.Attempt(ctx) == 1 {
					return "", errors.New("not yet")
				}
				return "done", nil
			}, stet.Retry{First: time.Millisecond}, stet.UndoDo(nothing))
			return "", errors.Join(err, errors.New("sold out"))
		})
		panicErr := stet.Do(ctx, "panics", func(context.Context) error { panic("boom") }, stet.Retry{Attempts: 1})
		if sagaErr == nil || panicErr == nil {
			return "", errors.New("expected the saga and the step to fail")
		}
		p, err := stet.NewPromise[string](ctx, "decision")
		if err != nil {
			return "", err
		}
		if _, err := stet.Publish(ctx, news, "hello"); err != nil {
			return "", err
		}
		if _, err := news.Receive(ctx); err != nil {
			return "", err
		}
		if _, err := word.Receive(ctx, stet.Within(time.Hour)); err != nil {
			return "", err
		}
		if _, err := p.Await(ctx); err != nil {
			return "", err
		}
		branch := func(name string, fn func(stet.Context) (string, error)) { stet.Go(ctx, name, fn) }
		branch("again", func(ctx stet.Context) (string, error) { return stet.Step(ctx, "call", busyLine, hourly) })
		branch("long", func(ctx stet.Context) (string, error) {
			return "", stet.Do(ctx, "call", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		})
		branch("loop", func(ctx stet.Context) (string, error) {
			return stet.Loop(ctx, "loop", 0, func(ctx stet.Context, n int) (next stet.Next[int, string], err error) {
				if n == 3 {
					err = stet.Sleep(ctx, "nap", time.Hour)
				}
				return next.Continue(n + 1), err
			}, stet.LoopOptions{Every: 1, Keep: 1})
		})
		return never.Receive(ctx)
	}, stet.UndoOnCancel)
	// rests suspends at one of several operations.
	rests := stet.Define("rests", func(ctx stet.Context, on string) (string, error) {
		switch on {
		case "child":
			return waits.Call(ctx, "")
		case "topic":
			return quiet.Receive(ctx)
		case "permit":
			return stet.Step(ctx, "call", func(context.Context) (string, error) { return "", nil }, stet.OnStepQueue("closed"))
		case "fails":
			return stet.Step(ctx, "call", busyLine, stet.Retry{Attempts: 1})
		case "failing":
			return stet.Step(ctx, "call", busyLine, hourly)
		case "task":
			return stet.Task[string, string]("offered").Run(ctx, "")
		case "update":
			_, err := stet.Update[string, string]("change").Receive(ctx)
			return "", err
		case "bug":
			panic("a bug")
		}
		return word.Receive(ctx, stet.Within(time.Hour))
	})
	unserved := stet.Define("unserved", func(stet.Context, string) (string, error) { return "", nil })

	workflows := []stet.Definition{all, rests, waits}
	e := serve(t, stet.Config{Store: open(), Workflows: workflows, Build: "b1", Grace: time.Second})
	synctest.Wait()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	found := filled{}
	rest := func() { time.Sleep(time.Second); synctest.Wait() }
	read := func() {
		t.Helper()
		rest()
		runs, _, err := e.Runs().List(ctx, store.Filter{Values: true})
		must(err)
		for i := range runs {
			id := runs[i].ID
			info, err := e.Runs().Info(ctx, id)
			must(err)
			found.look(reflect.ValueOf(info))
			found.look(reflect.ValueOf(api.RunOf(info)))
			entries, err := e.Runs().History(ctx, id, stet.HistoryQuery{Values: true})
			must(err)
			for i := range entries {
				found.look(reflect.ValueOf(entries[i]))
				found.look(reflect.ValueOf(api.EntryOf(&entries[i])))
				messages, err := entries[i].Messages()
				must(err)
				found.look(reflect.ValueOf(messages))
				checkTimes(t, &entries[i])
			}
			promises, err := e.Runs().Promises(ctx, id)
			must(err)
			for i := range promises {
				found.look(reflect.ValueOf(promises[i]))
				found.look(reflect.ValueOf(api.PromiseOf(&promises[i])))
			}
		}
	}
	must(e.Queues().Create(ctx, "few", stet.QueueSettings{Concurrency: 1}))
	must(e.Queues().Create(ctx, "closed", stet.QueueSettings{Concurrency: 1}))
	must(e.Queues().Pause(ctx, "closed", stet.Act{}))

	begin(t, e, all, 0, stet.ID("all"), stet.Tags{"size": "small"}, stet.Headers{"tenant": "acme"})
	for _, on := range []string{"child", "topic", "permit", "fails", "failing", "message", "task", "update", "bug"} {
		begin(t, e, rests, on, stet.ID(on))
	}
	for _, id := range []string{"q1", "q2"} {
		begin(t, e, rests, "message", stet.ID(id), queue)
	}
	begin(t, e, rests, "message", stet.ID("policy"), stet.MaxRunTime(time.Hour), stet.MaxSuspension(time.Hour),
		stet.StallOnFailure, stet.FailOnBug,
		stet.Retention{Succeeded: time.Hour, Failed: time.Hour, Cancelled: time.Hour})
	reader, err := stet.New(ctx, stet.Config{Store: e.Store(), Workflows: []stet.Definition{unserved}})
	must(err)
	begin(t, reader, unserved, "", stet.ID("unserved"))
	read()

	leased, err := e.Tasks().Lease(ctx, stet.LeaseRequest{Worker: "vm-1", Names: []string{"offered"}, For: time.Hour})
	if must(err); len(leased.Tasks) != 1 {
		t.Fatalf("%d tasks are leased", len(leased.Tasks))
	}
	must(word.Send(ctx, e, "all", "go", stet.Headers{"trace": "t1"}))
	rest()
	promises, err := e.Runs().Promises(ctx, "all")
	if err != nil || len(promises) != 1 {
		t.Fatalf("%d promises, %v", len(promises), err)
	}
	must(e.Resolve(ctx, promises[0].Token, "yes", stet.Act{By: "ada", Why: "it is right"}))
	promises = promisesOfChild(t, e, "child")
	must(e.Reject(ctx, promises[0].Token, errors.New("no"), stet.Act{By: "ada", Why: "it is wrong"}))
	time.Sleep(25 * time.Second) // long/call is shown
	read()

	_, err = e.Runs().Pause(ctx, "message", stet.Act{Why: "to look"})
	must(err)
	_, err = e.Runs().Cancel(ctx, "topic", stet.Act{Why: "not needed"})
	must(err)
	if done, err := e.Runs().Retry(ctx, "fails", stet.Act{}); err != nil || !done {
		t.Fatalf("retry: %t, %v", done, err)
	}
	rest()
	if done, err := e.Runs().Rewind(ctx, "fails", "call", stet.Act{}); err != nil || !done {
		t.Fatalf("rewind: %t, %v", done, err)
	}
	must(word.Send(ctx, e, "policy", "go"))
	read()

	if t.Failed() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		switch reason := leftZero[name]; {
		case !found[name] && reason == "":
			t.Errorf("%s is never filled", name)
		case found[name] && reason != "":
			t.Errorf("%s is filled: remove its reason", name)
		}
	}
}

// promisesOfChild returns the promises of the only child of a run.
func promisesOfChild(t *testing.T, e *stet.Engine, parent string) []stet.PromiseInfo {
	t.Helper()
	info, err := e.Runs().Info(t.Context(), parent)
	if err != nil {
		t.Fatal(err)
	}
	children, _, err := e.Runs().List(t.Context(), store.Filter{Parent: info.Number})
	if err != nil || len(children) != 1 {
		t.Fatalf("%d children, %v", len(children), err)
	}
	promises, err := e.Runs().Promises(t.Context(), children[0].ID)
	if err != nil || len(promises) != 1 {
		t.Fatalf("%d promises, %v", len(promises), err)
	}
	return promises
}

// checkTimes checks the times of an entry against each other.
func checkTimes(t *testing.T, e *stet.HistoryEntry) {
	t.Helper()
	if !e.Ended.IsZero() && e.Ended.Before(e.Started) || e.State == store.Open && !e.Ended.IsZero() {
		t.Errorf("%s %s, %s, began %s and ended %s", e.Kind, e.Location, e.State, e.Started, e.Ended)
	}
	if e.Kind != store.KindStep && !e.Kind.Undoes() || e.State != store.Open {
		return
	}
	if n := len(e.Failures); n == 0 && !e.Tried.IsZero() || n > 0 && !e.Tried.Equal(e.Failures[n-1].Ended) {
		t.Errorf("%s after %d attempts: the last one ended %s, want that of %+v", e.Location, e.Attempts,
			e.Tried, e.Failures)
	}
}
