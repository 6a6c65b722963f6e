package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

func TestRewindByTheRule(t *testing.T) {
	letter := stored.EncodeReceipt([]stored.Message{{No: 4, Name: "m", ID: "id", Sent: 9, Value: []byte("hello")}})
	kid := func(seq, born int64, leave, detached bool) store.Entry {
		link := stored.Link{RunID: "kid", Leave: leave, Detached: detached}
		return recorded("c", store.KindChild, seq, born, with(link.Encode()))
	}
	loop := func(born, oldest, number, completed int64) store.Entry {
		progress := stored.LoopProgress{Oldest: oldest, Number: number, Completed: completed}
		return recorded("l", store.KindLoop, 0, born, with(progress.Encode()))
	}
	entered := recorded("l/~5", store.KindLoop, 11, 10)
	for _, row := range []struct {
		name    string
		entries []store.Entry
		at      string
		want    string // what stands, or the refusal
		taken   string // what returns and is cancelled
	}{
		{"a sequence", sorted(step("a", 1, 0), step("b", 2, 1), step("c", 3, 2)), "b", "a:1", ""},
		{"its beginning", sorted(step("a", 1, 0), step("b", 2, 1)), "", "", ""},
		{"a branch that was asked for before and ended after",
			sorted(step("a", 1, 0), step("b", 3, 0), step("c", 2, 0), step("d", 4, 3)), "c", "a:1 b:open", ""},
		{"a scope: the first inside is the cut",
			sorted(step("p/x", 3, 1), step("p/y", 2, 1), step("a", 1, 0), step("q", 4, 1)), "p", "a:1 q:open", ""},
		{"an open operation", sorted(step("a", 1, 0), step("b", 0, 1)), "b", "a:1", ""},
		{"messages come back", sorted(step("a", 1, 0), recorded("m", store.KindReceive, 2, 1, with(letter))), "m", "a:1",
			"message 4 m id hello"},
		{"of one that is open again too", sorted(step("a", 2, 0), recorded("m", store.KindReceive, 3, 0, with(letter))), "a",
			"m:open", "message 4 m id hello"},
		{"a promise that was made before keeps its resolution",
			sorted(recorded("p", store.KindPromise, 2, 0), step("tell", 1, 0)), "tell", "p:open",
			"resolution 0  " + stored.ResolutionID(string(path("p")), 0, 0) + " v"},
		{"one that was made after loses it", sorted(recorded("p", store.KindPromise, 2, 1), step("a", 1, 0)), "a", "", ""},
		{"a live child is cancelled", sorted(step("a", 1, 0), kid(0, 1, false, false)), "a", "", "child kid"},
		{"one that is left is not", sorted(step("a", 1, 0), kid(0, 1, true, false)), "a", "", ""},
		{"one that is detached is not", sorted(step("a", 1, 0), kid(0, 1, true, true)), "a", "", ""},
		{"a finished one is kept, and asked for anew", sorted(step("a", 1, 0), kid(2, 0, false, false)), "a", "c:withdrawn",
			""},
		{"the cancel of the run goes", sorted(step("a", 1, 0), recorded("[cancel]", store.KindCancel, 2, 1),
			step("b", 3, 2)), "[cancel]", "a:1", ""},
		{"an undoing goes with its step", sorted(step("a", 1, 0), step("b", 2, 1), recorded("b/undo", store.KindUndo, 3, 2)),
			"b", "a:1", ""},
		{"and may not be cut behind it", sorted(step("a", 1, 0), recorded("a/undo", store.KindUndo, 3, 2), step("b", 2, 1)),
			"b",
			"it has undone a, completion 1: it can be rewound to before that only, and b is completion 2", ""},
		{"of what a saga has undone before the cut all stands", saga(step("c", 5, 4)), "c", "s/a:1 s/a/undo:4 s/b:2 s/b/undo:3",
			""},
		{"of what it has undone behind the cut nothing does", saga(step("c", 5, 4)), "s", "", ""},
		{"nothing between may be cut", saga(), "s/b", "a saga has undone s/a, completion 1: it can be rewound to before that, " +
			"or to behind the saga, and s/b is completion 2", ""},
		{"an open undoing goes on", sorted(step("a", 1, 0), recorded("a/undo", store.KindSagaUndo, 0, 2), step("b", 3, 2)),
			"b", "a:1 a/undo:open", ""},
		{"and not from its begin", sorted(step("a", 1, 0), recorded("a/undo", store.KindSagaUndo, 0, 1)), "a/undo",
			"a saga has undone a, completion 1: it can be rewound to before that, or to behind the saga, " +
				"and a/undo is completion 2", ""},
		{"an unknown place", sorted(step("fetch", 1, 0)), "fech",
			"unknown location fech: nothing is recorded there, nearest are fetch", ""},
		{"what was withdrawn", sorted(step("a", 1, 0), step("b", 0, 0, state(store.Withdrawn))), "b",
			"b was withdrawn before it completed, and has no place in the order: name what completed", ""},
		{"a kept iteration", sorted(loop(0, 5, 11, 8), entered, step("l/~5/s", 12, 11),
			step("l/~6/s", 13, 12), step("l/~7/s", 14, 13)), "l/~6", "l:open l/~5:11 l/~5/s:12", ""},
		{"the oldest one", sorted(loop(0, 5, 11, 8), entered, step("l/~5/s", 12, 11)),
			"l/~5", "l:open l/~5:11", ""},
		{"a pruned one", sorted(loop(0, 5, 11, 8), entered), "l/~4/s", "the history of l before iteration 5 is pruned", ""},
		{"a pruned loop", sorted(step("a", 1, 0), loop(1, 5, 11, 8), entered), "l",
			"the cut lies in pruned history: of l the iterations before 5 are gone", ""},
		{"beside a pruned loop", sorted(step("a", 4, 0), loop(0, 5, 11, 8), entered), "a",
			"the cut lies in pruned history: of l the iterations before 5 are gone", ""},
		{"before a pruned loop", sorted(step("a", 1, 0), loop(1, 5, 11, 8), entered), "a", "", ""},
		{"a loop that is not pruned", sorted(loop(0, 0, 0, 10), step("l/~0/s", 1, 0), step("l/~1/s", 2, 1)), "l", "", ""},
		{"a version that stands", sorted(recorded("[version]/x", store.KindVersion, 0, 0, state(store.Done)),
			step("a", 1, 0)), "a", "[version]/x:done", ""},
		{"a version of later", sorted(recorded("[version]/x", store.KindVersion, 0, 1, state(store.Done)), step("a", 1, 0)),
			"a", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			at, err := location.Parse(row.at)
			if err != nil {
				t.Fatal(err)
			}
			back, err := history.Rewind(row.entries, at, 77)
			if err != nil {
				if _, ok := err.(history.Refusal); !ok || err.Error() != row.want {
					t.Errorf("refused: %v; want %q", err, row.want)
				}
				return
			}
			var taken []string
			for _, it := range back.ForRun(&store.Run{}).Returned {
				taken = append(taken, fmt.Sprintf("%s %d %s %s %s", it.Kind, it.No, it.Name, it.ID, it.Value))
			}
			for _, c := range back.Children {
				taken = append(taken, "child "+c)
			}
			if got := told(back.Apply(row.entries)); got != row.want {
				t.Errorf("stands %q; want %q", got, row.want)
			}
			if got := strings.Join(taken, ", "); got != row.taken {
				t.Errorf("back and cancelled are %q; want %q", got, row.taken)
			}
		})
	}
}

