package stored

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// Derive returns bytes that only the run with this seed has for a purpose, and for an
// operation that was requested at loc in a generation. n tells several of them apart.
func Derive(seed store.Seed, purpose string, generation int, loc location.Loc, n int64) [32]byte {
	h := sha256.New()
	h.Write(seed[:])
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:], uint64(generation))
	binary.BigEndian.PutUint64(numbers[8:], uint64(n))
	h.Write(numbers[:])
	h.Write([]byte(purpose + "\x00" + string(loc)))
	return [32]byte(h.Sum(nil))
}

// IncarnationSeed returns the seed of an incarnation of a run, up to the one after the
// present. It follows from the seed that the run was started with, so that a token of a
// former incarnation is told from a forged one.
func IncarnationSeed(run *store.Run, incarnation int) store.Seed {
	switch incarnation {
	case run.Incarnation:
		return run.Seed
	case 0:
		return run.FirstSeed()
	}
	h := Derive(run.FirstSeed(), "incarnation", 0, "", int64(incarnation))
	return store.Seed(h[:16])
}

// PromiseSecret returns the secret of the promise that was made at loc of a run, in the
// incarnation with the seed and in a generation.
func PromiseSecret(seed store.Seed, loc string, generation int) [16]byte {
	h := Derive(seed, "promise", generation, location.Loc(loc), 0)
	return [16]byte(h[:16])
}

// ResolutionID returns the ID of the item that assigns the promise that was made
// at loc in an incarnation and generation.
func ResolutionID(loc string, incarnation, generation int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%d:%s", incarnation, generation, loc))
	return "p:" + hex.EncodeToString(sum[:16])
}

// RunKey returns what identifies one life of a run, for programs outside: it is derived from
// the seed that the run was started with, which nobody can find by it, and the generation.
func RunKey(seed store.Seed, generation int) [16]byte {
	h := Derive(seed, "run", generation, "", 0)
	return [16]byte(h[:16])
}
