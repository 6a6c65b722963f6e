package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"time"

	"github.com/stet-run/stet"
)

// prefix begins the names of all workflows of this package, and the IDs of its
// runs.
const prefix = "torture-"

// input is the input of a run.
type input struct {
	Seed uint64 `json:"seed"` // of the harness; with the run's ID it gives the tree
	// Of a run that has continued as new:
	From  int     `json:"from,omitempty"`  // how many children of the root are done
	Order uint64  `json:"order,omitempty"` // in which all nodes have ended
	Out   *output `json:"out,omitempty"`   // so far
}

// output is the result of a run.
type output struct {
	choices
	Value     uint64 `json:"value"`
	Order     uint64 `json:"order"`               // in which all nodes have ended
	Early     []int  `json:"early,omitempty"`     // nodes whose sleep was too short
	Reordered []int  `json:"reordered,omitempty"` // nodes that found another order than is recorded
	Spoiled   string `json:"spoiled,omitempty"`   // a step whose large result has come back as another
}

// stepResult says which execution of the body it comes from.
type stepResult struct {
	Value   uint64 `json:"value"`
	Process string `json:"process"`
	No      int64  `json:"no"`
	Pad     string `json:"pad,omitempty"`
}

var (
	treeRef   = stet.Ref[input, output](prefix + "tree")
	poisonRef = stet.Ref[input, output](prefix + "poison")

	errPlanned = errors.New("planned to fail")
)

// tree is the workflow that carries out a program.
func (w *worker) tree() *stet.Workflow[input, output] {
	return stet.Define(treeRef.Name(), func(ctx stet.Context, in input) (output, error) {
		e := &execution{worker: w, program: newProgram(in.Seed, stet.RunID(ctx))}
		e.out.Won, e.out.Promised, e.out.Value = map[int]int{}, map[int]uint64{}, e.seedOf(e.root, 0)
		if in.Out != nil {
			maps.Copy(e.out.Won, in.Out.Won)
			maps.Copy(e.out.Promised, in.Out.Promised)
			e.out.Value, e.out.Early, e.out.Reordered, e.out.Spoiled, e.order = in.Out.Value, in.Out.Early, in.Out.Reordered,
				in.Out.Spoiled, in.Order
		}
		err := e.carryOutRoot(ctx, in.From)
		e.out.Order = e.order
		if err == nil && in.From == 0 && e.half > 0 {
			return output{}, stet.ContinueAsNew(input{in.Seed, e.half, e.order, &e.out})
		}
		if errors.Is(err, stet.ErrCancelled) {
			if _, err := e.step(stet.WithoutCancel(ctx), "clean-up", 0, 0, nil); err != nil {
				return e.out, err
			}
		}
		return e.out, err
		// an undone run cannot be retried
	}, stet.Retry{Attempts: 8, First: 5 * time.Millisecond, Max: 50 * time.Millisecond}, stet.UndoOnCancel)
}

// poison is a workflow whose runs kill their process: half of them in a step,
// half in their code.
func (w *worker) poison() *stet.Workflow[input, output] {
	return stet.Define(poisonRef.Name(), func(ctx stet.Context, in input) (output, error) {
		if w.plants.has(plantHarmless) {
			return output{}, nil
		}
		if textHash(stet.RunID(ctx))%2 == 0 {
			//stetvet:ignore io each process of the test has another environment
			//stetvet:ignore channel the code holds the run where the test wants it
			return output{}, killSelf()
		}
		return output{}, stet.Do(ctx, "die", func(context.Context) error { return killSelf() })
	})
}

// killSelf ends this process as a crash would.
func killSelf() error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := self.Kill(); err != nil {
		return err
	}
	select {} // the end is near
}

// execution carries out the program of one run. Its branches take turns, so they
// share it without locks.
type execution struct {
	*worker
	*program
	out   output
	order uint64 // of the ends of all nodes so far
}