// TestReopenedEntriesKeepWhatTheyHandedOut looks at what an open entry has left.
func TestReopenedEntriesKeepWhatTheyHandedOut(t *testing.T) {
	older := func(e *store.Entry) {
		e.Generation, e.Attempt, e.Wake, e.Started, e.Ended, e.At, e.Owes = 3, 4, 50, 60, 70, 80, true
	}
	back, err := history.Rewind(sorted(step("a", 1, 0), step("b", 2, 0, older),
		recorded("s", store.KindSleep, 3, 0, older)), path("a"), 77)
	if err != nil || len(back.Rewrites) != 2 {
		t.Fatal(back, err)
	}
	b, s := back.Rewrites[0], back.Rewrites[1]
	p, err := stored.DecodeProgress(b.Value)
	if err != nil || b.Generation != 3 || b.Attempt != 0 || b.Wake != 0 || b.Seq != 0 || b.At != 0 || b.Ended != 0 ||
		b.Owes || p.Since != 77 || len(p.Causes) != 0 {
		t.Errorf("the reopened step is %+v with %+v, %v", b, p, err)
	}
	if s.Generation != 3 || s.Wake != 0 || s.Value != nil || s.State != store.Open {
		t.Errorf("the reopened sleep is %+v: its deadline is gone", s)
	}
}

