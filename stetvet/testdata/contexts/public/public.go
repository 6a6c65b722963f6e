// Package public has the names of an inner package, as those of a library do.
package public

import "cases/contexts/flow"

type Context = flow.Context
