package verbs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Columns of the table: the marks that make a difference. A run that is expiring has
// a column whatever else it is marked with.
var columns = []store.Marks{0, store.Paused, store.Undoing, store.Paused | store.Undoing, store.Expiring}

// reasons of the table's letters; %s is the run's status.
var reasons = map[byte]string{
	'e': "its retention is over, and its history is being deleted",
	'a': "the run is already %s",
	'p': "the run is already paused",
	't': "the run is stalled: it is not taken up until it is resumed",
	'n': "the run is %s, not stalled or paused",
	'f': "the run is %s: only one that has failed can be retried",
	'x': "the run is %s: pause or cancel it first",
	'u': verbs.Undoing,
	'T': "the run is stalled: resume it, which executes its code again",
	'P': "the run is paused: resume it, which executes its code again",
	'h': "the run waits for a permit of its queue: its code is executed when it has it",
	'q': "the run is queued: its code is executed when it begins",
	's': "the run was replaced by a later one with its ID: it can be read and forked",
}

// table is the law: for each verb and status a letter per column, which is the reason
// for a refusal, or y: accepted, c: the code decides, r: accepted if the run is
// stalled because it has failed.
var table = map[store.ItemKind]map[store.Status]string{
	store.ItemCancel: {
		store.Queued: "cycue", store.Running: "cycue", store.Suspended: "cycue", store.Stalled: "yyuue",
		store.Succeeded: "aaaae", store.Failed: "aaaae", store.Cancelled: "aaaae",
	},
	store.ItemTerminate: {
		store.Queued: "yyyye", store.Running: "yyyye", store.Suspended: "yyyye", store.Stalled: "yyyye",
		store.Succeeded: "aaaae", store.Failed: "aaaae", store.Cancelled: "aaaae",
	},
	store.ItemPause: {
		store.Queued: "ypype", store.Running: "ypype", store.Suspended: "ypype", store.Stalled: "tttte",
		store.Succeeded: "aaaae", store.Failed: "aaaae", store.Cancelled: "aaaae",
	},
	store.ItemResume: {
		store.Queued: "nynye", store.Running: "nynye", store.Suspended: "nynye", store.Stalled: "yyyye",
		store.Succeeded: "aaaae", store.Failed: "aaaae", store.Cancelled: "aaaae",
	},
	store.ItemRetry: {
		store.Queued: "ffffe", store.Running: "ffffe", store.Suspended: "ffffe", store.Stalled: "rrrre",
		store.Succeeded: "ffffe", store.Failed: "yyyye", store.Cancelled: "ffffe",
	},
	store.ItemRewind: {
		store.Queued: "xyxye", store.Running: "xyxye", store.Suspended: "xyxye", store.Stalled: "yyyye",
		store.Succeeded: "yyyye", store.Failed: "yyyye", store.Cancelled: "yyyye",
	},
	store.ItemEdit: {
		store.Queued: "xyxye", store.Running: "xyxye", store.Suspended: "xyxye", store.Stalled: "yyyye",
		store.Succeeded: "yyyye", store.Failed: "yyyye", store.Cancelled: "yyyye",
	},
	store.ItemNudge: {
		store.Queued: "qPqPe", store.Running: "cPcPe", store.Suspended: "cPcPe", store.Stalled: "TTTTe",
		store.Succeeded: "aaaae", store.Failed: "aaaae", store.Cancelled: "aaaae",
	},
	store.ItemWatch: {
		store.Queued: "yyyyy", store.Running: "yyyyy", store.Suspended: "yyyyy", store.Stalled: "yyyyy",
		store.Succeeded: "yyyyy", store.Failed: "yyyyy", store.Cancelled: "yyyyy",
	},
}

