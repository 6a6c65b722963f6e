package stored_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// TestTheLogSaysThePlaceOfAChild in its parent, by the ID of the parent or, where that is not known, by its number.
func TestTheLogSaysThePlaceOfAChild(t *testing.T) {
	loc, err := location.Parse("load/[acme-0004]")
	if err != nil {
		t.Fatal(err)
	}
	known := func(_, no store.RunNo) string { return map[store.RunNo]string{7: "etl-7"}[no] }
	for name, c := range map[string]struct {
		run  store.Run
		id   func(child, parent store.RunNo) string
		want string
	}{
		"no child":         {store.Run{}, known, ""},
		"a detached child": {store.Run{Parent: 7}, known, ""},
		"a child":          {store.Run{Parent: 7, ParentLoc: string(loc)}, known, " place=etl-7/load/[acme-0004]"},
		"of a parent that is not in memory": {store.Run{Parent: 8, ParentLoc: string(loc)}, known,
			" place=8/load/[acme-0004]"},
		"where nobody knows IDs": {store.Run{Parent: 7, ParentLoc: string(loc)}, nil, " place=7/load/[acme-0004]"},
	} {
		var b bytes.Buffer
		stored.ChildOf(&c.run).Log(slog.New(slog.NewTextHandler(&b, nil)), c.id).Info("x")
		if _, got, _ := strings.Cut(b.String(), "msg=x"); got != c.want+"\n" {
			t.Errorf("%s: the line has %q; want %q", name, got, c.want)
		}
	}
}
