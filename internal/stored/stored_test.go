package stored_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// The stored form does not change: what a release has written, each later one
// reads.
func TestStoredForm(t *testing.T) {
	failure := &stored.Failure{
		Code: stored.CodeStep, Message: "m", Details: []byte{1}, Stack: "s", Location: "a/b", Attempts: 2,
		Cause:  &stored.Failure{Code: stored.CodeError, Message: "c"},
		Causes: []*stored.Failure{{Code: stored.CodeError, Message: "d"}},
	}
	messages := []stored.Message{{No: 1, Name: "n", ID: "i", Sent: 2, Value: []byte("v")}, {No: 3, Name: "n", ID: "j"}}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"failure": {stored.EncodeFailure(failure),
			"\xa8\x01dstep\x02am\x03A\x01\x04as\x05\xa2\x01eerror\x02ac\x06ca/b\x07\x02\x08\x81\xa2\x01eerror\x02ad"},
		"receipt": {stored.EncodeReceipt(messages),
			"\xa1\x01\x82\xa5\x01\x01\x02an\x03ai\x04\x02\x05Av\xa5\x01\x03\x02an\x03aj\x04\x00\x05\xf6"},
		"progress": {stored.Progress{Causes: failure.Causes, Detail: []byte("d")}.Encode(),
			"\xa2\x01\x81\xa2\x01eerror\x02ad\x02Ad"},
		"permit": {stored.Progress{Former: 2, Since: 3, Pause: true,
			Permit: &permit.Place{Queue: "q", Ticket: "t"}}.Encode(), "\xa4\x03\x02\x04\x03\x05\xf5\x06\xa2\x01aq\x04at"},
		"link": {stored.Link{RunID: "r", Workflow: "w", Leave: true, Detached: true, Key: "k", Dropped: 3, Again: 1,
			Former: "f"}.Encode(), "\xa9\x01ar\x02aw\x03\xf5\x04\xf5\x05ak\b\xf6\v\x03\f\x01\raf"},
		"ended": {stored.Link{RunID: "r", Status: store.Failed, Reason: "y", Output: []byte("o"), Item: 7,
			ItemID: "i"}.Encode(), "\xa6\x01ar\x06\x05\aay\bAo\t\a\nai"},
		"end": {stored.End{RunID: "r", Status: store.Cancelled, Output: []byte("o"), Reason: "y"}.Encode(),
			"\xa4\x01ar\x02\x06\x03Ao\x04ay"},
		"watch":     {stored.Watching(7, "r", "n", "i").Item.Value, "\xa1\x01\a"},
		"loop":      {stored.LoopProgress{Oldest: 1, Number: 2, Completed: 3}.Encode(), "\xa3\x01\x01\x02\x02\x03\x03"},
		"version":   {stored.EncodeVersion(2), "\xa1\x01\x02"},
		"sent":      {stored.Sent{Run: "r", Name: "n"}.Encode(), "\xa2\x01ar\x02an"},
		"asked":     {stored.Sent{Run: "r", Name: "n", Key: "k"}.Encode(), "\xa3\x01ar\x02an\x03ak"},
		"published": {stored.EncodePublished("t", "i"), "\xa2\x01at\x02ai"},
		"ending":    {stored.Ending{Reason: "y", Owed: []string{"a"}, More: 1}.Encode(), "\xa3\x01ay\x02\x81aa\x03\x01"},
		"request": {(&stored.Request{Why: "y", Location: "l", Failed: true, Value: []byte("v")}).Encode(),
			"\xa4\x01ay\x02al\x03\xf5\x04Av"},
		"any build": {(&stored.Request{Why: "y", AnyBuild: true}).Encode(), "\xa3\x01ay\x04\xf6\x05\xf5"},
		"answer":    {stored.EncodeAnswer([]byte("v"), nil, false), "yv"},
	} {
		if string(c.got) != c.want {
			t.Errorf("a %s is stored as %q, want %q", name, c.got, c.want)
		}
	}
	if got, err := stored.DecodeFailure(stored.EncodeFailure(failure)); err != nil || !reflect.DeepEqual(got, failure) {
		t.Errorf("the failure comes back as %+v, %v", got, err)
	}
	if got, err := stored.DecodeReceipt(stored.EncodeReceipt(messages)); err != nil || !reflect.DeepEqual(got, messages) {
		t.Errorf("the receipt comes back as %+v, %v", got, err)
	}
	if p, err := stored.DecodeProgress(nil); !reflect.DeepEqual(p, stored.Progress{}) || err != nil {
		t.Errorf("no progress is decoded as %+v, %v", p, err)
	}
}

