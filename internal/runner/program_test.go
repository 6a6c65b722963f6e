package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
)

// program is a random workflow: a tree of operations.
type program struct {
	root  []*stmt
	names int
	again int   // how often it continues as new
	saga  *plan // nil: nothing is undone
}

// stmt is one statement. Which of its fields matter follows from kind.
type stmt struct {
	kind  string
	name  string
	arms  [][]*stmt // of branches
	mode  Mode
	limit int
	times int
	delay time.Duration
	mail  int
	fail  bool
	every int
	keep  int
	keys  []int
}

// generate makes a program of about size statements.
func generate(random *rand.Rand, size int) *program {
	p := &program{}
	p.root = p.block(random, size, 3)
	return p
}

func (p *program) name(prefix string) string {
	p.names++
	return fmt.Sprintf("%s%d", prefix, p.names)
}

func (p *program) block(random *rand.Rand, size, depth int) []*stmt {
	var block []*stmt
	for size > 0 {
		s, cost := p.stmt(random, size, depth)
		block = append(block, s)
		size -= cost
	}
	return block
}

func (p *program) stmt(random *rand.Rand, size, depth int) (*stmt, int) {
	kinds := []string{"step", "step", "step", "sleep", "receive", "flaky", "loop", "branch on what was seen", "promise",
		"keep", "tx", "tx", "derive", "keyed"}
	kinds = append(kinds, "child", "child", "leave", "detach", "tied", "tied", "watch", "keyed", "keyed",
		"event", "event", "publish", "send")
	if depth < 3 {
		kinds = append(kinds, "panic")
	}
	if depth > 0 && size > 3 {
		kinds = append(kinds, "compose", "compose", "compose", "settled", "map", "select", "spawn",
			"defer", "endless", "marked", "saga", "saga")
	}
	s := &stmt{kind: kinds[random.IntN(len(kinds))]}
	s.name = p.name(s.kind[:2])
	s.delay = time.Duration(random.IntN(5)) * 700 * time.Millisecond
	s.mail = random.IntN(3)
	s.fail = random.IntN(4) == 0
	s.times = 1 + random.IntN(3)
	s.limit = 1 + random.IntN(3)
	s.every = 1 + random.IntN(4)
	s.keep = random.IntN(4)
	s.mode = Mode(1 + random.IntN(4))
	s.keys = random.Perm(4)[:2+random.IntN(3)]
	if !strings.Contains("compose settled map select spawn defer endless marked saga", s.kind) {
		if s.kind == "branch on what was seen" {
			s.arms = [][]*stmt{p.block(random, 1, 0), p.block(random, 1, 0)}
		}
		return s, 1
	}
	arms := 1
	switch s.kind {
	case "marked":
		arms = 2
	case "compose", "settled", "select":
		arms = 2 + random.IntN(2)
	}
	used := 1
	for range arms {
		n := 1 + random.IntN(max(size/arms, 1))
		s.arms = append(s.arms, p.block(random, n, depth-1))
		used += n
	}
	return s, used
}

var errProgram = errors.New("failed on purpose")

// code returns the workflow's function.
func (p *program) code(d *driver) func(*Branch) ([]byte, *stored.Failure) {
	return func(b *Branch) ([]byte, *stored.Failure) {
		x := &execution{d: d, seen: d.seen, shared: new(int), own: new(memory)}
		x.show(b, "begin")
		err := p.saga.end(d, b, x.ended(b, x.run(b, p.root)))
		x.see(b, "end: %v", err)
		if err != nil {
			return nil, &stored.Failure{Code: stored.CodeError, Message: err.Error()}
		}
		if b.run.cfg.Run.Incarnation < p.again {
			b.ContinueAsNew(Renewal{Workflow: "w", Input: []byte(fmt.Sprint(x.own.hash))})
		}
		return []byte(fmt.Sprint(*x.shared, x.own.hash)), nil
	}
}

// execution interprets a program in one activation. Its parts are shared by
// branches without a lock.
type execution struct {
	d      *driver
	seen   *seen
	shared *int    // events outside of loops
	own    *memory // of the events of the iteration, or of those outside of loops
	inLoop bool
}

// memory is what code remembers of the events that it has seen.
type memory struct {
	events int
	hash   uint32
}

// see adds to what was seen. What an iteration of a loop sees is remembered by
// it alone.
func (x *execution) see(b *Branch, format string, args ...any) {
	x.seen.add(b.Location(), format, args...)
	x.own.events++
	x.own.hash = hashOf(location.Loc(fmt.Sprint(x.own.hash, x.seen.events[len(x.seen.events)-1].text)))
	if !x.inLoop {
		*x.shared++
	}
}

// chance is something that depends on what this code has seen, and on what others
// have outside of loops.
func (x *execution) chance() int { return *x.shared + x.own.events }

func (x *execution) run(b *Branch, block []*stmt) error {
	for _, s := range block {
		if err := x.stmt(b, s); err != nil {
			return err
		}
	}
	return nil
}

