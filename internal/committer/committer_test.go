package committer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// desk is a store whose commits the test answers.
type desk struct {
	store.Store
	came    chan store.Batch
	answers chan reply // an answer to the oldest commit
	applied func(store.Command) error
}

// reply is what the desk answers to a commit: an error, or verdicts and outcomes that
// are not the usual ones, by index.
type reply struct {
	err      error
	verdicts map[int]store.Verdict
	outcomes map[int]store.Outcome
}

func (d *desk) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	d.came <- b
	select {
	case a := <-d.answers:
		r := store.BatchResult{
			Turns: make([]store.TurnResult, len(b.Turns)), Commands: make([]store.Answer, len(b.Commands)), Now: 1,
		}
		for i := range r.Turns {
			if r.Turns[i].Verdict = store.Committed; a.verdicts[i] != 0 {
				r.Turns[i].Verdict = a.verdicts[i]
			}
		}
		for i := range r.Commands {
			if r.Commands[i].Outcome = store.Applied; a.outcomes[i] != 0 {
				r.Commands[i].Outcome = a.outcomes[i]
			}
		}
		return r, a.err
	case <-ctx.Done():
		return store.BatchResult{}, ctx.Err()
	}
}

func (d *desk) Apply(_ context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	if err := d.applied(commands[0]); err != nil {
		return nil, 0, err
	}
	return []store.Answer{{Outcome: store.Applied}}, 2, nil
}

// owner holds the shards that a test gives it. A command claims in the shard of its start.
type owner struct {
	set  ownership.Set
	work sync.WaitGroup
	sent func(*store.Turn, *store.TurnResult)

	numbers committer.Numbers
	losses  []error // of WentBack
	closed  func()  // of StoreClosed
}

func (o *owner) Shards() *ownership.Shards { return o.set.Now() }
func (o *owner) Go(f func())               { o.work.Go(f) }
func (o *owner) StoreClosed(error)         { o.closed() }

func (o *owner) WentBack(last int64, err error) {
	if o.numbers.Lost(last, func() {
		for h := range o.set.Now().All() {
			o.set.Lose(h)
		}
	}) {
		o.losses = append(o.losses, err)
	}
}

func (o *owner) Claims(list []*ownership.Shard, in *ownership.Shards, c *store.Command) []*ownership.Shard {
	if c.Start == nil {
		return list
	}
	return append(list, in.Of(c.Start.Shard))
}

func (o *owner) Sent(_ *ownership.Shards, turn *store.Turn, result *store.TurnResult, _ store.Time) {
	if o.sent != nil {
		o.sent(turn, result)
	}
}

// counter is a committer whose store is a desk, and what its turns were answered. It holds
// two shards.
type counter struct {
	*testing.T
	*desk
	*owner
	c      *committer.Committer
	h      *ownership.Shard
	other  *ownership.Shard
	cancel context.CancelFunc // ends the committer
	ended  chan struct{}      // closed when it has ended
	seal   func() error       // nil: what is stored is the turn itself
	crowd  atomic.Bool        // more turns are about to come
	lines  atomic.Int64       // of the log

	mu        sync.Mutex
	answered  []string
	while     map[store.RunNo]func() // what is done while a turn is answered
	committed []int64                // numbers of batches, in order
}

const leaseTTL = time.Minute

func newCounter(t *testing.T) *counter {
	ctx, cancel := context.WithCancel(context.Background())
	k := &counter{
		T: t, desk: &desk{came: make(chan store.Batch, 10), answers: make(chan reply)}, owner: &owner{},
		cancel: cancel, ended: make(chan struct{}), while: map[store.RunNo]func(){},
	}
	k.set.Take(ctx, []store.Lease{{Shard: store.Shard{Group: "g"}}, {Shard: store.Shard{Group: "g", Slot: 1}}})
	k.h, k.other = k.set.Now().Of(store.Shard{Group: "g"}), k.set.Now().Of(store.Shard{Group: "g", Slot: 1})
	k.c = committer.New(ctx, committer.Config{
		Store: k.desk, Node: "n", Boot: "b", Batches: &k.numbers, TTL: leaseTTL,
		Log: slog.New(lines{slog.DiscardHandler, &k.lines}),
		Seal: func(_ context.Context, turn *store.Turn) (*store.Turn, error) {
			if k.seal != nil {
				return turn, k.seal()
			}
			return turn, nil
		},
		Crowded: k.crowd.Load, Observe: func(time.Time, store.Time) {},
	}, k.owner)
	k.closed = cancel
	go func() {
		k.c.Run(ctx)
		close(k.ended)
	}()
	return k
}

