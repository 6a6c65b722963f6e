// Package aliased is workflow code with a context that is another type's name.
package aliased

import (
	"time"

	"cases/contexts/flow"
	"cases/contexts/public"
)

func bad(ctx public.Context) time.Time { return time.Now() } // want "clock: time.Now"

func alsoBad(ctx flow.Context) time.Time { return time.Now() } // want "clock: time.Now"
