package decide_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/internal/verbs/decide"
	"github.com/stet-run/stet/store"
)

// past is a history that can be read.
type past struct {
	entries []store.Entry
	inbox   []store.Item
	err     error
	reads   int
}

func (p *past) History(context.Context, store.HistoryQuery) ([]store.Entry, error) {
	p.reads++
	return p.entries, p.err
}

func (p *past) Inbox(context.Context, store.RunNo, ...string) ([]store.Item, error) {
	return p.inbox, p.err
}

// asked returns the items as a snapshot has them: new, numbered from 1.
func asked(items ...store.Item) []store.Item {
	for i := range items {
		it := &items[i]
		it.No, it.State = store.ItemNo(i+1), max(it.State, store.New)
		if it.Kind.Verb() && it.Kind != store.ItemWatch && it.Name == "" {
			it.Name = "ann"
		}
	}
	return items
}

func verb(kind store.ItemKind) store.Item { return store.Item{Kind: kind, Value: []byte("why")} }

func request(kind store.ItemKind, q stored.Request) store.Item {
	return store.Item{Kind: kind, Value: q.Encode()}
}

// done is the entry of a step that has ended.
func done(name string, seq int64, state store.EntryState) store.Entry {
	e := store.Entry{
		Loc: string(location.Loc("").Name(name, 1)), Kind: store.KindStep, State: state,
		Seq: seq, Attempt: 1, Value: []byte{0xf6},
	}
	if state == store.FailedEntry {
		e.Value = stored.EncodeFailure(&stored.Failure{Code: "c", Message: "m"})
	}
	return e
}

var failure = stored.EncodeFailure(&stored.Failure{Code: "c", Message: "m"})

// atRest decides and checks what is true of every decision.
func atRest(t *testing.T, s *store.Snapshot, p *past) decide.Decision {
	t.Helper()
	d, err := decide.AtRest(t.Context(), s, decide.Owner{Reader: p, Now: 100, Executes: true})
	if err != nil {
		t.Fatal(err)
	}
	u := d.Turn.Update
	if !s.Run.Status.CanBecome(u.Status) {
		t.Errorf("a run that is %s becomes %s", s.Run.Status, u.Status)
	}
	if d.Ended != nil && (d.GoesOn || !d.Ended.Status.Terminal() || s.Run.Status.Terminal()) {
		t.Errorf("it ends a run that was %s: %+v", s.Run.Status, d)
	}
	examined := slices.Clone(d.Turn.Seen)
	for _, c := range d.Turn.ConsumedBy(store.Committed) {
		if slices.Contains(d.Turn.Seen, c.Item) {
			t.Errorf("item %d is consumed and seen", c.Item)
		}
		examined = append(examined, c.Item)
	}
	for _, it := range s.Items {
		if d.Ended != nil && (it.Kind == store.ItemCancel || it.Kind == store.ItemTerminate) &&
			!slices.Contains(examined, it.No) {
			t.Errorf("item %d keeps the run from ending, each time", it.No)
		}
	}
	return d
}

// verdict returns the verdict on an item: "yes", the reason for the refusal, or "open".
func verdict(d *decide.Decision, no store.ItemNo) string {
	for _, c := range d.Turn.ConsumedBy(store.Committed) {
		if c.Item == no {
			if yes, reason := verbs.DecodeVerdict(c.Verdict); !yes {
				return reason
			}
			return "yes"
		}
	}
	return "open"
}

