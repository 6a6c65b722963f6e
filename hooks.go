package stet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/entity/hooks"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Hooks are the webhooks of a store: other services call a server of the store (package
// server) at api/v1/hooks/NAME, and the signature of the call is its only credential. Safe for
// concurrent use.
type Hooks struct{ engine *Engine }

// HooksOf returns the webhooks of the engine's store.
func HooksOf(e *Engine) Hooks { return Hooks{e} }

// HookScheme says how a service signs its calls.
type HookScheme string

const (
	// HookStandard is that of standardwebhooks.com: the headers webhook-id, webhook-timestamp
	// and webhook-signature.
	HookStandard HookScheme = "standard"
	// HookGitHub is that of GitHub: the header X-Hub-Signature-256 signs the body alone.
	HookGitHub HookScheme = "github"
	// HookStripe is that of Stripe: the header Stripe-Signature has the time, too.
	HookStripe HookScheme = "stripe"
	// HookHMAC is an HMAC-SHA256 of the body, in hexadecimal or base64, in the header
	// Hook.Header. It may begin with sha256=.
	HookHMAC HookScheme = "hmac"
)

// Hook is a webhook. Exactly one of Start, Send, Publish and Resolve says what a call does.
type Hook struct {
	Name   string // 1 to 64 bytes; it stands in the address
	Scheme HookScheme
	// Header is that of the signature, of the scheme HookHMAC. Default X-Signature.
	Header string
	// Secrets are one, or two while one is changed for another: a signature by either counts. Of
	// HookStandard they are base64, which may begin with whsec_. List leaves them out. They stand
	// in the store, encrypted as values are (Config.Payloads).
	Secrets []string

	Start   string // starts a run of this workflow
	Send    string // sends a message of this name
	Publish string // publishes an event of this topic, with the settings of its last one
	Resolve bool   // resolves a promise

	// Target is a JSON pointer (RFC 6901) into the body, to the ID of the run, or of Resolve to
	// the token. Of Start it may be "": then each delivery has a run of its own. Publish has none.
	Target string
	// Value is a JSON pointer to what the run gets. "": the whole body.
	Value string

	Created time.Time `json:",omitzero"` // or replaced; set by Create
	By, Why string    // likewise
}

// DefaultHookHeader is the header of the signature of HookHMAC.
const DefaultHookHeader = "X-Signature"

const (
	maxHooks      = 1000
	minHookSecret = 16 // bytes
	maxHookSecret = 1024
)

// check sets defaults, and returns everything that is wrong with a hook.
func (h *Hook) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("hook %q: "+format+": %w", append(append([]any{h.Name}, args...),
			ErrInvalid)...))
	}
	name := func(what, name string) {
		if err := checkName(what, name); err != nil {
			problems = append(problems, fmt.Errorf("hook %q: %w", h.Name, err))
		}
	}
	name("name", h.Name)
	if h.Scheme == HookHMAC {
		h.Header = cmp.Or(h.Header, DefaultHookHeader)
	}
	switch h.Scheme {
	case HookStandard, HookGitHub, HookStripe, HookHMAC:
	default:
		bad("Scheme: expected standard, github, stripe or hmac, found %q", h.Scheme)
	}
	if h.Header != "" && (h.Scheme != HookHMAC || strings.ContainsAny(h.Header, " :\r\n")) {
		bad("Header: expected the name of a header, of the scheme hmac alone, found %q", h.Header)
	}
	if len(h.Secrets) < 1 || len(h.Secrets) > 2 {
		bad("Secrets: expected one or two, found %d", len(h.Secrets))
	}
	for i, secret := range h.Secrets { // their texts are in no message
		if n := len(secret); n < minHookSecret || n > maxHookSecret {
			bad("Secrets[%d]: expected %d to %d bytes, found %d", i, minHookSecret, maxHookSecret, n)
		} else if _, err := h.Scheme.key(secret); err != nil {
			bad("Secrets[%d]: expected base64, which may begin with whsec_", i)
		}
	}
	acts := 0
	for what, named := range map[string]string{"workflow": h.Start, "message": h.Send, "topic": h.Publish} {
		if named != "" {
			acts++
			name(what, named)
		}
	}
	if h.Resolve {
		acts++
	}
	if acts != 1 {
		bad("expected one of Start, Send, Publish and Resolve, found %d", acts)
	}
	for what, pointer := range map[string]string{"Target": h.Target, "Value": h.Value} {
		if pointer != "" && !strings.HasPrefix(pointer, "/") {
			bad("%s: expected a JSON pointer like /data/id, found %q", what, pointer)
		}
		if len(pointer) > 1024 {
			bad("%s: expected at most 1024 bytes, found %d", what, len(pointer))
		}
	}
	switch {
	case h.Publish != "" && h.Target != "":
		bad("Target: an event of a topic has no run; found %q", h.Target)
	case (h.Send != "" || h.Resolve) && h.Target == "":
		bad("Target: expected a JSON pointer to the run's ID, or of Resolve to the token; found none")
	}
	return errors.Join(problems...)
}

