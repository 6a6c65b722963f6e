package stet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// StartOption is an option of Start: an ID, StartAt, StartAfter, an Existing
// policy, a FirstMessage, Tags, Headers, or OnQueue; and MaxRunTime, MaxSuspension,
// Retention, OnFailure or OnBug, which then count for the run in place of those of Define.
type StartOption interface{ applyStart(*startOptions) error }

type startOptions struct {
	id       string
	at       time.Time
	after    time.Duration
	existing Existing
	messages []firstMessage
	tags     []store.Pair
	headers  []byte
	queue    *OnQueue // nil: as the definition says
	policy   stored.Policy
	observed func(error) // is called with the outcome; nil: nothing is
}

// ID names the run: 1 to 255 printable bytes that do not end in "@" and digits
// and do not begin with "stet.".
// Without one the run gets a UUIDv7, which sorts by time. Given to a child, see Workflow.Go.
type ID string

func (id ID) applyStart(o *startOptions) error {
	o.id = string(id)
	return checkRunID(o.id)
}

// StartAt delays a run: it begins no earlier than t.
type StartAt time.Time

func (t StartAt) applyStart(o *startOptions) error {
	o.at = time.Time(t)
	return nil
}

// StartAfter delays a run: it begins no earlier than this much later.
type StartAfter time.Duration

func (d StartAfter) applyStart(o *startOptions) error {
	if d < 0 {
		return fmt.Errorf("StartAfter: expected a duration of 0 or more, found %s: %w", time.Duration(d), ErrInvalid)
	}
	o.after = time.Duration(d)
	return nil
}

// Existing says what a start does when a run with its ID exists. UseExisting and
// RefuseExisting are for schedules too.
type Existing uint8

const (
	// UseExisting returns the existing run, if its input is equal; otherwise it is ErrExists.
	UseExisting Existing = iota
	// RefuseExisting is ErrExists.
	RefuseExisting
	// ReplaceFailed starts a new run if the existing one has failed or was cancelled;
	// from then on the old one is addressed as ID@N with its number N. Otherwise it is
	// UseExisting.
	ReplaceFailed
	// ReplaceEnded is ReplaceFailed for a run that has succeeded too: so an ID has one
	// live run at most, and each start finds one. With a FirstMessage it is "send to the
	// run, and start it if there is none".
	ReplaceEnded
)

func (x Existing) applyStart(o *startOptions) error {
	if x > ReplaceEnded {
		return fmt.Errorf("Existing: expected UseExisting, RefuseExisting, ReplaceFailed or ReplaceEnded, found %d: %w", x,
			ErrInvalid)
	}
	o.existing = x
	return nil
}

type firstMessage struct {
	name  string
	value any
	opts  []SendOption
}

func (m firstMessage) applyStart(o *startOptions) error {
	o.messages = append(o.messages, m)
	return checkName("message", m.name)
}

// FirstMessage is sent to the run that Start returns: in the commit that starts it, or,
// where Existing makes Start return a run that exists, to that. If that has ended it is
// ErrTerminal, unless the Existing policy replaces it; and if its inbox is full,
// ErrInboxFull.
//
// Each call of Start sends it once, also if the engine has to repeat the act. A caller
// that repeats a start after an error, or because it was asked twice, gives a SendKey:
// equal keys to one run give one delivery.
func FirstMessage[T any](m Message[T], value T, opts ...SendOption) StartOption {
	return firstMessage{string(m), value, opts}
}

// Start starts a run with the input. It is durable when Start returns, and
// begins when a process that has the code is there. Errors: ErrUnknownWorkflow
// if no process ever had the code, ErrNoQueue, ErrExists, ErrTerminal and
// ErrInboxFull (see FirstMessage), ErrInvalid, ErrTooLarge, and those of the store. Nothing has changed
// then. A context that has ended starts nothing.
func (w *Workflow[In, Out]) Start(ctx context.Context, e *Engine, input In, opts ...StartOption) (*Run[Out], error) {
	runs, err := w.start(ctx, e, []In{input}, func(int) []StartOption { return opts })
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}

