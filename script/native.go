package script

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/stet-run/stet"
)

// tool is a function or value that a script finds in an object, as Task.run. Only those that it
// names are made: that is most of what the begin of an interpreter takes.
type tool struct {
	object, name string
	call         func(*run, args) goja.Value
}

var toolbox []tool

func init() { // they begin code that may call them
	toolbox = []tool{
		{"Task", "run", taskRun},
		{"Task", "delay", func(r *run, a args) goja.Value { return r.delay(r.seconds(a.at(0), "Task.delay")) }},
		{"Signal", "next", func(r *run, a args) goja.Value { return r.receive(a.text(0), r.withinOf(a.at(1))) }},
		{"Workflow", "run", func(r *run, a args) goja.Value {
			return r.child(a.text(0), r.encoded(a.at(1)), r.childOptions(a.at(2)))
		}},
		{"Workflow", "start", func(r *run, a args) goja.Value {
			return r.detach(a.text(0), r.encoded(a.at(1)), r.childOptions(a.at(2)))
		}},
		{"Value", "set", func(r *run, a args) goja.Value { return r.set(a.text(0), r.encoded(a.at(1))) }},
		{"Stream", "append", func(r *run, a args) goja.Value { return r.append(a.text(0), r.encoded(a.at(1))) }},
		{"Event", "next", func(r *run, a args) goja.Value { return r.event(a.text(0), r.withinOf(a.at(1))) }},
		{"Event", "publish", func(r *run, a args) goja.Value { return r.publish(a.text(0), r.encoded(a.at(1))) }},
		{"Token", "create", func(r *run, a args) goja.Value { return r.token(a.text(0)) }},
		{"Run", "header", func(r *run, a args) goja.Value { return r.vm.ToValue(stet.Header(r.ctx, a.text(0))) }},
		{"Run", "cleanup", func(r *run, a args) goja.Value { return r.cleanup(a.function(0)) }},
		{"Run", "continueAsNew", func(r *run, a args) goja.Value { panic(r.continueAsNew(r.encoded(a.at(0)))) }},
		{"console", "log", says(slog.LevelInfo)}, {"console", "info", says(slog.LevelInfo)},
		{"console", "debug", says(slog.LevelDebug)}, {"console", "warn", says(slog.LevelWarn)},
		{"console", "error", says(slog.LevelError)},
	}
}

// holders are the objects that the tools are in.
var holders = []string{"Task", "Signal", "Workflow", "Value", "Stream", "Event", "Token", "Run", "console"}

// install makes what the script finds beside the language.
func (r *run) install() error {
	global, made := r.vm.GlobalObject(), map[string]*goja.Object{}
	for _, name := range holders {
		if !r.used[name] {
			continue
		}
		o := r.vm.NewObject()
		made[name] = o
		err := global.DefineDataProperty(name, o, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE)
		if err != nil {
			return err
		}
	}
	define := func(object, name string, value any) error {
		return made[object].DefineDataProperty(name, r.vm.ToValue(value), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_TRUE)
	}
	for _, t := range r.tools {
		err := define(t.object, t.name, func(c goja.FunctionCall) goja.Value { return t.call(r, args(c)) })
		if err != nil {
			return err
		}
	}
	if made["Run"] != nil {
		if err := define("Run", "id", stet.RunID(r.ctx)); err != nil {
			return err
		}
	}
	if r.adds {
		err := global.DefineDataProperty(summand, r.vm.ToValue(r.summand), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE)
		if err != nil {
			return err
		}
	}
	if err := r.installErrors(); err != nil {
		return err
	}
	if err := r.guardJoin(); err != nil {
		return err
	}
	if r.expresses() {
		if err := r.installExpressions(); err != nil {
			return err
		}
	}
	if r.prelude != nil {
		setUp, err := r.vm.RunProgram(r.prelude)
		if err != nil {
			return err
		}
		call, _ := goja.AssertFunction(setUp)
		if _, err := call(goja.Undefined(), r.native(made["Task"])); err != nil {
			return err
		}
	}
	for _, name := range r.absent {
		if err := global.Delete(name); err != nil {
			return err
		}
	}
	return nil
}