// stop ends the committer and waits for it.
func (k *counter) stop() {
	k.cancel()
	<-k.ended
	k.work.Wait()
}

// submit submits a turn, on a goroutine of its own.
func (k *counter) submit(no store.RunNo) {
	go k.submitTo(k.h, no)
	synctest.Wait()
}

func (k *counter) submitTo(h *ownership.Shard, no store.RunNo) {
	k.c.SubmitTurn(committer.Turn{Shard: h, Turn: &store.Turn{Run: no}, Done: func(r store.TurnResult) {
		if while := k.while[no]; while != nil {
			while()
		}
		if answer := fmt.Sprint(no); r.Verdict == store.Committed {
			k.answer(answer)
		} else {
			k.answer(answer + " " + r.Verdict.String() + r.Reason)
		}
	}})
}

func (k *counter) answer(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answered = append(k.answered, text)
}

// command submits a command that is answered with its ID and the outcome.
func (k *counter) command(c store.Command) {
	done := func(_ *ownership.Shards, a store.Answer, _ store.Time, err error) {
		if err != nil {
			k.answer(c.RunID + " " + err.Error())
			return
		}
		k.answer(fmt.Sprintf("%s %d", c.RunID, a.Outcome))
	}
	go k.c.SubmitCommands([]committer.Command{{Command: c, Done: done}})
	synctest.Wait()
}

// batch expects that one has come.
func (k *counter) batch() store.Batch {
	k.Helper()
	synctest.Wait()
	select {
	case b := <-k.came:
		k.committed = append(k.committed, b.No)
		return b
	default:
		k.Fatal("expected a batch, found none")
		return store.Batch{}
	}
}

// runs expects a batch with the turns of these runs.
func (k *counter) runs(want ...store.RunNo) {
	k.Helper()
	b := k.batch()
	var got []store.RunNo
	for _, turn := range b.Turns {
		got = append(got, turn.Run)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		k.Fatalf("a batch has the turns of %v; want %v", got, want)
	}
}

// none expects that no batch has come.
func (k *counter) none() {
	k.Helper()
	synctest.Wait()
	if len(k.came) > 0 {
		k.Fatal("a batch has come too early")
	}
}

func (k *counter) ok() { k.answers <- reply{} }

func (k *counter) wantAnswered(want ...any) {
	k.Helper()
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	if got, want := fmt.Sprintf("%v", k.answered), fmt.Sprintf("%v", want); got != want {
		k.Fatalf("answered were %s; want %s", got, want)
	}
}

// test runs f with a counter in a bubble.
func test(t *testing.T, f func(t *testing.T, k *counter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newCounter(t)
		f(t, k)
		k.stop()
	})
}