// StartAll starts a run for each input, all in one commit; each gives the
// options of the one with that index and may be nil. The errors are those of
// Start, joined; the runs that could be started are started, and the others nil.
// Bad options or inputs start nothing. So do more than MaxStarts inputs, which are
// ErrInvalid, and inputs, headers and first messages that have more than MaxStartBytes
// together, which are ErrTooLarge. On Redis, whose scripts are kept short, each 256 starts
// that go to one server are a commit of their own.
func (w *Workflow[In, Out]) StartAll(
	ctx context.Context, e *Engine, inputs []In, each func(i int) []StartOption,
) ([]*Run[Out], error) {
	if err := w.checkCount(len(inputs)); err != nil {
		return nil, err
	}
	return w.start(ctx, e, inputs, each)
}

// checkCount refuses more starts than one commit takes.
func (w *Workflow[In, Out]) checkCount(n int) error {
	if n <= MaxStarts {
		return nil
	}
	return fmt.Errorf("start all %s: expected at most %d inputs, which are one commit, found %d: "+
		"start them by several calls: %w", w.name, MaxStarts, n, ErrInvalid)
}

const (
	// MaxStarts is how many runs one call of StartAll may start.
	MaxStarts = 10_000
	// MaxStartBytes is how many bytes several runs that one call of StartAll starts may
	// have together: in their encoded inputs, headers and first messages.
	MaxStartBytes = 16 << 20
)

// checkTogether refuses starts that are too large for one commit.
func checkTogether(starts []store.Command) error {
	if len(starts) < 2 {
		return nil // has the limits of its values
	}
	bytes := 0
	for i := range starts {
		s := starts[i].Start
		bytes += len(s.Input) + len(s.Headers)
		for k := range s.Items {
			bytes += len(s.Items[k].Value) + len(s.Items[k].Headers)
		}
	}
	if bytes > MaxStartBytes {
		return fmt.Errorf("%d runs: expected at most %d bytes of inputs, headers and first messages, which are one "+
			"commit, found %d: start them by several calls: %w", len(starts), MaxStartBytes, bytes, ErrTooLarge)
	}
	return nil
}

// commands checks and encodes starts.
func (w *Workflow[In, Out]) commands(
	ctx context.Context, e *Engine, inputs []In, each func(i int) []StartOption,
) ([]store.Command, []startOptions, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", w.name, context.Cause(ctx))
	}
	if err := e.inner.Workflows().Check(ctx, w.name); err != nil {
		return nil, nil, err
	}
	commands := make([]store.Command, len(inputs))
	options := make([]startOptions, len(inputs))
	for i, input := range inputs {
		if each != nil {
			for _, opt := range each(i) {
				if err := opt.applyStart(&options[i]); err != nil {
					return nil, nil, fmt.Errorf("start %s: %w", w.name, err)
				}
			}
		}
		if options[i].id == "" && w.runID != nil {
			var err error
			if options[i].id, err = w.RunID(input); err != nil {
				return nil, nil, fmt.Errorf("start %s: %w", w.name, err)
			}
		}
		start, err := e.startCommand(ctx, w.name, input, &options[i])
		if err != nil {
			return nil, nil, fmt.Errorf("start %s: %w", w.name, err)
		}
		if err := e.enqueue(ctx, start, options[i].queue.over(w.options.queue)); err != nil {
			return nil, nil, fmt.Errorf("start %s: %w", w.name, err)
		}
		commands[i].Start = start
	}
	e.observation.starts(ctx, commands, options)
	return commands, options, nil
}

func (w *Workflow[In, Out]) start(
	ctx context.Context, e *Engine, inputs []In, each func(i int) []StartOption,
) ([]*Run[Out], error) {
	return w.startBy(ctx, e, inputs, each, admit, e.inner.Apply)
}

