package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// desk is a store whose commits the test answers.
type desk struct {
	store.Store
	came    chan store.Batch
	answers chan error // an answer to the oldest commit
}

func (d *desk) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	d.came <- b
	select {
	case err := <-d.answers:
		r := store.BatchResult{Turns: make([]store.TurnResult, len(b.Turns)), Commands: make([]store.Answer, len(b.Commands)), Now: 1}
		for i := range r.Turns {
			r.Turns[i].Verdict = store.Committed
		}
		return r, err
	case <-ctx.Done():
		return store.BatchResult{}, ctx.Err()
	}
}

// counter is a committer whose store is a desk, and what its turns were told.
type counter struct {
	*testing.T
	*desk
	c      *committer
	h      *ownership.Shard
	cancel func()
	stop   func()

	mu    sync.Mutex
	told  []store.RunNo
	while map[store.RunNo]func() // what is done while a turn is told
}

func newCounter(t *testing.T) *counter {
	d := &desk{came: make(chan store.Batch, 10), answers: make(chan error)}
	e := &Engine{base: d, cfg: Config{LeaseTTL: 1 << 50, Log: slog.New(slog.DiscardHandler)}}
	held, stop := context.WithCancel(context.Background())
	tn := &tenure{e: e, held: held}
	tn.commits = newCommitter(tn)
	var shards ownership.Set
	shards.Take(held, []store.Lease{{}})
	k := &counter{T: t, desk: d, c: tn.commits, cancel: stop, h: shards.Now().Of(store.Shard{}), while: map[store.RunNo]func(){}}
	go k.c.run(held)
	k.stop = func() {
		stop()
		<-k.c.ended
	}
	return k
}

// submit hands a turn over, on a goroutine of its own.
func (k *counter) submit(no store.RunNo) {
	go k.submitHere(no)
	synctest.Wait()
}

func (k *counter) submitHere(no store.RunNo) {
	k.c.submitTurn(pendingTurn{h: k.h, turn: &store.Turn{Run: no}, done: func(store.TurnResult) {
		if while := k.while[no]; while != nil {
			while()
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.told = append(k.told, no)
	}})
}

// runs expects a batch with the turns of these runs.
func (k *counter) runs(want ...store.RunNo) {
	k.Helper()
	synctest.Wait()
	select {
	case b := <-k.came:
		var got []store.RunNo
		for _, turn := range b.Turns {
			got = append(got, turn.Run)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			k.Fatalf("a batch has the turns of %v; want %v", got, want)
		}
	default:
		k.Fatalf("expected a batch with the turns of %v, found none", want)
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

func (k *counter) wantTold(want ...store.RunNo) {
	k.Helper()
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	if fmt.Sprint(k.told) != fmt.Sprint(want) {
		k.Fatalf("told were %v; want %v", k.told, want)
	}
}

// TestBatchesOverlap: the next batch is on its way while the results of the last are
// told; it is told of after that, and who submits while he tells does not wait for
// himself.
func TestBatchesOverlap(t *testing.T) {
	for _, here := range []bool{true, false} { // the first batch is written by who submits it, or by the committer
		t.Run(fmt.Sprint("here ", here), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newCounter(t)
				defer k.stop()
				if !here {
					k.submit(100)
					k.runs(100)
				}
				k.submit(1)
				if !here {
					k.none()
					k.answers <- nil
				}
				k.runs(1)
				gate := make(chan struct{})
				k.while[1] = func() { <-gate }
				k.submit(2)
				k.none()
				k.answers <- nil // the first is being told
				k.runs(2)
				k.while[2] = func() { k.submitHere(4) }
				k.submit(3)
				k.answers <- nil // the second waits for that, and the third goes on its way
				k.runs(3)
				settled := false
				go func() { k.c.settle(context.Background()); settled = true }()
				synctest.Wait()
				k.answers <- nil
				before := []store.RunNo{100}
				if here {
					before = nil
				}
				k.wantTold(before...)
				if k.c.idle() || settled {
					t.Errorf("there is something to tell; it is idle: %t, and has settled: %t", k.c.idle(), settled)
				}
				close(gate)
				k.runs(4)
				k.wantTold(append(before, 1, 2, 3)...)
				k.answers <- nil
				k.wantTold(append(before, 1, 2, 3, 4)...)
				if !k.c.idle() || !settled {
					t.Errorf("in the end it is idle: %t, and has settled: %t", k.c.idle(), settled)
				}
				k.submit(5) // and the next is written by who submits it
				k.runs(5)
				k.answers <- nil
				k.wantTold(append(before, 1, 2, 3, 4, 5)...)
			})
		})
	}
}

// TestABatchThatIsDividedIsToldOfInOrder: the parts of a batch that the store does not take
// are written when the batch before has been told of.
func TestABatchThatIsDividedIsToldOfInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCounter(t)
		defer k.stop()
		gate := make(chan struct{})
		k.while[1] = func() { <-gate }
		k.submit(1)
		k.runs(1)
		k.submit(2)
		k.submit(3)
		k.answers <- nil
		k.runs(2, 3)
		k.answers <- errors.New("not this")
		k.none()
		k.wantTold()
		close(gate)
		k.runs(2)
		k.wantTold(1)
		k.answers <- errors.New("nor this")
		k.runs(3)
		k.answers <- nil
		k.wantTold(1, 2, 3)
		if !k.c.idle() {
			t.Error("it is not idle in the end")
		}
	})
}

// TestTheEndOfACommitterWaitsForWhatIsTold: its goroutine ends when nobody tells results any
// more, and commands that were left have an error.
func TestTheEndOfACommitterWaitsForWhatIsTold(t *testing.T) {
	for _, onTheWay := range []bool{true, false} { // a batch, when it ends
		t.Run(fmt.Sprint("on the way ", onTheWay), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newCounter(t)
				gate := make(chan struct{})
				k.submit(1)
				k.runs(1)
				k.submit(2)
				k.answers <- nil
				k.runs(2)
				k.while[2] = func() { <-gate }
				k.submit(3)
				k.answers <- nil
				k.runs(3)
				var left error
				want := "owner"
				if onTheWay {
					command := pendingCommand{done: func(_ *ownership.Shards, _ store.Answer, _ store.Time, err error) { left = err }}
					if !k.c.submitCommands([]pendingCommand{command}) {
						t.Fatal("it takes nothing more")
					}
				} else {
					k.answers <- nil
					left, want = errNotOwner, ""
				}
				synctest.Wait()
				k.cancel()
				synctest.Wait()
				select {
				case <-k.c.ended:
					t.Error("it has ended though there is something to tell")
				default:
				}
				close(gate)
				<-k.c.ended
				if left == nil || !strings.Contains(left.Error(), want) {
					t.Errorf("a command that was left has the error %v", left)
				}
			})
		})
	}
}
