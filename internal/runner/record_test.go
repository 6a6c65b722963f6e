package runner

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/stet-run/stet/store"
)

// The stored form does not change: what a release has written, each later one
// reads.
func TestStoredFormOfRecords(t *testing.T) {
	failure := &Failure{
		Code: CodeStep, Message: "m", Details: []byte{1}, Stack: "s", Location: "a/b", Attempts: 2,
		Cause: &Failure{Code: CodeError, Message: "c"}, Causes: []*Failure{{Code: CodeError, Message: "d"}},
	}
	messages := []Message{{No: 1, Name: "n", ID: "i", Sent: 2, Value: []byte("v")}, {No: 3, Name: "n", ID: "j"}}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"failure":  {EncodeFailure(failure), "\xa8\x01dstep\x02am\x03A\x01\x04as\x05\xa2\x01eerror\x02ac\x06ca/b\x07\x02\x08\x81\xa2\x01eerror\x02ad"},
		"receipt":  {EncodeReceipt(messages), "\xa1\x01\x82\xa5\x01\x01\x02an\x03ai\x04\x02\x05Av\xa5\x01\x03\x02an\x03aj\x04\x00\x05\xf6"},
		"progress": {Progress{Causes: failure.Causes, Detail: []byte("d")}.Encode(), "\xa2\x01\x81\xa2\x01eerror\x02ad\x02Ad"},
	} {
		if string(c.got) != c.want {
			t.Errorf("a %s is stored as %q, want %q", name, c.got, c.want)
		}
	}
	if got, err := DecodeFailure(EncodeFailure(failure)); err != nil || !reflect.DeepEqual(got, failure) {
		t.Errorf("the failure comes back as %+v, %v", got, err)
	}
	if got, err := DecodeReceipt(EncodeReceipt(messages)); err != nil || !reflect.DeepEqual(got, messages) {
		t.Errorf("the receipt comes back as %+v, %v", got, err)
	}
	if p, err := DecodeProgress(nil); !reflect.DeepEqual(p, Progress{}) || err != nil {
		t.Errorf("no progress is decoded as %+v, %v", p, err)
	}
}

// A field of a later release is skipped by an older one.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	f, err := DecodeFailure([]byte("\xa2\x01eerror\x18\x63av"))
	if err != nil || f.Code != CodeError {
		t.Errorf("a failure with field 99 is decoded as %+v, %v", f, err)
	}
}

func FuzzDecodeFailure(f *testing.F) {
	f.Add(EncodeFailure(&Failure{Code: CodeError, Message: "m"}))
	f.Add(EncodeFailure(&Failure{Code: CodeStep, Causes: []*Failure{{Code: CodePanic, Stack: "s"}}, Cause: &Failure{Code: CodeTimeout}}))
	f.Add([]byte("\xa1\x01eerror\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		failure, err := DecodeFailure(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) || failure != nil {
				t.Fatalf("%v with %+v", err, failure)
			}
			return
		}
		// What was read is written again, and reads the same from then on.
		once := EncodeFailure(failure)
		again, err := DecodeFailure(once)
		if err != nil {
			t.Fatalf("written again as %q: %v", once, err)
		}
		if twice := EncodeFailure(again); !bytes.Equal(once, twice) {
			t.Fatalf("written as %q, then as %q", once, twice)
		}
	})
}

func FuzzDecodeReceipt(f *testing.F) {
	f.Add(EncodeReceipt(nil))
	f.Add(EncodeReceipt([]Message{{No: 1, Name: "n", ID: "i", Sent: 2, Value: []byte("v")}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		messages, err := DecodeReceipt(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeReceipt(EncodeReceipt(messages))
		if err != nil || len(again) != len(messages) || len(messages) > 0 && !reflect.DeepEqual(again, messages) {
			t.Fatalf("%+v comes back as %+v, %v", messages, again, err)
		}
	})
}

func FuzzDecodeProgress(f *testing.F) {
	f.Add(Progress{}.Encode())
	f.Add(Progress{Causes: []*Failure{{Code: CodeError, Message: "m"}}, Detail: []byte("d")}.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := DecodeProgress(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if again, err := DecodeProgress(p.Encode()); err != nil || !bytes.Equal(again.Encode(), p.Encode()) {
			t.Fatalf("%+v comes back as %+v, %v", p, again, err)
		}
	})
}

func FuzzDecodeVersion(f *testing.F) {
	f.Add(EncodeVersion(1))
	f.Add(EncodeVersion(0))
	f.Add([]byte("\xa1\x01\x20"))
	f.Fuzz(func(t *testing.T, data []byte) {
		version, err := DecodeVersion(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if again, err := DecodeVersion(EncodeVersion(version)); version < 1 || err != nil || again != version {
			t.Fatalf("version %d comes back as %d, %v", version, again, err)
		}
	})
}