// native is what the prelude calls. task is the object Task; nil: the script does not name it.
func (r *run) native(task *goja.Object) *goja.Object {
	n := r.vm.NewObject()
	for _, f := range []struct {
		name string
		call func(a args) goja.Value
	}{
		{"regexp", func(a args) goja.Value {
			if err := checkRegExp(a.text(0), a.text(1)); err != nil {
				return r.vm.ToValue(err.Error())
			}
			return r.vm.ToValue("")
		}},
		{"parse", func(a args) goja.Value { r.checkJSON(r.textOf(a.at(0))); return nil }},
		{"count", func(a args) goja.Value {
			return r.vm.ToValue(r.count(r.boundTo(a.at(0)), r.textOf(a.at(1))))
		}},
		{"scope", func(args) goja.Value { return r.vm.ToValue(r.newScope()) }},
		{"within", func(a args) goja.Value { return r.within(a.scopeAt(0), a.function(1)) }},
		{"cancelScope", func(a args) goja.Value { r.cancelScope(a.scopeAt(0)); return nil }},
		{"cancel", func(a args) goja.Value { r.cancelPromise(a.at(0)); return nil }},
		{"combine", func(a args) goja.Value {
			for i, name := range []string{"all", "any", "race"} {
				if task == nil {
					break
				}
				err := task.DefineDataProperty(name, a.at(i), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_TRUE)
				if err != nil {
					panic(err)
				}
			}
			return nil
		}},
	} {
		needed := r.combines()
		switch f.name {
		case "regexp":
			needed = r.used["RegExp"]
		case "parse":
			needed = r.used["parse"]
		case "count":
			needed = r.expresses()
		}
		if !needed {
			continue
		}
		if err := n.Set(f.name, func(c goja.FunctionCall) goja.Value { return f.call(args(c)) }); err != nil {
			panic(err)
		}
	}
	return n
}

// combines reports whether the prelude has all, any and race.
func (r *run) combines() bool { return r.used["all"] || r.used["any"] || r.used["race"] }

// expresses reports whether the script may have regular expressions: its own, or those that the
// language makes of texts.
func (r *run) expresses() bool {
	return r.used["/"] || r.used["RegExp"] || r.used["match"] || r.used["matchAll"] || r.used["search"]
}

// args are the arguments of a call.
type args goja.FunctionCall

func (a args) at(i int) goja.Value { return goja.FunctionCall(a).Argument(i) }

// text returns an argument as a text; one that is not there is "undefined", as in the language.
func (a args) text(i int) string { return a.at(i).String() }

// scopeAt returns the scope that newScope has given to the prelude.
func (a args) scopeAt(i int) *scope { s, _ := a.at(i).Export().(*scope); return s }

func (a args) function(i int) goja.Callable {
	f, _ := goja.AssertFunction(a.at(i))
	return f
}

// options returns what an argument with options gives; nil: nothing is given.
func (r *run) options(v goja.Value) func(name string) goja.Value {
	if goja.IsUndefined(v) {
		return func(string) goja.Value { return nil }
	}
	o := v.ToObject(r.vm) // null throws
	return func(name string) goja.Value {
		if v := o.Get(name); v != nil && !goja.IsUndefined(v) {
			return v
		}
		return nil
	}
}

// seconds reads a duration that a script gives.
func (r *run) seconds(v goja.Value, what string) float64 {
	switch v.Export().(type) {
	case int64, float64:
		if n := v.ToFloat(); n >= 0 && n <= 9e9 {
			return n
		}
	}
	panic(r.rangeError("%s: expected seconds from 0, found %s", what, v))
}

// withinOf reads the option within of a wait; -1: none.
func (r *run) withinOf(options goja.Value) float64 {
	if v := r.options(options)("within"); v != nil {
		return r.seconds(v, "within")
	}
	return -1
}

func (r *run) rangeError(format string, args ...any) *goja.Object {
	e, err := r.vm.New(r.vm.Get("RangeError"), r.vm.ToValue(fmt.Sprintf(format, args...)))
	if err != nil {
		panic(err)
	}
	return e
}

