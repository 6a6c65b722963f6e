package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// Plan is what a customer pays each month.
type Plan struct {
	Name  string `json:"name"`
	Cents int    `json:"cents"`
}

// Signup begins a subscription. Its first month is free.
type Signup struct {
	Customer string
	Plan     Plan
	Month    time.Duration // 0: months of the calendar
}

// Account is where a subscription stands. It is the state of the loop, so it is all that
// a month knows of those before it.
type Account struct {
	Plan   Plan      `json:"plan"`
	Months int       `json:"months"` // paid
	Cents  int       `json:"cents"`  // paid in total
	Due    time.Time `json:"due"`    // of the next payment
	Ended  string    `json:"ended,omitempty"`
}

// What customers and their service desk say to a subscription, and what they see of it.
var (
	ChangePlan = stet.Update[Plan, string]("change-plan")
	Quit       = stet.Message[string]("quit")
	Standing   = stet.Value[Account]("account")
)

// World is what the workflow has effects on. An effect under a key counts once.
type World interface {
	Charge(ctx context.Context, customer string, cents int, key string) error
	Remind(ctx context.Context, customer, text, key string) error
}

// errDeclined is a card that has no money: to try again at once would not help.
var errDeclined = errors.New("card declined")

// reminders is how often a customer is asked to pay before the subscription ends.
const reminders = 3

type service struct{ world World }

// subscription lives for as long as its customer pays. A loop keeps its history small:
// after ten years it needs no more room than after one month.
func (s *service) subscription(ctx stet.Context, in Signup) (Account, error) {
	first := Account{Plan: in.Plan, Due: in.after(stet.Now(ctx))}
	return stet.Loop(ctx, "month", first,
		func(ctx stet.Context, a Account) (next stet.Next[Account, Account], err error) {
			if err := Standing.Set(ctx, a); err != nil {
				return next, err
			}
			if err := s.listen(ctx, &a, a.Due); err != nil {
				return next, err
			}
			if a.Ended == "" {
				if err := s.collect(ctx, in, &a); err != nil {
					return next, err
				}
			}
			if a.Ended != "" {
				return next.Break(a), Standing.Set(ctx, a)
			}
			a.Months, a.Cents, a.Due = a.Months+1, a.Cents+a.Plan.Cents, in.after(a.Due)
			return next.Continue(a), nil
		})
}

// after returns the end of the month that begins at t.
func (in Signup) after(t time.Time) time.Time {
	if in.Month > 0 {
		return t.Add(in.Month)
	}
	return t.UTC().AddDate(0, 1, 0)
}

// listen serves the customer until a time, or until the customer quits.
func (s *service) listen(ctx stet.Context, a *Account, until time.Time) error {
	for {
		var reason string
		var change *stet.Request[Plan, string]
		won, err := stet.Select(ctx, Quit.Case(&reason), ChangePlan.Case(&change), stet.AtTime("due", until))
		switch {
		case errors.Is(err, stet.ErrCancelled):
			return err
		case won == 0 && err == nil:
			a.Ended = "quit: " + reason
			return nil
		case won == 1 && err == nil:
			if err := s.change(ctx, a, change); err != nil {
				return err
			}
		case won == 2:
			return nil
		case err != nil:
			return err
		}
	}
}

// change answers a request for another plan, which counts from the next payment on.
func (s *service) change(ctx stet.Context, a *Account, r *stet.Request[Plan, string]) error {
	if r.Value.Cents <= 0 || r.Value.Name == "" {
		return r.Reject(ctx, errors.New("expected a plan with a name and a price"))
	}
	former := a.Plan
	a.Plan = r.Value
	if err := Standing.Set(ctx, *a); err != nil {
		return err
	}
	day := a.Due.Format(time.DateOnly)
	return r.Answer(ctx, fmt.Sprintf("%s instead of %s, from %s on", a.Plan.Name, former.Name, day))
}

// collect charges the customer. A declined card gets reminders and time.
func (s *service) collect(ctx stet.Context, in Signup, a *Account) error {
	pause := in.after(a.Due).Sub(a.Due) / 6 // five days
	for try := 0; ; try++ {
		err := stet.Do(ctx, "charge", func(ctx context.Context) error {
			err := s.world.Charge(ctx, in.Customer, a.Plan.Cents, stet.IdempotencyKey(ctx))
			if errors.Is(err, errDeclined) {
				return stet.Permanent(err)
			}
			return err // another failure is tried again within minutes
		}, stet.Retry{Attempts: 10, Max: time.Minute})
		if !errors.Is(err, errDeclined) {
			return err
		}
		if try == reminders {
			a.Ended = "not paid"
			return nil
		}
		if err := stet.Do(ctx, "remind", func(ctx context.Context) error {
			text := fmt.Sprintf("%d cents are due since %s", a.Plan.Cents, a.Due.Format(time.DateOnly))
			return s.world.Remind(ctx, in.Customer, text, stet.IdempotencyKey(ctx))
		}); err != nil {
			return err
		}
		if err := s.listen(ctx, a, a.Due.Add(time.Duration(try+1)*pause)); err != nil || a.Ended != "" {
			return err
		}
	}
}