func TestRetryFindsWhatHasFailed(t *testing.T) {
	fails := func(e *store.Entry) { e.State = store.FailedEntry }
	output := func(f *stored.Failure) []byte { return stored.EncodeFailure(f) }
	a, b, c := step("a", 1, 0, fails), step("b", 2, 1, fails), step("c", 3, 2, fails)
	of := func(loc string, attempts int) *stored.Failure {
		return &stored.Failure{Code: stored.CodeStep, Location: loc, Attempts: attempts, Message: "m"}
	}
	for _, row := range []struct {
		name   string
		output []byte
		marks  store.Marks
		more   []store.Entry
		want   string
	}{
		{"the one it wraps", output(of("b", 1)), 0, nil, "b: a:1 b:open"},
		{"deep", output(&stored.Failure{Code: stored.CodeError, Message: "x",
			Cause: &stored.Failure{Code: stored.CodeError, Message: "y", Cause: of("a", 1)}}), 0, nil, "a: a:open"},
		{"of several the first", output(&stored.Failure{Code: stored.CodeError, Message: "x",
			Causes: []*stored.Failure{of("c", 1), of("b", 1)}}), 0, nil, "b: a:1 b:open"},
		{"one of a child with that name is none", output(of("a", 9)), 0, nil, "c: a:1 b:2 c:open"},
		{"none: the last", output(&stored.Failure{Code: stored.CodeError, Message: "x"}), 0, nil, "c: a:1 b:2 c:open"},
		{"undoing has begun", output(of("b", 1)), store.Undoing, nil,
			"its undoing has begun: it can be rewound to before what is undone, and not retried"},
		{"or had", output(of("b", 1)), 0, []store.Entry{recorded("a/undo", store.KindUndo, 4, 3)},
			"its undoing has begun: it can be rewound to before what is undone, and not retried"},
	} {
		t.Run(row.name, func(t *testing.T) {
			entries := sorted(append([]store.Entry{a, b, c}, row.more...)...)
			back, at, err := history.Retry(&store.Run{Status: store.Failed, Output: row.output, Marks: row.marks}, entries, 7)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = at.String() + ": " + told(back.Apply(entries))
			}
			if got != row.want {
				t.Errorf("got %q; want %q", got, row.want)
			}
		})
	}
	entries := sorted(step("a", 1, 0))
	back, at, err := history.Retry(&store.Run{Status: store.Failed,
		Output: output(&stored.Failure{Code: stored.CodePanic, Message: "x"})}, entries, 7)
	if err != nil || at != "" || back.Completions != 0 || told(back.Apply(entries)) != told(entries) {
		t.Errorf("a run whose function failed is retried from %q: %+v, %v", at, back, err)
	}
}

