package runner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Branches are given in the order in which they end, live and in a replay, also those
// that are added on the way.
func TestSettledGivesBranchesInTheOrderOfTheirEnds(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var open Settled
		for _, name := range []string{"a", "b", "c"} {
			open.Add(spawn(b, name, "s"))
		}
		var seen []string
		for {
			f, err := b.Next(at("next"), &open)
			if err != nil {
				return text("%s %v", strings.Join(seen, " "), err)
			}
			ended, _ := f.Outcome()
			if _, err := f.Result(); err != nil {
				open.Add(spawn(b, "again", "s"))
			}
			seen = append(seen, ended.At().String())
		}
	})
	h.play()
	h.end("c/s", "v")
	h.fail("a/s", "no")
	h.end("b/s", "v")
	h.end("again/s", "v")
	h.want(store.Succeeded, "c a b again no branches")
	h.replays()
}

// Two that wait are given in the order of their waiting, and the one that is left over is
// told so.
func TestSettledOfSeveralTakers(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var open Settled
		open.Add(spawn(b, "a", "s"))
		open.Add(spawn(b, "b", "s"))
		seen := ""
		var takers []*Future
		for i := range 3 {
			takers = append(takers, b.Go(at(fmt.Sprint("taker", i)), func(b *Branch) (any, error) {
				f, err := b.Next(at("next"), &open)
				if err == nil {
					ended, _ := f.Outcome()
					seen += fmt.Sprint(i, ended.At(), " ")
				} else {
					seen += fmt.Sprint(i, err, " ")
				}
				return nil, nil
			}))
		}
		_, err := b.Compose(at("join"), Join, takers)
		return result(seen, err)
	})
	h.play()
	h.end("b/s", "v")
	h.end("a/s", "v")
	h.want(store.Succeeded, "0b 1a 2 no branches ")
	h.replays()
}

// A branch that is cancelled while it waits takes nothing, and a loser of a Select neither.
func TestSettledLosesNothing(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var open Settled
		open.Add(spawn(b, "a", "s"))
		waits := b.Go(at("waits"), func(b *Branch) (any, error) {
			_, err := b.Next(at("next"), &open)
			return nil, err
		})
		first := spawn(b, "first", "s")
		won, err := b.Select(at("select"), []Case{{Settled: &open}, {Future: first}})
		if err != nil || won.Index != 1 {
			return text("select: %d %v", won.Index, err)
		}
		b.CancelFuture(at("cancel"), waits)
		if _, err := b.Await(at("await"), waits); err != ErrCancelled {
			return text("await: %v", err)
		}
		won, err = b.Select(at("select"), []Case{{Settled: &open}})
		if err != nil || won.Future == nil {
			return text("select: %v %v", won, err)
		}
		ended, _ := won.Future.Outcome()
		won, err = b.Select(at("select"), []Case{{Settled: &open}})
		return text("%s, then %v %v", ended.At(), won.Future, err)
	})
	h.play()
	h.end("first/s", "v")
	h.end("a/s", "v")
	h.want(store.Succeeded, "a, then <nil> <nil>")
	h.replays()
}

// A cancel reaches one branch with what it has begun, and no other.
func TestCancelOfAFuture(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		other := spawn(b, "other", "s")
		inner := ErrEmpty
		one := b.Go(at("one"), func(b *Branch) (any, error) {
			deep := b.Go(at("deep"), func(b *Branch) (any, error) {
				inner = b.Sleep(at("s"), 1<<40)
				return nil, inner
			})
			return b.Await(at("await"), deep)
		})
		first := spawn(b, "first", "s")
		if _, err := b.Await(at("await"), first); err != nil {
			return text("%v", err)
		}
		b.CancelFuture(at("cancel"), one)
		b.CancelFuture(at("cancel"), one)
		_, err := b.Await(at("await"), one)
		_, otherErr := b.Await(at("await"), other)
		b.CancelFuture(at("cancel"), other) // it has ended
		return text("%v %v %v", err, inner, otherErr)
	})
	h.play()
	h.end("first/s", "v")
	h.end("other/s", "v")
	h.want(store.Succeeded, "cancelled cancelled <nil>")
	h.replays()
}

// What a future costs does not depend on how many there are.
func TestSettledCostsLinearWork(t *testing.T) {
	const n = 10_000
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var open Settled
		for i := range n {
			open.Add(b.Go(Call{Name: "b", Key: fmt.Sprint(i)}, func(*Branch) (any, error) { return nil, nil }))
		}
		given := 0
		for ; ; given++ {
			if _, err := b.Next(at("next"), &open); err != nil {
				break
			}
		}
		if given != n || open.Looked() > 2*n {
			return text("%d were given, and %d looked at", given, open.Looked())
		}
		return nil, nil
	})
	h.play()
	h.want(store.Succeeded, "")
}