// startBy starts runs by a function that carries out commands.
func (w *Workflow[In, Out]) startBy(
	ctx context.Context, e *Engine, inputs []In, each func(i int) []StartOption, admit admission,
	apply func(context.Context, []store.Command) ([]store.Answer, error),
) ([]*Run[Out], error) {
	commands, options, err := w.commands(ctx, e, inputs, each)
	if err != nil {
		return nil, err
	}
	if err := checkTogether(commands); err != nil {
		started(options, nil, err)
		return nil, fmt.Errorf("start all %s: %w", w.name, err)
	}
	answers, problems, err := carryOut(ctx, e, commands, options, admit, apply)
	started(options, problems, err)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", w.name, err)
	}
	runs := make([]*Run[Out], len(inputs))
	for i, a := range answers {
		if problems[i] != nil {
			problems[i] = fmt.Errorf("start %s: %w", w.name, problems[i])
			continue
		}
		runs[i] = &Run[Out]{engine: e, id: a.Run.ID, no: a.Run.No}
	}
	return runs, errors.Join(problems...)
}

// carryOut carries out starts, and sends the first messages of those that have found a
// run. If a live one ends meanwhile, its start is carried out again: it may replace
// the run now. The problems are by index.
func carryOut(
	ctx context.Context, e *Engine, starts []store.Command, options []startOptions,
	admit admission,
	apply func(context.Context, []store.Command) ([]store.Answer, error),
) (answers []store.Answer, problems []error, err error) {
	answers, problems = make([]store.Answer, len(starts)), make([]error, len(starts))
	pending := make([]int, len(starts)) // indices of starts
	for i := range pending {
		pending[i] = i
	}
	for len(pending) > 0 {
		commands := make([]store.Command, len(pending))
		for k, i := range pending {
			commands[k] = starts[i]
		}
		got, err := apply(ctx, commands)
		if err != nil {
			return nil, nil, err
		}
		var sends []store.Command
		var of []int // sends: the index of the start
		for k, i := range pending {
			answers[i] = got[k]
			start, run := starts[i].Start, &got[k].Run
			problems[i] = checkStarted(&got[k], start, options[i].existing)
			if got[k].Outcome != store.Applied && problems[i] == nil {
				if problems[i] = admitAll(ctx, e, run, start.Items, admit); problems[i] != nil {
					continue
				}
				for m := range start.Items { // one that has ended knows the keys of what it got
					e.inboxes.Sent(run.ID, run.No, &start.Items[m])
					sends, of = append(sends, store.Command{RunNo: run.No, Item: &start.Items[m]}), append(of, i)
				}
			}
		}
		pending = nil
		if len(sends) == 0 {
			break
		}
		if got, err = apply(ctx, sends); err != nil {
			return nil, nil, err
		}
		for k, i := range of {
			switch run := &answers[i].Run; {
			case got[k].Outcome != store.Ended && got[k].Outcome != store.NotFound:
			case run.Status.Terminal():
				problems[i] = fmt.Errorf("first message to run %q, which is %s: %w", run.ID, run.Status, ErrTerminal)
			case len(pending) == 0 || pending[len(pending)-1] != i:
				pending = append(pending, i)
			}
		}
	}
	return answers, problems, nil
}

// admitAll reports that the inbox of a run is full, unless it has ended.
func admitAll(ctx context.Context, e *Engine, run *store.Run, items []store.Item, admit admission) error {
	if run.Status.Terminal() {
		return nil
	}
	for i := range items {
		if err := admit(ctx, e, run.ID, &items[i]); err != nil {
			return fmt.Errorf("first message: %w", err)
		}
	}
	return nil
}

// maxDerivedID is the length in bytes above which an ID of IDFrom is hashed. It leaves
// room for the "@" and the number of a run that is replaced.
const maxDerivedID = 230