// TestBatchesOverlap: the next batch is on its way while the results of the last are
// delivered; it is delivered after that, and a turn that is submitted by a callback does
// not wait for itself.
func TestBatchesOverlap(t *testing.T) {
	for _, inline := range []bool{true, false} { // the first batch is written by the caller, or by the committer
		t.Run(fmt.Sprint("inline ", inline), func(t *testing.T) {
			test(t, func(t *testing.T, k *counter) {
				if !inline {
					k.submit(100)
					k.runs(100)
				}
				k.submit(1)
				if !inline {
					k.none()
					k.ok()
				}
				k.runs(1)
				gate := make(chan struct{})
				k.while[1] = func() { <-gate }
				k.submit(2)
				k.none()
				k.ok() // the first is being delivered
				k.runs(2)
				k.while[2] = func() { k.submitTo(k.h, 4) }
				k.submit(3)
				k.ok() // the second waits for that, and the third goes on its way
				k.runs(3)
				settled := false
				go func() { settled = k.c.Settle(context.Background(), time.Hour) }()
				synctest.Wait()
				k.ok()
				before := []any{100}
				if inline {
					before = nil
				}
				k.wantAnswered(before...)
				if k.c.Idle() || settled {
					t.Errorf("there is something to deliver; it is idle: %t, and has settled: %t", k.c.Idle(), settled)
				}
				close(gate)
				k.runs(4)
				k.wantAnswered(append(before, 1, 2, 3)...)
				k.ok()
				k.wantAnswered(append(before, 1, 2, 3, 4)...)
				if !k.c.Idle() || !settled {
					t.Errorf("in the end it is idle: %t, and has settled: %t", k.c.Idle(), settled)
				}
				k.submit(5) // and the next is written by its caller
				k.runs(5)
				k.ok()
				k.wantAnswered(append(before, 1, 2, 3, 4, 5)...)
			})
		})
	}
}

// TestACrowdDoesNotWait: whoever submits a turn writes it, unless more are about to come: these
// would wait for the processor, and be written one by one where there is only one.
func TestACrowdDoesNotWait(t *testing.T) {
	for _, crowd := range []bool{false, true} {
		t.Run(fmt.Sprint("crowd ", crowd), func(t *testing.T) {
			test(t, func(t *testing.T, k *counter) {
				k.crowd.Store(crowd)
				gone := false
				go func() {
					k.submitTo(k.h, 1)
					gone = true
				}()
				synctest.Wait()
				if gone != crowd {
					t.Errorf("the submitter waits for the store: %t", !gone)
				}
				k.runs(1)
				k.ok()
				k.wantAnswered(1)
			})
		})
	}
}

// TestABatchThatIsBisectedIsDeliveredInOrder: the parts of a batch that the store does not
// take are written when the batch before is delivered.
func TestABatchThatIsBisectedIsDeliveredInOrder(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		gate := make(chan struct{})
		k.while[1] = func() { <-gate }
		k.submit(1)
		k.runs(1)
		k.submit(2)
		k.submit(3)
		k.ok()
		k.runs(2, 3)
		k.answers <- reply{err: errors.New("not this")}
		k.none()
		k.wantAnswered()
		close(gate)
		k.runs(2)
		k.wantAnswered(1)
		k.answers <- reply{err: errors.New("nor this")}
		k.runs(3)
		k.ok()
		k.wantAnswered(1, 3)
		time.Sleep(time.Second) // the other is tried alone once more, now that one went through
		k.runs(2)
		k.answers <- reply{err: errors.New("nor this")}
		k.wantAnswered(1, 3, "2 refusednor this")
		if !k.c.Idle() {
			t.Error("it is not idle in the end")
		}
	})
}

// TestTheEndOfACommitterWaitsForCallbacks: Run returns when no results are delivered any
// more, and commands that are left have an error.
func TestTheEndOfACommitterWaitsForCallbacks(t *testing.T) {
	for _, onTheWay := range []bool{true, false} { // a batch, when it ends
		t.Run(fmt.Sprint("on the way ", onTheWay), func(t *testing.T) {
			test(t, func(t *testing.T, k *counter) {
				gate := make(chan struct{})
				k.submit(1)
				k.runs(1)
				k.submit(2)
				k.ok()
				k.runs(2)
				k.while[2] = func() { <-gate }
				k.submit(3)
				k.ok()
				k.runs(3)
				var left []any
				if onTheWay {
					k.command(store.Command{RunID: "left"})
					left = []any{1, 2, "left not the owner"}
				} else {
					k.ok()
					left = []any{1, 2, 3}
				}
				synctest.Wait()
				k.cancel()
				synctest.Wait()
				select {
				case <-k.ended:
					t.Error("it has ended though there is something to deliver")
				default:
				}
				close(gate)
				<-k.ended
				k.wantAnswered(left...)
				if k.c.SubmitCommands([]committer.Command{{}}) {
					t.Error("it takes commands after its end")
				}
			})
		})
	}
}

