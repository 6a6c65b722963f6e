package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/sim/plan"
)

// ask sends an update to another run, as part of a commit, and asks for its answer in a step.
func (e *execution) ask(ctx stet.Context, op plan.Op, name string) (string, error) {
	// A fork behind the sending has the answer to what its origin has sent.
	origin, _, _ := strings.Cut(e.runID, "-fork-")
	update, value := stet.Update[string, string](op.Key), "from "+origin+" "+name
	key, err := update.SendFrom(ctx, op.To, value)
	if err != nil {
		return "", err
	}
	return stet.Step(ctx, op.Name, func(ctx context.Context) (string, error) {
		waiting, cancel := context.WithTimeout(ctx, op.Wait)
		defer cancel()
		for {
			answer, err := update.Call(waiting, stet.EngineOf(ctx), op.To, value, key)
			switch {
			case err == nil:
				return answer, nil
			case ctx.Err() != nil:
				return "", ctx.Err()
			case errors.Is(err, stet.ErrNotFound), errors.Is(err, stet.ErrTerminal), errors.Is(err, stet.ErrUnanswered):
				return "refused", nil
			case waiting.Err() != nil:
				return "pending", nil
			case !away(err):
				return "", err
			}
			rest(waiting)
		}
	})
}

// hand makes a promise that a child resolves, or rejects, when it has done something; now and then it resolves it
// twice.
func (e *execution) hand(ctx stet.Context, op plan.Op, name string) (string, error) {
	p, err := stet.NewPromise[string](ctx, op.Name)
	if err != nil {
		return "", err
	}
	value := "resolved " + name
	if op.Fails {
		value = ""
	}
	hands := []plan.Hands{{Token: p.Token(), Value: value}}
	if op.Count > 0 {
		hands = append(hands, plan.Hands{Token: p.Token(), Value: "second " + name})
	}
	input := plan.Input{Program: op.Subs[0], Prefix: name + ":", Hands: hands}
	if _, err := e.program.Go(ctx, input, stet.Named(op.Name+" by")); err != nil {
		return "", err
	}
	got, err := p.Await(ctx, stet.Within(op.Wait))
	if err != nil && strings.Contains(err.Error(), errPlanned.Error()) {
		return "rejected", nil
	}
	return got, err
}

// resolve resolves the promises of another run.
func resolve(ctx stet.Context, hands []plan.Hands) error {
	for i, h := range hands {
		key := stet.Key(strconv.Itoa(i))
		err := error(nil)
		if h.Value == "" {
			err = stet.RejectFrom(ctx, h.Token, errPlanned, key)
		} else {
			err = stet.ResolveFrom(ctx, h.Token, h.Value, key)
		}
		if err != nil && !errors.Is(err, stet.ErrNotFound) && !errors.Is(err, stet.ErrTerminal) {
			return err
		}
	}
	return nil
}
