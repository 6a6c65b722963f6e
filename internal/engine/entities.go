package engine

import (
	"context"
	"crypto/rand"
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
	Entries() int
	Unwind()
}

// MakeRules returns the rules of an entity.
type MakeRules func(run *store.Run) entity.Rules

// kindOf returns the workflow of the entity with the ID; "" if it is none of
// those that this engine has rules for.
func (e *Engine) kindOf(id string) string {
	for i := len(store.EntityPrefix); i < len(id); i++ {
		if id[i] == '/' && store.IsEntity(id) && e.cfg.Entities[id[:i]] != nil {
			return id[:i]
		}
	}
	return ""
}

// startEntity is the command that makes an entity if it is not there.
func (e *Engine) startEntity(id, workflow string) store.Command {
	start := &store.Start{ID: id, Workflow: workflow, Shard: e.home(id)}
	rand.Read(start.Seed[:])
	return store.Command{Start: start}
}

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
	_, code := e.cfg.Workflows[workflow]
	return code || e.cfg.Entities[workflow] != nil
}

// Tell sends an item to an entity, which is made if it is not there. The item is
// durable when Tell returns, and the answer is Applied or Duplicate.
func (e *Engine) Tell(ctx context.Context, entityID string, item store.Item) (store.Answer, error) {
	for again := false; ; again = true {
		commands := e.introduceEntities([]store.Command{{RunID: entityID, Item: &item}})
		answers, err := e.Apply(ctx, commands)
		if err != nil {
			return store.Answer{}, err
		}
		answer := answers[len(answers)-1]
		if answer.Outcome != store.NotFound {
			e.learnEntities(commands, answers)
			return answer, nil
		}
		e.entities.Remove(entityID)
		if again {
			return answer, fmt.Errorf("%s: expected it to be there once it was started", entityID)
		}
	}
}

// introduceEntities returns the commands with the starts of the entities before them
// that items go to, or the asks of starts, and that are not known to exist.
func (e *Engine) introduceEntities(commands []store.Command) []store.Command {
	var out []store.Command
	for i := range commands {
		id := commands[i].RunID
		if s := commands[i].Start; s != nil && s.Queue != nil {
			id = s.Queue.Ask.RunID
		}
		if !store.IsEntity(id) || e.entities.Has(id) {
			continue
		}
		if kind := e.kindOf(id); kind != "" && !starts(out, id) {
			out = append(out, e.startEntity(id, kind))
		}
	}
	if out == nil {
		return commands
	}
	return append(out, commands...)
}

// mayClaim reports whether this process can execute the run of a command, and so may claim
// it in the act that makes it ready.
func (x *executor) mayClaim(c *store.Command) bool {
	switch {
	case c.Start != nil:
		return x.e.executes(c.Start.Workflow)
	case store.IsEntity(c.RunID):
		return x.e.kindOf(c.RunID) != ""
	}
	return len(x.e.cfg.Workflows) > 0
}

func starts(commands []store.Command, id string) bool {
	for i := range commands {
		if commands[i].Start.ID == id {
			return true
		}
	}
	return false
}

// learnEntities remembers the entities that commands have made or found.
func (e *Engine) learnEntities(commands []store.Command, answers []store.Answer) {
	for i := range answers {
		there := answers[i].Outcome == store.Applied || answers[i].Outcome == store.Exists
		if s := commands[i].Start; s != nil && store.IsEntity(s.ID) && there {
			e.entities.Add(s.ID)
		}
	}
}