// want returns the ruling that the table gives.
func want(run *store.Run, verb store.ItemKind) verbs.Ruling {
	column := len(columns) - 1
	if run.Marks&store.Expiring == 0 {
		for column = range columns {
			if columns[column] == run.Marks&(store.Paused|store.Undoing) {
				break
			}
		}
	}
	letter := table[verb][run.Status][column]
	superseded, stalledByFailure := run.ID != "r", run.Status == store.Stalled && run.Reason != ""
	changes := verb == store.ItemRetry || verb == store.ItemRewind || verb == store.ItemEdit
	if superseded && changes && letter != 'e' {
		letter = 's'
	}
	if verb == store.ItemNudge && run.Marks&store.Held != 0 && (letter == 'c' || letter == 'q') {
		letter = 'h'
	}
	switch {
	case letter == 'c':
		return verbs.Ruling{NeedsCode: true}
	case letter == 'y', letter == 'r' && stalledByFailure:
		return verbs.Ruling{}
	case letter == 'r':
		letter = 'f'
	}
	return verbs.Ruling{
		Refused: strings.ReplaceAll(reasons[letter], "%s", run.Status.String()), Ended: letter == 'e' || letter == 'a',
	}
}

// TestJudge: every verb at every status with every set of marks, of runs that were
// replaced and that are stalled because they have failed.
func TestJudge(t *testing.T) {
	for verb := store.ItemKind(1); verb < 64; verb++ {
		if verb.Verb() != (table[verb] != nil) {
			t.Errorf("the table has not the rows that it needs for %s", verb)
		}
	}
	for verb := range table {
		for _, status := range store.AllStatuses() {
			for marks := range store.Marks(1 << 5) {
				for _, id := range []string{"r", "r@7"} {
					for _, reason := range []string{"", "failure: the step failed"} {
						run := &store.Run{No: 7, ID: id, Workflow: "w", Status: status, Marks: marks, Reason: reason, Output: []byte{1}}
						if got, want := verbs.Judge(run, verb), want(run, verb); got != want {
							t.Errorf("%s of a run %s that is %s with marks %d, reason %q:\ngot  %+v\nwant %+v", verb, id, status, marks,
								reason, got, want)
						}
					}
				}
			}
		}
	}
}

// TestJudgeFork: a fork is ruled like a rewind, except that superseded runs have it.
func TestJudgeFork(t *testing.T) {
	for _, status := range store.AllStatuses() {
		for marks := range store.Marks(1 << 5) {
			run := &store.Run{No: 7, ID: "r", Status: status, Marks: marks}
			want := want(run, store.ItemRewind)
			if got := verbs.JudgeFork(run); got != want {
				t.Errorf("%s with marks %d: got %+v, want %+v", status, marks, got, want)
			}
			if run.ID = "r@7"; verbs.JudgeFork(run) != want {
				t.Errorf("%s with marks %d: a superseded one is ruled otherwise", status, marks)
			}
		}
	}
}

// TestEntitiesAreResumedOnly: what a topic, queue or schedule stalls at is fixed; the
// other verbs are for runs of workflows.
func TestEntitiesAreResumedOnly(t *testing.T) {
	for _, status := range []store.Status{store.Running, store.Suspended, store.Stalled} {
		run := &store.Run{No: 7, ID: store.EntityPrefix + "topic/t", Workflow: store.EntityPrefix + "topic", Status: status}
		for verb := range table {
			want := verbs.Ruling{Refused: "this is no run of a workflow: it has no " + verb.String()}
			switch verb {
			case store.ItemWatch:
				want = verbs.Ruling{}
			case store.ItemResume:
				want = verbs.Ruling{}
				if status != store.Stalled {
					want.Refused = fmt.Sprintf("the run is %s, not stalled or paused", status)
				}
			}
			if got := verbs.Judge(run, verb); got != want {
				t.Errorf("%s of an entity that is %s: got %+v, want %+v", verb, status, got, want)
			}
		}
	}
}

// TestAFailureThatStallsHasAnOutput: the text of a stall alone does not make a failure.
func TestAFailureThatStallsHasAnOutput(t *testing.T) {
	run := &store.Run{Status: store.Stalled, Reason: "failure: boom"}
	if r := verbs.Judge(run, store.ItemRetry); r.Refused == "" {
		t.Error("a run without an output is retried")
	}
	for _, run.OutputSize = range []int{1, 0} { // as a listing has it that leaves the output out
		if verbs.Judge(run, store.ItemRetry).Refused != "" {
			t.Error("a run that has failed is not retried")
		}
		run.Output = []byte{1}
	}
}

