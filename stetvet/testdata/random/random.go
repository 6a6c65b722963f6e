package random

import (
	crand "crypto/rand"
	"math/rand/v2"

	"github.com/google/uuid"
	"github.com/stet-run/stet"
)

func bad(ctx stet.Context) string {
	_ = rand.IntN(3)           // want `random: rand.IntN`
	_, _ = crand.Read(nil)     // want `random: rand.Read`
	return uuid.New().String() // want `random: uuid.New → NewRandom → rander → rand.Reader`
}

func good(ctx stet.Context) string {
	_ = rand.New(rand.NewPCG(1, 2)).IntN(3)
	_ = stet.Random(ctx).IntN(3)
	_ = uuid.MustParse("00000000-0000-0000-0000-000000000000")
	return stet.UUID(ctx)
}