// taskRun is Task.run.
func taskRun(r *run, a args) goja.Value {
	option := r.options(a.at(2))
	text := func(name string) string {
		if v := option(name); v != nil {
			return v.String()
		}
		return ""
	}
	number := func(name string) float64 {
		if v := option(name); v != nil {
			if n := v.ToFloat(); n == n { // a number
				return min(max(n, -1e9), 1e9)
			}
		}
		return 0
	}
	name, input := a.text(0), r.encoded(a.at(1))
	o := stepOptions{Key: text("key"), Attempts: number("attempts"), Undo: text("undo"), Queue: text("queue"),
		Priority: number("priority")}
	if v := option("timeout"); v != nil {
		o.Timeout = r.seconds(v, "timeout")
	}
	return r.step(name, input, o)
}

// says is a function of the console.
func says(level slog.Level) func(*run, args) goja.Value {
	return func(r *run, a args) goja.Value {
		texts := make([]string, len(a.Arguments))
		for i, v := range a.Arguments {
			if o, ok := v.(*goja.Object); ok && o.ClassName() != "Error" {
				texts[i] = r.encoded(v)
			} else {
				texts[i] = v.String()
			}
		}
		r.log(level, strings.Join(texts, " "))
		return nil
	}
}

type stepOptions struct {
	Key, Undo, Queue            string
	Attempts, Priority, Timeout float64
}

// start has an operation begun in a branch of its own, in the scope of the code that calls. kind is
// the name of the operation in that branch; "": that of nobody's interest. The run does not succeed before
// it has ended.
func (r *run) start(kind, name, key string, do func(stet.Context) (json.RawMessage, error)) *goja.Object {
	return r.call(kind, name, key, true, do)
}

// wait is start for an operation without an effect, which ends with the run.
func (r *run) wait(kind, name string, do func(stet.Context) (json.RawMessage, error)) *goja.Object {
	return r.call(kind, name, "", false, do)
}

func (r *run) call(
	kind, name, key string, effect bool, do func(stet.Context) (json.RawMessage, error),
) *goja.Object {
	if len(r.pending)+len(r.calls) >= maxPending {
		panic(r.vm.NewTypeError("at most %d operations may be under way", maxPending))
	}
	p, resolve, reject := r.vm.NewPromise()
	promise := r.vm.ToValue(p).ToObject(r.vm)
	if (r.cancelled || r.scope.stopped) && !r.scope.clean {
		if err := reject(r.errorOf(stet.ErrCancelled)); err != nil {
			panic(err)
		}
		return promise
	}
	o := &operation{promise: promise, resolve: resolve, reject: reject, name: name, key: key, do: do, clean: r.scope.clean,
		effect: effect}
	if r.trace != nil {
		r.trace.began(r.vm, o, kind, name, key)
	}
	r.calls = append(r.calls, o)
	r.promises[promise] = o
	r.order = r.pruned(append(r.order, o))
	r.scope.operations = r.pruned(append(r.scope.operations, o))
	return promise
}

// beginCalled begins what a stretch of the script has called, in the order of the calls. It is not done
// by the calls themselves: each operation looks at the whole stack, and the interpreter's is deep.
func (r *run) beginCalled() {
	for _, o := range r.calls {
		ctx := r.ctx
		if o.clean {
			ctx = stet.WithoutCancel(ctx)
		}
		var opts []stet.GoOption
		if o.key != "" {
			opts = append(opts, stet.Key(o.key))
		}
		o.future = stet.Go(ctx, o.name, o.do, opts...)
		o.do = nil
		r.pending[o.future] = o
		r.settled.Add(o.future)
		if o.unwanted {
			o.future.Cancel(r.ctx)
		}
	}
	clear(r.calls)
	r.calls = r.calls[:0]
}

// pruned leaves out what has ended, once in a while: what one call costs does not depend on
// how many there were.
func (r *run) pruned(list []*operation) []*operation {
	if len(list) <= 2*(len(r.pending)+len(r.calls))+64 {
		return list
	}
	return slices.DeleteFunc(list, func(o *operation) bool { return o.ended })
}