// TestRetryOfFailuresThatAreData: a retry goes back to the first failure to which the code
// has not reacted.
func TestRetryOfFailuresThatAreData(t *testing.T) {
	failed := func(name string, seq, born int64) store.Entry {
		e := step(name, seq, born)
		e.State, e.Value = store.FailedEntry, stored.EncodeFailure(&stored.Failure{Code: stored.CodeStep, Message: "m"})
		return e
	}
	own := stored.EncodeFailure(&stored.Failure{Code: stored.CodeError, Message: "2 of 3 have failed"})
	for name, c := range map[string]struct {
		entries []store.Entry
		want    string
		taken   int // completions
	}{
		"items of a batch": {[]store.Entry{step("m/[a]/s", 1, 0), failed("m/[b]/s", 2, 0), failed("m/[c]/s", 3, 0)}, "m/[b]/s", 2},
		"items that begin one by one": {
			[]store.Entry{failed("m/[a]/s", 1, 0), step("m/[b]/s", 2, 1), failed("m/[c]/s", 3, 2)}, "m/[a]/s", 3},
		"a branch that goes on elsewhere": {
			[]store.Entry{failed("x/s", 1, 0), step("y/a", 2, 0), step("y/b", 3, 2)}, "x/s", 3},
		"one that was handled": {[]store.Entry{failed("a", 1, 0), step("b", 2, 1)}, "", 0},
		"handled by a branch":  {[]store.Entry{failed("a", 1, 0), step("x/b", 2, 1)}, "", 0},
		"handled in its item": {
			[]store.Entry{failed("m/[a]/s", 1, 0), step("m/[a]/t", 3, 1), failed("m/[b]/s", 2, 0)}, "m/[b]/s", 2},
		"handled by who has waited": {[]store.Entry{failed("m/[a]/s", 1, 0), step("m/[b]/s", 2, 0), step("z", 3, 2)}, "", 0},
		"one by one":                {[]store.Entry{failed("a", 1, 0), failed("b", 2, 1)}, "b", 1},
	} {
		t.Run(name, func(t *testing.T) {
			entries := sorted(c.entries...)
			back, at, err := history.Retry(&store.Run{Status: store.Failed, Output: own}, entries, 7)
			if err != nil || at.String() != c.want && !(at == "" && c.want == "") || back.Completions != c.taken {
				t.Errorf("it is retried from %q and takes back %+v, %v; want %q and %d", at, back, err, c.want, c.taken)
			}
		})
	}
}

func TestDamagedHistoryIsNotReverted(t *testing.T) {
	for _, e := range []store.Entry{
		recorded("l", store.KindLoop, 0, 0, with([]byte{0xff})),
		recorded("m", store.KindReceive, 1, 0, with([]byte{0xff})),
		recorded("c", store.KindChild, 1, 0, with([]byte{0xff})),
	} {
		if _, err := history.Rewind([]store.Entry{e}, "", 7); err == nil || strings.Contains(err.Error(), "unknown") {
			t.Errorf("%s with a damaged value: %v", location.Loc(e.Loc), err)
		}
	}
}

// An update that was received is given back by a rewind as what it was.
func TestARewindGivesUpdatesBack(t *testing.T) {
	receipt := stored.EncodeReceipt([]stored.Message{
		{No: 3, Name: "u", ID: "a", Sent: 5, Value: []byte("v"), Headers: []byte("h"), Update: true},
		{No: 4, Name: "m", ID: "b", Sent: 6},
	})
	entries := []store.Entry{
		{Loc: string(location.Loc("").Key("shown", 1)), Kind: store.KindShown, State: store.Done},
		{Loc: string(path("r")), Kind: store.KindReceive, State: store.Done, Seq: 1, Value: receipt, Size: len(receipt)},
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Loc, b.Loc) })
	back, err := history.Rewind(entries, path("r"), 9)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Item{
		{Kind: store.ItemUpdate, No: 3, Name: "u", ID: "a", Sent: 5, Value: []byte("v"), Headers: []byte("h")},
		{Kind: store.ItemMessage, No: 4, Name: "m", ID: "b", Sent: 6},
	}
	if fmt.Sprint(back.Returned) != fmt.Sprint(want) {
		t.Errorf("given back are %+v, want %+v", back.Returned, want)
	}
	if left := back.Apply(entries); len(left) != 1 || left[0].Kind != store.KindShown {
		t.Errorf("what stands is %+v", left)
	}
}
