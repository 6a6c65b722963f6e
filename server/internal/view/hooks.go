package view

import (
	"context"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
)

// Hooks are the webhooks of a store, for administrators, and for calls of one.
type Hooks struct{ *View }

// List returns the webhooks, without secrets.
func (v Hooks) List(ctx context.Context) ([]api.Hook, error) {
	if err := v.MayAdminister(); err != nil {
		return nil, err
	}
	found, err := stet.HooksOf(v.engine).List(ctx)
	list := make([]api.Hook, len(found))
	for i := range found {
		list[i] = api.HookOf(&found[i])
	}
	return list, err
}

// Set makes a webhook, or replaces one.
func (v Hooks) Set(ctx context.Context, name string, s api.SetHook) error {
	if err := v.MayAdminister(); err != nil {
		return err
	}
	set := stet.HooksOf(v.engine).Create
	if s.Replace {
		set = stet.HooksOf(v.engine).Replace
	}
	return set(ctx, s.Hook(name), v.act(s.Reason))
}

// Remove removes a webhook.
func (v Hooks) Remove(ctx context.Context, name, why string) error {
	if err := v.MayAdminister(); err != nil {
		return err
	}
	return stet.HooksOf(v.engine).Remove(ctx, name, v.act(why))
}

// Called returns the webhook that a call names. It is the one act that needs no right: the
// signature is looked at next.
func (v Hooks) Called(ctx context.Context, name string) (*stet.Hook, error) {
	return stet.HooksOf(v.engine).Get(ctx, name)
}

// Deliver does what a call asks for whose signature is good.
func (v Hooks) Deliver(ctx context.Context, hook *stet.Hook, d stet.HookDelivery) (again bool, err error) {
	return stet.HooksOf(v.engine).Deliver(ctx, hook, d)
}
