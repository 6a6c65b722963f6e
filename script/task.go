package script

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stet-run/stet"
)

// Task is a Go function that scripts call by its name with Task.run. It is the body of a
// step: executed at least once per attempt, with the idempotency key of that step.
type Task struct {
	name string
	call func(context.Context, json.RawMessage) (json.RawMessage, error)
}

// Func makes a task of a function. What the script gives is decoded into In as JSON, and
// what the function returns is encoded. An input that does not fit In fails the step at
// once, without another attempt. fn is called concurrently.
func Func[In, Out any](name string, fn func(context.Context, In) (Out, error)) Task {
	t := Task{name: name}
	if fn == nil {
		return t
	}
	t.call = func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, stet.Permanent(fmt.Errorf("task %s: input: %w", name, err))
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
	return t
}
