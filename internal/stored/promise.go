package stored

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// ResolutionID returns the ID of the item that assigns the promise that was made
// at loc in an incarnation and generation.
func ResolutionID(loc string, incarnation, generation int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%d:%s", incarnation, generation, loc))
	return "p:" + hex.EncodeToString(sum[:16])
}
