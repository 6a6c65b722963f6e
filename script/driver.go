package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/stet-run/stet"
)

// driver is one activation of a run of a script. Only the run's own branch uses it.
type driver struct {
	*compiled
	ctx       stet.Context
	script    script
	settled   stet.Settled[json.RawMessage]
	begun     map[*stet.Future[json.RawMessage]]int // the numbers of operations under way
	futures   map[int]*stet.Future[json.RawMessage] // of these
	tokens    []*stet.Promise[json.RawMessage]
	numbers   *rand.Rand
	cancelled bool
}

func (c *compiled) run(ctx stet.Context, input json.RawMessage) (json.RawMessage, error) {
	if c.version > 0 {
		stet.Version(ctx, stet.ScriptChange, c.version)
	}
	d := &driver{
		//stetvet:ignore leak the driver lives as long as the run is executed, in its branch
		compiled: c, ctx: ctx, numbers: stet.Random(ctx),
		begun: map[*stet.Future[json.RawMessage]]int{}, futures: map[int]*stet.Future[json.RawMessage]{},
	}
	//stetvet:ignore clock the interpreter has the clock and the numbers of the run, and reads no file
	//stetvet:ignore io the interpreter has the clock and the numbers of the run, and reads no file
	//stetvet:ignore random the interpreter has the clock and the numbers of the run, and reads no file
	d.script = c.open(d)
	defer d.script.end()
	at, err := d.enter(entry{Begin: &beginning{RunID: stet.RunID(ctx), Input: input}})
	if err != nil {
		return nil, err
	}
	return d.drive(at)
}

// open returns an interpreter of the script.
func (c *compiled) open(h host) script {
	if c.program != 0 {
		return &isolated{compiled: c, host: h}
	}
	return newInterpreter(c, h)
}

// drive waits for whichever operation ends next and settles its promise, until the script's
// own promise is settled, and what it has begun without an await has ended.
func (d *driver) drive(at left) (json.RawMessage, error) {
	for at.State == resultPending || at.State == resultFulfilled && at.Owes && !d.cancelled {
		if d.settled.Len() == 0 {
			if d.cancelled {
				return nil, stet.ErrCancelled
			}
			return nil, d.stall("it awaits what nothing can settle: no operation is under way")
		}
		e, err := d.next()
		if err != nil {
			return nil, err
		}
		if at, err = d.enter(e); err != nil {
			return nil, err
		}
	}
	if d.cancelled {
		return nil, stet.ErrCancelled
	}
	at, err := d.enter(entry{Finish: true})
	if err != nil {
		return nil, err
	}
	return json.RawMessage(at.Result), nil
}

// next waits for what happens to the script next.
func (d *driver) next() (entry, error) {
	wait := d.ctx
	if d.cancelled {
		wait = stet.WithoutCancel(d.ctx)
	}
	f, err := d.settled.Next(wait)
	if errors.Is(err, stet.ErrCancelled) && !d.cancelled {
		d.cancelled = true
		return entry{Cancel: true}, nil
	}
	if err != nil {
		return entry{}, err
	}
	number := d.begun[f]
	delete(d.begun, f)
	delete(d.futures, number)
	if d.trace != nil {
		d.trace.ended(number)
	}
	out := &outcome{Number: number}
	if out.Value, err = f.Result(); err != nil {
		out.Problem = problemOf(err)
	}
	return entry{Settle: out}, nil
}

// enter executes a stretch of the script, and does what it has called.
func (d *driver) enter(e entry) (left, error) {
	e.Now = stet.Now(d.ctx)
	at := d.script.enter(e)
	for _, number := range at.Cancels {
		if f := d.futures[number]; f != nil {
			f.Cancel(d.ctx)
		}
	}
	for i := range at.Calls {
		d.begin(&at.Calls[i])
	}
	return at, d.failed(at.Failure)
}

