package history_test

import (
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

func TestEditOfAStep(t *testing.T) {
	entries := sorted(step("done", 1, 0), step("open", 0, 1), recorded("nap", store.KindSleep, 2, 1),
		step("undone", 3, 2), recorded("undone/undo", store.KindUndo, 4, 3))
	for _, row := range []struct{ loc, want string }{
		{"nap", "nap is a sleep: only the outcome of a step can be edited"}, {"undone", "step undone was undone"},
		{"x", "unknown location x: nothing is recorded there"},
	} {
		loc, _ := location.Parse(row.loc)
		if _, _, err := history.Edit(entries, &stored.Request{Location: string(loc)}, 9); err == nil ||
			!strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%s: %v; want %s", row.loc, err, row.want)
		}
	}
	e, _, err := history.Edit(entries, &stored.Request{Location: string(path("done")), Value: []byte("new")}, 9)
	if err != nil || e.Seq != 1 || e.State != store.Done || string(e.Value) != "new" || e.Born != 0 {
		t.Errorf("the edited step is %+v, %v", e, err)
	}
	e, _, err = history.Edit(entries, &stored.Request{Location: string(path("open")), Failed: true,
		Value: stored.EncodeFailure(&stored.Failure{Code: stored.CodeError, Message: "no"})}, 9)
	f, bad := stored.DecodeFailure(e.Value)
	if err != nil || bad != nil || e.Seq != 0 || e.State != store.FailedEntry || e.Ended != 9 ||
		f.Code != stored.CodeStep || f.Location != "open" || f.Cause.Message != "no" {
		t.Errorf("the edited open step is %+v with %+v, %v, %v", e, f, err, bad)
	}
}