// carryOutRoot carries out the children of the root from one on: all, or those
// before the run continues as new.
func (e *execution) carryOutRoot(ctx stet.Context, from int) error {
	children := e.root.children[from:]
	if from == 0 && e.half > 0 {
		children = children[:e.half]
	}
	for _, child := range children {
		v, err := e.carryOut(ctx, child)
		if err != nil {
			return err
		}
		e.out.Value = mix(e.out.Value, v)
	}
	return nil
}

func (e *execution) carryOut(ctx stet.Context, n *node) (uint64, error) {
	value, err := e.valueOf(ctx, n)
	if err == nil {
		e.order = mix(e.order, uint64(n.id))
		err = e.show(ctx, n)
	}
	return value, err
}

func (e *execution) valueOf(ctx stet.Context, n *node) (uint64, error) {
	value := e.seedOf(n, 0)
	switch n.kind {
	case kindStep:
		for i := range n.count {
			v, err := e.step(ctx, n.name(), n.failures, e.seedOf(n, i), nil)
			if err != nil {
				return 0, err
			}
			value = mix(value, v)
		}
		if e.plants.has(plantWrong) {
			value++
		}
		return value, nil
	case kindFlaky:
		v, err := e.step(ctx, n.name(), 0, e.seedOf(n, 0), fail, stet.Retry{Attempts: 2})
		return mix(value, v), err
	case kindFail:
		return 0, stet.Do(ctx, n.name(), func(context.Context) error { return stet.Permanent(errPlanned) })
	case kindSleep:
		return value, e.sleep(ctx, n)
	case kindReceive:
		for range n.count {
			v, err := stet.Message[uint64](n.message()).Receive(ctx)
			if err != nil {
				return 0, err
			}
			value = mix(value, v)
		}
		return value, nil
	case kindFamily:
		return e.family(ctx, n)
	case kindSelect:
		v, err := receiveOrLater(ctx, n)
		return mix(value, v), err
	case kindPromise:
		v, err := e.await(ctx, n)
		return mix(value, v), err
	case kindOrder:
		order := e.order
		recorded, err := e.step(ctx, n.name(), n.failures, order, nil)
		if err == nil && recorded != order {
			e.out.Reordered = append(e.out.Reordered, n.id)
		}
		return value, err
	case kindLoop:
		return e.loop(ctx, n, value)
	}
	return e.branches(ctx, n, value)
}

// turnName is the step of a loop.
const turnName = "turn"

// turn is the state of a loop.
type turn struct {
	No    int    `json:"no"`
	Value uint64 `json:"value"`
}

// loop keeps the history of few iterations, so that much of it is pruned.
func (e *execution) loop(ctx stet.Context, n *node, value uint64) (uint64, error) {
	return stet.Loop(ctx, n.name(), turn{Value: value},
		func(ctx stet.Context, t turn) (next stet.Next[turn, uint64], err error) {
			v, err := e.step(ctx, turnName, n.failures, e.seedOf(n, t.No), nil)
			if err != nil {
				return next, err
			}
			t.No, t.Value = t.No+1, mix(t.Value, v)
			if t.No == n.iterations() {
				return next.Break(t.Value), nil
			}
			return next.Continue(t), nil
		}, stet.LoopOptions{Every: 1 + n.count%2, Keep: 1 + n.id%2})
}

// step executes a body that is logged and takes a while. Its first attempts fail.
// more, which may be nil, is called in the body.
func (e *execution) step(ctx stet.Context, name string, failures int, value uint64, more func(context.Context) error,
	opts ...stet.StepOption) (uint64, error) {
	out, err := stet.Step(ctx, name, func(ctx context.Context) (stepResult, error) {
		e.linger(ctx)
		if stet.Attempt(ctx) <= failures {
			return stepResult{}, errPlanned
		}
		if more != nil {
			if err := more(ctx); err != nil {
				return stepResult{}, err
			}
		}
		return stepResult{value, e.name, executionOf(ctx), padOf(value)}, nil
	}, append(e.undo(name, value), opts...)...)
	if err == nil && out.Pad != padOf(out.Value) {
		e.out.Spoiled = name
	}
	return out.Value, err
}

