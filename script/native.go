package script

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/dop251/goja"
)

// tool is a function or value that a script finds in an object, as Task.run. Only those that it
// names are made: that is most of what the begin of an interpreter takes.
type tool struct {
	object, name string
	call         func(*interpreter, args) goja.Value
}

var toolbox []tool

func init() { // they begin code that may call them
	toolbox = []tool{
		{"Task", "run", taskRun},
		{"Task", "delay", func(r *interpreter, a args) goja.Value {
			return r.start(call{Act: delay, Name: "delay", Seconds: r.seconds(a.at(0), "Task.delay")})
		}},
		{"Signal", "next", waits(receive)}, {"Event", "next", waits(receiveEvent)},
		{"Workflow", "run", func(r *interpreter, a args) goja.Value { return r.child(runChild, a) }},
		{"Workflow", "start", func(r *interpreter, a args) goja.Value { return r.child(startChild, a) }},
		{"Value", "set", writes(setValue)}, {"Stream", "append", writes(appendItem)}, {"Event", "publish", writes(publish)},
		{"Token", "create", func(r *interpreter, a args) goja.Value { return r.token(a.text(0)) }},
		{"Run", "header", func(r *interpreter, a args) goja.Value { return r.vm.ToValue(r.header(a.text(0))) }},
		{"Run", "cleanup", func(r *interpreter, a args) goja.Value { return r.cleanup(a.function(0)) }},
		{"Run", "continueAsNew", func(r *interpreter, a args) goja.Value { panic(r.continuing(r.encoded(a.at(0)))) }},
		{"console", "log", says(slog.LevelInfo)}, {"console", "info", says(slog.LevelInfo)},
		{"console", "debug", says(slog.LevelDebug)}, {"console", "warn", says(slog.LevelWarn)},
		{"console", "error", says(slog.LevelError)},
	}
}

// holders are the objects that the tools are in.
var holders = []string{"Task", "Signal", "Workflow", "Value", "Stream", "Event", "Token", "Run", "console"}

