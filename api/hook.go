package api

import (
	"time"

	"github.com/stet-run/stet"
)

// Hook is a webhook: what signs its calls, and what they do. Exactly one of start, send, publish
// and resolve is there.
type Hook struct {
	Name    string    `json:"name"`
	Scheme  string    `json:"scheme" words:"HookScheme"` // standard, github, stripe or hmac
	Header  string    `json:"header,omitempty"`          // of the signature, of the scheme hmac
	Start   string    `json:"start,omitempty"`           // a workflow
	Send    string    `json:"send,omitempty"`            // a message
	Publish string    `json:"publish,omitempty"`
	Resolve bool      `json:"resolve,omitempty"`
	Target  string    `json:"target,omitempty"` // JSON pointer to the run's ID, or the token
	Value   string    `json:"value,omitempty"`  // JSON pointer to what the run gets; default: the whole body
	Created time.Time `json:"created,omitzero"`
	By      string    `json:"by,omitempty"`
	Why     string    `json:"why,omitempty"`
}

// HookOf returns the form of a webhook, which has no secrets.
func HookOf(h *stet.Hook) Hook {
	return Hook{h.Name, string(h.Scheme), h.Header, h.Start, h.Send, h.Publish, h.Resolve, h.Target, h.Value, h.Created,
		h.By, h.Why}
}

// Hooks are the webhooks of a store, by name.
type Hooks struct {
	Hooks []Hook `json:"hooks"`
}

// SetHook makes a webhook.
type SetHook struct {
	Scheme  string   `json:"scheme" words:"HookScheme"`
	Header  string   `json:"header,omitempty"`
	Secrets []string `json:"secrets"` // one, or two while one is changed for another
	Start   string   `json:"start,omitempty"`
	Send    string   `json:"send,omitempty"`
	Publish string   `json:"publish,omitempty"`
	Resolve bool     `json:"resolve,omitempty"`
	Target  string   `json:"target,omitempty"`
	Value   string   `json:"value,omitempty"`
	Replace bool     `json:"replace,omitempty"` // there is one of the name, and this one is in its place
	Reason  string   `json:"reason,omitempty"`
}

// Hook returns the webhook of a name.
func (s *SetHook) Hook(name string) stet.Hook {
	return stet.Hook{Name: name, Scheme: stet.HookScheme(s.Scheme), Header: s.Header, Secrets: s.Secrets, Start: s.Start,
		Send: s.Send, Publish: s.Publish, Resolve: s.Resolve, Target: s.Target, Value: s.Value}
}

// Received is the answer to the call of a webhook.
type Received struct {
	Again   bool   `json:"again,omitempty"`   // it was done before
	Ignored string `json:"ignored,omitempty"` // what it was, if there was nothing to do
}
