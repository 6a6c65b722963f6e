package stored

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
)

// TestTriedValues: their form is pinned; a value without failed attempts is stored as it is;
// the newest causes are kept, and their text is cut; and damage is found.
func TestTriedValues(t *testing.T) {
	f := &Failure{Code: "error", Message: "no", Stack: "main", Began: 1, Ended: 2, Cause: &Failure{Code: "error"}}
	data := WithTried([]*Failure{f}, nil, []byte("\x017"))
	if got, want := hex.EncodeToString(data), "041181a401656572726f7202626e6f0a010b020137"; got != want {
		t.Errorf("stored as %s, want %s", got, want)
	}
	for _, value := range [][]byte{nil, []byte("\x01[]"), []byte(strings.Repeat("x", 5000))} {
		if plain := WithTried(nil, nil, value); string(plain) != string(value) || (plain == nil) != (value == nil) {
			t.Errorf("%q without failed attempts is stored as %q", value, plain)
		}
		tried, err := SplitTried(WithTried([]*Failure{f}, nil, value))
		causes, back := tried.Causes, tried.Value
		if err != nil || string(back) != string(value) || (back == nil) != (value == nil) || len(causes) != 1 ||
			causes[0].Message != "no" || causes[0].Began != 1 || causes[0].Ended != 2 || causes[0].Stack != "" {
			t.Errorf("%.9q comes back as %.9q with %v, %v", value, back, causes, err)
		}
	}
	var many []*Failure
	for i := range 11 {
		text := fmt.Sprintf("%d%s", i, strings.Repeat("ä", 9000))
		many = append(many, &Failure{Code: strings.Repeat("c", 9000), Message: text})
	}
	data = WithTried(many, nil, nil)
	tried, err := SplitTried(data)
	causes := tried.Causes
	if err != nil || len(causes) != maxTried || !strings.HasPrefix(causes[0].Message, "3") ||
		len(data) > maxTried*(maxTriedText+64) {
		t.Errorf("%d causes in %d bytes, %v; want the last %d", len(causes), len(data), err, maxTried)
	}
	for _, damaged := range []string{
		"\x04", "\x04\x10", "\x04\x02xx", "\x04\x02\x81\xf6", "\x04" + strings.Repeat("\xff", 9) + "\x01",
		"\x06\x10", "\x06\x01\x61",
	} {
		if _, err := SplitTried([]byte(damaged)); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}

// TestLeadOfAnAttempt: its form is pinned, it comes back with and without failed attempts, and an attempt
// that waited for nothing noticeable has none.
func TestLeadOfAnAttempt(t *testing.T) {
	lead := Lead{Due: 1, Asked: 2, Granted: 3, Queue: "q", Task: true, Placed: 4, Began: 5}
	data := WithTried(nil, &lead, []byte("\x017"))
	if got, want := hex.EncodeToString(data), "0610a7010102020303046171"+"05f506040705"+"0137"; got != want {
		t.Errorf("stored as %s, want %s", got, want)
	}
	for _, causes := range [][]*Failure{nil, {{Code: "error"}}} {
		for _, value := range [][]byte{nil, []byte("\x01[]")} {
			got, err := SplitTried(WithTried(causes, &lead, value))
			if err != nil || got.Lead == nil || *got.Lead != lead || len(got.Causes) != len(causes) ||
				string(got.Value) != string(value) || (got.Value == nil) != (value == nil) {
				t.Errorf("%q after %d failed attempts comes back as %+v, %v", value, len(causes), got, err)
			}
		}
	}
	for _, brief := range []Lead{{}, {Placed: 1000}, {Asked: 1000, Granted: 1999, Queue: "q"}} {
		if got := brief.Notice(1999); got != nil {
			t.Errorf("%+v is recorded as %+v", brief, got)
		}
	}
	for _, long := range []Lead{{Placed: 1000}, {Asked: 1000, Granted: 2000, Queue: "q"}, {Due: 1}, {Task: true}} {
		if got := long.Notice(2000); got == nil || *got != long {
			t.Errorf("%+v is recorded as %+v", long, got)
		}
	}
}
