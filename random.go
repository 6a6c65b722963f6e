package stet

import (
	"math/rand/v2"

	"github.com/google/uuid"
)

// Random returns a source of random numbers that gives the same ones in every
// replay. It is derived from the run's seed and the place of the call.
func Random(ctx Context) *rand.Rand {
	seed, _ := ctx.branch.Derive(ctx.call("random", ""), "random") // misuse stops the run
	return rand.New(rand.NewChaCha8(seed))
}

// UUID returns a random UUID (version 4) that is the same in every replay.
func UUID(ctx Context) string {
	seed, _ := ctx.branch.Derive(ctx.call("uuid", ""), "uuid") // misuse stops the run
	id := uuid.UUID(seed[:16])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}
