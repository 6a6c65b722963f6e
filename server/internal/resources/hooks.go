package resources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/server/internal/signature"
	"github.com/stet-run/stet/server/internal/view"
)

// HookPath is the path of a webhook's calls, whose credential is their signature.
const HookPath = "hooks/{name}"

// hooks are the endpoints of webhooks.
type hooks struct{ *Server }

func (s hooks) table() []endpoint.Endpoint {
	return []endpoint.Endpoint{
		endpoint.New(http.MethodGet, "hooks", access.Admin, s.list, "the webhooks, without their secrets"),
		endpoint.New(http.MethodPut, HookPath, access.Admin, s.set, "make a webhook, or replace one"),
		endpoint.New(http.MethodDelete, HookPath, access.Admin, s.remove, "remove a webhook"),
		endpoint.New(http.MethodPost, HookPath, access.Public, s.receive,
			"call a webhook: its scheme's signature is the credential"),
	}
}

func (s hooks) list(ctx context.Context, c *endpoint.Call, _ nothing) (*api.Hooks, error) {
	list, err := view.Hooks{View: c.View}.List(ctx)
	return &api.Hooks{Hooks: list}, err
}

type setHook struct {
	Name string      `path:"name" doc:"of the webhook"`
	Body api.SetHook `body:""`
}

func (s hooks) set(ctx context.Context, c *endpoint.Call, in setHook) (*api.Done, error) {
	return done(view.Hooks{View: c.View}.Set(ctx, in.Name, in.Body))
}

func (s hooks) remove(ctx context.Context, c *endpoint.Call, in because) (*api.Done, error) {
	return done(view.Hooks{View: c.View}.Remove(ctx, in.Name, in.Body.Reason))
}

type received struct {
	Name string `path:"name" doc:"of the webhook"`
	Body []byte `body:"raw"`
}

// receive does what a call asks for. Nothing of the body is parsed before its signature is good.
func (s hooks) receive(ctx context.Context, c *endpoint.Call, in received) (*api.Received, error) {
	hooks := view.Hooks{View: c.View}
	hook, err := hooks.Called(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	call, err := signature.Check(hook, c.Request.Header, in.Body, time.Now())
	if err != nil {
		return nil, s.Refused(c, err)
	}
	if err := s.Admit(c); err != nil {
		return nil, err
	}
	if hook.Scheme == stet.HookGitHub && call.Event == "ping" { // is sent once, to see whether anybody is there
		return &api.Received{Ignored: call.Event}, nil
	}
	delivery, err := deliveryOf(hook, call, in.Body)
	if err != nil {
		return nil, err
	}
	again, err := hooks.Deliver(ctx, hook, *delivery)
	if err != nil {
		return nil, err
	}
	if !again {
		c.Answered(http.StatusAccepted)
	}
	return &api.Received{Again: again}, nil
}

// maxDelivery bounds what is kept of how a sender calls a delivery and its event: a longer one is
// known by its hash.
const maxDelivery = 128

// deliveryOf reads what a call brings.
func deliveryOf(hook *stet.Hook, call signature.Call, body []byte) (*stet.HookDelivery, error) {
	if !json.Valid(body) {
		return nil, invalid("body: expected JSON, found something else; where the sender has a choice of content types it "+
			"is application/json: %d bytes", len(body))
	}
	id := call.ID
	if hook.Scheme == stet.HookStripe {
		id, _ = signature.TextAt(body, "/id")
	}
	sum := sha256.Sum256(body)
	content := hex.EncodeToString(sum[:])
	if id == "" {
		id = content
	}
	d := &stet.HookDelivery{ID: known(id), Event: known(call.Event)}
	if hook.Scheme == stet.HookGitHub {
		d.Key = content // its signature does not cover the ID
	}
	var ok bool
	if d.Value, ok = signature.At(body, hook.Value); !ok {
		return nil, nowhere("value", hook.Value)
	}
	if hook.Target != "" {
		if d.Target, ok = signature.TextAt(body, hook.Target); !ok {
			return nil, nowhere("target", hook.Target)
		}
	}
	return d, nil
}

// known returns a text that is short enough for a header of a run.
func known(text string) string {
	if len(text) <= maxDelivery {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func nowhere(what, pointer string) error {
	return &endpoint.Error{Code: api.CodePointer, Detail: what + ": the body has nothing of use at " + pointer}
}