// note adds an outcome to what was seen.
func (x *execution) note(b *Branch, s *stmt, value any, err error) {
	x.see(b, "%s %s: %v %v now %d", b.At(), s.name, value, err, b.Now())
	x.show(b, x.seen.events[len(x.seen.events)-1].text)
}

// show says to readers what was seen, if the driver wants that; no text is said
// twice.
func (x *execution) show(b *Branch, text string) {
	if d := x.d; d.shows {
		place := fmt.Sprint(b.Location(), " ", text)
		d.said[place]++
		text = fmt.Sprintf("%s (%d)", place, d.said[place])
		d.shown = append(d.shown, sight{seq: x.seen.run.j.Seq(), text: text})
		if err := errors.Join(b.Append(at("log"), []byte(text), 0), b.Set(at("last"), []byte(text))); err != nil {
			panic(err)
		}
	}
}

// stmt executes one statement. Only cancel and failures on purpose end a block.
func (x *execution) stmt(b *Branch, s *stmt) error {
	if x.d.bugs > 0 && !x.d.j.run.Status.Terminal() && x.d.random.IntN(20) == 0 {
		x.d.bugs--
		x.d.brokenOff = x.d.r
		panic("a bug of this build")
	}
	switch s.kind {
	case "step", "flaky", "keep", "tx":
		return x.step(b, s)
	case "derive":
		v, err := b.Derive(at(s.name), "random")
		x.note(b, s, fmt.Sprintf("%x", v[:4]), err)
		return err
	case "panic":
		if x.d.cfg.FailBugs && x.chance()%3 == 0 {
			panic(s.name)
		}
	case "child", "leave", "detach", "tied":
		return x.child(b, s)
	case "watch":
		return x.watch(b, s)
	case "event":
		return x.event(b, s)
	case "publish":
		return x.publish(b, s)
	case "send":
		var full error
		if hashOf(location.Loc(s.name))%4 == 0 { // the same before and after a commit that was lost
			full = errors.New("full")
		}
		_, err := b.Send(Send{Call: at(s.name), To: "another", Item: mailOf(fmt.Sprint("m", s.mail), s.name),
			Find: roomIs(&full)})
		x.note(b, s, "sent", err)
		return err
	case "sleep":
		err := b.Sleep(at(s.name), s.delay)
		x.note(b, s, "slept", err)
		return err
	case "receive":
		return x.receive(b, s)
	case "promise":
		p, err := b.NewPromise(at(s.name), nil)
		if err == nil {
			var v []byte
			v, err = b.AwaitPromise(at("await"), p)
			x.note(b, s, string(v), err)
		}
		return err
	case "loop":
		for range s.times {
			if err := x.step(b, s); err != nil {
				return err
			}
		}
	case "endless":
		return x.endless(b, s)
	case "branch on what was seen":
		return x.run(b, s.arms[x.chance()%2])
	case "compose":
		return x.compose(b, s)
	case "settled":
		return x.settled(b, s)
	case "map":
		return x.mapping(b, s)
	case "saga":
		return x.saga(b, s)
	case "select":
		return x.choose(b, s)
	case "spawn": // not awaited: cancelled with the scope
		b.Go(at(s.name), func(b *Branch) (any, error) { return nil, x.ended(b, x.run(b, s.arms[0])) })
	case "defer":
		defer func() {
			shielded := at(s.name)
			shielded.Shield = true
			v, err := b.Step(Step{Call: shielded, Func: x.body(s), Policy: once, Permit: limited(s)})
			x.note(b, s, "deferred "+string(v), err)
		}()
		return x.run(b, s.arms[0])
	default:
		return x.changed(b, s)
	}
	return nil
}

// body returns a step's body. Its value is different at each execution, if the
// driver wants that.
func (x *execution) body(s *stmt) BodyFunc {
	d := x.d
	return func(_ context.Context, b *Body) BodyResult {
		if (s.kind == "flaky" || s.kind == "keep" && s.fail) && (b.Attempt == 1 || s.fail) {
			// Where an interrupted run is to end as it does undisturbed, a body that may have been
			// begun twice is not tried again although the step was cancelled.
			final := s.kind == "keep" && d.random == nil
			return BodyResult{Final: final,
				Failure: &stored.Failure{Code: stored.CodeError, Message: fmt.Sprint("attempt ", b.Attempt)}}
		}
		if d.random == nil {
			return BodyResult{Value: []byte("v")}
		}
		d.nonce++
		return BodyResult{Value: []byte(fmt.Sprint("v", d.nonce))}
	}
}

func (x *execution) step(b *Branch, s *stmt) error {
	policy := once
	if s.kind == "flaky" || s.kind == "keep" {
		policy = twice
	}
	v, err := b.Step(Step{Call: at(s.name), Func: x.body(s), Policy: policy, Undo: x.undo(s), Permit: limited(s)})
	x.note(b, s, string(v), err)
	if policy.Attempts == twice.Attempts && err != ErrCancelled {
		return nil
	}
	return err
}

