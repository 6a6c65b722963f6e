package runfile

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

var update = flag.Bool("update", false, "write testdata anew")

// fill sets every field of v to something that is not zero, different from
// field to field where the type allows it.
func fill(v reflect.Value, n *int64) {
	*n++
	switch x := v.Addr().Interface().(type) {
	case *[]byte:
		*x = []byte(fmt.Sprintf("\x01%d", *n))
		return
	case *store.Status:
		*x = store.Suspended
		return
	case *store.Time:
		*x = store.Time(*n * 1_234_567)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
			if name := v.Type().Field(i).Name; name == "Loc" || name == "ParentLoc" {
				v.Field(i).SetString(string(location.Loc("").Name(fmt.Sprint("at", *n), 1)))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprint("text", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(1 + *n%3))
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(*n)
	default:
		panic(fmt.Sprintf("fill knows no %s", v.Type()))
	}
}

// TestEveryFieldIsInTheFile fails when the contract has a field that the file
// does not carry: add it to the type of the file, in both directions.
func TestEveryFieldIsInTheFile(t *testing.T) {
	var s store.Snapshot
	n := int64(0)
	fill(reflect.ValueOf(&s).Elem(), &n)
	for i := range s.Entries {
		s.Entries[i].Size = len(s.Entries[i].Value)
	}
	for i := range s.Items {
		s.Items[i].Size = 0 // no value is left out
	}
	s.Run.InputSize, s.Run.OutputSize = len(s.Run.Input), len(s.Run.Output)
	got := again(t, &s)
	if diff := cmp.Diff(&s, got); diff != "" {
		t.Errorf("the file has lost something; carry the field in internal/runfile (-want +got):\n%s", diff)
	}
}

// again returns what is read of what is written.
func again(t *testing.T, s *store.Snapshot) *store.Snapshot {
	t.Helper()
	var file bytes.Buffer
	if err := Write(&file, s); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestValuesAreTheSameBytesAgain(t *testing.T) {
	for _, data := range [][]byte{
		nil, {}, {1}, {0}, {2, 3}, []byte("\x01null"), []byte("\x01 null"), []byte("\x01{\"a\": 1}"),
		[]byte("\x01{\"a\":1,\"a\":2}"),
		[]byte("\x01\"<&>\u2028\""), []byte("\x01\"\xff\""), []byte("\x01\"\\u003c\""), []byte("\x01{}x"), []byte("\x01{"),
		[]byte("\x011.0e+00"), []byte("\x01[]"),
	} {
		s := small()
		s.Entries[0].Value, s.Entries[0].Size = data, len(data)
		s.Run.Input, s.Run.InputSize = data, len(data)
		got := again(t, s)
		if v := got.Entries[0].Value; !bytes.Equal(v, data) || (v == nil) != (data == nil) {
			t.Errorf("value %q came back as %q", data, v)
		}
		if v := got.Run.Input; !bytes.Equal(v, data) || (v == nil) != (data == nil) {
			t.Errorf("input %q came back as %q", data, v)
		}
	}
}

func small() *store.Snapshot {
	return &store.Snapshot{
		Run: store.Run{
			No: 7, ID: "order-42", Workflow: "checkout", Status: store.Suspended, Shard: store.Shard{Group: "default"},
			Seed:    store.Seed{1, 2, 3},
			Created: 1_700_000_000_000_000, Started: 1_700_000_000_000_500, Input: []byte("\x01{\"total\":12}"), InputSize: 13,
		},
		Entries: []store.Entry{
			{
				Loc: string(location.Loc("").Name("charge", 1)), Kind: store.KindStep, State: store.Done, Seq: 1,
				At: 1_700_000_001_000_000, Attempt: 2,
				Started: 1_700_000_000_000_700, Ended: 1_700_000_001_000_000, Value: []byte("\x01{\"id\":\"<c>\"}"), Size: 13,
			},
			{
				Loc: string(location.Loc("").Name("nap", 1)), Kind: store.KindSleep, State: store.Open, Born: 1,
				Wake:    1_700_086_401_000_000,
				Started: 1_700_000_001_000_000,
			},
		},
		Items: []store.Item{{No: 3, Kind: store.ItemMessage, State: store.New, Name: "word", ID: "a", Origin: "b",
			Sent: 1_700_000_002_000_000, Value: []byte{9, 0, 255}}},
	}
}

// TestForm pins how the file looks.
func TestForm(t *testing.T) {
	const path = "testdata/form.json"
	var file bytes.Buffer
	if err := Write(&file, small()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), file.String()); diff != "" {
		t.Errorf("the form has changed; files of released versions must stay readable (-want +got):\n%s", diff)
	}
	got, err := Read(bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(small(), got); diff != "" {
		t.Error(diff)
	}
}

func TestLargeValueMustBeThere(t *testing.T) {
	s := small()
	s.Entries[0].Value = nil
	if err := Write(new(bytes.Buffer), s); err == nil || !strings.Contains(err.Error(), "charge") {
		t.Errorf("Write of an entry without its value gives %v", err)
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	var file bytes.Buffer
	if err := Write(&file, small()); err != nil {
		t.Fatal(err)
	}
	good := file.String()
	for name, c := range map[string]struct{ from, to, names string }{
		"not JSON":            {good, "order-42", "invalid character"},
		"another format":      {`"stet run"`, `"stet"`, `found "stet"`},
		"a later version":     {`"version": 1`, `"version": 2`, "later one"},
		"no version":          {`"version": 1`, `"version": 0`, "found 0"},
		"an unknown kind":     {`"step"`, `"leap"`, `"leap"`},
		"an unknown status":   {`"suspended"`, `"lost"`, `"lost"`},
		"an unknown state":    {`"done"`, `"gone"`, `"gone"`},
		"a bad location":      {`"charge"`, `"char#1"`, `char#1`},
		"an empty location":   {`"charge"`, `""`, "root scope"},
		"a location twice":    {`"nap"`, `"charge"`, "twice"},
		"two forms of value":  {`"json": {`, `"base64": "", "json": {`, "either"},
		"no form of value":    {`"base64": "CQD/"`, ``, "either"},
		"a time":              {`2023-11-14T22:13:20Z`, `yesterday`, "yesterday"},
		"a seed of no length": {`"AQIDAAAAAAAAAAAAAAAAAA=="`, `"AQID"`, "seed of 16 bytes, found 3"},
		"no ID":               {`"order-42"`, `""`, "expected an ID"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(good, c.from, c.to, 1)
			if text == good {
				t.Fatalf("%s is not in the file:\n%s", c.from, good)
			}
			_, err := Read(strings.NewReader(text))
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("the error is %v, want one that says %q", err, c.names)
			}
		})
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	var file bytes.Buffer
	if err := Write(&file, small()); err != nil {
		t.Fatal(err)
	}
	got, err := Read(strings.NewReader(strings.Replace(file.String(), `"version"`, `"later": {"x": 1}, "version"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(small(), got); diff != "" {
		t.Error(diff)
	}
}

// Numbers that this version has no name for are carried, so that a file of a
// newer store can be read.
func TestNumbersWithoutANameAreCarried(t *testing.T) {
	s := small()
	s.Entries[0].Kind, s.Items[0].Kind = 250, 251
	if diff := cmp.Diff(s, again(t, s)); diff != "" {
		t.Error(diff)
	}
}

func FuzzRead(f *testing.F) {
	var file bytes.Buffer
	if err := Write(&file, small()); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Read(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("the error does not wrap ErrFormat: %v", err)
			}
			return
		}
		if diff := cmp.Diff(s, again(t, s)); diff != "" {
			t.Error(diff)
		}
	})
}