// A field of a later release is skipped by an older one.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	f, err := stored.DecodeFailure([]byte("\xa2\x01eerror\x18\x63av"))
	if err != nil || f.Code != stored.CodeError {
		t.Errorf("a failure with field 99 is decoded as %+v, %v", f, err)
	}
}

func FuzzDecodeFailure(f *testing.F) {
	f.Add(stored.EncodeFailure(&stored.Failure{Code: stored.CodeError, Message: "m"}))
	f.Add(stored.EncodeFailure(&stored.Failure{Code: stored.CodeStep,
		Causes: []*stored.Failure{{Code: stored.CodePanic, Stack: "s"}}, Cause: &stored.Failure{Code: stored.CodeTimeout}}))
	f.Add([]byte("\xa1\x01eerror\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		failure, err := stored.DecodeFailure(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) || failure != nil {
				t.Fatalf("%v with %+v", err, failure)
			}
			return
		}
		// What was read is written again, and reads the same from then on.
		once := stored.EncodeFailure(failure)
		again, err := stored.DecodeFailure(once)
		if err != nil {
			t.Fatalf("written again as %q: %v", once, err)
		}
		if twice := stored.EncodeFailure(again); !bytes.Equal(once, twice) {
			t.Fatalf("written as %q, then as %q", once, twice)
		}
	})
}

