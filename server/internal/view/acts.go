package view

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// byHeader is the header that says which identity has started, sent or published something.
const byHeader = "stet.by"

// reservedHeaders are the headers, and with a dot at their end the beginnings of headers, that say
// how something has come, or choose the code that executes it. They are trusted, so no caller may
// write them.
var reservedHeaders = []string{
	"stet.", // of the engine, and byHeader
	stet.HookHeader, stet.HookHeader + ".",
	stet.ScriptHeader(""),
}

// reserved reports whether no caller may write the header.
func reserved(key string) bool {
	return slices.ContainsFunc(reservedHeaders, func(name string) bool {
		return key == name || strings.HasSuffix(name, ".") && strings.HasPrefix(key, name)
	})
}

// headers returns headers of a request with the identity's name. Reserved ones are dropped.
func (v *View) headers(given stet.Headers) stet.Headers {
	out := maps.Clone(given)
	if out == nil {
		out = stet.Headers{}
	}
	maps.DeleteFunc(out, func(key, _ string) bool { return reserved(key) })
	out[byHeader] = v.who.Name
	return out
}

// Act is a request about a run that its owner decides, as stet.Runs.Cancel.
type Act func(runs stet.Runs, ctx context.Context, id string, act stet.Act) (bool, error)

// Verb makes a request about a run, if the run is within the limit.
func (v *View) Verb(ctx context.Context, runID string, a api.Act, do Act) error {
	if _, err := v.find(ctx, runID); err != nil {
		return err
	}
	if err := mayAct(v.who, a); err != nil {
		return err
	}
	act := v.act(a.Reason)
	act.Children, act.AnyBuild = a.Children, a.AnyBuild
	_, err := do(v.engine.Runs(), ctx, runID, act)
	return err
}

// ErrDenied says that the limit of the identity does not allow something.
var ErrDenied = errors.New("not within the limit of the identity")

// Denied returns an ErrDenied with the reason.
func Denied(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrDenied)...)
}

// Preview returns what a retry, rewind or edit would do to a run.
func (v *View) Preview(ctx context.Context, runID string, verb store.ItemKind, at string) (*api.Preview, error) {
	if _, err := v.find(ctx, runID); err != nil {
		return nil, err
	}
	p, err := v.engine.Runs().Preview(ctx, runID, verb, at)
	if err != nil {
		return nil, err
	}
	return api.PreviewOf(runID, p), nil
}

// Fork starts a copy of a run.
func (v *View) Fork(ctx context.Context, runID string, f api.Fork) (string, error) {
	if _, err := v.find(ctx, runID); err != nil {
		return "", err
	}
	var id []stet.ID
	if f.ID != "" {
		id = append(id, stet.ID(f.ID))
	}
	return v.engine.Runs().Fork(ctx, runID, f.Before, v.act(f.Reason), id...)
}

// mayDelete refuses the deletion of a run out of the limit.
func (v *View) mayDelete(ctx context.Context, runID string, children bool) error {
	if _, err := v.find(ctx, runID); err != nil {
		return err
	}
	if children && v.who.Limited() {
		return Denied("an identity with a limit cannot delete children, which may be runs of other workflows")
	}
	return nil
}

// Deletable returns the runs that Delete would delete, those of children before their
// parents'.
func Deletable(ctx context.Context, v *View, runID string, children bool) ([]string, error) {
	if err := v.mayDelete(ctx, runID, children); err != nil {
		return nil, err
	}
	return v.engine.Runs().Deletable(ctx, runID, children)
}

// Delete deletes a run that has ended.
func (v *View) Delete(ctx context.Context, runID string, a api.Act) ([]string, error) {
	if err := v.mayDelete(ctx, runID, a.Children); err != nil {
		return nil, err
	}
	act := v.act(a.Reason)
	act.Children = a.Children
	return v.engine.Runs().Delete(ctx, runID, act)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, stet.ErrInvalid)...)
}

// orNull returns a value, null if there is none.
func orNull(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}
	return value
}