func (x *execution) receive(b *Branch, s *stmt) error {
	r := Receive{Call: at(s.name), Names: []string{fmt.Sprint("m", s.mail)}, Max: 1}
	if s.fail {
		r.Deadline = b.Now().Add(s.delay)
	}
	if x.d.shows && s.mail == 2 {
		r.Names[0] = UpdateBox(r.Names[0])
	}
	got, err := b.Receive(r)
	text := ""
	for _, m := range got {
		text += string(m.Value)
		if x.d.shows && s.mail == 2 {
			answer := func() {
				text := fmt.Sprint("to ", string(m.Value))
				x.d.answers[m.No] = text
				if err := b.AnswerUpdate(at("answer"), m.No, []byte(text)); err != nil {
					panic(err)
				}
			}
			if s.limit > 1 {
				answer()
			}
			defer answer() // the first answer stands
		}
	}
	x.note(b, s, text, err)
	if err == ErrTimeout {
		return nil
	}
	return err
}

// endless is a Loop. Its state depends on all that its iterations have seen.
func (x *execution) endless(b *Branch, s *stmt) error {
	iterations := int64(3 * s.times)
	var last string
	err := b.Loop(Loop{
		Call: at(s.name), Every: int64(s.every), Keep: int64(s.keep), ForgetUndo: s.limit == 1, State: []byte("begin"),
		Body: func(n int64, state []byte) ([]byte, bool, error) {
			y := &execution{d: x.d, seen: x.seen, shared: x.shared, own: new(memory), inLoop: true}
			y.see(b, "%s iteration %d with %s at %d", s.name, n, state, b.Now())
			if err := y.ended(b, y.run(b, s.arms[0])); err != nil {
				return nil, false, err
			}
			if s.fail && n == iterations-1 {
				return nil, false, errProgram
			}
			last = fmt.Sprint(string(state), y.own.hash)
			return []byte(fmt.Sprint(hashOf(location.Loc(last)))), n < iterations-1, nil
		},
	})
	if err != nil {
		last = "" // of an iteration whose history may be gone
	}
	x.note(b, s, last, err)
	return err
}

// branches begins one branch for each arm; each may fail on purpose in the end.
func (x *execution) branches(b *Branch, s *stmt) []*Future {
	futures := make([]*Future, len(s.arms))
	for i, arm := range s.arms {
		futures[i] = b.Go(at(fmt.Sprint(s.name, "-", i)), func(b *Branch) (any, error) {
			if err := x.ended(b, x.run(b, arm)); err != nil {
				return nil, err
			}
			x.see(b, "%s ends", b.At())
			if s.fail && i == 0 {
				return nil, errProgram
			}
			return i, nil
		})
	}
	return futures
}

func (x *execution) compose(b *Branch, s *stmt) error {
	futures := x.branches(b, s)
	winner, err := b.Compose(at("compose"), s.mode, futures)
	x.note(b, s, fmt.Sprint("winner ", winner), err)
	for _, f := range futures {
		if f.Settled() {
			v, err := f.Result()
			x.note(b, s, v, err)
		}
	}
	return err
}

// settled takes branches as they end, cancels one of them on the way, and adds another.
func (x *execution) settled(b *Branch, s *stmt) error {
	futures := x.branches(b, s)
	var open Settled
	for _, f := range futures {
		open.Add(f)
	}
	for n := 0; ; n++ {
		f, err := b.Next(at("next"), &open)
		if err == ErrEmpty {
			return nil
		}
		if err != nil {
			x.note(b, s, "next", err)
			return err
		}
		place := location.Loc("none") // a cancelled branch begins no other
		if ended, _ := f.Outcome(); ended != nil {
			place = ended.At()
		}
		v, err := f.Result()
		x.note(b, s, fmt.Sprint(place, " ", v), err)
		if n+1 == s.times {
			b.CancelFuture(at("cancel"), futures[len(futures)-1])
		}
		if n == 0 {
			open.Add(b.Go(at(s.name+"-more"), func(b *Branch) (any, error) {
				return "more", b.Sleep(at("s"), s.delay)
			}))
		}
	}
}

func (x *execution) mapping(b *Branch, s *stmt) error {
	futures, failed, err := b.Map(at(s.name), 2+s.times, s.limit, func(i int) string { return fmt.Sprint("k", i) },
		func(b *Branch, i int) (any, error) {
			x.see(b, "%s begins", b.At())
			return i, x.ended(b, x.run(b, s.arms[0]))
		})
	x.note(b, s, fmt.Sprint(len(futures), " mapped, failed ", failed), err)
	return err
}

func (x *execution) choose(b *Branch, s *stmt) error {
	futures := x.branches(b, s)
	for range futures {
		cases := []Case{{Timer: &Timer{Call: at(s.name), At: b.Now().Add(s.delay)}}}
		for _, f := range futures {
			if !f.Settled() {
				cases = append(cases, Case{Future: f})
			}
		}
		if s.fail {
			cases = append(cases, Case{Receive: &Receive{Call: at(s.name + "-mail"),
				Names: []string{fmt.Sprint("m", s.mail)}, Max: 1}})
		}
		won, err := b.Select(at("select"), cases)
		x.note(b, s, fmt.Sprint("selected ", won.Index), err)
		if err != nil {
			return err
		}
	}
	return nil
}
