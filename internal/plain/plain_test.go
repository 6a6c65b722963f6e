package plain_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/quick"
	"time"

	"github.com/stet-run/stet/internal/plain"
)

type plainRow struct {
	Name   string `json:"name"`
	Number int64  `json:"n,omitempty"`
	Inner  struct {
		Text  string
		Share float32
	}
	Done bool
}

type ownJSON struct{ N int }

func (o *ownJSON) UnmarshalJSON([]byte) error { o.N = 7; return nil }

type ownText string

func (o ownText) MarshalText() ([]byte, error) { return []byte("x" + o), nil }

// TestSurvivesJSON: a value that is said to survive is the same after it was encoded and
// decoded; a value of which that cannot be known is not said to survive.
func TestSurvivesJSON(t *testing.T) {
	for _, v := range []any{
		true, 3, int8(-3), uint64(math.MaxUint64), int64(math.MinInt64), 0.1, float32(0.1),
		math.Copysign(0, -1), math.MaxFloat64, "",
		"é\x00<&>\u2028", time.Second,
		struct{}{}, plainRow{Name: "x", Number: 5}, plainRow{}, struct{ A, B string }{"a", "b"},
	} {
		if !plain.SurvivesJSON(v) {
			t.Errorf("%#v is not said to survive", v)
		}
		sameAfterJSON(t, v)
	}
	for _, v := range []any{
		nil, "\xff", plainRow{Name: "a\xc3"}, struct{ A struct{ B string } }{struct{ B string }{"\xfe"}},
		[]int{1}, []byte("b"), map[string]int{}, new(int), [2]int{1, 2}, any(time.Time{}),
		json.Number(""), json.RawMessage("1"),
		ownJSON{1}, ownText("t"), struct{ A ownJSON }{}, struct{ A any }{1}, struct{ a int }{1},
		struct{ plainRow }{}, struct {
			A int `json:"-"`
		}{1}, struct {
			A string `json:",string"`
		}{"s"}, struct {
			A int `json:"b"`
			B int
		}{1, 2}, struct {
			A int `json:"é"`
		}{1}, struct {
			A time.Duration `json:",omitzero"`
		}{1},
	} {
		if plain.SurvivesJSON(v) {
			t.Errorf("%#v is said to survive", v)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 { // any string, of which most are not UTF-8
		bytes := make([]byte, random.IntN(6))
		for i := range bytes {
			bytes[i] = byte(random.IntN(256))
		}
		if v := (plainRow{Name: string(bytes)}); plain.SurvivesJSON(v) {
			sameAfterJSON(t, v)
		}
	}
	err := quick.Check(func(v plainRow) bool { return !plain.SurvivesJSON(v) || sameAfterJSON(t, v) }, nil)
	if err != nil {
		t.Error(err)
	}
}

func sameAfterJSON(t *testing.T, v any) bool {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	decoded := reflect.New(reflect.TypeOf(v))
	if err := json.Unmarshal(data, decoded.Interface()); err != nil {
		t.Fatal(err)
	}
	if got := decoded.Elem().Interface(); !reflect.DeepEqual(got, v) {
		t.Errorf("%#v becomes %#v", v, got)
		return false
	}
	return true
}
