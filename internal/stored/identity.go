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

// PromiseSecret returns the secret of the promise that was made at loc of the run
// in a generation.
func PromiseSecret(run *store.Run, loc string, generation int) [16]byte {
	h := Derive(run.Seed, "promise", generation, location.Loc(loc), 0)
	return [16]byte(h[:16])
}

// ResolutionID returns the ID of the item that assigns the promise that was made
// at loc in an incarnation and generation.
func ResolutionID(loc string, incarnation, generation int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%d:%s", incarnation, generation, loc))
	return "p:" + hex.EncodeToString(sum[:16])
}