// install makes what the script finds beside the language.
func (r *interpreter) install() error {
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
		if err := define("Run", "id", r.id); err != nil {
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
	if err := r.guardCharacters(); err != nil {
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
func (r *interpreter) native(task *goja.Object) *goja.Object {
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
func (r *interpreter) combines() bool { return r.used["all"] || r.used["any"] || r.used["race"] }

// expresses reports whether the script may have regular expressions: its own, or those that the
// language makes of texts.
func (r *interpreter) expresses() bool {
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
func (r *interpreter) options(v goja.Value) func(name string) goja.Value {
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
func (r *interpreter) seconds(v goja.Value, what string) float64 {
	switch v.Export().(type) {
	case int64, float64:
		if n := v.ToFloat(); n >= 0 && n <= 9e9 {
			return n
		}
	}
	panic(r.rangeError("%s: expected seconds from 0, found %s", what, v))
}

// withinOf reads the option within of a wait; -1: none.
func (r *interpreter) withinOf(options goja.Value) float64 {
	if v := r.options(options)("within"); v != nil {
		return r.seconds(v, "within")
	}
	return -1
}

func (r *interpreter) rangeError(format string, args ...any) *goja.Object {
	e, err := r.vm.New(r.vm.Get("RangeError"), r.vm.ToValue(fmt.Sprintf(format, args...)))
	if err != nil {
		panic(err)
	}
	return e
}

// taskRun is Task.run.
func taskRun(r *interpreter, a args) goja.Value {
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
	c := call{Act: runTask, Name: a.text(0), Input: r.encoded(a.at(1)), Key: text("key")}
	c.Task = taskOptions{Attempts: number("attempts"), Undo: text("undo"), Queue: text("queue"),
		Priority: number("priority")}
	if v := option("timeout"); v != nil {
		c.Task.Timeout = r.seconds(v, "timeout")
	}
	return r.start(c)
}

// waits is a tool that waits for a message or an event.
func waits(act act) func(*interpreter, args) goja.Value {
	return func(r *interpreter, a args) goja.Value {
		return r.start(call{Act: act, Name: a.text(0), Seconds: r.withinOf(a.at(1))})
	}
}

// writes is a tool that writes a value under a name.
func writes(act act) func(*interpreter, args) goja.Value {
	return func(r *interpreter, a args) goja.Value {
		return r.start(call{Act: act, Name: a.text(0), Input: r.encoded(a.at(1))})
	}
}

// says is a function of the console.
func says(level slog.Level) func(*interpreter, args) goja.Value {
	return func(r *interpreter, a args) goja.Value {
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

// start has an operation begun in a branch of its own, in the scope of the code that calls. The run does not succeed
// before it has ended, if it has an effect.
func (r *interpreter) start(c call) *goja.Object {
	r.checkPending()
	p, resolve, reject := r.vm.NewPromise()
	promise := r.vm.ToValue(p).ToObject(r.vm)
	if r.over() {
		if err := reject(r.errorOf(cancelled)); err != nil {
			panic(err)
		}
		return promise
	}
	r.numbered++
	c.Number, c.Clean = r.numbered, r.scope.clean
	if r.trace != nil {
		c.At = r.position()
	}
	o := &operation{call: c, promise: promise, resolve: resolve, reject: reject}
	r.calls = append(r.calls, o)
	r.pending[c.Number] = o
	r.promises[promise] = o
	r.order = r.pruned(append(r.order, o))
	r.scope.operations = r.pruned(append(r.scope.operations, o))
	return promise
}

func (r *interpreter) checkPending() {
	if len(r.pending) >= maxPending {
		panic(r.vm.NewTypeError("at most %d operations may be under way", maxPending))
	}
}

// over reports whether the code that executes is cancelled, with its scope or the run.
func (r *interpreter) over() bool { return (r.cancelled || r.scope.stopped) && !r.scope.clean }

// pruned leaves out what has ended, once in a while: what one call costs does not depend on
// how many there were.
func (r *interpreter) pruned(list []*operation) []*operation {
	if len(list) <= 2*len(r.pending)+64 {
		return list
	}
	return slices.DeleteFunc(list, func(o *operation) bool { return o.ended })
}

// child is Workflow.run or Workflow.start.
func (r *interpreter) child(act act, a args) goja.Value {
	c := call{Act: act, Name: a.text(0), Input: r.encoded(a.at(1))}
	option := r.options(a.at(2))
	if id := option("id"); id != nil {
		c.Child.Named, c.Child.ID = true, id.String()
	}
	if tags := option("tags"); tags != nil {
		c.Child.Tags = r.texts(tags)
	}
	if headers := option("headers"); headers != nil {
		c.Child.Headers = r.texts(headers)
	}
	return r.start(c)
}

// texts reads an object with texts.
func (r *interpreter) texts(v goja.Value) map[string]string {
	o, texts := v.ToObject(r.vm), map[string]string{}
	for _, key := range o.Keys() {
		texts[key] = o.Get(key).String()
	}
	return texts
}

func (r *interpreter) newScope() *scope {
	s := &scope{clean: r.scope.clean, stopped: r.scope.stopped}
	r.scope.inner = append(r.scope.inner, s)
	return s
}

// within calls a function in a scope. Over its awaits the tracker keeps it.
func (r *interpreter) within(s *scope, f goja.Callable) goja.Value {
	before := r.scope
	r.scope = s
	out, err := f(goja.Undefined())
	r.scope = before
	if err != nil {
		panic(err)
	}
	return out
}

func (r *interpreter) cancelScope(s *scope) {
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
func (r *interpreter) cancelPromise(value goja.Value) {
	if obj, ok := value.(*goja.Object); ok {
		if o := r.promises[obj]; o != nil {
			r.stop(o)
		}
	}
}

func (r *interpreter) stop(o *operation) {
	switch {
	case o.ended:
	case o.begun:
		r.cancels = append(r.cancels, o.Number)
	default:
		o.Unwanted = true
	}
}

// cleanup calls a function whose operations work in a cancelled run.
func (r *interpreter) cleanup(f goja.Callable) goja.Value {
	if f == nil {
		panic(r.vm.NewTypeError("Run.cleanup: expected a function"))
	}
	return r.within(&scope{clean: true}, f)
}

func (r *interpreter) continuing(input string) *goja.Object {
	return r.errorOf(r.host.continueAsNew(input))
}

// token makes a promise that is assigned from outside, and begins to wait for it.
func (r *interpreter) token(name string) *goja.Object {
	if r.over() {
		panic(r.errorOf(cancelled))
	}
	r.checkPending()
	token, number, failed := r.host.token(name, r.scope.clean)
	if failed != nil {
		panic(r.errorOf(failed))
	}
	out := r.vm.NewObject()
	for _, f := range []struct {
		name  string
		value any
	}{
		{"token", token},
		{"promise", r.start(call{Act: awaitToken, Name: "await " + name, Token: number})},
	} {
		if err := out.Set(f.name, f.value); err != nil {
			panic(err)
		}
	}
	return out
}