// Start starts runs of one workflow in one commit. The errors are in the order of the
// starts; err says that nothing was started.
func (v *View) Start(ctx context.Context, starts []api.Start) (ids []string, errs []error, err error) {
	inputs := make([]json.RawMessage, len(starts))
	options := make([][]stet.StartOption, len(starts))
	for i := range starts {
		s := &starts[i]
		switch {
		case s.Workflow == "":
			return nil, nil, invalid("start %d: expected a workflow, found none", i)
		case s.Workflow != starts[0].Workflow:
			return nil, nil, invalid("start %d: expected workflow %s as of the first one, found %s", i, starts[0].Workflow,
				s.Workflow)
		case !v.who.Sees(s.Workflow):
			return nil, nil, Denied("start of workflow %s", s.Workflow)
		}
		if v.who.Limited() && s.Queue != nil && !v.who.SeesNamed("queue", s.Queue.Name) {
			return nil, nil, Denied("start on queue %s", s.Queue.Name)
		}
		if err := v.mayTakeID(ctx, s.ID); err != nil {
			return nil, nil, err
		}
		inputs[i] = orNull(s.Input)
		if options[i], err = v.startOptions(s); err != nil {
			return nil, nil, err
		}
	}
	definition := stet.Ref[json.RawMessage, json.RawMessage](starts[0].Workflow)
	runs, err := definition.StartAll(ctx, v.engine, inputs, func(i int) []stet.StartOption { return options[i] })
	if runs == nil || len(starts) == 1 && err != nil {
		return nil, nil, err
	}
	ids, errs = make([]string, len(runs)), make([]error, len(runs))
	var all interface{ Unwrap() []error }
	var problems []error
	if errors.As(err, &all) {
		problems = all.Unwrap()
	}
	for i, run := range runs {
		switch {
		case run != nil:
			ids[i] = run.ID()
		case len(problems) > 0:
			errs[i], problems = problems[0], problems[1:]
		default:
			errs[i] = err
		}
	}
	return ids, errs, nil
}

