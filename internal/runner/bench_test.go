package runner

import (
	"fmt"
	"testing"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// chain is a workflow of n steps in a row, in each of some branches.
func chain(branches, n int) func(*Branch) ([]byte, *stored.Failure) {
	row := func(b *Branch) (any, error) {
		for range n {
			if _, err := b.Step(Step{Call: at("step"), Policy: once}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	return func(b *Branch) ([]byte, *stored.Failure) {
		if branches == 1 {
			_, err := row(b)
			return result("", err)
		}
		_, _, err := b.Map(at("map"), branches, branches, func(i int) string { return fmt.Sprint(i) },
			func(b *Branch, _ int) (any, error) { return row(b) })
		return result("", err)
	}
}

// pastOf executes a run to its end as fast as it can, with a store that takes
// no time, and returns its entries.
func pastOf(b *testing.B, code func(*Branch) ([]byte, *stored.Failure), keep bool) []store.Entry {
	r := New(Config{Run: newDurable().run, Code: code, Limits: Limits{Entries: 1 << 30, Bytes: 1 << 40}})
	value := []byte(`{"id":1,"text":"a value of about one hundred bytes, ` +
		`as a step of a program gives back to its workflow"}`)
	var entries []store.Entry
	for r.Over() == nil {
		r.Advance(birth, birth)
		if turn := r.Take(); turn != nil {
			if keep {
				entries = append(entries, turn.Entries...)
			}
			r.Committed()
		}
		for body := range r.Bodies() {
			r.Complete(body.ID, body.Attempt, &BodyResult{Value: value, Started: birth, Ended: birth})
		}
	}
	r.Unwind()
	return entries
}

// BenchmarkStep is a live step: request, body given out and ended, hand-over,
// turn. One operation is one step.
func BenchmarkStep(b *testing.B) {
	for _, branches := range []int{1, 100} {
		b.Run(fmt.Sprint(branches, "-branches"), func(b *testing.B) {
			b.ReportAllocs()
			n := max(b.N/branches, 1)
			pastOf(b, chain(branches, n), false)
		})
	}
}

// BenchmarkReplay is a recorded step. One operation is one step.
func BenchmarkReplay(b *testing.B) {
	const steps = 10_000
	for _, branches := range []int{1, 100} {
		b.Run(fmt.Sprint(branches, "-branches"), func(b *testing.B) {
			code := chain(branches, steps/branches)
			entries := pastOf(b, code, true)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += steps {
				r := New(Config{Run: newDurable().run, Entries: entries, Code: code})
				r.Advance(birth, birth)
				if over := r.Over(); over == nil || over.Status != store.Succeeded {
					b.Fatalf("the replay ends %+v", over)
				}
				r.Unwind()
			}
		})
	}
}

// BenchmarkFanOut is a branch with one step. One operation is one branch.
func BenchmarkFanOut(b *testing.B) {
	b.ReportAllocs()
	pastOf(b, chain(max(b.N, 2), 1), false)
}

// BenchmarkSwitch is a hand-over to another branch than the one that blocks,
// without an operation.
func BenchmarkSwitch(b *testing.B) {
	b.ReportAllocs()
	r := New(Config{Run: newDurable().run, Code: func(root *Branch) ([]byte, *stored.Failure) {
		for range b.N {
			f := root.Go(at("x"), func(*Branch) (any, error) { return nil, nil })
			if _, err := root.Await(at("x"), f); err != nil {
				return result("", err)
			}
		}
		return nil, nil
	}})
	r.Advance(birth, birth)
	if r.Over() == nil {
		b.Fatal("the run is not over")
	}
}