// TestVerbsOfTheTable: where the table refuses, the verdict is its text and the run stays
// as it is; where it does not, the verb is carried out, or left for the code.
func TestVerbsOfTheTable(t *testing.T) {
	kinds := []store.ItemKind{
		store.ItemCancel, store.ItemTerminate, store.ItemPause, store.ItemResume,
		store.ItemRetry, store.ItemRewind, store.ItemEdit,
	}
	for _, kind := range kinds {
		for _, status := range store.AllStatuses() {
			for _, marks := range []store.Marks{0, store.Paused, store.Undoing, store.Paused | store.Undoing} {
				if status.Terminal() && marks&store.Paused != 0 {
					continue // no run is both
				}
				p := &past{entries: []store.Entry{done("a", 1, store.Done), done("b", 2, store.FailedEntry)}}
				s := &store.Snapshot{
					Run: store.Run{No: 1, ID: "r", Status: status, Marks: marks, Build: "b", Output: failure,
						Waits: verbs.NoWaits()},
					Entries: p.entries,
				}
				it := verb(kind)
				if kind == store.ItemRewind || kind == store.ItemEdit {
					it = request(kind, stored.Request{Location: p.entries[1].Loc})
				}
				s.Items = asked(it)
				d := atRest(t, s, p)
				got, ruling := verdict(&d, 1), verbs.Judge(&s.Run, kind)
				want := ruling.Refused
				switch {
				case ruling.NeedsCode:
					want = "open"
				case want == "" && kind == store.ItemRetry && marks&store.Undoing != 0:
					want = "its undoing has begun: it can be rewound to before what is undone, and not retried" // says the history
				case want == "":
					want = "yes"
				}
				if got != want {
					t.Errorf("%s of a run that is %s with marks %d: got %q, want %q", kind, status, marks, got, want)
				}
				changes := kind == store.ItemRetry || kind == store.ItemRewind || kind == store.ItemEdit
				if changed := d.Turn.Rewound || d.Turn.Rewrites != nil; changed != (changes && got == "yes") || changed &&
					p.reads != 1 {
					t.Errorf("%s of a run that is %s: the turn is %+v", kind, status, d.Turn)
				}
				if len(d.Turn.Audit)+len(d.Turn.Update.Audit) > 0 != (got == "yes") {
					t.Errorf("%s of a run that is %s: the audit is %+v", kind, status, d.Turn.Audit)
				}
			}
		}
	}
}

// TestEndAtRest: what a run that is ended without its code leaves behind.
func TestEndAtRest(t *testing.T) {
	place := permit.Place{Queue: "q", Ticket: "t"}
	owing := done("charge", 1, store.Done)
	owing.Owes = true
	s := &store.Snapshot{
		Run: store.Run{
			No: 1, ID: "r", Status: store.Suspended, Marks: store.Paused | store.Cancelling,
			Parent: 9, ParentLoc: "p", Queue: place.Encode(),
		},
		Entries: []store.Entry{owing},
	}
	watch := stored.Watching(7, "r", "w", "id")
	grant := store.Item{Kind: store.ItemGrant, Loc: "s", Name: "steps", Origin: "t2"}
	s.Items = asked(*watch.Item, grant, verb(store.ItemTerminate), verb(store.ItemCancel))
	d := atRest(t, s, &past{})
	u := d.Turn.Update
	if u.Status != store.Cancelled || u.Marks != 0 || u.Reason != "terminated: why" || d.Ended == nil ||
		d.Ended.Reason != u.Reason {
		t.Fatalf("got %+v", d)
	}
	if e, err := stored.DecodeEnding(d.Ended.Output); err != nil || !slices.Equal(e.Owed, []string{"charge"}) {
		t.Errorf("it owes %+v, %v", e, err)
	}
	if got := verdict(&d, 4); got != "the run is already cancelled" {
		t.Errorf("the cancel behind it: %q", got)
	}
	ends, back := 0, 0
	for _, sends := range [][]store.Command{d.Turn.Sends, u.Sends} {
		for _, c := range sends {
			switch c.Item.Kind {
			case store.ItemEnd:
				ends++
			case store.ItemGiveBack:
				back++
			}
		}
	}
	if ends != 2 || back != 2 {
		t.Errorf("%d ends are sent, of 2 to the parent and the watch; %d permits go back, of 2 of the run and its step",
			ends, back)
	}
}

// TestItemsThatAreNoVerbs: they stay for the code; a grant of a run that stays held must
// be found when it goes on.
func TestItemsThatAreNoVerbs(t *testing.T) {
	message, delivery := store.Item{Kind: store.ItemMessage}, store.Item{Kind: store.ItemDelivery}
	grant, received := store.Item{Kind: store.ItemGrant}, store.Item{Kind: store.ItemUpdate, State: store.Consumed}
	watch := *stored.Watching(7, "r", "w", "id").Item
	seen := watch
	seen.State = store.Seen
	for _, c := range []struct {
		what     string
		run      store.Run
		seen     []store.ItemNo
		consumed []store.ItemNo
	}{
		{"paused", store.Run{Status: store.Suspended, Marks: store.Paused}, []store.ItemNo{1, 2, 3, 5, 6}, nil},
		{"held", store.Run{Status: store.Suspended, Marks: store.Held}, []store.ItemNo{1, 2, 5, 6}, nil},
		{"ended", store.Run{Status: store.Succeeded}, []store.ItemNo{1, 3}, []store.ItemNo{2, 5}},
	} {
		s := &store.Snapshot{Run: c.run, Items: asked(message, delivery, grant, received, watch, seen)}
		d := atRest(t, s, &past{})
		var consumed []store.ItemNo
		for _, x := range d.Turn.Consumed {
			consumed = append(consumed, x.Item)
		}
		slices.Sort(d.Turn.Seen)
		if !slices.Equal(d.Turn.Seen, c.seen) || !slices.Equal(consumed, c.consumed) {
			t.Errorf("%s: seen %v, consumed %v; want %v, %v", c.what, d.Turn.Seen, consumed, c.seen, c.consumed)
		}
	}
}

