package stet

// Runs are the runs of an engine's store, for operators: to list and read them, and
// to change what they do. Application code starts runs with a Workflow and reads one
// with its handle, a Run. Safe for concurrent use, like all that an Engine returns.
type Runs struct{ engine *Engine }

// Runs returns the runs of the store.
func (e *Engine) Runs() Runs { return Runs{e} }
