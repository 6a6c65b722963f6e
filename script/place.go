package script

import (
	"context"
	"fmt"
	"sync"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Places returns where a run stands in the source of the version that it is bound to: the lines
// that have begun the operations which are under way, in the order of their calls. It replays the
// history of the run, and executes and writes nothing. A run that has ended, or has not begun,
// stands nowhere. Errors: stet.ErrNotFound, and those of stet.Engine.Check.
func (l *Library) Places(ctx context.Context, e *stet.Engine, runID string) ([]stet.ScriptPlace, error) {
	info, err := e.Runs().Info(ctx, runID)
	if err != nil {
		return nil, err
	}
	number, err := stet.ScriptsOf(e).BoundTo(ctx, runID)
	if err != nil || number == 0 || info.Status.Terminal() {
		return nil, err
	}
	code, err := stet.ScriptsOf(e).Code(ctx, info.Workflow, number)
	if err != nil {
		return nil, err
	}
	program, err := parse(info.Workflow, code.Code)
	if err != nil {
		return nil, err
	}
	t := &trace{source: code.Code, calls: map[string]int{}}
	p := l.bind(compiled{name: info.Workflow, version: number, trace: t}, program, code.Code)
	p.replay = true
	_, err = e.Check(ctx, stet.CheckQuery{
		Filter: store.Filter{IDs: []string{runID}}, Sample: stet.None, Definition: stet.Define(info.Workflow, p.run),
	})
	if err != nil {
		return nil, err
	}
	return t.standing(), nil
}

// trace notes which lines have begun the operations of a replay. A replay that was given up may
// still use it.
type trace struct {
	source    string
	mu        sync.Mutex
	calls     map[string]int // operations without a key, by name
	underWay  []int          // numbers of operations
	beginning map[int]stet.ScriptPlace
}

// began notes an operation that code of the script has begun.
func (t *trace) began(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := c.At
	place.Location = c.Name
	if c.Key != "" {
		place.Location += "/[" + c.Key + "]"
	} else if t.calls[c.Name]++; t.calls[c.Name] > 1 {
		place.Location += fmt.Sprint("#", t.calls[c.Name])
	}
	if kind := acts[c.Act].kind; kind != "" {
		place.Location += "/" + kind
	}
	if t.beginning == nil {
		t.beginning = map[int]stet.ScriptPlace{}
	}
	t.underWay, t.beginning[c.Number] = append(t.underWay, c.Number), place
}

// position returns where the code of a script is, of a trace.
func (r *interpreter) position() (place stet.ScriptPlace) {
	for _, frame := range r.vm.CaptureCallStack(0, nil) {
		at := fromOne(frame.Position(), r.trace.source)
		if at.Line > 0 && frame.SrcName() != preludeName {
			place.File, place.Line, place.Column = at.Filename, at.Line, at.Column
			break
		}
	}
	return place
}

// ended notes that the script has the outcome of an operation.
func (t *trace) ended(number int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.beginning, number)
}

// standing returns where the operations were begun that have not ended.
func (t *trace) standing() []stet.ScriptPlace {
	t.mu.Lock()
	defer t.mu.Unlock()
	var places []stet.ScriptPlace
	for _, number := range t.underWay {
		if place, ok := t.beginning[number]; ok {
			places = append(places, place)
		}
	}
	return places
}
