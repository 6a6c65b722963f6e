package runner

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// whole returns the history with all values.
func (j *journal) whole() []store.Entry {
	return slices.SortedFunc(maps.Values(j.entries), func(a, b store.Entry) int { return strings.Compare(a.Loc, b.Loc) })
}

// takeBack applies what a retry or rewind takes back, as the owner's turn does.
func (j *journal) takeBack(t *Takeback, rewind bool) {
	t.Of(&j.run)
	for _, e := range j.whole() {
		if !within(t.Prune, e.Loc) {
			continue
		}
		if e.Kind == store.KindChild {
			if l, err := stored.DecodeLink(e.State, e.Value); err == nil && l.RunID != "" {
				if live := e.State == store.Open && !l.Leave && !l.Detached; live && rewind && !slices.Contains(t.Children, l.RunID) {
					j.violate("child %s goes on although its start is taken back", l.RunID)
				}
				j.out.ended[l.RunID] = true
			}
		}
		delete(j.entries, e.Loc)
	}
	for _, e := range t.Rewrites {
		if _, there := j.entries[e.Loc]; !there {
			j.violate("%s is rewritten and is not there", location.Loc(e.Loc))
		}
		e.Size = len(e.Value)
		j.entries[e.Loc] = e
	}
	j.carry(t.Sends)
	for _, back := range t.Returned {
		i := slices.IndexFunc(j.items, func(it store.Item) bool {
			if back.Kind == store.ItemResolution {
				return it.Kind == back.Kind && it.Loc == back.Loc && it.Generation == back.Generation
			}
			return it.ID == back.ID
		})
		switch {
		case i < 0 || j.items[i].State != store.Consumed:
			j.violate("%+v returns and was not consumed", back)
		case !bytes.Equal(j.items[i].Value, back.Value) || j.items[i].Name != back.Name:
			j.violate("%+v returns as %+v", j.items[i], back)
		case j.items[i].Verdict == nil:
			j.items[i].State = store.New
		}
	}
	_, cancelled := j.entries[string(cancelLocation)]
	for i := range j.items {
		it := &j.items[i]
		switch {
		case it.State == store.Dead:
			it.State = store.New
		case it.Kind == store.ItemTerminate, it.Kind == store.ItemCancel && it.State == store.Consumed && !cancelled:
			it.Kind = store.ItemPause // what was asked of the run before counts no more
		}
	}
	if rewind {
		j.run.Generation++
	}
	j.retried = j.retried || !rewind
	j.run.Status, j.run.Marks, j.run.Reason, j.run.Waits, j.run.Claimed = store.Running, 0, "", nil, true
}