// TestOrderOfVerbs: each meets the run as those before it leave it.
func TestOrderOfVerbs(t *testing.T) {
	for _, c := range []struct {
		what     string
		run      store.Run
		items    []store.Item
		verdicts string
		status   store.Status
		goesOn   bool
	}{
		{
			"pause, resume, pause", store.Run{Status: store.Running, Waits: verbs.NoWaits()},
			[]store.Item{verb(store.ItemPause), verb(store.ItemResume), verb(store.ItemPause)},
			"yes, yes, yes", store.Running, false,
		},
		{
			"resume twice", store.Run{Status: store.Suspended, Marks: store.Paused},
			[]store.Item{verb(store.ItemResume), verb(store.ItemResume)},
			"yes, the run is running, not stalled or paused", store.Running, true,
		},
		{
			"cancel of one that never ran", store.Run{Status: store.Queued},
			[]store.Item{verb(store.ItemCancel)}, "yes", store.Cancelled, false,
		},
		{
			"a pause behind a cancel", store.Run{Status: store.Suspended, Waits: verbs.NoWaits()},
			[]store.Item{verb(store.ItemCancel), verb(store.ItemPause)}, "open, the run is being cancelled", store.Running, true,
		},
		{
			"a terminate behind a cancel", store.Run{Status: store.Running, Suspect: 2, Waits: verbs.NoWaits()},
			[]store.Item{verb(store.ItemCancel), verb(store.ItemTerminate), verb(store.ItemCancel)},
			"the run was terminated, yes, the run is already cancelled", store.Cancelled, false,
		},
	} {
		s := &store.Snapshot{Run: c.run, Items: asked(c.items...)}
		d := atRest(t, s, &past{})
		var verdicts []string
		for i := range c.items {
			verdicts = append(verdicts, verdict(&d, store.ItemNo(i+1)))
		}
		if got := strings.Join(verdicts, ", "); got != c.verdicts || d.Turn.Update.Status != c.status ||
			d.GoesOn != c.goesOn {
			t.Errorf("%s: %s, %s, goes on %t", c.what, got, d.Turn.Update.Status, d.GoesOn)
		}
	}
}

// TestAChangeEndsTheDecision: the rest of the inbox is asked of the run as it is then.
func TestAChangeEndsTheDecision(t *testing.T) {
	p := &past{entries: []store.Entry{done("a", 1, store.Done), done("b", 2, store.FailedEntry)}}
	s := &store.Snapshot{Run: store.Run{No: 1, ID: "r", Status: store.Failed, Output: failure, Marks: store.Cancelling}}
	s.Items = asked(verb(store.ItemRetry), verb(store.ItemRetry), store.Item{Kind: store.ItemMessage})
	d := atRest(t, s, p)
	if verdict(&d, 1) != "yes" || verdict(&d, 2) != "open" || len(d.Turn.Seen) != 0 || !d.GoesOn {
		t.Errorf("got %+v", d)
	}
	if u := d.Turn.Update; u.Status != store.Running || u.Marks != 0 || !d.Turn.Rewound || len(d.Turn.Rewrites) != 1 {
		t.Errorf("got %+v, %+v", d.Turn, u)
	}
	if a := d.Turn.Audit; len(a) != 1 || a[0].Who != "ann" || a[0].Why != "why" ||
		!strings.HasPrefix(a[0].Detail, "from b: took back 1 completions") {
		t.Errorf("the audit is %+v", a)
	}
}

// TestResumeOfAFailure: is retry, if there is something to retry; otherwise the function
// is executed again.
func TestResumeOfAFailure(t *testing.T) {
	for _, c := range []struct {
		what    string
		run     store.Run
		entries []store.Entry
		rewound bool
	}{
		{"a step has failed", store.Run{Reason: "failure: m", Output: failure}, []store.Entry{done("b", 1, store.FailedEntry)}, true},
		{"the function has failed", store.Run{Reason: "failure: m", Output: failure}, []store.Entry{done("b", 1, store.Done)}, false},
		{"it is no failure", store.Run{Reason: "failure: m", Output: []byte{0xff}}, []store.Entry{done("b", 1, store.FailedEntry)}, false},
		{"poison", store.Run{Reason: "poison: m", Output: failure}, []store.Entry{done("b", 1, store.FailedEntry)}, false},
	} {
		c.run.Status, c.run.No, c.run.ID = store.Stalled, 1, "r"
		s := &store.Snapshot{Run: c.run, Items: asked(verb(store.ItemResume))}
		d := atRest(t, s, &past{entries: c.entries})
		if verdict(&d, 1) != "yes" || !d.GoesOn || d.Turn.Rewound != c.rewound || d.Turn.Update.Reason != "" {
			t.Errorf("%s: got %+v", c.what, d.Turn)
		}
	}
}