func FuzzDecodeReceipt(f *testing.F) {
	f.Add(stored.EncodeReceipt(nil))
	f.Add(stored.EncodeReceipt([]stored.Message{{No: 1, Name: "n", ID: "i", Sent: 2, Value: []byte("v")}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		messages, err := stored.DecodeReceipt(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		again, err := stored.DecodeReceipt(stored.EncodeReceipt(messages))
		if err != nil || len(again) != len(messages) || len(messages) > 0 && !reflect.DeepEqual(again, messages) {
			t.Fatalf("%+v comes back as %+v, %v", messages, again, err)
		}
	})
}

func FuzzDecodeProgress(f *testing.F) {
	f.Add(stored.Progress{}.Encode())
	f.Add(stored.Progress{Causes: []*stored.Failure{{Code: stored.CodeError, Message: "m"}}, Detail: []byte("d")}.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := stored.DecodeProgress(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if again, err := stored.DecodeProgress(p.Encode()); err != nil || !bytes.Equal(again.Encode(), p.Encode()) {
			t.Fatalf("%+v comes back as %+v, %v", p, again, err)
		}
	})
}

func FuzzDecodeVersion(f *testing.F) {
	f.Add(stored.EncodeVersion(1))
	f.Add(stored.EncodeVersion(0))
	f.Add([]byte("\xa1\x01\x20"))
	f.Fuzz(func(t *testing.T, data []byte) {
		version, err := stored.DecodeVersion(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if again, err := stored.DecodeVersion(stored.EncodeVersion(version)); version < 1 || err != nil || again != version {
			t.Fatalf("version %d comes back as %d, %v", version, again, err)
		}
	})
}

func TestFailuresAreBounded(t *testing.T) {
	huge := &stored.Failure{Code: stored.CodeError, Message: strings.Repeat("m", 1<<20),
		Stack: strings.Repeat("s", 1<<20), Details: make([]byte, 1<<20)}
	for range 30 {
		huge = &stored.Failure{Code: stored.CodeError, Message: huge.Message, Cause: huge,
			Causes: []*stored.Failure{huge, huge, huge}}
	}
	data := stored.EncodeFailure(huge)
	if limit := 1 << 20; len(data) > limit+limit/4 {
		t.Errorf("the record has %d bytes", len(data))
	}
	if _, err := stored.DecodeFailure(data); err != nil {
		t.Error(err)
	}
	many := &stored.Failure{Code: stored.CodeStep, Message: "m"}
	for i := range 25 {
		many.Causes = append(many.Causes, &stored.Failure{Code: stored.CodeError, Message: fmt.Sprint(i)})
	}
	f, err := stored.DecodeFailure(stored.EncodeFailure(many))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.Causes); n != 20 || f.Causes[0].Message != "5" || f.Causes[19].Message != "24" {
		t.Errorf("%d causes are kept, from %s", n, f.Causes[0].Message)
	}
}

func TestDamagedValues(t *testing.T) {
	for name, err := range map[string]error{
		"failure":  errOfDecode(stored.DecodeFailure([]byte{0xa0})),
		"receipt":  errOfDecode(stored.DecodeReceipt([]byte("x"))),
		"progress": errOfDecode(stored.DecodeProgress([]byte("x"))),
	} {
		if !errors.Is(err, store.ErrDamaged) {
			t.Errorf("decoding a damaged %s gives %v", name, err)
		}
	}
}

func errOfDecode[T any](_ T, err error) error { return err }

// What one run owes is listed up to a bound.
func TestEndingsAreBounded(t *testing.T) {
	const maxOwed = 1000
	var many []string
	for i := range maxOwed + 7 {
		many = append(many, fmt.Sprint("s", i))
	}
	end, err := stored.DecodeEnding(stored.Ending{Owed: many}.Encode())
	if err != nil || len(end.Owed) != maxOwed || end.More != 7 {
		t.Errorf("of many %d are listed and %d are not, %v", len(end.Owed), end.More, err)
	}
}

func FuzzDecodeAnswer(f *testing.F) {
	for _, seed := range [][]byte{nil, []byte("x"), []byte("y"), []byte("yvalue"), []byte("r"),
		stored.EncodeAnswer(nil, &stored.Failure{Code: "c"}, true),
		stored.EncodeAnswer(nil, &stored.Failure{Code: "c"}, false)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		value, failure, rejected, answered, err := stored.DecodeAnswer(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		if !answered {
			return
		}
		again, f2, r2, _, err := stored.DecodeAnswer(stored.EncodeAnswer(value, failure, rejected))
		if err != nil || string(again) != string(value) || r2 != rejected || (f2 == nil) != (failure == nil) {
			t.Errorf("%q comes back as %q, %v, %t, %v", data, again, f2, r2, err)
		}
	})
}

// A child, its failure and a watch say the same when they are read.
func TestLinksComeBack(t *testing.T) {
	link := stored.Link{RunID: "r", Workflow: "w", Status: store.Succeeded, Output: []byte("o"), Item: 3, ItemID: "i"}
	if got, err := stored.DecodeLink(store.Done, link.Encode()); err != nil || !reflect.DeepEqual(got, link) {
		t.Errorf("the link comes back as %+v, %v", got, err)
	}
	f := stored.RunFailure(&stored.End{RunID: "r", Status: store.Cancelled, Reason: "terminated"})
	got, err := stored.DecodeLink(store.FailedEntry, stored.EncodeFailure(f))
	if err != nil || got.RunID != "r" || got.Status != store.Cancelled || got.Reason != "terminated" {
		t.Errorf("the failed link comes back as %+v, %v", got, err)
	}
	started := stored.EncodeFailure(&stored.Failure{Code: stored.CodeNoQueue, Message: "m"})
	if got, err := stored.DecodeLink(store.FailedEntry, started); err != nil || !reflect.DeepEqual(got, stored.Link{}) {
		t.Errorf("a child that was never begun is %+v, %v", got, err)
	}
	for _, c := range []struct {
		link stored.Link
		want string
	}{
		{stored.Link{RunID: "r"}, "r"}, {stored.Link{RunID: "r", Former: "f"}, "f"}, {stored.Link{RunID: "r", Key: "k"}, "k"},
	} {
		if got := c.link.Name(); got != c.want {
			t.Errorf("the end of %+v comes as %q, want %q", c.link, got, c.want)
		}
	}
}

// A reason stands in the item's value, or in the request that the value is.
func TestWhy(t *testing.T) {
	request := stored.Request{Why: "why", Location: "l"}
	for name, it := range map[string]store.Item{
		"cancel":    {Kind: store.ItemCancel, Value: []byte("why")},
		"rewind":    {Kind: store.ItemRewind, Value: request.Encode()},
		"resume":    {Kind: store.ItemResume, Value: []byte("why")},
		"any build": {Kind: store.ItemResume, Value: (&stored.Request{Why: "why", AnyBuild: true}).Encode()},
		"damaged":   {Kind: store.ItemEdit, Value: []byte("?")},
	} {
		want := "why"
		if name == "damaged" {
			want = ""
		}
		if got := stored.Why(&it); got != want {
			t.Errorf("%s: the reason is %q, want %q", name, got, want)
		}
	}
	audit := stored.AuditOf(&store.Item{Kind: store.ItemRewind, Name: "ada"}, strings.Repeat("é", store.MaxWhy), "d")
	if audit.Who != "ada" || audit.Verb != "rewind" || len(audit.Why) > store.MaxWhy || !utf8.ValidString(audit.Why) {
		t.Errorf("the audit is %+v", audit)
	}
}

// A run that stalls instead of failing keeps its failure.
func TestRunFailed(t *testing.T) {
	output := stored.EncodeFailure(&stored.Failure{Code: stored.CodeError, Message: "m"})
	for name, c := range map[string]struct {
		run  store.Run
		want bool
	}{
		"failed":    {store.Run{Status: store.Failed, Output: output}, true},
		"stalled":   {store.Run{Status: store.Stalled, Reason: stored.StalledReason(output), Output: output}, true},
		"mismatch":  {store.Run{Status: store.Stalled, Reason: "mismatch at a", Output: output}, false},
		"succeeded": {store.Run{Status: store.Succeeded, Output: []byte("v")}, false},
	} {
		if f, err := stored.RunFailed(&c.run); err != nil || (f != nil) != c.want {
			t.Errorf("%s: the failure is %+v, %v", name, f, err)
		}
	}
}

// What is derived for one purpose, place and generation is nothing else's.
func TestDerivedBytesDiffer(t *testing.T) {
	seed := store.Seed{1}
	seen := map[[32]byte]bool{}
	for _, h := range [][32]byte{
		stored.Derive(seed, "p", 0, "l", 0), stored.Derive(store.Seed{2}, "p", 0, "l", 0),
		stored.Derive(seed, "q", 0, "l", 0),
		stored.Derive(seed, "p", 1, "l", 0), stored.Derive(seed, "p", 0, "m", 0), stored.Derive(seed, "p", 0, "l", 1),
	} {
		if seen[h] {
			t.Errorf("%x is derived twice", h)
		}
		seen[h] = true
	}
	run := store.Run{Seed: seed}
	if stored.PromiseSecret(run.Seed, "l", 0) == stored.PromiseSecret(run.Seed, "l", 1) {
		t.Error("a secret outlives its generation")
	}
	if got, want := stored.ResolutionID("l", 1, 2), "p:"; !strings.HasPrefix(got, want) ||
		got == stored.ResolutionID("l", 2, 1) {
		t.Errorf("the resolution's ID is %q", got)
	}
}