// key returns the bytes with which a secret signs.
func (s HookScheme) key(secret string) ([]byte, error) {
	if s != HookStandard {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err == nil && len(key) < minHookSecret {
		err = errors.New("too short")
	}
	return key, err
}

// Keys returns the bytes with which the secrets sign.
func (h *Hook) Keys() [][]byte {
	keys := make([][]byte, 0, len(h.Secrets))
	for _, secret := range h.Secrets {
		if key, err := h.Scheme.key(secret); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// Create makes a webhook. It counts at once, on every server of the store. Errors: ErrInvalid,
// with everything that is wrong, also if there is one of the name already, and those of the
// store. Of two calls at the same time the later one stands.
func (h Hooks) Create(ctx context.Context, hook Hook, act Act) error {
	return h.set(ctx, "create", hook, act, func(list []Hook, found bool) error {
		switch {
		case found:
			return fmt.Errorf("hook %q: expected a name that no hook has, found one; replace or remove it: %w", hook.Name,
				ErrInvalid)
		case len(list) >= maxHooks:
			return fmt.Errorf("hook %q: expected at most %d hooks, found %d: %w", hook.Name, maxHooks, len(list), ErrInvalid)
		}
		return nil
	})
}

// Replace makes a webhook in place of the one of its name, as with another secret. Errors are
// those of Create, and ErrNotFound.
func (h Hooks) Replace(ctx context.Context, hook Hook, act Act) error {
	return h.set(ctx, "replace", hook, act, func(_ []Hook, found bool) error {
		if !found {
			return fmt.Errorf("hook %q: %w", hook.Name, ErrNotFound)
		}
		return nil
	})
}

func (h Hooks) set(ctx context.Context, verb string, hook Hook, act Act, may func([]Hook, bool) error) error {
	if err := errors.Join(hook.check(), act.check()); err != nil {
		return err
	}
	list, err := h.all(ctx)
	if err != nil {
		return err
	}
	if err := may(list, find(list, hook.Name) != nil); err != nil {
		return err
	}
	d, err := h.engine.store.Describe(ctx)
	if err != nil {
		return fmt.Errorf("hook %q: %w", hook.Name, err)
	}
	err = hooks.All.Put(ctx, h.engine.inner, &hooks.Hook{
		Name: hook.Name, Scheme: string(hook.Scheme), Header: hook.Header, Secrets: hook.Secrets, Start: hook.Start,
		Send: hook.Send, Publish: hook.Publish, Resolve: hook.Resolve, Target: hook.Target, Value: hook.Value, At: d.Now,
		By: cmp.Or(act.By, h.engine.node), Why: act.Why,
	}, recordOf(h.engine, verb, "hook", hook.Name, act))
	h.engine.logged(ctx, verb, "hook", hook.Name, act, err)
	if err != nil {
		return fmt.Errorf("hook %q: %w", hook.Name, err)
	}
	return nil
}

// Remove removes a webhook: calls are refused from now on. ErrNotFound: there is none of the
// name.
func (h Hooks) Remove(ctx context.Context, name string, act Act) error {
	if err := act.check(); err != nil {
		return fmt.Errorf("remove hook: %w", err)
	}
	if _, err := h.Get(ctx, name); err != nil {
		return err
	}
	err := hooks.All.Delete(ctx, h.engine.inner, name, recordOf(h.engine, "remove", "hook", name, act))
	h.engine.logged(ctx, "remove", "hook", name, act, err)
	return err
}

// List returns the webhooks by name, without their secrets.
func (h Hooks) List(ctx context.Context) ([]Hook, error) {
	list, err := h.all(ctx)
	for i := range list {
		list[i].Secrets = nil
	}
	return list, err
}

// Get returns a webhook with its secrets. ErrNotFound: there is none of the name.
func (h Hooks) Get(ctx context.Context, name string) (*Hook, error) {
	list, err := h.all(ctx)
	if err != nil {
		return nil, err
	}
	if found := find(list, name); found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("hook %q: %w", name, ErrNotFound)
}

func find(list []Hook, name string) *Hook {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

func (h Hooks) all(ctx context.Context) ([]Hook, error) {
	entries, inbox, err := h.engine.standing(ctx, hooks.ID)
	var records []hooks.Hook
	if err == nil {
		records, err = hooks.All.Read(entries, inbox)
	}
	if err != nil {
		return nil, fmt.Errorf("list hooks: %w", err)
	}
	list := make([]Hook, len(records))
	for i := range records {
		r := &records[i]
		list[i] = Hook{
			Name: r.Name, Scheme: HookScheme(r.Scheme), Header: r.Header, Secrets: r.Secrets, Start: r.Start, Send: r.Send,
			Publish: r.Publish, Resolve: r.Resolve, Target: r.Target, Value: r.Value, Created: r.At.Time(), By: r.By, Why: r.Why,
		}
	}
	return list, nil
}

// standing returns what an entity has, and what it was sent and has not entered: items count
// from the moment on at which they are durable. nil: there is no such entity.
func (e *Engine) standing(ctx context.Context, id string) ([]store.Entry, []store.Item, error) {
	run, ok, err := e.inner.Get(ctx, id)
	if err != nil || !ok {
		return nil, nil, err
	}
	// The inbox first: what is entered meanwhile is then read twice, and not missed. But an
	// addition that is entered and then removed in between must not come back: the entries
	// are read again if an item was there that is gone.
	for {
		inbox, err := e.store.Inbox(ctx, run.No)
		if err != nil {
			return nil, nil, err
		}
		entries, err := e.store.History(ctx, store.HistoryQuery{Run: run.No, Values: true})
		if err == nil {
			err = payload.ReadableEntries(entries)
		}
		if err != nil {
			return nil, nil, err
		}
		again, err := e.store.Inbox(ctx, run.No)
		if err != nil {
			return nil, nil, err
		}
		if len(inbox) == 0 || len(again) > 0 && again[0].No == inbox[0].No {
			return entries, inbox, nil
		}
	}
}

// HookDelivery is what a call has brought.
type HookDelivery struct {
	ID     string // by which the sender knows it
	Key    string // of two deliveries with the same key one is carried out; default: ID, which a sender should sign
	Event  string // what it is about, where the sender says so in a header; "": nothing
	Target string // what Hook.Target leads to
	Value  json.RawMessage
}

// Headers of what a webhook starts, sends or publishes.
const (
	HookHeader         = "hook"          // the name of the webhook
	HookDeliveryHeader = "hook.delivery" // HookDelivery.ID
	HookEventHeader    = "hook.event"    // HookDelivery.Event, if there is one
)

// Deliver carries out what a webhook does, once for each delivery: again reports that it was
// done before, by a delivery with this key or, of a promise, by anybody. Who has signed the call is the
// caller's to know. Errors: ErrNotFound, ErrTerminal and ErrExists for the run, ErrInvalid,
// ErrUnknownWorkflow, ErrInboxFull, ErrTopicFull, ErrTooLarge, and those of the store.
func (h Hooks) Deliver(ctx context.Context, hook *Hook, d HookDelivery) (again bool, err error) {
	again, err = h.deliver(ctx, hook, &d)
	if errors.Is(err, ErrKeyUsed) {
		return true, nil // though the sender has changed the body
	}
	if err != nil {
		return false, fmt.Errorf("hook %q: %w", hook.Name, err)
	}
	return again, nil
}

func (h Hooks) deliver(ctx context.Context, hook *Hook, d *HookDelivery) (again bool, err error) {
	sum := sha256.Sum256([]byte(hook.Name + "\x00" + cmp.Or(d.Key, d.ID)))
	key := "hook-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
	headers := Headers{stored.ByHeader: "hook:" + hook.Name, HookHeader: hook.Name, HookDeliveryHeader: d.ID}
	if d.Event != "" {
		headers[HookEventHeader] = d.Event
	}
	e := h.engine
	switch {
	case hook.Start != "":
		return h.start(ctx, hook.Start, cmp.Or(d.Target, key), headers, d)
	case hook.Send != "":
		value, err := e.encodeValue("message "+hook.Send, d.Value)
		if err != nil {
			return false, err
		}
		return e.send(ctx, d.Target, hook.Send, value, []SendOption{SendKey(key), headers})
	case hook.Publish != "":
		topic := Topic[json.RawMessage]{Name: hook.Publish}
		switch last, err := e.Topics().Info(ctx, hook.Publish); {
		case err == nil:
			topic.Mode, topic.Expiry, topic.Retention, topic.Cap = last.Mode, last.Expiry, last.Retention, last.Cap
		case !errors.Is(err, ErrNotFound):
			return false, err
		}
		_, again, err := topic.publish(ctx, e, d.Value, []SendOption{SendKey(key), headers})
		return again, err
	}
	err = e.Resolve(ctx, d.Target, d.Value, Act{By: "hook:" + hook.Name})
	if errors.Is(err, ErrAlreadyResolved) {
		return true, nil
	}
	return false, err
}

// start starts a run, unless this delivery has started it.
func (h Hooks) start(
	ctx context.Context, workflow, id string, headers Headers, d *HookDelivery,
) (again bool, err error) {
	e := h.engine
	w := Ref[json.RawMessage, json.RawMessage](workflow)
	commands, options, err := w.commands(ctx, e, []json.RawMessage{d.Value},
		func(int) []StartOption { return []StartOption{ID(id), headers} })
	if err != nil {
		return false, err
	}
	answers, problems, err := carryOut(ctx, e, commands, options, admit, e.inner.Apply)
	started(options, problems, err)
	if err != nil {
		return false, err
	}
	a := &answers[0]
	if a.Outcome == store.Applied {
		return false, nil
	}
	if stored, _ := decodeHeaders(a.Run.Headers); stored[HookDeliveryHeader] == d.ID &&
		stored[HookHeader] == headers[HookHeader] { // though the sender may have changed the body
		return true, nil
	}
	return true, problems[0]
}
