package engine

import (
	"context"
	"fmt"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/store"
)

// interpreter decides what the run of an activation does: the code of a workflow
// (runner.Interpreter) or the rules of an entity (entity.Machine). An activation asks the
// former for more; see activation.code.
type interpreter interface {
	Deliver(items ...store.Item)
	Advance(now, inboxAt store.Time)
	Take() *store.Turn
	Committed()
	StillReady()
	Resumed()
	Suspended() bool
	Broken() error
	NextTimer() (at store.Time, needsInbox bool)
	// Bytes returns about how many bytes of memory it takes.
	Bytes() int
	Unwind()
}

// MakeRules returns the rules of an entity.
type MakeRules func(run *store.Run) entity.Rules

// home returns the shard of a run that is started without a queue, or of an entity.
func (e *Engine) home(id string) store.Shard {
	if store.IsEntity(id) {
		return store.Shard{Group: store.SystemGroup, Slot: e.Slot(id)}
	}
	return store.Shard{Group: store.DefaultGroup, Slot: e.Slot(id)}
}

// executes reports whether this engine has the code of a workflow or the rules of
// an entity.
func (e *Engine) executes(workflow string) bool {
	return e.code.Has(workflow) || e.cfg.Entities[workflow] != nil
}

// Tell sends an item to an entity, which is made if it is not there. The item is
// durable when Tell returns, and the answer is Applied or Duplicate.
func (e *Engine) Tell(ctx context.Context, entityID string, item store.Item) (store.Answer, error) {
	for again := false; ; again = true {
		commands := e.entities.Introduce([]store.Command{{RunID: entityID, Item: &item}})
		answers, err := e.Apply(ctx, commands)
		if err != nil {
			return store.Answer{}, err
		}
		answer := answers[len(answers)-1]
		if answer.Outcome != store.NotFound {
			e.entities.Learn(commands, answers)
			return answer, nil
		}
		e.entities.Remove(entityID)
		if again {
			return answer, fmt.Errorf("%s: expected it to be there once it was started", entityID)
		}
	}
}

// mayClaim reports whether this process can execute the run of a command, and so may claim
// it in the act that makes it ready.
func (x *executor) mayClaim(c *store.Command) bool {
	switch {
	case c.Start != nil:
		return x.e.executes(c.Start.Workflow)
	case store.IsEntity(c.RunID):
		return x.e.entities.KindOf(c.RunID) != ""
	}
	return !x.e.code.Empty()
}
