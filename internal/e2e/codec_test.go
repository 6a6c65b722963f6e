package e2e_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// gobCodec is a codec of an application: encoding/gob, behind a mark of its own.
type gobCodec struct{}

const gobMark = "GOB\xff"

func (gobCodec) Format() byte { return 40 }

func (gobCodec) Marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(gobMark)
	err := gob.NewEncoder(&out).Encode(v)
	return out.Bytes(), err
}

func (gobCodec) Unmarshal(data []byte, v any) error {
	rest, ok := bytes.CutPrefix(data, []byte(gobMark))
	if !ok {
		return fmt.Errorf("expected %q, found %q", gobMark, data[:min(len(data), 4)])
	}
	return gob.NewDecoder(bytes.NewReader(rest)).Decode(v)
}

// parcel has what JSON gives back as something else: a map whose keys are structs, and
// bytes that are no UTF-8 in a string.
type parcel struct {
	Text  string
	Count map[spot]int
}

type spot struct{ X, Y int }

func parcelOf(text string) parcel { return parcel{text + "\xfe", map[spot]int{{1, 2}: len(text)}} }

func (p parcel) is(text string) bool {
	want := parcelOf(text)
	return p.Text == want.Text && len(p.Count) == 1 && p.Count[spot{1, 2}] == want.Count[spot{1, 2}]
}

// TestACodecOfTheApplication: its codec encodes inputs, results, messages and what children
// get and give; all are decoded after a restart, by a replay of the export, and by readers.
// A reader without the codec says which one is missing.
func TestACodecOfTheApplication(t *testing.T) {
	t.Parallel()
	parcels := stet.Message[parcel]("parcels")
	expect := func(what string, got parcel, err error) error {
		if err == nil && !got.is(what) {
			err = fmt.Errorf("expected %q, found %+v", what, got)
		}
		return err
	}
	child := stet.Define("child", func(ctx stet.Context, in parcel) (parcel, error) {
		return parcelOf("child"), expect("to the child", in, nil)
	})
	w := stet.Define("w", func(ctx stet.Context, in parcel) (parcel, error) {
		step, err := stet.Step(ctx, "pack", func(context.Context) (parcel, error) { return parcelOf("step"), nil })
		if err := errors.Join(expect("input", in, nil), expect("step", step, err)); err != nil {
			return parcel{}, err
		}
		of, err := child.Call(ctx, parcelOf("to the child"))
		if err := expect("child", of, err); err != nil {
			return parcel{}, err
		}
		for _, what := range []string{"first", "second"} {
			got, err := parcels.Receive(ctx, stet.Named(what))
			if err := expect(what, got, err); err != nil {
				return parcel{}, err
			}
		}
		return parcelOf("result"), nil
	})
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, other store.Store) {
		ctx := testContext(t)
		cfg.Workflows = []stet.Definition{w, child}
		cfg.Codecs = []stet.Codec{gobCodec{}, stet.JSON}
		first := startProcess(t, cfg.Store, cfg)
		begin(t, first.Engine, w, parcelOf("input"), stet.ID("r"))
		if err := parcels.Send(ctx, first.Engine, "r", parcelOf("first")); err != nil {
			t.Fatal(err)
		}
		waitsFor(t, first.Engine, "r", "receive")
		first.bury(t)

		second := startProcess(t, other, cfg)
		if err := parcels.Send(ctx, second.Engine, "r", parcelOf("second")); err != nil {
			t.Fatal(err)
		}
		got, err := w.Handle(second.Engine, "r").Wait(ctx)
		if err := expect("result", got, err); err != nil {
			t.Fatalf("the run: %v", err)
		}
		replays(t, second.Engine, "r")

		entries, err := second.Runs().History(ctx, "r", stet.HistoryQuery{Values: true})
		if err != nil {
			t.Fatal(err)
		}
		shown := map[string]bool{}
		for i := range entries {
			e := &entries[i]
			what := map[string]string{"pack": "step"}[e.Location]
			if what == "" {
				what = e.Location
			}
			var got parcel
			if err := e.Decode(&got); err != nil || !got.is(what) {
				t.Errorf("%s: %v, %+v", e.Location, err, got)
			}
			value := e.Value()
			if messages, _ := e.Messages(); len(messages) == 1 {
				value = messages[0].Value
			}
			if b := value.Bytes(); len(b) == 0 || b[0] != (gobCodec{}).Format() || !bytes.HasPrefix(b[1:], []byte(gobMark)) {
				t.Errorf("%s is stored as %q", e.Location, b)
			}
			shown[what] = true
		}
		for _, what := range []string{"step", "child", "first", "second"} {
			if !shown[what] {
				t.Errorf("the history does not have %s: %v", what, shown)
			}
		}
		info, err := second.Runs().Info(ctx, "r")
		if err != nil {
			t.Fatal(err)
		}
		var in, out parcel
		if err := errors.Join(info.Input.Decode(&in), info.Output.Decode(&out)); err != nil || !in.is("input") ||
			!out.is("result") {
			t.Errorf("the run has %+v and %+v, %v", in, out, err)
		}
		_, err = w.Handle(client(t, other, w), "r").Wait(ctx)
		if err == nil || !strings.Contains(err.Error(), "the value has format 40; add its codec to Config.Codecs") {
			t.Errorf("a reader without the codec: %v", err)
		}
	})
}