// TestWhatTheHistoryRefuses: is a verdict; what cannot be read is an error, and decides
// nothing.
func TestWhatTheHistoryRefuses(t *testing.T) {
	run := store.Run{No: 1, ID: "r", Status: store.Failed, Output: failure}
	p := &past{entries: []store.Entry{done("a", 1, store.Done)}}
	s := &store.Snapshot{Run: run, Items: asked(request(store.ItemRewind, stored.Request{Location: "\x01nowhere"}))}
	d := atRest(t, s, p)
	if got := verdict(&d, 1); !strings.HasPrefix(got, "unknown location") || d.GoesOn ||
		d.Turn.Update.Status != store.Failed {
		t.Errorf("got %q, %+v", got, d)
	}
	s.Items = asked(store.Item{Kind: store.ItemEdit, Value: []byte{0xff}})
	if d = atRest(t, s, p); verdict(&d, 1) == "yes" || d.GoesOn {
		t.Errorf("a damaged request: %+v", d)
	}
	s.Items = asked(verb(store.ItemRetry))
	away := errors.New("away")
	if _, err := decide.AtRest(t.Context(), s, decide.Owner{Reader: &past{err: away}}); !errors.Is(err, away) {
		t.Errorf("a store that is away: %v", err)
	}
}

// TestAnEndedRunAsksForANewPermit: the old one went back when it ended.
func TestAnEndedRunAsksForANewPermit(t *testing.T) {
	place := permit.Place{Queue: "q", Ticket: "t"}
	for _, status := range []store.Status{store.Cancelled, store.Stalled} {
		p := &past{entries: []store.Entry{done("a", 1, store.Done)}}
		s := &store.Snapshot{
			Run:   store.Run{No: 1, ID: "r", Status: status, Queue: place.Encode(), Generation: 4},
			Items: asked(request(store.ItemRewind, stored.Request{})),
		}
		d := atRest(t, s, p)
		u := d.Turn.Update
		if held := u.Marks&store.Held != 0; held != (status == store.Cancelled) || d.GoesOn == held ||
			len(u.Sends) > 0 != held {
			t.Errorf("%s: got %+v", status, u)
		}
		if u.Generation != 5 {
			t.Errorf("%s: generation %d", status, u.Generation)
		}
	}
}

// TestAnyBuild: what lets a run go on may let any build take it up. The audit says so, and
// that a turn of the run was committed stays to be seen.
func TestAnyBuild(t *testing.T) {
	entries := []store.Entry{done("a", 1, store.Done), done("b", 2, store.FailedEntry)}
	at := string(location.Loc("").Name("a", 1))
	for _, c := range []struct {
		kind   store.ItemKind
		status store.Status
	}{
		{store.ItemResume, store.Stalled}, {store.ItemRetry, store.Failed}, {store.ItemRewind, store.Failed},
		{store.ItemEdit, store.Failed},
	} {
		for _, any := range []bool{true, false} {
			p := &past{entries: entries}
			s := &store.Snapshot{
				Run:     store.Run{No: 1, ID: "r", Status: c.status, Build: "v2", Output: failure, Waits: verbs.NoWaits()},
				Entries: entries,
				Items:   asked(request(c.kind, stored.Request{Why: "why", Location: at, Value: []byte{0xf6}, AnyBuild: any})),
			}
			d := atRest(t, s, p)
			u := d.Turn.Update
			if got := verdict(&d, 1); got != "yes" {
				t.Fatalf("%s: %s", c.kind, got)
			}
			if says := strings.Contains(d.Turn.Audit[0].Detail, "not only v2"); u.AnyBuild != any || says != any {
				t.Errorf("%s with any build %t: the update has %t, the audit %+v", c.kind, any, u.AnyBuild, d.Turn.Audit)
			}
			if any && u.Waits == nil {
				t.Errorf("%s: the run looks as if it had never run", c.kind)
			}
		}
	}
}
