package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stet-run/stet/store"
)

// TestLacksAreBounded in number and length, whatever the runs' IDs are.
func TestLacksAreBounded(t *testing.T) {
	var l lacks
	for i := range 20 * store.MaxLacks {
		l.note(fmt.Sprintf("run-%d", i), errors.New(strings.Repeat("ß", store.MaxLack)))
	}
	if n := len(l.found); n > maxNoted {
		t.Errorf("%d runs are noted, want at most %d", n, maxNoted)
	}
	list := l.list()
	if len(list) != store.MaxLacks {
		t.Errorf("%d texts, want %d", len(list), store.MaxLacks)
	}
	for _, text := range list {
		if len(text) > store.MaxLack || !utf8.ValidString(text) {
			t.Errorf("a text of %d bytes, which is UTF-8: %t; want at most %d", len(text), utf8.ValidString(text), store.MaxLack)
		}
	}
}