// TestABatchIsRepeatedWithItsNumber: while the store is away, or does not say what became
// of a batch, the same batch is tried again and nothing else.
func TestABatchIsRepeatedWithItsNumber(t *testing.T) {
	for _, err := range []error{store.ErrUnavailable, store.ErrUnknown} {
		t.Run(err.Error(), func(t *testing.T) {
			test(t, func(t *testing.T, k *counter) {
				k.submit(1)
				k.runs(1)
				k.submit(2)
				for range 3 {
					k.answers <- reply{err: err}
					time.Sleep(time.Second)
					k.runs(1)
				}
				k.ok()
				k.runs(2)
				k.ok()
				k.wantAnswered(1, 2)
				if want := []int64{1, 1, 1, 1, 2}; !slices.Equal(k.committed, want) {
					t.Errorf("batches were written with the numbers %v; want %v", k.committed, want)
				}
			})
		})
	}
}

// TestAStoreThatIsAwayIsLoggedOnceAMinute, and again when it is away again.
func TestAStoreThatIsAwayIsLoggedOnceAMinute(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		away := func(tries, lines int) {
			t.Helper()
			before := k.lines.Load()
			k.submit(1)
			k.runs(1)
			for range tries {
				k.answers <- reply{err: store.ErrUnavailable}
				time.Sleep(time.Second)
				k.runs(1)
			}
			k.ok()
			synctest.Wait()
			if n := k.lines.Load() - before; n != int64(lines) {
				t.Errorf("%d tries in as many seconds: expected %d lines in the log, found %d", tries, lines, n)
			}
		}
		away(2, 1) // the first try is made where the turn was submitted, and not logged
		away(50, 1)
		away(100, 2)
	})
}

// lines counts what is logged.
type lines struct {
	slog.Handler
	n *atomic.Int64
}

func (l lines) Enabled(context.Context, slog.Level) bool { return true }

func (l lines) Handle(context.Context, slog.Record) error {
	l.n.Add(1)
	return nil
}

// TestACommitWithoutAnswerIsAbandoned: after the length of a lease it is asked again, and
// then it may take longer.
func TestACommitWithoutAnswerIsAbandoned(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.submit(1)
		k.runs(1)
		time.Sleep(leaseTTL - 1)
		k.none()
		time.Sleep(time.Second)
		k.runs(1)
		time.Sleep(2*leaseTTL - time.Second)
		k.none()
		time.Sleep(2 * time.Second)
		k.runs(1)
		k.ok()
		k.wantAnswered(1)
	})
}

// TestABatchOfLostShardsIsAbandoned: its turns would be refused. It is over when all its
// leases are, also that of a turn whose shard was taken after the owner's shards were
// read.
func TestABatchOfLostShardsIsAbandoned(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.submit(100) // so that what follows shares a batch
		k.runs(100)
		go k.submitTo(k.h, 1)
		synctest.Wait()
		go k.submitTo(k.other, 2)
		synctest.Wait()
		k.ok()
		k.runs(1, 2)
		k.set.Lose(k.h)
		k.c.ShardsLost()
		k.none() // the lease of the other is held
		k.set.Lose(k.other)
		k.c.ShardsLost()
		synctest.Wait()
		time.Sleep(time.Second)
		k.runs(1, 2) // as its outcome is unknown
		k.c.ShardsLost()
		k.none()
		time.Sleep(leaseTTL + time.Second)
		k.runs(1, 2) // that its leases were lost is no sign that it takes long
		k.answers <- reply{verdicts: map[int]store.Verdict{0: store.Fenced, 1: store.Fenced}}
		k.wantAnswered(100, "1 fenced", "2 fenced")
	})
}

