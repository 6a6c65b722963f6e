package script

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/dop251/goja"

	"github.com/stet-run/stet"
)

// native is what the prelude calls.
func (r *run) native() *goja.Object {
	n := r.vm.NewObject()
	for _, f := range []struct {
		name  string
		value any
	}{
		{"id", stet.RunID(r.ctx)},
		{"header", func(key string) string { return stet.Header(r.ctx, key) }},
		{"log", r.log},
		{"regexp", func(pattern, flags string) string {
			if err := checkRegExp(pattern, flags); err != nil {
				return err.Error()
			}
			return ""
		}},
		{"used", r.used},
		{"step", r.step}, {"delay", r.delay}, {"receive", r.receive}, {"child", r.child}, {"detach", r.detach}, {"set", r.set},
		{"append", r.append}, {"event", r.event}, {"publish", r.publish}, {"token", r.token},
		{"scope", r.newScope}, {"within", r.within}, {"cancelScope", r.cancelScope}, {"cancel", r.cancelPromise},
		{"cleanup", r.cleanup}, {"continueAsNew", r.continueAsNew},
	} {
		if err := n.Set(f.name, f.value); err != nil {
			panic(err)
		}
	}
	return n
}

type stepOptions struct {
	Key, Undo, Queue            string
	Attempts, Priority, Timeout float64
}

// start begins an operation in a branch of its own, in the scope of the code that calls. kind is
// the name of the operation in that branch; "": that of nobody's interest.
func (r *run) start(kind, name, key string, do func(stet.Context) (json.RawMessage, error)) *goja.Object {
	if len(r.pending) >= maxPending {
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
	ctx := r.ctx
	if r.scope.clean {
		ctx = stet.WithoutCancel(ctx)
	}
	var opts []stet.GoOption
	if key != "" {
		opts = append(opts, stet.Key(key))
	}
	o := &operation{future: stet.Go(ctx, name, do, opts...), promise: promise, resolve: resolve, reject: reject}
	if r.trace != nil {
		r.trace.began(r.vm, o, kind, name, key)
	}
	r.pending[o.future] = o
	r.promises[promise] = o
	r.order = r.pruned(append(r.order, o))
	r.scope.operations = r.pruned(append(r.scope.operations, o))
	r.settled.Add(o.future)
	return promise
}

// pruned leaves out what has ended, once in a while: what one call costs does not depend on
// how many there were.
func (r *run) pruned(list []*operation) []*operation {
	if len(list) <= 2*len(r.pending)+64 {
		return list
	}
	return slices.DeleteFunc(list, func(o *operation) bool { return o.ended })
}

func (r *run) step(name, input string, o stepOptions) *goja.Object {
	task := r.task(name)
	if task == nil {
		panic(r.vm.NewTypeError("there is no task " + name + "; there are: " + r.taskNames()))
	}
	opts := []stet.StepOption{stet.Retry{
		Attempts: int(o.Attempts), Timeout: time.Duration(o.Timeout * float64(time.Second)),
	}}
	if o.Queue != "" {
		permit := stet.OnStepQueue(o.Queue)
		permit.Priority = int(o.Priority)
		opts = append(opts, permit)
	}
	if o.Undo != "" {
		undo := r.task(o.Undo)
		if undo == nil {
			panic(r.vm.NewTypeError("there is no task " + o.Undo + " to undo with; there are: " + r.taskNames()))
		}
		opts = append(opts, stet.Undo(func(ctx context.Context, out json.RawMessage) error {
			_, err := undo(ctx, out)
			return err
		}))
	}
	return r.start("step", name, o.Key, func(ctx stet.Context) (json.RawMessage, error) {
		return stet.Step(ctx, "step", func(ctx context.Context) (json.RawMessage, error) {
			return task(ctx, json.RawMessage(input))
		}, opts...)
	})
}

// delay fixes its deadline at the call.
func (r *run) delay(seconds float64) *goja.Object {
	until := stet.Now(r.ctx).Add(time.Duration(seconds * float64(time.Second)))
	return r.start("sleep", "delay", "", func(ctx stet.Context) (json.RawMessage, error) {
		return nil, stet.SleepUntil(ctx, "sleep", until)
	})
}

func (r *run) receive(name string, within float64) *goja.Object {
	opts := []stet.WaitOption{stet.Named("receive")}
	if within >= 0 {
		opts = append(opts, stet.Within(time.Duration(within*float64(time.Second))))
	}
	return r.start("receive", name, "", func(ctx stet.Context) (json.RawMessage, error) {
		return stet.Message[json.RawMessage](name).Receive(ctx, opts...)
	})
}

func (r *run) child(name, input string) *goja.Object {
	return r.start("child", name, "", func(ctx stet.Context) (json.RawMessage, error) {
		child := stet.Ref[json.RawMessage, json.RawMessage](name)
		return child.Call(ctx, json.RawMessage(input), stet.Named("child"))
	})
}

func (r *run) detach(name, input string) *goja.Object {
	return r.start("child", name, "", func(ctx stet.Context) (json.RawMessage, error) {
		child := stet.Ref[json.RawMessage, json.RawMessage](name)
		id, err := child.Detach(ctx, json.RawMessage(input), stet.Named("child"))
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
	if !o.ended {
		o.future.Cancel(r.ctx)
	}
}

// cleanup calls a function whose operations work in a cancelled run.
func (r *run) cleanup(f goja.Callable) goja.Value {
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
	return r.start("receive", topic, "", func(ctx stet.Context) (json.RawMessage, error) {
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
		{"promise", r.start("", "await "+name, "", func(ctx stet.Context) (json.RawMessage, error) { return p.Await(ctx) })},
	} {
		if err := out.Set(f.name, f.value); err != nil {
			panic(err)
		}
	}
	return out
}