// TestTakenBackRunsGoOn takes a random part of a finished run back and plays it to
// an end again: all laws hold; what stands is seen as before, and executed no more;
// the whole history replays.
func TestTakenBackRunsGoOn(t *testing.T) {
	seed := seedOf(t)
	var rewound, retried, refused, stopped, pauses, reopened, returned, children, again, events int
	for i := range count(t, 1000) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		d := newDriver(t, generate(random, 4+random.IntN(25)), random)
		d.cruel = random.IntN(6) == 0
		often := 10 + random.IntN(80)
		cut := func() bool { return random.IntN(often) == 0 }
		if random.IntN(2) == 0 {
			d.stop = 1 + random.IntN(120) // it is stopped there, as by a pause
		}
		over := d.run(cut)
		d.stop = 0
		for round := range 1 + random.IntN(3) {
			if over == nil && len(d.j.broken) > 0 {
				t.Fatalf("program %d, round %d: %s", i, round, d.j.broken[0])
			} else if over == nil {
				stopped++
			} else if problem := d.verify(over); problem != "" {
				t.Fatalf("program %d, round %d: %s", i, round, problem)
			}
			entries := d.j.whole()
			var tb *Takeback
			var err error
			at := location.Loc("")
			retry := over != nil && over.Status == store.Failed && random.IntN(2) == 0
			if retry {
				run := d.j.run
				run.Output = over.Output
				tb, at, err = Retry(&run, entries, d.clock)
			} else {
				if len(entries) > 0 && random.IntN(8) > 0 {
					for at = location.Loc(entries[random.IntN(len(entries))].Loc); at.Depth() > 1 && random.IntN(3) == 0; {
						at = at.Parent()
					}
				}
				tb, err = Rewind(entries, at, d.clock)
			}
			if err != nil {
				if _, ok := err.(Refusal); !ok {
					t.Fatalf("program %d: to before %s: %v", i, at, err)
				}
				if refused++; over == nil {
					over = d.run(cut) // it goes on as it was
				}
				break
			}
			if retry {
				retried++
			} else {
				rewound++
			}
			reopened, returned, children = reopened+tb.Reopened, returned+len(tb.Returned), children+len(tb.Children)
			checkTakenBack(t, i, entries, tb)
			before, begun := d.seen, maps.Clone(d.begun)
			d.j.takeBack(tb, !retry)
			stands := d.j.whole()
			d.mail += 6
			d.activate()
			d.advance()
			want, got := before.upTo(tb.Cut-1, d.j), d.seen.upTo(tb.Cut-1, d.j)
			for k := range min(len(want), len(got)) {
				if want[k] == got[k] {
					continue
				}
				if sameButUnstarted(entries, tb.Cut, want[k], got[k]) {
					break // what is seen from here on may depend on the difference
				}
				t.Fatalf("program %d, round %d: taken back to before %s, completion %d: the code had seen %q and sees %q (event %d)", i, round, at, tb.Cut, want[k], got[k], k)
			}
			over = d.run(cut)
			for _, e := range stands {
				loc := location.Loc(e.Loc).String()
				if e.Kind == store.KindStep && (e.State == store.Done || e.State == store.FailedEntry) && d.begun[loc] != begun[loc] {
					t.Fatalf("program %d: %s stands and is executed again", i, loc)
				}
			}
		}
		for _, e := range d.j.entries {
			if l, err := stored.DecodeLink(e.State, e.Value); e.Kind == store.KindChild && err == nil && l.Again > 0 {
				again++
			}
		}
		pauses += d.pauses
		events += d.j.topics.backs
		if problem := d.verify(over); problem != "" {
			t.Fatalf("program %d: after what was taken back: %s", i, problem)
		}
	}
	t.Logf("%d pauses, %d rewinds, %d of runs that were stopped, %d retries, %d refused; %d entries reopened, %d items returned, %d children cancelled, %d begun again, %d events given back", pauses, rewound, stopped, retried, refused, reopened, returned, children, again, events)
	if testing.Short() {
		return // too few to see all
	}
	if rewound == 0 || retried == 0 || reopened == 0 || returned == 0 || children == 0 || again == 0 || stopped == 0 || pauses == 0 || events == 0 {
		t.Error("something of this never happened")
	}
}

var childIDs = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// sameButUnstarted reports whether two texts differ in the ID of a child alone that
// was cancelled before its start was recorded, or after the cut: that has a new ID.
func sameButUnstarted(entries []store.Entry, cut int64, want, got string) bool {
	if childIDs.ReplaceAllString(want, "") != childIDs.ReplaceAllString(got, "") {
		return false
	}
	return !slices.ContainsFunc(entries, func(e store.Entry) bool {
		l, err := stored.DecodeLink(e.State, e.Value)
		return e.Kind == store.KindChild && err == nil && l.RunID != "" && l.Dropped <= cut && l.RunID == childIDs.FindString(want)
	})
}