// step is a step with the Go function of the name, otherwise a task of workers.
func (r *run) step(name, input string, o stepOptions) *goja.Object {
	var opts []stepOrTask
	if o.Attempts != 0 || o.Timeout != 0 {
		opts = append(opts, stet.Retry{
			Attempts: int(o.Attempts), Timeout: time.Duration(o.Timeout * float64(time.Second)),
		})
	}
	var undoOpts []stet.UndoOption // of an undo by a worker
	if o.Queue != "" {
		permit := stet.OnStepQueue(o.Queue)
		permit.Priority = int(o.Priority)
		opts, undoOpts = append(opts, permit), append(undoOpts, permit)
	}
	if o.Undo != "" {
		if undo := r.task(o.Undo); undo != nil {
			opts = append(opts, stet.Undo(func(ctx context.Context, out json.RawMessage) error {
				_, err := undo(ctx, out)
				return err
			}))
		} else {
			opts = append(opts, stet.Task[json.RawMessage, json.RawMessage](o.Undo).Undo(undoOpts...))
		}
	}
	if t, known := r.tasks[name]; known {
		steps := make([]stet.StepOption, len(opts))
		for i, o := range opts {
			steps[i] = o
		}
		return r.start("step", name, o.Key, func(ctx stet.Context) (json.RawMessage, error) {
			return stet.Step(ctx, "step", func(ctx context.Context) (json.RawMessage, error) {
				return t.call(ctx, json.RawMessage(input))
			}, steps...)
		})
	}
	tasks := make([]stet.TaskOption, len(opts), len(opts)+1)
	for i, o := range opts {
		tasks[i] = o
	}
	tasks = append(tasks, stet.Named("step"))
	return r.start("step", name, o.Key, func(ctx stet.Context) (json.RawMessage, error) {
		return stet.Task[json.RawMessage, json.RawMessage](name).Run(ctx, json.RawMessage(input), tasks...)
	})
}

// stepOrTask is an option of both.
type stepOrTask interface {
	stet.StepOption
	stet.TaskOption
}

// delay fixes its deadline at the call.
func (r *run) delay(seconds float64) *goja.Object {
	until := stet.Now(r.ctx).Add(time.Duration(seconds * float64(time.Second)))
	return r.wait("sleep", "delay", func(ctx stet.Context) (json.RawMessage, error) {
		return nil, stet.SleepUntil(ctx, "sleep", until)
	})
}

func (r *run) receive(name string, within float64) *goja.Object {
	opts := []stet.WaitOption{stet.Named("receive")}
	if within >= 0 {
		opts = append(opts, stet.Within(time.Duration(within*float64(time.Second))))
	}
	return r.wait("receive", name, func(ctx stet.Context) (json.RawMessage, error) {
		return stet.Message[json.RawMessage](name).Receive(ctx, opts...)
	})
}

// childOptions reads the options of a child: its ID, tags and headers.
func (r *run) childOptions(v goja.Value) []stet.ChildOption {
	opts := []stet.ChildOption{stet.Named("child")}
	option := r.options(v)
	if id := option("id"); id != nil {
		opts = append(opts, stet.ID(id.String()))
	}
	if tags := option("tags"); tags != nil {
		opts = append(opts, stet.Tags(r.texts(tags)))
	}
	if headers := option("headers"); headers != nil {
		opts = append(opts, stet.Headers(r.texts(headers)))
	}
	return opts
}

// texts reads an object with texts.
func (r *run) texts(v goja.Value) map[string]string {
	o, texts := v.ToObject(r.vm), map[string]string{}
	for _, key := range o.Keys() {
		texts[key] = o.Get(key).String()
	}
	return texts
}

func (r *run) child(name, input string, opts []stet.ChildOption) *goja.Object {
	return r.start("child", name, "", func(ctx stet.Context) (json.RawMessage, error) {
		child := stet.Ref[json.RawMessage, json.RawMessage](name)
		return child.Call(ctx, json.RawMessage(input), opts...)
	})
}

func (r *run) detach(name, input string, opts []stet.ChildOption) *goja.Object {
	return r.start("child", name, "", func(ctx stet.Context) (json.RawMessage, error) {
		child := stet.Ref[json.RawMessage, json.RawMessage](name)
		id, err := child.Detach(ctx, json.RawMessage(input), opts...)
		if err != nil {
			return nil, err
		}
		return json.RawMessage(strconv.Quote(id)), nil
	})
}

