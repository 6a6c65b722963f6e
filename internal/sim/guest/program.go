package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/sim/link"
	"github.com/stet-run/stet/internal/sim/plan"
)

func tell(n plan.Note) {
	n.Node = os.Args[0]
	b, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	link.Note(b)
}

// interpreter is the code of all runs, in one build.
type interpreter struct {
	build   int
	execs   atomic.Int64
	program *stet.Workflow[plan.Input, []string]
	undoing *stet.Workflow[plan.Input, []string]
}

// Names of the workflows: a cancel of the second undoes.
const (
	programName = "program"
	undoingName = "undoing"
)

func newInterpreter(build int) *interpreter {
	in := &interpreter{build: build}
	retry := stet.Retry{Attempts: 20, First: 10 * time.Millisecond, Max: time.Second}
	in.program = stet.Define(programName, in.run, retry)
	in.undoing = stet.Define(undoingName, in.run, retry, stet.UndoOnFailure|stet.UndoOnCancel)
	return in
}

func (in *interpreter) run(ctx stet.Context, input plan.Input) ([]string, error) {
	e := &execution{interpreter: in, runID: stet.RunID(ctx)}
	//stetvet:ignore io each process of the test has another environment
	tell(plan.Note{Kind: plan.Executes, Run: e.runID})
	for i, op := range input.Program[input.From:] {
		if op.Kind == plan.Continue {
			next := input
			next.From, next.Lines = input.From+i+1, append(input.Lines, plan.Line(input.Prefix+op.Name, ""))
			return nil, stet.ContinueAsNew(next)
		}
		lines, err := e.op(ctx, op, input.Prefix)
		input.Lines = append(input.Lines, lines...)
		if err != nil {
			return nil, err
		}
	}
	return input.Lines, resolve(ctx, input.Hands)
}

// execution carries out the program of one run. Its branches take turns.
type execution struct {
	*interpreter
	runID string
}

