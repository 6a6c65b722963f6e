package sqlstore

import (
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
)

func TestTheRunOfAStart(t *testing.T) {
	for _, c := range []struct {
		name  string
		st    store.Start
		ready int64
		wake  store.Time
		marks store.Marks
	}{
		{"now", store.Start{}, words.Ready, 0, 0},
		{"at a time that is over", store.Start{At: now - 1}, words.Ready, 0, 0},
		{"at the time it is", store.Start{At: now}, words.Ready, 0, 0},
		{"later", store.Start{At: now + 1}, words.Idle, now + 1, 0},
		{"after a while", store.Start{After: 5}, words.Idle, now + 5, 0},
		{"the later of two times", store.Start{At: now + 9, After: 5}, words.Idle, now + 9, 0},
		{"in a queue", store.Start{Queue: &store.QueueEntry{}}, words.Ready, 0, store.Held},
	} {
		run, ready := newRun(&c.st, now)
		if ready != c.ready || run.WakeAt != c.wake || run.Marks != c.marks || run.Status != store.Queued ||
			run.Created != now {
			t.Errorf("%s: got %d, %+v", c.name, ready, run)
		}
	}
}

func TestARunThatHasEndedTakesVerbsAlone(t *testing.T) {
	message, cancel := &store.Item{Kind: store.ItemMessage}, &store.Item{Kind: store.ItemCancel}
	for _, c := range []struct {
		run  store.Run
		it   *store.Item
		want bool
	}{
		{store.Run{Status: store.Running}, message, true},
		{store.Run{Status: store.Stalled}, message, true},
		{store.Run{Status: store.Failed}, message, false},
		{store.Run{Status: store.Failed}, cancel, true},
		{store.Run{Status: store.Failed, Marks: store.Expiring}, cancel, false},
		{store.Run{Status: store.Running, Marks: store.Expiring}, cancel, true},
	} {
		if got := takes(&c.run, c.it); got != c.want {
			t.Errorf("%s, marks %d, %s: got %v", c.run.Status, c.run.Marks, c.it.Kind, got)
		}
	}
}

// aRefusal is a database in which the item that is there when another one is to be inserted becomes a dead letter,
// under another ID, before it is read.
type aRefusal struct {
	Rows
	status []store.Status // of the run, each time that it is asked for
	tries  int
}

func (a *aRefusal) FindRun(string, store.RunNo) (store.Run, int64, error) {
	status := a.status[0]
	a.status = a.status[min(1, len(a.status)-1):]
	return store.Run{No: 7, Status: status}, words.Idle, nil
}

func (a *aRefusal) InsertItem(store.RunNo, *store.Item, store.Time) (store.ItemNo, bool, error) {
	a.tries++
	return 8, a.tries == 2, nil
}

func (a *aRefusal) Row(string, []any, ...any) (bool, error) { return false, nil }

// Seen in the scenario "refused" of enginetest: a promise could not be resolved, "the run has ended", while the run
// waited for it.
func TestAnItemInThePlaceOfOneThatIsJustRefused(t *testing.T) {
	resolve := store.Command{RunNo: 7, Item: &store.Item{Kind: store.ItemResolution, ID: "p"}}
	for _, c := range []struct {
		status []store.Status
		want   store.Outcome
		tries  int
	}{
		{[]store.Status{store.Suspended}, store.Applied, 2},
		{[]store.Status{store.Suspended, store.Failed}, store.Ended, 1}, // with the refusal the run ended
		{[]store.Status{store.Failed}, store.Ended, 0},
	} {
		db := &aRefusal{status: c.status}
		got, err := (&Commands{Rows: db, Now: now}).Apply(&resolve)
		if err != nil || got.Outcome != c.want || db.tries != c.tries {
			t.Errorf("a run that is %v: outcome %d after %d tries, %v; want %d after %d", c.status, got.Outcome, db.tries,
				err, c.want, c.tries)
		}
	}
}

// oneRun is a database with one run, whose row can be claimed once. It implements the
// acts of BatchRows that a claim takes.
type oneRun struct {
	BatchRows
	claims int
	before bool // an earlier try of the batch inserted the item
}