// checkTakenBack checks a takeback against the rule, entry by entry.
func checkTakenBack(t *testing.T, program int, entries []store.Entry, tb *Takeback) {
	t.Helper()
	after := map[string]store.Entry{}
	for _, e := range tb.Apply(entries) {
		after[e.Loc] = e
	}
	for _, e := range entries {
		is, stands := after[e.Loc]
		switch {
		case e.Born >= tb.Cut && stands:
			t.Errorf("program %d: %s was asked for at %d, not before the cut %d, and is there", program, location.Loc(e.Loc), e.Born, tb.Cut)
		case stands && is.Seq >= tb.Cut:
			t.Errorf("program %d: %s keeps the number %d, not below the cut %d", program, location.Loc(e.Loc), is.Seq, tb.Cut)
		case stands && e.Seq > 0 && e.Seq < tb.Cut && is.Seq != e.Seq:
			t.Errorf("program %d: %s has the number %d below the cut %d and became %+v", program, location.Loc(e.Loc), e.Seq, tb.Cut, is)
		case !stands && e.Seq > 0 && e.Seq < tb.Cut:
			t.Errorf("program %d: %s has the number %d below the cut %d and is gone", program, location.Loc(e.Loc), e.Seq, tb.Cut)
		case stands && is.Generation != e.Generation:
			t.Errorf("program %d: %s lost its identity", program, location.Loc(e.Loc))
		}
	}
}

// recorded makes an entry.
func recorded(loc string, kind store.Kind, seq, born int64, change ...func(*store.Entry)) store.Entry {
	l, err := location.Parse(loc)
	if err != nil {
		panic(err)
	}
	e := store.Entry{Loc: string(l), Kind: kind, State: store.Done, Seq: seq, Born: born, Attempt: 1, Value: []byte("v")}
	if seq == 0 {
		e.State = store.Open
	}
	for _, c := range change {
		c(&e)
	}
	e.Size = len(e.Value)
	return e
}

func sorted(entries ...store.Entry) []store.Entry {
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Loc, b.Loc) })
	return entries
}

