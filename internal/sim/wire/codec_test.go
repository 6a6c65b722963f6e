package wire_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/stet-run/stet/internal/sim/wire"
)

type inner struct {
	Text string
	Next *inner
}

type carried struct {
	Yes   bool
	Int   int
	Small int8
	Large int64
	Byte  uint8
	Seed  [3]byte
	Pair  [2]inner
	Data  []byte
	None  []byte
	Names []string
	Empty []string
	Nil   []string
	Inner *inner
	Lost  *inner
}

// TestWhatIsCarriedArrives: a value comes out as it went in, nil apart from empty.
func TestWhatIsCarriedArrives(t *testing.T) {
	for what, v := range map[string]carried{
		"nothing": {},
		"all": {
			Yes: true, Int: math.MinInt32, Small: -128, Large: math.MinInt64, Byte: 255, Seed: [3]byte{1, 200, 3},
			Pair: [2]inner{{Text: "a"}, {"b", &inner{}}}, Data: []byte("x"), None: []byte{}, Names: []string{"", "y"},
			Empty: []string{}, Inner: &inner{"z", &inner{Text: "w"}},
		},
		"the other ends": {Int: math.MaxInt32, Small: 127, Large: math.MaxInt64},
	} {
		b := wire.Encode(v)
		var got carried
		if err := wire.Decode(b, &got); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%s: found %+v, %v; expected %+v", what, got, err, v)
		}
		for n := range b {
			if err := wire.Decode(b[:n], new(carried)); err == nil {
				t.Errorf("%s: expected an error of %d bytes of %d", what, n, len(b))
			}
		}
		if err := wire.Decode(append(b, 0), new(carried)); err == nil {
			t.Errorf("%s: expected an error of a byte too many", what)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("expected that a map cannot be carried")
		}
	}()
	wire.Encode(map[string]int{})
}
