package stored

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
)

// TestEmittedItems: their form is pinned; what the code has appended is none; and damage is
// found.
func TestEmittedItems(t *testing.T) {
	for want, e := range map[string]Emitted{
		"03a3016363616c0202044378797a": {Location: "cal", Attempt: 2, Value: []byte("xyz")},
		"03a3016363616c020203f5":       {Location: "cal", Attempt: 2, Again: true},
	} {
		data := e.Encode()
		if got := hex.EncodeToString(data); got != want {
			t.Errorf("%+v is stored as %s, want %s", e, got, want)
		}
		back, ok, err := DecodeEmitted(data)
		if !ok || err != nil || back.Location != e.Location || back.Attempt != e.Attempt || back.Again != e.Again ||
			string(back.Value) != string(e.Value) {
			t.Errorf("%s is %+v, %t, %v", want, back, ok, err)
		}
	}
	for _, item := range []string{"", "\x01\"json\"", "\x02sealed"} {
		if _, ok, err := DecodeEmitted([]byte(item)); ok || err != nil {
			t.Errorf("%q: %t, %v", item, ok, err)
		}
	}
	for _, item := range []string{"\x03", "\x03\xa0", "\x03junk"} {
		if _, _, err := DecodeEmitted([]byte(item)); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%q: %v", item, err)
		}
	}
}

// TestEmittedItemsAreDeterministicCBOR: the encoder of items gives what that of all other records
// gives, at each length of a number, within the size that it says.
func TestEmittedItemsAreDeterministicCBOR(t *testing.T) {
	for _, n := range []int{0, 1, 23, 24, 255, 256, 65535, 65536} {
		for _, attempt := range []int{1, n, math.MaxInt32, math.MaxInt} {
			for _, again := range []bool{false, true} {
				e := Emitted{Location: strings.Repeat("l", n), Attempt: attempt, Again: again, Value: make([]byte, n)}
				got, want := e.Encode(), append([]byte{formatEmitted}, encode(e)...)
				if !bytes.Equal(got, want) || len(got) > e.Size() {
					t.Errorf("n=%d, attempt %d, again %t: %d bytes that begin with %x, of at most %d; want %d that begin with %x",
						n, attempt, again, len(got), got[:min(len(got), 16)], e.Size(), len(want), want[:min(len(want), 16)])
				}
			}
		}
	}
}