// told says what became of a history: of each entry its text, number and state.
func told(entries []store.Entry) string {
	var parts []string
	for _, e := range entries {
		text := location.Loc(e.Loc).String()
		if e.Seq > 0 {
			text += fmt.Sprint(":", e.Seq)
		} else {
			text += ":" + e.State.String()
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func with(value []byte) func(*store.Entry) { return func(e *store.Entry) { e.Value = value } }

func state(s store.EntryState) func(*store.Entry) { return func(e *store.Entry) { e.State = s } }

func TestRewindByTheRule(t *testing.T) {
	letter := stored.EncodeReceipt([]stored.Message{{No: 4, Name: "m", ID: "id", Sent: 9, Value: []byte("hello")}})
	child := func(id string, leave, detached bool) []byte {
		return stored.Link{RunID: id, Leave: leave, Detached: detached}.Encode()
	}
	loop := func(oldest, number, completed int64) []byte {
		return stored.LoopProgress{Oldest: oldest, Number: number, Completed: completed}.Encode()
	}
	for _, row := range []struct {
		name    string
		entries []store.Entry
		at      string
		want    string // what stands, or the refusal
		taken   string // what returns and is cancelled
	}{
		{"a sequence", sorted(recorded("a", store.KindStep, 1, 0), recorded("b", store.KindStep, 2, 1), recorded("c", store.KindStep, 3, 2)), "b", "a:1", ""},
		{"its beginning", sorted(recorded("a", store.KindStep, 1, 0), recorded("b", store.KindStep, 2, 1)), "", "", ""},
		{"a branch that was asked for before and ended after",
			sorted(recorded("a", store.KindStep, 1, 0), recorded("b", store.KindStep, 3, 0), recorded("c", store.KindStep, 2, 0), recorded("d", store.KindStep, 4, 3)), "c", "a:1 b:open", ""},
		{"a scope: the first inside is the cut",
			sorted(recorded("p/x", store.KindStep, 3, 1), recorded("p/y", store.KindStep, 2, 1), recorded("a", store.KindStep, 1, 0), recorded("q", store.KindStep, 4, 1)), "p", "a:1 q:open", ""},
		{"an open operation", sorted(recorded("a", store.KindStep, 1, 0), recorded("b", store.KindStep, 0, 1)), "b", "a:1", ""},
		{"messages come back", sorted(recorded("a", store.KindStep, 1, 0), recorded("m", store.KindReceive, 2, 1, with(letter))), "m", "a:1", "message 4 m id hello"},
		{"of one that is open again too", sorted(recorded("a", store.KindStep, 2, 0), recorded("m", store.KindReceive, 3, 0, with(letter))), "a", "m:open", "message 4 m id hello"},
		{"a promise that was made before keeps its resolution", sorted(recorded("p", store.KindPromise, 2, 0), recorded("tell", store.KindStep, 1, 0)), "tell", "p:open",
			"resolution 0  " + stored.ResolutionID(string(path("p")), 0, 0) + " v"},
		{"one that was made after loses it", sorted(recorded("p", store.KindPromise, 2, 1), recorded("a", store.KindStep, 1, 0)), "a", "", ""},
		{"a live child is cancelled", sorted(recorded("a", store.KindStep, 1, 0), recorded("c", store.KindChild, 0, 1, with(child("kid", false, false)))), "a", "", "child kid"},
		{"one that is left is not", sorted(recorded("a", store.KindStep, 1, 0), recorded("c", store.KindChild, 0, 1, with(child("kid", true, false)))), "a", "", ""},
		{"one that is detached is not", sorted(recorded("a", store.KindStep, 1, 0), recorded("c", store.KindChild, 0, 1, with(child("kid", true, true)))), "a", "", ""},
		{"a finished one is kept, and asked for anew", sorted(recorded("a", store.KindStep, 1, 0), recorded("c", store.KindChild, 2, 0, with(child("kid", false, false)))), "a", "c:withdrawn", ""},
		{"the cancel of the run goes", sorted(recorded("a", store.KindStep, 1, 0), recorded("[cancel]", store.KindCancel, 2, 1), recorded("b", store.KindStep, 3, 2)), "[cancel]", "a:1", ""},
		{"an undoing goes with its step", sorted(recorded("a", store.KindStep, 1, 0), recorded("b", store.KindStep, 2, 1), recorded("b/undo", store.KindUndo, 3, 2)), "b", "a:1", ""},
		{"and may not be cut behind it", sorted(recorded("a", store.KindStep, 1, 0), recorded("a/undo", store.KindUndo, 3, 2), recorded("b", store.KindStep, 2, 1)), "b",
			"it has undone a, completion 1: it can be rewound to before that only, and b is completion 2", ""},
		{"an unknown place", sorted(recorded("fetch", store.KindStep, 1, 0)), "fech", "unknown location fech: nothing is recorded there, nearest are fetch", ""},
		{"what was withdrawn", sorted(recorded("a", store.KindStep, 1, 0), recorded("b", store.KindStep, 0, 0, state(store.Withdrawn))), "b", "b was withdrawn before it completed, and has no place in the order: name what completed", ""},
		{"a kept iteration", sorted(recorded("l", store.KindLoop, 0, 0, with(loop(5, 11, 8))), recorded("l/~5", store.KindLoop, 11, 10), recorded("l/~5/s", store.KindStep, 12, 11),
			recorded("l/~6/s", store.KindStep, 13, 12), recorded("l/~7/s", store.KindStep, 14, 13)), "l/~6", "l:open l/~5:11 l/~5/s:12", ""},
		{"the oldest one", sorted(recorded("l", store.KindLoop, 0, 0, with(loop(5, 11, 8))), recorded("l/~5", store.KindLoop, 11, 10), recorded("l/~5/s", store.KindStep, 12, 11)),
			"l/~5", "l:open l/~5:11", ""},
		{"a pruned one", sorted(recorded("l", store.KindLoop, 0, 0, with(loop(5, 11, 8))), recorded("l/~5", store.KindLoop, 11, 10)), "l/~4/s", "the history of l before iteration 5 is pruned", ""},
		{"a pruned loop", sorted(recorded("a", store.KindStep, 1, 0), recorded("l", store.KindLoop, 0, 1, with(loop(5, 11, 8))), recorded("l/~5", store.KindLoop, 11, 10)), "l",
			"the cut lies in pruned history: of l the iterations before 5 are gone", ""},
		{"beside a pruned loop", sorted(recorded("a", store.KindStep, 4, 0), recorded("l", store.KindLoop, 0, 0, with(loop(5, 11, 8))), recorded("l/~5", store.KindLoop, 11, 10)), "a",
			"the cut lies in pruned history: of l the iterations before 5 are gone", ""},
		{"before a pruned loop", sorted(recorded("a", store.KindStep, 1, 0), recorded("l", store.KindLoop, 0, 1, with(loop(5, 11, 8))), recorded("l/~5", store.KindLoop, 11, 10)), "a", "", ""},
		{"a loop that is not pruned", sorted(recorded("l", store.KindLoop, 0, 0, with(loop(0, 0, 10))), recorded("l/~0/s", store.KindStep, 1, 0), recorded("l/~1/s", store.KindStep, 2, 1)), "l", "", ""},
		{"a version that stands", sorted(recorded("[version]/x", store.KindVersion, 0, 0, state(store.Done)), recorded("a", store.KindStep, 1, 0)), "a", "[version]/x:done", ""},
		{"a version of later", sorted(recorded("[version]/x", store.KindVersion, 0, 1, state(store.Done)), recorded("a", store.KindStep, 1, 0)), "a", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			at, err := location.Parse(row.at)
			if err != nil {
				t.Fatal(err)
			}
			tb, err := Rewind(row.entries, at, 77)
			if err != nil {
				if _, ok := err.(Refusal); !ok || err.Error() != row.want {
					t.Errorf("refused: %v; want %q", err, row.want)
				}
				return
			}
			var taken []string
			for _, it := range tb.Of(&store.Run{}).Returned {
				taken = append(taken, fmt.Sprintf("%s %d %s %s %s", it.Kind, it.No, it.Name, it.ID, it.Value))
			}
			for _, c := range tb.Children {
				taken = append(taken, "child "+c)
			}
			if got := told(tb.Apply(row.entries)); got != row.want {
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
	tb, err := Rewind(sorted(recorded("a", store.KindStep, 1, 0), recorded("b", store.KindStep, 2, 0, older), recorded("s", store.KindSleep, 3, 0, older)), path("a"), 77)
	if err != nil || len(tb.Rewrites) != 2 {
		t.Fatal(tb, err)
	}
	b, s := tb.Rewrites[0], tb.Rewrites[1]
	p, err := stored.DecodeProgress(b.Value)
	if err != nil || b.Generation != 3 || b.Attempt != 0 || b.Wake != 0 || b.Seq != 0 || b.At != 0 || b.Ended != 0 || b.Owes || p.Since != 77 || len(p.Causes) != 0 {
		t.Errorf("the reopened step is %+v with %+v, %v", b, p, err)
	}
	if s.Generation != 3 || s.Wake != 0 || s.Value != nil || s.State != store.Open {
		t.Errorf("the reopened sleep is %+v: its deadline is gone", s)
	}
}

func TestRetryFindsWhatHasFailed(t *testing.T) {
	fails := func(e *store.Entry) { e.State = store.FailedEntry }
	output := func(f *stored.Failure) []byte { return stored.EncodeFailure(f) }
	a, b, c := recorded("a", store.KindStep, 1, 0, fails), recorded("b", store.KindStep, 2, 1, fails), recorded("c", store.KindStep, 3, 2, fails)
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
		{"deep", output(&stored.Failure{Code: stored.CodeError, Message: "x", Cause: &stored.Failure{Code: stored.CodeError, Message: "y", Cause: of("a", 1)}}), 0, nil, "a: a:open"},
		{"of several the first", output(&stored.Failure{Code: stored.CodeError, Message: "x", Causes: []*stored.Failure{of("c", 1), of("b", 1)}}), 0, nil, "b: a:1 b:open"},
		{"one of a child with that name is none", output(of("a", 9)), 0, nil, "c: a:1 b:2 c:open"},
		{"none: the last", output(&stored.Failure{Code: stored.CodeError, Message: "x"}), 0, nil, "c: a:1 b:2 c:open"},
		{"undoing has begun", output(of("b", 1)), store.Undoing, nil, "its undoing has begun: it can be rewound to before what is undone, and not retried"},
		{"or had", output(of("b", 1)), 0, []store.Entry{recorded("a/undo", store.KindUndo, 4, 3)}, "its undoing has begun: it can be rewound to before what is undone, and not retried"},
	} {
		t.Run(row.name, func(t *testing.T) {
			entries := sorted(append([]store.Entry{a, b, c}, row.more...)...)
			tb, at, err := Retry(&store.Run{Status: store.Failed, Output: row.output, Marks: row.marks}, entries, 7)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = at.String() + ": " + told(tb.Apply(entries))
			}
			if got != row.want {
				t.Errorf("got %q; want %q", got, row.want)
			}
		})
	}
	if _, _, err := Retry(&store.Run{Status: store.Failed, Output: output(&stored.Failure{Code: stored.CodePanic, Message: "x"})}, sorted(recorded("a", store.KindStep, 1, 0)), 7); err == nil || !strings.Contains(err.Error(), "no operation of it has failed") {
		t.Errorf("a run whose function failed: %v", err)
	}
}

func TestDamagedHistoryIsNotTakenBack(t *testing.T) {
	for _, e := range []store.Entry{
		recorded("l", store.KindLoop, 0, 0, with([]byte{0xff})),
		recorded("m", store.KindReceive, 1, 0, with([]byte{0xff})),
		recorded("c", store.KindChild, 1, 0, with([]byte{0xff})),
	} {
		if _, err := Rewind([]store.Entry{e}, "", 7); err == nil || strings.Contains(err.Error(), "unknown") {
			t.Errorf("%s with a damaged value: %v", location.Loc(e.Loc), err)
		}
	}
}

func TestEditOfAStep(t *testing.T) {
	entries := sorted(recorded("done", store.KindStep, 1, 0), recorded("open", store.KindStep, 0, 1), recorded("nap", store.KindSleep, 2, 1),
		recorded("undone", store.KindStep, 3, 2), recorded("undone/undo", store.KindUndo, 4, 3))
	for _, row := range []struct{ loc, want string }{
		{"nap", "nap is a sleep: only the outcome of a step can be edited"}, {"undone", "step undone was undone"}, {"x", "unknown location x: nothing is recorded there"},
	} {
		loc, _ := location.Parse(row.loc)
		if _, err := Edit(entries, &stored.Request{Location: string(loc)}, 9); err == nil || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%s: %v; want %s", row.loc, err, row.want)
		}
	}
	e, err := Edit(entries, &stored.Request{Location: string(path("done")), Value: []byte("new")}, 9)
	if err != nil || e.Seq != 1 || e.State != store.Done || string(e.Value) != "new" || e.Born != 0 {
		t.Errorf("the edited step is %+v, %v", e, err)
	}
	e, err = Edit(entries, &stored.Request{Location: string(path("open")), Failed: true, Value: stored.EncodeFailure(&stored.Failure{Code: stored.CodeError, Message: "no"})}, 9)
	f, bad := stored.DecodeFailure(e.Value)
	if err != nil || bad != nil || e.Seq != 0 || e.State != store.FailedEntry || e.Ended != 9 || f.Code != stored.CodeStep || f.Location != "open" || f.Cause.Message != "no" {
		t.Errorf("the edited open step is %+v with %+v, %v, %v", e, f, err, bad)
	}
}