// RunID returns the ID that a start with the input gets by IDFrom: NAME/TEXT with the
// workflow's name and the text that the function given to IDFrom returns. If that is more
// than 230 bytes it is NAME/# and the SHA-256 of the text in base64url. ErrInvalid: the
// definition has no IDFrom, or the text is empty or not printable.
func (w *Workflow[In, Out]) RunID(input In) (string, error) {
	if w.runID == nil {
		return "", fmt.Errorf("run ID of workflow %s: expected a definition with IDFrom, found none: %w", w.name, ErrInvalid)
	}
	text := w.runID(input)
	if text == "" {
		return "", fmt.Errorf("IDFrom of workflow %s: expected a text, found an empty one: %w", w.name, ErrInvalid)
	}
	id := w.name + "/" + text
	if len(id) > maxDerivedID {
		sum := sha256.Sum256([]byte(text))
		id = w.name + "/#" + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if err := checkRunID(id); err != nil {
		return "", fmt.Errorf("IDFrom of workflow %s: %w", w.name, err)
	}
	return id, nil
}

// startCommand encodes a start.
func (e *Engine) startCommand(ctx context.Context, workflow string, input any, o *startOptions) (*store.Start, error) {
	data, err := e.encodeValue("input", input)
	if err != nil {
		return nil, err
	}
	if o.id == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		o.id = id.String()
	}
	start := &store.Start{
		ID: o.id, Workflow: workflow, Input: data,
		Shard: store.Shard{Group: store.DefaultGroup, Slot: e.inner.Slot(o.id)},
		At:    store.NotBefore(o.at), After: store.Delay(store.Time(0).Add(o.after)), // no shorter
		Tags: o.tags,
	}
	if start.Headers, err = withPolicy(o.headers, o.policy); err != nil {
		return nil, err
	}
	rand.Read(start.Seed[:])
	switch o.existing {
	case ReplaceFailed:
		start.Existing = store.ReplaceFailed
	case ReplaceEnded:
		start.Existing = store.ReplaceEnded
	}
	keys := map[string]bool{}
	for _, m := range o.messages {
		value, err := e.encodeValue("message "+m.name, m.value)
		if err != nil {
			return nil, err
		}
		item, err := sendItem(ctx, m.name, value, m.opts, nil)
		if err != nil {
			return nil, err
		}
		if keys[item.ID] {
			continue // the first delivery stands
		}
		keys[item.ID] = true
		start.Items = append(start.Items, *item)
	}
	return start, nil
}

// checkStarted looks at the answer to a start.
func checkStarted(a *store.Answer, start *store.Start, existing Existing) error {
	if a.Outcome == store.Applied {
		return nil
	}
	began, input := a.Run.Origin(), sha256.Sum256(start.Input) // it may have continued as new since
	switch {
	case existing == RefuseExisting:
		return fmt.Errorf("run %q is %s since %s: %w", start.ID, a.Run.Status, a.Run.Created, ErrExists)
	case began.Workflow != start.Workflow:
		return fmt.Errorf("run %q is of workflow %s: %w", start.ID, began.Workflow, ErrExists)
	case began.Input != input:
		return fmt.Errorf("run %q has another input: SHA-256 %x stored, %x given: %w",
			start.ID, began.Input[:8], input[:8], ErrExists)
	}
	return nil
}

func short(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:8]
}

var superseded = regexp.MustCompile(`@[0-9]+$`)

func checkRunID(id string) error {
	bad := func(want, found string) error {
		return fmt.Errorf("run ID: expected %s, found %s: %w", want, found, ErrInvalid)
	}
	switch {
	case id == "" || len(id) > 255:
		return bad("1 to 255 bytes", fmt.Sprintf("%d", len(id)))
	case strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }):
		return bad("printable characters", fmt.Sprintf("%q", id))
	case store.IsEntity(id):
		return bad(fmt.Sprintf("no %q at the beginning, which names the engine's own entities", store.EntityPrefix),
			fmt.Sprintf("%q", id))
	case superseded.MatchString(id):
		return bad(`no "@" and digits at the end, which name superseded runs`, fmt.Sprintf("%q", id))
	}
	return nil
}
