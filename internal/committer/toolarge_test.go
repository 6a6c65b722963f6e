package committer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/store"
)

// heavy submits a turn with an entry of so many bytes.
func (k *counter) heavy(no store.RunNo, bytes int) {
	turn := &store.Turn{Run: no, Entries: []store.Entry{{Value: make([]byte, bytes)}}}
	go k.c.SubmitTurn(committer.Turn{Shard: k.h, Turn: turn, Done: func(r store.TurnResult) {
		k.answer(fmt.Sprint(no, " ", r.Verdict))
	}})
}

// TestABatchIsBoundedByBytes: what waits is written in batches of 16 MiB, a turn of more
// alone, and a command in each of them.
func TestABatchIsBoundedByBytes(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.submit(1)
		k.runs(1)
		for no := range store.RunNo(10) {
			k.heavy(10+no, 5<<20)
			k.none()
		}
		k.heavy(20, 40<<20)
		k.none()
		k.command(store.Command{RunID: "r"})
		k.ok()
		b := k.batch()
		if len(b.Turns) != 3 || len(b.Commands) != 1 {
			t.Errorf("the first batch has %d turns and %d commands; want 3 and 1", len(b.Turns), len(b.Commands))
		}
		k.ok()
		k.runs(13, 14, 15)
		k.ok()
		k.runs(16, 17, 18)
		k.ok()
		k.runs(19)
		k.ok()
		k.runs(20)
		k.ok()
	})
}

// TestRowsOfATurn: what a turn sends, takes and prunes counts like what it records, because the
// store is busy with each.
func TestRowsOfATurn(t *testing.T) {
	turn := &store.Turn{
		Entries: make([]store.Entry, 2), Values: make([]store.Setting, 3), Appends: make([]store.Append, 5),
		Consumed: make([]store.Consumption, 7), Seen: make([]store.ItemNo, 11), Prune: make([]store.Span, 13),
		Sends:  []store.Command{{Item: &store.Item{}}, {Start: &store.Start{Items: make([]store.Item, 17)}}},
		Update: &store.Update{Sends: []store.Command{{Item: &store.Item{}}}},
	}
	if got := committer.RowsOf(turn); got != 1+2+3+5+7+11+13+(1+1+17)+1 {
		t.Errorf("it has %d rows", got)
	}
}

// TestATooLargeBatchIsHalved: a batch that the store finds too large is divided, and the
// next ones are not larger than what went through, until they have grown again.
func TestATooLargeBatchIsHalved(t *testing.T) {
	for _, class := range []error{store.ErrInvalid, store.ErrUnavailable} {
		t.Run(class.Error(), func(t *testing.T) {
			test(t, func(t *testing.T, k *counter) {
				k.submit(1)
				k.runs(1)
				for no := range store.RunNo(8) {
					k.submit(10 + no)
				}
				k.ok()
				k.runs(10, 11, 12, 13, 14, 15, 16, 17)
				for no := range store.RunNo(8) {
					k.submit(20 + no)
				}
				large := fmt.Errorf("%w: %w", class, store.ErrTooLarge)
				k.answers <- reply{err: large}
				k.runs(10, 11, 12, 13)
				k.answers <- reply{err: large}
				k.runs(10, 11)
				k.ok()
				k.runs(12, 13)
				k.ok()
				k.runs(14, 15, 16, 17)
				k.ok()
				for no := store.RunNo(20); no < 28; { // room for 2 and a little more, then for more
					b := k.batch()
					if no == 20 && len(b.Turns) == 8 {
						t.Error("the next batch is as large as the one that was too large")
					}
					no += store.RunNo(len(b.Turns))
					k.ok()
				}
			})
		})
	}
}

// TestATurnThatTheStoreDoesNotTake is refused once something else was written, and after
// some tries if nothing else is there to be written; unless the store may be the reason.
func TestATurnThatTheStoreDoesNotTake(t *testing.T) {
	bad := errors.New("not this")
	away := fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrTooLarge)
	for _, c := range []struct {
		name   string
		err    error
		others bool // are written between the tries
		tries  int  // alone, after which the turn is refused; 0: never
	}{
		{"others are written", bad, true, 1},
		{"nothing else is there", bad, false, 5},
		{"it may be the store, and others are written", away, true, 5},
		{"it may be the store, and nothing else is there", away, false, 0},
		{"the store is damaged, and nothing else is there", store.ErrDamaged, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			test(t, func(t *testing.T, k *counter) {
				tried := 0
				ended := make(chan struct{})
				go func() { // answers all batches
					for {
						select {
						case b := <-k.came:
							r := reply{}
							if len(b.Turns) > 0 && b.Turns[0].Run == 1 {
								r.err = c.err
								tried++
							}
							k.answers <- r
						case <-ended:
							return
						}
					}
				}()
				defer close(ended)
				k.submit(1)
				for no := range store.RunNo(400) {
					if c.others {
						k.submit(10 + no)
					}
					time.Sleep(20 * time.Millisecond)
				}
				synctest.Wait()
				refused := slices.ContainsFunc(k.answered, func(s string) bool { return strings.HasPrefix(s, "1 refused") })
				if refused != (c.tries > 0) {
					t.Errorf("after %d tries it is refused: %t", tried, refused)
				}
				// It was tried inline and by the committer before it was put aside.
				if c.tries > 0 && tried != c.tries+2 {
					t.Errorf("it was tried %d times; want %d", tried, c.tries+2)
				}
				if c.others && len(k.answered) < 400 {
					t.Errorf("of 400 others %d were written", len(k.answered))
				}
			})
		})
	}
}