// TestTurnsOfALostShardAreFencedAtOnce, and its commits wait for nothing.
func TestTurnsOfALostShardAreFencedAtOnce(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.set.Lose(k.h)
		k.submit(1)
		k.none()
		k.wantAnswered("1 fenced")
		if !k.c.Idle() || k.h.Committing() {
			t.Error("a turn of a lost shard is still under way")
		}
		k.submit(2)
		go k.submitTo(k.other, 3)
		k.runs(3)
		k.ok()
		k.wantAnswered("1 fenced", "2 fenced", 3)
	})
}

// TestABusyTurnIsRetriedAlone: nothing waits for the transaction that decides about it.
func TestABusyTurnIsRetriedAlone(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		var sent []store.Verdict
		k.sent = func(_ *store.Turn, r *store.TurnResult) { sent = append(sent, r.Verdict) }
		k.submit(100)
		k.runs(100)
		k.submit(1)
		k.submit(2)
		k.ok()
		k.runs(1, 2)
		k.answers <- reply{verdicts: map[int]store.Verdict{0: store.Busy}}
		k.wantAnswered(100, 2)
		if !k.h.Committing() {
			t.Error("the turn that was left out is not under way any more")
		}
		k.none()
		k.submit(3)
		k.runs(3)
		time.Sleep(100 * time.Millisecond) // the turn is queued again meanwhile
		k.submit(4)
		k.ok()
		k.runs(1)
		k.ok()
		k.runs(4)
		k.ok()
		k.wantAnswered(100, 2, 3, 1, 4)
		if want := []store.Verdict{1, 5, 1, 1, 1, 1}; !slices.Equal(sent, want) {
			t.Errorf("the owner has heard of the verdicts %v; want %v", sent, want)
		}
		if k.h.Committing() || !k.c.Idle() {
			t.Error("a turn is under way in the end")
		}
	})
}

// TestAnUndecidedCommandIsAppliedOutside of the batches, which go on.
func TestAnUndecidedCommandIsAppliedOutside(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		tries := 0
		k.applied = func(store.Command) error {
			if tries++; tries < 3 {
				return store.ErrUnavailable
			}
			return nil
		}
		k.command(store.Command{RunID: "c"})
		k.batch()
		k.answers <- reply{outcomes: map[int]store.Outcome{0: store.Undecided}}
		k.submit(1)
		k.runs(1)
		k.ok()
		k.wantAnswered(1)
		time.Sleep(time.Second)
		k.wantAnswered(1, fmt.Sprintf("c %d", store.Applied))
	})
}

// TestACommandThatCannotBeAppliedHasTheError, and at the end of the committer ErrNotOwner.
func TestACommandThatCannotBeAppliedHasTheError(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.applied = func(c store.Command) error {
			if c.RunID == "bad" {
				return errors.New("not this")
			}
			return store.ErrUnavailable
		}
		for _, id := range []string{"bad", "late"} {
			k.command(store.Command{RunID: id})
			k.batch()
			k.answers <- reply{outcomes: map[int]store.Outcome{0: store.Undecided}}
			synctest.Wait()
		}
		k.wantAnswered("bad not this")
		k.stop()
		k.wantAnswered("bad not this", "late not the owner")
	})
}

// TestATurnIsSealedFirst: it is not in a batch before its objects are written, and one
// that cannot be sealed is refused.
func TestATurnIsSealedFirst(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		away := fmt.Errorf("objects: %w", store.ErrUnavailable)
		var err atomic.Pointer[error]
		err.Store(&away)
		k.seal = func() error { return *err.Load() }
		k.submit(1)
		time.Sleep(10 * time.Second)
		k.none()
		if !k.h.Committing() {
			t.Error("a turn that is being sealed is not under way")
		}
		large := errors.New("too large")
		err.Store(&large)
		time.Sleep(2 * time.Second)
		k.none()
		k.wantAnswered("1 refusedtoo large")
		if k.h.Committing() {
			t.Error("a turn that was refused is under way")
		}
		err.Store(&away)
		k.submit(2)
		k.set.Lose(k.h)
		time.Sleep(2 * time.Second)
		k.none()
		k.wantAnswered("1 refusedtoo large") // of a lost shard nobody hears
		if k.h.Committing() {
			t.Error("a turn of a lost shard is under way")
		}
	})
}