// begin begins an operation in a branch of its own. The interpreter calls none before its stretch ends: each operation
// looks at the whole stack, and the interpreter's is deep.
func (d *driver) begin(c *call) {
	if d.trace != nil {
		d.trace.began(c)
	}
	ctx := d.ctx
	if c.Clean {
		ctx = stet.WithoutCancel(ctx)
	}
	var opts []stet.GoOption
	if c.Key != "" {
		opts = append(opts, stet.Key(c.Key))
	}
	f := stet.Go(ctx, c.Name, d.operation(c), opts...)
	d.begun[f], d.futures[c.Number] = c.Number, f
	d.settled.Add(f)
	if c.Unwanted {
		f.Cancel(d.ctx)
	}
}

// operation returns the code of a call's branch.
func (d *driver) operation(c *call) func(stet.Context) (json.RawMessage, error) {
	input := json.RawMessage(c.Input)
	switch c.Act {
	case runTask:
		return d.task(c)
	case delay: // fixes its deadline at the call
		until := stet.Now(d.ctx).Add(duration(c.Seconds))
		return func(ctx stet.Context) (json.RawMessage, error) { return nil, stet.SleepUntil(ctx, "sleep", until) }
	case receive:
		opts := waitOptions(c)
		return func(ctx stet.Context) (json.RawMessage, error) {
			return stet.Message[json.RawMessage](c.Name).Receive(ctx, opts...)
		}
	case receiveEvent:
		opts := waitOptions(c)
		return func(ctx stet.Context) (json.RawMessage, error) {
			return stet.Topic[json.RawMessage]{Name: c.Name}.Receive(ctx, opts...)
		}
	case runChild, startChild:
		return child(c)
	case setValue:
		return func(ctx stet.Context) (json.RawMessage, error) {
			return nil, stet.Value[json.RawMessage](c.Name).Set(ctx, input)
		}
	case appendItem:
		return func(ctx stet.Context) (json.RawMessage, error) {
			return nil, stet.Stream[json.RawMessage](c.Name).Append(ctx, input)
		}
	case publish:
		return func(ctx stet.Context) (json.RawMessage, error) {
			return quoted(stet.Publish(ctx, stet.Topic[json.RawMessage]{Name: c.Name}, input))
		}
	case awaitToken:
		promise := d.tokens[c.Token]
		return func(ctx stet.Context) (json.RawMessage, error) { return promise.Await(ctx) }
	}
	panic(fmt.Sprintf("a call of an unknown act, %d", c.Act))
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func waitOptions(c *call) []stet.WaitOption {
	opts := []stet.WaitOption{stet.Named("receive")}
	if c.Seconds >= 0 {
		opts = append(opts, stet.Within(duration(c.Seconds)))
	}
	return opts
}

// quoted returns an ID as JSON.
func quoted(id string, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return json.RawMessage(strconv.Quote(id)), nil
}

// stepOrTask is an option of both.
type stepOrTask interface {
	stet.StepOption
	stet.TaskOption
}

// task is a step with the Go function of the name, otherwise a task of workers.
func (d *driver) task(c *call) func(stet.Context) (json.RawMessage, error) {
	opts := d.taskOptions(c.Task)
	if t, known := d.tasks[c.Name]; known {
		steps := make([]stet.StepOption, len(opts))
		for i, o := range opts {
			steps[i] = o
		}
		return func(ctx stet.Context) (json.RawMessage, error) {
			return stet.Step(ctx, "step", func(ctx context.Context) (json.RawMessage, error) {
				return t.call(ctx, json.RawMessage(c.Input))
			}, steps...)
		}
	}
	tasks := make([]stet.TaskOption, len(opts), len(opts)+1)
	for i, o := range opts {
		tasks[i] = o
	}
	tasks = append(tasks, stet.Named("step"))
	return func(ctx stet.Context) (json.RawMessage, error) {
		return stet.Task[json.RawMessage, json.RawMessage](c.Name).Run(ctx, json.RawMessage(c.Input), tasks...)
	}
}

func (d *driver) taskOptions(o taskOptions) []stepOrTask {
	var opts []stepOrTask
	if o.Attempts != 0 || o.Timeout != 0 {
		opts = append(opts, stet.Retry{Attempts: int(o.Attempts), Timeout: duration(o.Timeout)})
	}
	var undoOpts []stet.UndoOption // of an undo by a worker
	if o.Queue != "" {
		permit := stet.OnStepQueue(o.Queue)
		permit.Priority = int(o.Priority)
		opts, undoOpts = append(opts, permit), append(undoOpts, permit)
	}
	if o.Undo == "" {
		return opts
	}
	if undo := d.body(o.Undo); undo != nil {
		return append(opts, stet.Undo(func(ctx context.Context, out json.RawMessage) error {
			_, err := undo(ctx, out)
			return err
		}))
	}
	return append(opts, stet.Task[json.RawMessage, json.RawMessage](o.Undo).Undo(undoOpts...))
}

// child is a child that is awaited, or an independent run.
func child(c *call) func(stet.Context) (json.RawMessage, error) {
	opts := []stet.ChildOption{stet.Named("child")}
	if c.Child.Named {
		opts = append(opts, stet.ID(c.Child.ID))
	}
	if c.Child.Tags != nil {
		opts = append(opts, stet.Tags(c.Child.Tags))
	}
	if c.Child.Headers != nil {
		opts = append(opts, stet.Headers(c.Child.Headers))
	}
	of := stet.Ref[json.RawMessage, json.RawMessage](c.Name)
	if c.Act == startChild {
		return func(ctx stet.Context) (json.RawMessage, error) {
			return quoted(of.Detach(ctx, json.RawMessage(c.Input), opts...))
		}
	}
	return func(ctx stet.Context) (json.RawMessage, error) {
		return of.Call(ctx, json.RawMessage(c.Input), opts...)
	}
}

// The driver is the host of its interpreter.

func (d *driver) random() float64           { return d.numbers.Float64() }
func (d *driver) header(name string) string { return stet.Header(d.ctx, name) }

func (d *driver) token(name string, clean bool) (string, int, *problem) {
	ctx := d.ctx
	if clean {
		ctx = stet.WithoutCancel(ctx)
	}
	p, err := stet.NewPromise[json.RawMessage](ctx, "token "+name) // apart from operations of that name
	if err != nil {
		return "", 0, problemOf(err)
	}
	d.tokens = append(d.tokens, p)
	return p.Token(), len(d.tokens) - 1, nil
}

func (d *driver) continueAsNew(input string) *problem {
	return problemOf(stet.ContinueAsNew(json.RawMessage(input)))
}

func (d *driver) log(level slog.Level, text string) {
	stet.Log(d.ctx).Log(context.Background(), level, text)
}

// failed returns the error that the run ends with for a failure.
func (d *driver) failed(f *failure) error {
	switch {
	case f == nil:
		return nil
	case f.Problem != nil:
		return f.Problem.err
	case f.Fault:
		return d.stall(f.Text)
	}
	return errors.New(f.Text)
}

// maxPlaces is how many lines a stall says, of which the first is why, the others where.
const maxPlaces = 10

// stall returns the error with which the run stalls for a fault of the script, with what to do.
func (d *driver) stall(why string) error {
	lines := strings.Split(strings.TrimSpace(why), "\n")
	why = strings.Join(lines[:min(len(lines), maxPlaces)], "\n")
	advice := "correct the script in the program, then resume the run"
	if d.version > 0 {
		advice = fmt.Sprintf("deploy a corrected version, and let the run go on with it by "+
			"`stet script move %s --to VERSION`; `stet script use %s VERSION` makes a former version current for new runs",
			stet.RunID(d.ctx), d.name)
	}
	return stet.Stall("script " + d.name + ": " + why + "; " + advice)
}