func (o *oneRun) Exec(text string, _ ...any) (int64, error) {
	if strings.Contains(text, "UPDATE stet.runs") {
		o.claims++
	}
	return 1, nil
}

func (o *oneRun) RunClaimed(*store.Run) {}

func (o *oneRun) InsertedBefore(store.RunNo, store.ItemNo) (bool, error) { return o.before, nil }

func TestWhichCommandsClaimTheirRun(t *testing.T) {
	message, pause, grant := &store.Item{Kind: store.ItemMessage}, &store.Item{Kind: store.ItemPause},
		&store.Item{Kind: store.ItemGrant}
	suspended := store.Run{No: 7, Shard: ours, Status: store.Suspended}
	held := store.Run{No: 7, Shard: ours, Status: store.Queued, Marks: store.Held}
	for _, c := range []struct {
		name   string
		run    store.Run
		ready  int64
		item   *store.Item
		not    bool // the command does not ask for it
		lost   bool // the lease is not current
		repeat bool
		want   bool
		writes int
	}{
		{"a message to a run that waits", suspended, words.Idle, message, false, false, false, true, 1},
		{"one that does not ask for it", suspended, words.Idle, message, true, false, false, false, 0},
		{"one for a shard that was lost", suspended, words.Idle, message, false, true, false, false, 0},
		{"one for a run that is claimed", suspended, words.Claimed, message, false, false, false, false, 0},
		{"a repeat, and the run is claimed", suspended, words.Claimed, message, false, false, true, true, 0},
		{"a repeat, and the run is not claimed", suspended, words.Idle, message, false, false, true, false, 0},
		{"a pause", suspended, words.Idle, pause, false, false, false, false, 0},
		{"a message to a run that a queue holds", held, words.Idle, message, false, false, false, false, 0},
		{"a grant for a run that a queue holds", held, words.Idle, grant, false, false, false, true, 1},
		{"a message to a paused run", store.Run{No: 7, Shard: ours, Status: store.Suspended, Marks: store.Paused},
			words.Idle, message, false, false, false, false, 0},
		{"a message to a run that has ended", store.Run{No: 7, Shard: ours, Status: store.Failed}, words.Idle, message,
			false, false, false, false, 0},
	} {
		db := &oneRun{}
		commands := Commands{Rows: db, Now: now, Batch: &Batch{
			Rows: db, current: map[store.Shard]bool{ours: !c.lost}, repeat: c.repeat,
		}}
		run := c.run
		got, err := commands.claim(&store.Command{Claim: !c.not, Item: c.item}, &run, c.ready)
		if err != nil || got != c.want || db.claims != c.writes {
			t.Errorf("%s: got %v, %d writes, %v", c.name, got, db.claims, err)
		}
		if c.writes > 0 && (!run.Claimed || run.Status != store.Running || run.Marks&store.Held != 0 || run.Started != now) {
			t.Errorf("%s: the answer's run is %+v", c.name, run)
		}
	}
}

func TestAClaimOfAnEarlierTryIsAnsweredAgain(t *testing.T) {
	run := store.Run{No: 7, Shard: ours, Status: store.Running}
	for _, c := range []struct {
		ready          int64
		repeat, before bool
		want           bool
	}{
		{words.Claimed, false, true, true},
		{words.Claimed, false, false, false},
		{words.Claimed, true, false, true},
		{words.Ready, true, true, false},
	} {
		db := &oneRun{before: c.before}
		commands := Commands{Rows: db, Now: now, Batch: &Batch{
			Rows: db, current: map[store.Shard]bool{ours: true}, repeat: c.repeat,
		}}
		got, err := commands.claimedBefore(&store.Command{Claim: true}, &run, c.ready, 1)
		if err != nil || got != c.want {
			t.Errorf("%+v: got %v, %v", c, got, err)
		}
	}
	alone := Commands{Rows: &oneRun{before: true}, Now: now}
	if got, _ := alone.claimedBefore(&store.Command{Claim: true}, &run, words.Claimed, 1); got {
		t.Error("expected no claim by a command outside of a batch")
	}
}
