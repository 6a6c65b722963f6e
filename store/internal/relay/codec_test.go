package relay

import (
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	Text  string
	Bytes []byte
	N     int64
}

type outer struct {
	Seed  [4]byte
	On    bool
	Kind  uint8
	Delay int
	One   *inner
	Many  []inner
	Empty []byte
	None  []byte
	Text  string
}

func TestAValueIsReadAsItWasWritten(t *testing.T) {
	for _, v := range []outer{
		{},
		{
			Seed: [4]byte{1, 0, 255, 3}, On: true, Kind: 200, Delay: -5, Text: "a\x00\xff\n", Empty: []byte{},
			One:  &inner{Text: "x", Bytes: []byte{0, 1}, N: 1 << 62},
			Many: []inner{{}, {N: -1}, {Text: strings.Repeat("long", 100)}},
		},
	} {
		data := Marshal(v)
		var back outer
		if err := Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("%+v came back as %+v, %v", v, back, err)
		}
		for cut := range data {
			var part outer
			if err := Unmarshal(data[:cut], &part); err == nil {
				t.Errorf("%d of %d bytes are read as %+v", cut, len(data), part)
			}
		}
	}
}

// A version that knows less does not lose what it does not know.
func TestAnUnknownFieldIsAnError(t *testing.T) {
	type later struct {
		Text  string
		Extra int
	}
	var v inner
	err := Unmarshal(Marshal(later{"x", 1}), &v)
	if err == nil || !strings.Contains(err.Error(), `"Extra"`) {
		t.Errorf("it is read as %+v, %v", v, err)
	}
	if err := Unmarshal(Marshal(later{Text: "x"}), &v); err != nil || v.Text != "x" {
		t.Errorf("without the field it is read as %+v, %v", v, err)
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add(Marshal(outer{On: true, Many: []inner{{Text: "a"}}, One: &inner{}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v outer
		if err := Unmarshal(data, &v); err != nil {
			return
		}
		var back outer
		if err := Unmarshal(Marshal(v), &back); err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("%+v came back as %+v, %v", v, back, err)
		}
	})
}