// TestStoredVerdicts pins the letters that verdicts are stored as.
func TestStoredVerdicts(t *testing.T) {
	if got := string(verbs.Yes()); got != "y" {
		t.Errorf("yes is %q", got)
	}
	if got := string(verbs.No("so")); got != "nso" {
		t.Errorf("no is %q", got)
	}
	for stored, want := range map[string]struct {
		yes    bool
		reason string
	}{"": {}, "y": {yes: true}, "n": {}, "nso": {reason: "so"}} {
		if yes, reason := verbs.DecodeVerdict([]byte(stored)); yes != want.yes || reason != want.reason {
			t.Errorf("%q is read as %t, %q", stored, yes, reason)
		}
	}
}

func items(kinds ...store.ItemKind) []store.Item {
	list := make([]store.Item, len(kinds))
	for i := range kinds {
		list[i] = store.Item{No: store.ItemNo(i + 1), Kind: kinds[i], State: store.New}
	}
	return list
}

// TestNeedsNoCode: by how the run stands, by what is asked of it, and by whether a turn
// of it was ever committed.
func TestNeedsNoCode(t *testing.T) {
	begun := store.Run{Status: store.Running, Build: "b", Waits: verbs.NoWaits()}
	unrun, killed := store.Run{Status: store.Running}, store.Run{Status: store.Running, Suspect: 1}
	for _, c := range []struct {
		what  string
		run   store.Run
		items []store.Item
		want  bool
	}{
		{"cancel after a crash before any turn", killed, items(store.ItemCancel), false},
		{"nothing", begun, nil, false},
		{"messages", begun, items(store.ItemMessage, store.ItemUpdate, store.ItemWatch, store.ItemGrant), false},
		{"terminate", begun, items(store.ItemMessage, store.ItemTerminate), true},
		{"pause", begun, items(store.ItemPause), true},
		{"a pause behind a cancel", begun, items(store.ItemCancel, store.ItemPause), false},
		{"a cancel behind a pause", begun, items(store.ItemPause, store.ItemCancel), true},
		{"cancel", begun, items(store.ItemCancel), false},
		{"cancel before any turn", unrun, items(store.ItemCancel), true},
		{"no turn yet", unrun, nil, false},
		{"what is for runs at rest", begun, items(store.ItemResume, store.ItemRetry, store.ItemRewind, store.ItemEdit), false},
		{"queued", store.Run{Status: store.Queued}, nil, true},
		{"suspended", store.Run{Status: store.Suspended}, nil, true},
		{"paused", store.Run{Status: store.Running, Marks: store.Paused}, nil, true},
		{"held", store.Run{Status: store.Running, Marks: store.Held}, nil, true},
		{"cancelling", store.Run{Status: store.Running, Marks: store.Cancelling, Build: "b"}, nil, false},
		{"stalled", store.Run{Status: store.Stalled}, nil, true},
		{"ended", store.Run{Status: store.Failed}, nil, true},
	} {
		if got := verbs.NeedsNoCode(&store.Snapshot{Run: c.run, Items: c.items}, c.run.Suspect == 0); got != c.want {
			t.Errorf("%s: got %t", c.what, got)
		}
	}
}

// TestUnrun: a turn that was committed can be seen by an entry or by the waits. What
// follows a continue-as-new or a rewind has neither, but a build that was not its start's.
func TestUnrun(t *testing.T) {
	entry := []store.Entry{{Loc: "a"}}
	for _, c := range []struct {
		what string
		s    store.Snapshot
		want bool
	}{
		{"new", store.Snapshot{}, true},
		{"with the build of its start", store.Snapshot{Run: store.Run{Build: "b"}}, true},
		{"continued as new", store.Snapshot{Run: store.Run{Build: "b", Incarnation: 1}}, false},
		{"rewound to its begin", store.Snapshot{Run: store.Run{Build: "b", Generation: 1}}, false},
		{"running", store.Snapshot{Run: store.Run{Status: store.Running}}, true},
		{"with an entry", store.Snapshot{Entries: entry}, false},
		{"with waits", store.Snapshot{Run: store.Run{Waits: verbs.NoWaits()}}, false},
	} {
		if got := verbs.Unrun(&c.s, true); got != c.want {
			t.Errorf("%s: got %t", c.what, got)
		}
		if verbs.Unrun(&c.s, false) {
			t.Errorf("%s: although a process may have executed it", c.what)
		}
		if kept := verbs.KeepSign(&c.s.Run); (kept != nil) != (c.s.Run.Waits != nil) {
			t.Errorf("%s: the sign is %v", c.what, kept)
		}
	}
}