func (r *run) newScope() *scope {
	s := &scope{clean: r.scope.clean, stopped: r.scope.stopped}
	r.scope.inner = append(r.scope.inner, s)
	return s
}

// within calls a function in a scope. Over its awaits the tracker keeps it.
func (r *run) within(s *scope, f goja.Callable) goja.Value {
	before := r.scope
	r.scope = s
	out, err := f(goja.Undefined())
	r.scope = before
	if err != nil {
		panic(err)
	}
	return out
}

func (r *run) cancelScope(s *scope) {
	s.stopped = true
	for _, o := range s.operations {
		r.stop(o)
	}
	for _, inner := range s.inner {
		r.cancelScope(inner)
	}
	s.operations, s.inner = nil, nil
}

// cancelPromise cancels the operation whose promise a value is. Others go on: they are not
// known to stet.
func (r *run) cancelPromise(value goja.Value) {
	if obj, ok := value.(*goja.Object); ok {
		if o := r.promises[obj]; o != nil {
			r.stop(o)
		}
	}
}

func (r *run) stop(o *operation) {
	switch {
	case o.ended:
	case o.future == nil:
		o.unwanted = true
	default:
		o.future.Cancel(r.ctx)
	}
}

// cleanup calls a function whose operations work in a cancelled run.
func (r *run) cleanup(f goja.Callable) goja.Value {
	if f == nil {
		panic(r.vm.NewTypeError("Run.cleanup: expected a function"))
	}
	return r.within(&scope{clean: true}, f)
}

func (r *run) continueAsNew(input string) *goja.Object {
	return r.errorOf(stet.ContinueAsNew(json.RawMessage(input)))
}

func (r *run) set(name, value string) *goja.Object {
	return r.start("", name, "", func(ctx stet.Context) (json.RawMessage, error) {
		return nil, stet.Value[json.RawMessage](name).Set(ctx, json.RawMessage(value))
	})
}

func (r *run) append(name, item string) *goja.Object {
	return r.start("", name, "", func(ctx stet.Context) (json.RawMessage, error) {
		return nil, stet.Stream[json.RawMessage](name).Append(ctx, json.RawMessage(item))
	})
}

func (r *run) event(topic string, within float64) *goja.Object {
	opts := []stet.WaitOption{stet.Named("receive")}
	if within >= 0 {
		opts = append(opts, stet.Within(time.Duration(within*float64(time.Second))))
	}
	return r.wait("receive", topic, func(ctx stet.Context) (json.RawMessage, error) {
		return stet.Topic[json.RawMessage]{Name: topic}.Receive(ctx, opts...)
	})
}

func (r *run) publish(topic, value string) *goja.Object {
	return r.start("", topic, "", func(ctx stet.Context) (json.RawMessage, error) {
		id, err := stet.Publish(ctx, stet.Topic[json.RawMessage]{Name: topic}, json.RawMessage(value))
		if err != nil {
			return nil, err
		}
		return json.RawMessage(strconv.Quote(id)), nil
	})
}

// token makes a promise that is assigned from outside, and begins to wait for it.
func (r *run) token(name string) *goja.Object {
	if (r.cancelled || r.scope.stopped) && !r.scope.clean {
		panic(r.errorOf(stet.ErrCancelled))
	}
	ctx := r.ctx
	if r.scope.clean {
		ctx = stet.WithoutCancel(ctx)
	}
	p, err := stet.NewPromise[json.RawMessage](ctx, "token "+name) // apart from operations of that name
	if err != nil {
		panic(r.errorOf(err))
	}
	out := r.vm.NewObject()
	for _, f := range []struct {
		name  string
		value any
	}{
		{"token", p.Token()},
		{"promise", r.wait("", "await "+name, func(ctx stet.Context) (json.RawMessage, error) { return p.Await(ctx) })},
	} {
		if err := out.Set(f.name, f.value); err != nil {
			panic(err)
		}
	}
	return out
}