// TestABatchNamesTheLeasesThatItTouches: of a few shards all, of many those in which it
// may write.
func TestABatchNamesTheLeasesThatItTouches(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		slots := func(b store.Batch) string {
			var list []int
			for _, l := range b.Leases {
				list = append(list, l.Shard.Slot)
			}
			slices.Sort(list)
			return strings.Trim(fmt.Sprint(list), "[]")
		}
		k.submit(1)
		if got := slots(k.batch()); got != "0 1" {
			t.Errorf("of two shards a batch names %s", got)
		}
		k.ok()
		var more []store.Lease
		for slot := 2; slot < 10; slot++ {
			more = append(more, store.Lease{Shard: store.Shard{Group: "g", Slot: slot}})
		}
		k.set.Take(t.Context(), more)
		k.submit(100)
		if got := slots(k.batch()); got != "0" {
			t.Errorf("a batch with one turn names %s", got)
		}
		start := func(slot int, claim bool) store.Command {
			return store.Command{Start: &store.Start{Shard: store.Shard{Group: "g", Slot: slot}}, Claim: claim}
		}
		k.submit(2)
		go k.submitTo(k.other, 3)
		synctest.Wait()
		for _, c := range []store.Command{start(5, true), start(5, true), start(6, false), start(77, true)} {
			k.command(c)
		}
		k.ok()
		if got := slots(k.batch()); got != "0 1 5" {
			t.Errorf("a batch names %s; want the shards of its turns, and of the run that it claims", got)
		}
		k.submit(4)
		k.command(start(5, true))
		k.command(store.Command{RunNo: 99, Item: &store.Item{}, Claim: true})
		k.ok()
		if got := slots(k.batch()); got != "0 1 2 3 4 5 6 7 8 9" {
			t.Errorf("a batch names %s; want all, since it may claim a run of any shard", got)
		}
		k.ok()
		synctest.Wait()
	})
}

// TestAClosedStoreEndsTheCommitter: no turn is taken for refused, and commands get ErrNotOwner.
func TestAClosedStoreEndsTheCommitter(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		closed := reply{err: fmt.Errorf("commit a batch: %w", store.ErrClosed)}
		k.submit(1)
		k.command(store.Command{RunID: "queued"})
		for range 2 { // the caller's batch, and its repeat by the committer
			k.batch()
			k.answers <- closed
		}
		<-k.ended
		k.wantAnswered("queued not the owner")
	})
}

// TestCommandsThatAreSubmittedAtOnceAreWrittenAtOnce: however many, and whatever waits
// before them.
func TestCommandsThatAreSubmittedAtOnceAreWrittenAtOnce(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		many := func(name string, n int) {
			list := make([]committer.Command, n)
			for i := range list {
				list[i] = committer.Command{
					Command: store.Command{RunID: name, Item: &store.Item{Kind: store.ItemMessage, ID: name}},
					Done:    func(*ownership.Shards, store.Answer, store.Time, error) {},
				}
			}
			go k.c.SubmitCommands(list)
			synctest.Wait()
		}
		k.submit(1)
		k.batch() // is on its way
		for i, n := range []int{30, 9_000, 1, 5_000} {
			many(fmt.Sprint("g", i), n)
		}
		k.ok()
		var sizes []map[string]int
		for total := 0; total < 30+9_000+1+5_000; {
			b := k.batch()
			of := map[string]int{}
			for i := range b.Commands {
				of[b.Commands[i].RunID]++
			}
			total += len(b.Commands)
			sizes = append(sizes, of)
			k.ok()
		}
		for _, of := range sizes {
			for name, n := range of {
				if want := map[string]int{"g0": 30, "g1": 9_000, "g2": 1, "g3": 5_000}[name]; n != want {
					t.Errorf("of the %d commands of %s %d are in one batch", want, name, n)
				}
			}
		}
		if len(sizes) < 2 {
			t.Errorf("the batches are %v: too large", sizes)
		}
	})
}