func (e *execution) all(ctx stet.Context, p plan.Program, prefix string) (lines []string, err error) {
	for _, op := range p {
		more, err := e.op(ctx, op, prefix)
		lines = append(lines, more...)
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

var errPlanned = errors.New("planned")

func (e *execution) op(ctx stet.Context, op plan.Op, prefix string) ([]string, error) {
	name := prefix + op.Name
	one := func(value string, err error) ([]string, error) {
		if err != nil {
			return nil, err
		}
		return []string{plan.Line(name, value)}, nil
	}
	due := stet.Now(ctx).Add(op.Wait)
	over := func() {
		//stetvet:ignore io each process of the test has another environment
		tell(plan.Note{Kind: plan.Due, Run: e.runID, Op: name, Value: fmt.Sprint(due.UnixMicro())})
	}
	orTimeout := func(value string, err error) ([]string, error) {
		if errors.Is(err, stet.ErrTimeout) {
			over()
			return one(plan.TimedOut, nil)
		}
		return one(value, err)
	}
	within := stet.Within(op.Wait)
	switch op.Kind {
	case plan.Step:
		return one(e.step(ctx, op, name))
	case plan.Task:
		return one(e.task(ctx, op, name))
	case plan.Fail:
		return nil, fmt.Errorf("%s: %w", op.Name, errPlanned)
	case plan.Sleep:
		if err := stet.Sleep(ctx, op.Name, op.Wait); err != nil {
			return nil, err
		}
		over()
		if stet.Now(ctx).Before(due) {
			return one(plan.Early, nil)
		}
		return one(plan.Woke, nil)
	case plan.Map:
		all, err := stet.Map(ctx, op.Name, op.Subs, func(ctx stet.Context, p plan.Program) ([]string, error) {
			return e.all(ctx, p, prefix)
		}, stet.MapLimit(op.Count))
		return slices.Concat(all...), err
	case plan.Select:
		branch := stet.Go(ctx, op.Name+"-0", func(ctx stet.Context) ([]string, error) {
			return e.all(ctx, op.Subs[0], prefix)
		})
		var got string
		won, err := stet.Select(ctx, branch.Case(), stet.Message[string](op.To).Case(&got),
			stet.AfterDelay(op.Name+" late", op.Wait))
		if err != nil {
			return nil, err
		}
		lines := []string{plan.Line(name, fmt.Sprint(won))}
		switch won {
		case 0:
			more, err := branch.Result()
			return append(lines, more...), err
		case 1:
			lines = append(lines, plan.Line(name, got))
		case 2:
			over()
		}
		return lines, nil
	case plan.All, plan.Join, plan.Any, plan.Race, plan.Settle:
		return e.branches(ctx, op, prefix)
	case plan.Loop:
		type state struct {
			I     int
			Lines []string
		}
		return stet.Loop(ctx, op.Name, state{},
			func(ctx stet.Context, s state) (next stet.Next[state, []string], err error) {
				lines, err := e.all(ctx, op.Subs[0], fmt.Sprintf("%s[%d]/", name, s.I))
				if err != nil {
					return next, err
				}
				s.I, s.Lines = s.I+1, append(s.Lines, lines...)
				if s.I >= op.Count {
					return next.Break(s.Lines), nil
				}
				return next.Continue(s), nil
			}, stet.LoopOptions{Every: 2, Keep: 2})
	case plan.Call:
		opts := []stet.ChildOption{stet.Named(op.Name)}
		if op.Undo != nil {
			opts = append(opts, stet.Undo(func(ctx context.Context, _ []string) error { return e.undo(ctx, op, name, "") }))
		}
		return e.program.Call(ctx, plan.Input{Program: op.Subs[0], Prefix: name + ":"}, opts...)
	case plan.Go:
		return e.beside(ctx, op, prefix)
	case plan.Await:
		_, err := stet.Await[[]string](ctx, op.Name, op.To, within)
		failed := new(stet.RunError)
		switch {
		case errors.Is(err, stet.ErrNotFound):
			return one("not found", nil)
		case errors.As(err, &failed):
			return one("failed", nil)
		}
		return orTimeout("ended", err)
	case plan.Detach:
		id, err := e.program.Detach(ctx, plan.Input{Program: op.Subs[0], Prefix: name + ":"}, stet.Named(op.Name))
		return one(id, err)
	case plan.Receive:
		return orTimeout(stet.Message[string](op.To).Receive(ctx, stet.Named(op.Name), within))
	case plan.Event:
		return orTimeout(topic(op.To).Receive(ctx, stet.Named(op.Name), within))
	case plan.Promise:
		p, err := stet.NewPromise[string](ctx, op.Name)
		if err != nil {
			return nil, err
		}
		token := p.Token()
		err = stet.Do(ctx, op.Name+" handed out", func(context.Context) error {
			tell(plan.Note{Kind: plan.Token, Run: e.runID, Op: name, Value: token})
			return nil
		})
		if err != nil {
			return nil, err
		}
		return orTimeout(p.Await(ctx, within))
	case plan.Update:
		req, err := stet.Update[string, string](op.To).Receive(ctx, stet.Named(op.Name), within)
		if err != nil {
			return orTimeout("", err)
		}
		return one(req.Value, req.Answer(ctx, "answer to "+req.Value))
	case plan.Send:
		err := stet.Message[string](op.Key).SendFrom(ctx, op.To, "from "+e.runID+" "+name)
		if errors.Is(err, stet.ErrNotFound) || errors.Is(err, stet.ErrTerminal) {
			return one("refused", nil)
		}
		return one("sent", err)
	case plan.Ask:
		return one(e.ask(ctx, op, name))
	case plan.Hand:
		return orTimeout(e.hand(ctx, op, name))
	case plan.Publish:
		_, err := stet.Publish(ctx, topic(op.To), "from "+e.runID+" "+name)
		return one("published", err)
	case plan.Value:
		return one("set", stet.Value[string](op.To).Set(ctx, name))
	case plan.Stream:
		return one("appended", stet.Stream[string](op.To).Append(ctx, name))
	case plan.Version:
		v := stet.Version(ctx, op.Name, e.build)
		lines := []string{plan.Line(name, fmt.Sprint(v))}
		if v < 2 {
			return lines, nil
		}
		more, err := e.all(ctx, op.Subs[0], prefix)
		return append(lines, more...), err
	case plan.Try, plan.Saga:
		inside := func(ctx stet.Context) ([]string, error) { return e.all(ctx, op.Subs[0], prefix) }
		var lines []string
		var err error
		if op.Kind == plan.Saga {
			lines, err = stet.Saga(ctx, op.Name, inside)
		} else {
			lines, err = inside(ctx)
		}
		if err != nil && !errors.Is(err, errPlanned) && !strings.Contains(err.Error(), errPlanned.Error()) {
			return nil, err
		}
		if err != nil {
			return one("failed", nil)
		}
		return append(lines, plan.Line(name, "ok")), nil
	}
	return nil, fmt.Errorf("unknown operation %q", op.Kind)
}

func (e *execution) branches(ctx stet.Context, op plan.Op, prefix string) ([]string, error) {
	futures := make([]*stet.Future[[]string], len(op.Subs))
	awaited := make([]stet.Awaitable, len(op.Subs))
	for i, p := range op.Subs {
		futures[i] = stet.Go(ctx, fmt.Sprintf("%s-%d", op.Name, i),
			func(ctx stet.Context) ([]string, error) { return e.all(ctx, p, prefix) })
		awaited[i] = futures[i]
	}
	var lines []string
	switch op.Kind {
	case plan.All:
		all, err := stet.All(ctx, futures...)
		for _, l := range all {
			lines = append(lines, l...)
		}
		return lines, err
	case plan.Join:
		err := stet.Join(ctx, awaited...)
		for _, f := range futures {
			if l, err := f.Result(); err == nil {
				lines = append(lines, l...)
			}
		}
		return lines, err
	case plan.Settle:
		var open stet.Settled[[]string]
		open.Add(futures...)
		for open.Len() > 0 {
			f, err := open.Next(ctx)
			if err != nil {
				return nil, err
			}
			more, err := f.Result()
			if err != nil {
				return nil, err
			}
			lines = append(lines, plan.Line(prefix+op.Name, fmt.Sprint(slices.Index(futures, f))))
			lines = append(lines, more...)
		}
		return lines, nil
	}
	first := stet.Race[[]string]
	if op.Kind == plan.Any {
		first = stet.Any[[]string]
	}
	won, lines, err := first(ctx, futures...)
	return append([]string{plan.Line(prefix+op.Name, fmt.Sprint(won))}, lines...), err
}

// beside starts a child, does something else, and waits for the child or leaves it.
func (e *execution) beside(ctx stet.Context, op plan.Op, prefix string) ([]string, error) {
	name := prefix + op.Name
	opts := []stet.ChildOption{stet.Named(op.Name)}
	if op.Fails {
		opts = append(opts, stet.FailScope)
	}
	if op.Leave {
		opts = append(opts, stet.LeaveChild)
	}
	child, err := e.program.Go(ctx, plan.Input{Program: op.Subs[0], Prefix: name + ":"}, opts...)
	if err != nil {
		return nil, err
	}
	lines, err := e.all(ctx, op.Subs[1], prefix)
	if err != nil || op.Count == 0 {
		return append(lines, plan.Line(name, "left")), err
	}
	got, err := child.Await(ctx)
	return append(lines, got...), err
}

func topic(name string) stet.Topic[string] {
	t := stet.Topic[string]{Name: name}
	if strings.HasPrefix(name, "once") {
		t.Mode = stet.Consumed
	}
	return t
}

func (e *execution) step(ctx stet.Context, op plan.Op, name string) (string, error) {
	b := op.Body
	var opts []stet.StepOption
	retry := stet.Retry{Timeout: max(10*b.Takes, 5*time.Second)}
	if b.Final {
		retry.Attempts = b.Fails + 1
	}
	opts = append(opts, retry)
	if op.Queue != "" {
		opts = append(opts, stet.Permit{Queue: op.Queue, Key: op.Key, Cost: op.Cost})
	}
	if op.Undo != nil {
		opts = append(opts, e.undoing(op, name))
	}
	return stet.Step(ctx, op.Name, func(ctx context.Context) (string, error) { return e.body(ctx, op, name) }, opts...)
}

func (e *execution) undoing(op plan.Op, name string) interface {
	stet.StepOption
	stet.TaskOption
} {
	var opts []stet.UndoOption
	if op.Where != "" {
		opts = append(opts, stet.OnStepQueue(op.Where))
	}
	return stet.Undo(func(ctx context.Context, exec string) error { return e.undo(ctx, op, name, exec) }, opts...)
}

// undo is the compensation of a step or a child.
func (e *execution) undo(ctx context.Context, op plan.Op, name, exec string) error {
	tell(plan.Note{Kind: plan.UndoBegins, Run: e.runID, Op: name, Value: exec, Attempt: stet.Attempt(ctx)})
	if stet.Attempt(ctx) <= op.Undo.Fails {
		return errPlanned
	}
	time.Sleep(op.Undo.Takes)
	tell(plan.Note{
		Kind: plan.UndoEnds, Run: e.runID, Op: name, Value: exec, Attempt: stet.Attempt(ctx), Queue: op.Where,
	})
	return nil
}

func (e *execution) body(ctx context.Context, op plan.Op, name string) (exec string, err error) {
	b := op.Body
	attempt := stet.Attempt(ctx)
	exec = fmt.Sprintf("%s.%d", os.Args[0], e.execs.Add(1))
	n := plan.Note{
		Kind: plan.BodyBegins, Run: e.runID, Op: name, Attempt: attempt, Exec: exec, Key: stet.IdempotencyKey(ctx),
	}
	n.Kills, n.Queue, n.PermitKey, n.Units = b.Kills, op.Queue, op.Key, max(op.Cost, 1)
	if op.Spent > 0 {
		n.Units = min(n.Units, op.Spent)
		if err := stet.Spent(ctx, op.Spent); err != nil {
			return "", err
		}
	}
	tell(n)
	n.Kills = 0
	if op.Queue != "" {
		freed := n
		freed.Kind = plan.BodyFreed
		defer context.AfterFunc(ctx, func() { tell(freed) })()
	}
	defer func() {
		if p := recover(); p != nil {
			n.Kind, n.Err = plan.BodyEnds, fmt.Sprint(p)
			tell(n)
			panic(p)
		}
		n.Kind = plan.BodyEnds
		if err != nil {
			n.Err = err.Error()
		}
		tell(n)
	}()
	for i := range b.Emits {
		if err := stet.Stream[string]("emitted").Emit(ctx, fmt.Sprintf("%s %s %d", name, exec, i)); err != nil {
			return "", err
		}
	}
	if b.Hangs && attempt == 1 {
		<-ctx.Done()
		return "", ctx.Err()
	}
	for left := b.Takes; left > 0; {
		some := left
		if b.Beats {
			some = min(left, time.Second)
			if err := stet.Heartbeat(ctx, left.String()); err != nil {
				return "", err
			}
		}
		if b.Deaf {
			time.Sleep(some)
		} else {
			select {
			case <-time.After(some):
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		left -= some
	}
	if attempt <= b.Fails {
		if b.Panics {
			panic("planned")
		}
		return "", errPlanned
	}
	if b.Final {
		return "", stet.Permanent(fmt.Errorf("for good: %w", errPlanned))
	}
	return exec, nil
}
