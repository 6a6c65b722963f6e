package life

import (
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/stet-run/stet/internal/sim/link"
)

var is func() error

// Is says what a machine does in its life. To be called by an init function.
func Is(do func() error) { is = do }

//go:wasmexport life
func life() {
	os.Args = link.Arguments()
	differ()
	if err := is(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// differ brings Go's sources of randomness, which have begun alike in all machines, to places of the
// machine's own: that of maps, select and package rand, by as many uses as its own randomness says.
func differ() {
	var own [4]byte
	_, _ = crand.Read(own[:]) // it never fails
	for range binary.LittleEndian.Uint16(own[:]) % (1 << 12) {
		rand.Uint64()
	}
	one, other := make(chan struct{}), make(chan struct{})
	for range own[2] {
		select {
		case <-one:
		case <-other:
		default:
		}
	}
}
