package planner

import (
	"context"

	"github.com/stet-run/stet/internal/entity"
)

// Ask sends a request to the schedule with the name, and returns its answer. what is one
// of the item names of this package. Only ItemSet makes a schedule that is not there. record
// says who asks and why, for the audit; nil: it is not for that.
func Ask(ctx context.Context, c entity.Client, name, what string, value, record []byte) (Answer, error) {
	id := entity.ID(Workflow, name)
	if what != ItemSet { // otherwise asking would make its entity
		if _, ok, err := c.Get(ctx, id); err != nil || !ok {
			return Answer{Missing: err == nil}, err
		}
	}
	verdict, err := entity.AskWith(ctx, c, id, what, value, record)
	if err != nil {
		return Answer{}, err
	}
	var answer Answer
	err = Decode(verdict, &answer)
	return answer, err
}