// fail fails more often than not.
func fail(context.Context) error {
	if rand.IntN(3) > 0 {
		return errPlanned
	}
	return nil
}

func (e *execution) sleep(ctx stet.Context, n *node) error {
	due := stet.Now(ctx).Add(n.wait)
	wait := n.wait
	if e.plants.has(plantEarly) {
		wait /= 2
	}
	if err := stet.Sleep(ctx, n.name(), wait); err != nil {
		return err
	}
	if stet.Now(ctx).Before(due) {
		e.out.Early = append(e.out.Early, n.id)
	}
	_, err := e.step(ctx, fmt.Sprintf("woke-%d", n.id), 0, 0, func(ctx context.Context) error {
		return e.effects.append(line{Kind: lineWoke, Process: e.name, Run: e.runID, Node: n.id, Due: due.UnixMicro()})
	})
	return err
}

// receiveOrLater waits for a message and a timer. A message that loses is kept, and received afterwards.
func receiveOrLater(ctx stet.Context, n *node) (uint64, error) {
	m := stet.Message[uint64](n.message())
	var v uint64
	won, err := stet.Select(ctx, m.Case(&v), stet.AfterDelay(n.name(), n.wait))
	if err != nil || won == 0 {
		return v, err
	}
	return m.Receive(ctx, stet.Named(fmt.Sprintf("later-%d", n.id)))
}

// await makes a promise, hands out its token by a step, and waits for its value.
func (e *execution) await(ctx stet.Context, n *node) (uint64, error) {
	p, err := stet.NewPromise[uint64](ctx, n.name())
	if err != nil {
		return 0, err
	}
	token := p.Token()
	_, err = e.step(ctx, fmt.Sprintf("hand-out-%d", n.id), 0, 0, func(context.Context) error {
		return e.effects.append(line{Kind: lineToken, Process: e.name, Run: e.runID, Node: n.id, Text: token})
	})
	if err != nil {
		return 0, err
	}
	v, err := p.Await(ctx)
	if err == nil {
		e.out.Promised[n.id] = v
	}
	return v, err
}

// ending is the result of a branch.
type ending struct {
	index int
	value uint64
}

func (e *execution) branches(ctx stet.Context, n *node, value uint64) (uint64, error) {
	branch := func(ctx stet.Context, i int) (ending, error) {
		v, err := e.carryOut(ctx, n.children[i])
		return ending{i, v}, err
	}
	if n.kind == kindMap {
		indexes := make([]int, len(n.children))
		for i := range indexes {
			indexes[i] = i
		}
		ends, err := stet.Map(ctx, n.name(), indexes, branch, stet.MapLimit(2))
		return mixAll(value, ends), err
	}
	futures := make([]*stet.Future[ending], len(n.children))
	awaited := make([]stet.Awaitable, len(n.children))
	for i := range futures {
		futures[i] = stet.Go(ctx, fmt.Sprintf("%s-%d", n.name(), i),
			func(ctx stet.Context) (ending, error) { return branch(ctx, i) })
		awaited[i] = futures[i]
	}
	switch n.kind {
	case kindAll:
		ends, err := stet.All(ctx, futures...)
		return mixAll(value, ends), err
	case kindJoin:
		if err := stet.Join(ctx, awaited...); err != nil {
			return 0, err
		}
		ends := make([]ending, len(futures))
		for i, f := range futures {
			ends[i], _ = f.Result() // Join has reported failures
		}
		return mixAll(value, ends), nil
	}
	first := stet.Race[ending]
	if n.kind == kindAny {
		first = stet.Any[ending]
	}
	winner, end, err := first(ctx, futures...)
	if err == nil {
		if winner != end.index {
			return 0, fmt.Errorf("branch %d has won and the value is that of branch %d", winner, end.index)
		}
		e.out.Won[n.id] = end.index
	}
	return mix(value, end.value), err
}

func mixAll(value uint64, ends []ending) uint64 {
	for _, end := range ends {
		value = mix(value, end.value)
	}
	return value
}
