package stet

import (
	"fmt"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/entity/deletions"
	"github.com/stet-run/stet/internal/entity/hooks"
	"github.com/stet-run/stet/internal/entity/planner"
	"github.com/stet-run/stet/internal/entity/queue"
	"github.com/stet-run/stet/internal/entity/scripts"
	"github.com/stet-run/stet/internal/entity/tokens"
	"github.com/stet-run/stet/internal/entity/topic"
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// entityKinds returns the rules of the entities that the engine keeps for its users, by
// the name of the workflow that they have: topics, queues, schedules.
func (e *Engine) entityKinds() map[string]engine.MakeRules {
	return map[string]engine.MakeRules{
		event.Workflow: func(run *store.Run) entity.Rules {
			name, _ := event.Topic(run.ID)
			return topic.New(name)
		},
		planner.Workflow: planner.New(func(p permit.Place) (func(*store.Start), error) {
			return e.inner.Queues().Enqueuer(p)
		}),
		permit.Workflow:    queue.New,
		acts.Workflow:      acts.New,
		deletions.Workflow: deletions.New,
		tokens.Workflow:    tokens.New,
		hooks.Workflow:     hooks.New,
		scripts.Workflow:   scripts.New,
	}
}

// checkNotEntity returns an error for the ID of an entity, which is not addressed
// like a run.
func checkNotEntity(runID string) error {
	if store.IsEntity(runID) {
		return fmt.Errorf("run %q: expected the ID of a run, found that of an entity of the engine, which is a topic, "+
			"a queue or a schedule and is used by its own calls: %w", runID, ErrInvalid)
	}
	return nil
}