// mayTakeID refuses an ID that a run outside the limit has: a start would say how that
// stands, or replace it.
func (v *View) mayTakeID(ctx context.Context, id string) error {
	if id == "" || !v.who.Limited() || store.IsEntity(id) {
		return nil
	}
	info, err := v.engine.Runs().Info(ctx, id)
	switch {
	case errors.Is(err, stet.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !v.who.Sees(info.Workflow):
		return Denied("run %q", id)
	}
	return nil
}

func (v *View) startOptions(s *api.Start) ([]stet.StartOption, error) {
	options := []stet.StartOption{v.headers(s.Headers)}
	if s.ID != "" {
		options = append(options, stet.ID(s.ID))
	}
	switch {
	case !s.At.IsZero() && s.AfterMS != 0:
		return nil, invalid("expected one of at and after_ms, found both")
	case !s.At.IsZero():
		options = append(options, stet.StartAt(s.At))
	case s.AfterMS != 0:
		options = append(options, stet.StartAfter(milliseconds(s.AfterMS)))
	}
	if len(s.Tags) > 0 {
		options = append(options, s.Tags)
	}
	if s.Existing != "" {
		var existing stet.Existing
		if existing.UnmarshalText([]byte(s.Existing)) != nil {
			return nil, invalid("existing: expected use, refuse, replace-failed or replace-ended, found %.100q", s.Existing)
		}
		options = append(options, existing)
	}
	for _, m := range s.Messages {
		options = append(options, stet.FirstMessage(stet.Message[json.RawMessage](m.Name), orNull(m.Value)))
	}
	if q := s.Queue; q != nil {
		options = append(options, stet.OnQueue{Name: q.Name, Key: q.Key, Priority: q.Priority})
	}
	policy, err := s.Policy.Options()
	for _, o := range policy {
		options = append(options, o)
	}
	return options, err
}

// sendOptions returns the options of a send of something that has a name, with an idempotency key, "" for none. The key
// belongs to the identity and the name: what others send with the same key is no repeat.
func (v *View) sendOptions(s *api.Send, name, key string) []stet.SendOption {
	options := []stet.SendOption{v.headers(s.Headers)}
	if key != "" {
		sum := sha256.Sum256([]byte(v.who.Name + "\x00" + name + "\x00" + key))
		options = append(options, stet.SendKey("k-"+hex.EncodeToString(sum[:])))
	}
	if s.ExpiresInMS != 0 {
		options = append(options, stet.ExpiresIn(milliseconds(s.ExpiresInMS)))
	}
	return options
}

// Send sends a message to a run.
func (v *View) Send(ctx context.Context, runID, name, key string, s api.Send) error {
	if _, err := v.find(ctx, runID); err != nil {
		return err
	}
	return stet.Message[json.RawMessage](name).Send(ctx, v.engine, runID, orNull(s.Value), v.sendOptions(&s, name, key)...)
}

// Update sends an update to a run and waits for the answer.
func (v *View) Update(ctx context.Context, runID, name, key string, s api.Send) (json.RawMessage, error) {
	if _, err := v.find(ctx, runID); err != nil {
		return nil, err
	}
	raw, err := v.engine.Runs().Update(ctx, runID, name, orNull(s.Value), v.sendOptions(&s, name, key)...)
	if err != nil {
		return nil, onlyRecorded(err)
	}
	return api.Value(raw.Bytes()), nil
}

// told is an error of a run as its record has it.
type told struct {
	text string
	is   error
}

func (e *told) Error() string { return e.text }
func (e *told) Unwrap() error { return e.is }

// onlyRecorded returns err without what a recorded failure in it wraps: the server calls no
// type of the application.
func onlyRecorded(err error) error {
	record := (*stet.FailureRecord)(nil)
	if !errors.As(err, &record) {
		return err
	}
	if known := api.ErrorOf(err).Err(); known != nil {
		return &told{err.Error(), known}
	}
	return &told{err.Error(), record}
}

// Publish publishes an event.
func (v *View) Publish(ctx context.Context, topic, key string, p api.Publish) (string, error) {
	if !v.who.SeesNamed("topic", topic) {
		return "", Denied("topic %s", topic)
	}
	t := stet.Topic[json.RawMessage]{Name: topic, Expiry: orNone(p.ExpiryMS), Retention: orNone(p.RetentionMS), Cap: p.Cap,
		CapBytes: p.CapBytes}
	if p.Mode != "" {
		mode, err := stet.ParseTopicMode(p.Mode)
		if err != nil {
			return "", err
		}
		t.Mode = mode
	}
	return t.Publish(ctx, v.engine, orNull(p.Value), v.sendOptions(&p.Send, topic, key)...)
}

// orNone returns so many milliseconds; -1 is stet.None.
func orNone(ms int64) time.Duration {
	if ms == -1 {
		return stet.None
	}
	return milliseconds(ms)
}

// Resolve assigns a value to a promise of a run within the limit.
func (v *View) Resolve(ctx context.Context, r api.Resolve) error {
	if err := v.maySettle(ctx, r.Token); err != nil {
		return err
	}
	return v.engine.Resolve(ctx, r.Token, orNull(r.Value), v.act(r.Reason))
}

// Reject assigns a failure to a promise of a run within the limit.
func (v *View) Reject(ctx context.Context, r api.Reject) error {
	if err := v.maySettle(ctx, r.Token); err != nil {
		return err
	}
	if r.Message == "" {
		r.Message = "rejected"
	}
	return v.engine.Reject(ctx, r.Token, errors.New(r.Message), v.act(r.Reason))
}

// maySettle compares the limit with the run that the token leads to.
func (v *View) maySettle(ctx context.Context, token string) error {
	promise, err := v.engine.Promise(ctx, token)
	if err != nil {
		if v.who.Limited() { // the error may name a run out of the limit
			return fmt.Errorf("promise: %w", stet.ErrNotFound)
		}
		return err
	}
	_, err = v.find(ctx, promise.RunID)
	return err
}

// Promises returns the promises of a run; tokens are for those who may operate.
func (v *View) Promises(ctx context.Context, runID string) ([]api.Promise, error) {
	if _, err := v.find(ctx, runID); err != nil {
		return nil, err
	}
	found, err := v.engine.Runs().Promises(ctx, runID)
	if err != nil {
		return nil, err
	}
	promises := make([]api.Promise, len(found))
	for i := range found {
		promises[i] = api.PromiseOf(&found[i])
		if !v.who.Role.May(access.Operate) {
			promises[i].Token = ""
		}
	}
	return promises, nil
}
