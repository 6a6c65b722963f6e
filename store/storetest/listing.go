package storetest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

// Listing is a store for checks that lists and counts do not read what the store has.
type Listing struct {
	Store store.Store
	Node  store.Node
	Lease store.Lease // of a shard
	batch int64
}

// Fill starts runs of several workflows, and ends most of them: of a hundred two stay queued,
// two are running, one is suspended, one stalled, four failed, and the others have succeeded.
// One in a thousand is paused.
func (l *Listing) Fill(t testing.TB, runs int) {
	t.Helper()
	made := 0
	next := func() store.Batch {
		l.batch++
		return store.Batch{
			Node: l.Node.ID, Boot: l.Node.Boot, Leases: []store.Lease{l.Lease}, Last: l.batch - 1, No: l.batch,
		}
	}
	for made < runs {
		batch := next()
		var ids []int
		for range min(500, runs-made) {
			i := made
			made++
			ids = append(ids, i)
			batch.Commands = append(batch.Commands, store.Command{Claim: i%100 >= 2, Start: &store.Start{
				ID: fmt.Sprintf("run-%d-%d", l.batch, i), Workflow: fmt.Sprint("workflow-", i%7), Shard: l.Lease.Shard,
				Seed: seedOf(int(l.batch)*1000 + i + 1), Input: []byte("{}"),
			}})
		}
		res, err := l.Store.Commit(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		turns := next()
		for k, a := range res.Commands {
			u := store.Update{Status: store.Succeeded}
			switch i := ids[k] % 100; {
			case a.Outcome != store.Applied:
				t.Fatalf("a start: %+v", a)
			case i < 4:
				continue
			case i == 4:
				u.Status = store.Suspended
				if ids[k]%1000 == 4 {
					u.Marks = store.Paused
				}
			case i == 5:
				u.Status = store.Stalled
			case i < 10:
				u.Status = store.Failed
			}
			turns.Turns = append(turns.Turns, &store.Turn{Run: a.Run.No, Shard: l.Lease.Shard, Update: &u})
		}
		done, err := l.Store.Commit(t.Context(), turns)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range done.Turns {
			if v.Verdict != store.Committed {
				t.Fatalf("a turn: %+v", v)
			}
		}
	}
}

// Question is a list or a count of the dashboard.
type Question struct {
	Name   string
	Filter store.Filter
}

// Questions are the lists and counts of the dashboard.
func Questions() []Question {
	return []Question{
		// Pages are so small that also the first check has more of each than a page.
		{"all", store.Filter{Limit: 1}},
		{"needs attention", store.Filter{Limit: 1, Statuses: []store.Status{store.Failed, store.Stalled}}},
		{"running", store.Filter{Limit: 1, Statuses: []store.Status{store.Running}}},
		{"waiting", store.Filter{Limit: 1, Statuses: []store.Status{store.Suspended}}},
		{"paused", store.Filter{Limit: 1, Marks: store.Paused}},
		{"recently ended", store.Filter{Limit: 1, ByEnded: true, Statuses: []store.Status{
			store.Succeeded, store.Failed, store.Cancelled}}},
		{"of a workflow", store.Filter{Limit: 1, Workflows: []string{"workflow-3"}}},
		Retaken(),
		{"count all", store.Filter{Most: 20}},
		{"count what needs attention", store.Filter{Most: 20, Statuses: []store.Status{store.Failed, store.Stalled}}},
	}
}

// Retaken is what a node asks whose claim has had no answer: which runs of its shards are claimed. What other groups
// have claimed is not read.
func Retaken() Question {
	return Question{"claimed", store.Filter{Limit: 1, Claimed: []store.Shard{{Group: "another"}}}}
}

// Ask asks a question once.
func (l *Listing) Ask(ctx context.Context, q Question) (err error) {
	if q.Filter.Most > 0 {
		_, err = l.Store.Count(ctx, q.Filter)
	} else {
		_, err = l.Store.List(ctx, q.Filter)
	}
	return err
}

// Bench measures each of the dashboard's lists and counts in the store with 1,000 runs and with
// many, and reports the ratio: the mark of a list is 3 with 1,000,000, as STET_BENCH_RUNS=1000000
// says. Default: 100,000. A page has as many runs as the small store has, at most 50, so that both
// answers are of one size; counts go to 1,000 of each status, which the small store has not.
func (l *Listing) Bench(b *testing.B) {
	const few = 1000
	many := 100_000
	if text := os.Getenv("STET_BENCH_RUNS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n <= few {
			b.Fatalf("STET_BENCH_RUNS: expected a number above %d, found %q", few, text)
		}
		many = n
	}
	questions := Questions()
	for i := range questions {
		f := &questions[i].Filter
		if f.Limit = 50; f.Most > 0 {
			f.Most = 1000
		}
	}
	took := func(q Question) time.Duration { // the best of some: other work slows single ones down
		best := time.Hour
		for range 30 {
			begun := time.Now()
			if err := l.Ask(b.Context(), q); err != nil {
				b.Fatal(err)
			}
			best = min(best, time.Since(begun))
		}
		return best
	}
	l.Fill(b, few)
	before := make([]time.Duration, len(questions))
	for i := range questions {
		if questions[i].Filter.Most == 0 {
			page, err := l.Store.List(b.Context(), questions[i].Filter)
			if err != nil {
				b.Fatal(err)
			}
			questions[i].Filter.Limit = max(len(page.Runs), 1)
		}
	}
	for i, q := range questions {
		before[i] = took(q)
	}
	l.Fill(b, many-few)
	for i, q := range questions {
		b.Run(q.Name, func(b *testing.B) {
			best := took(q)
			for b.Loop() {
				if err := l.Ask(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(best.Seconds()/before[i].Seconds(), "ratio")
			b.ReportMetric(float64(many), "runs")
		})
	}
}

// Check asks questions of a store with few runs, and with many more, and compares what
// reading measures.
func (l *Listing) Check(t *testing.T, few, many int, questions []Question, reading func(ask func()) int) {
	t.Helper()
	ask := func(q Question) int {
		return reading(func() {
			if err := l.Ask(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		})
	}
	l.Fill(t, few)
	before := map[string]int{}
	for _, q := range questions {
		ask(q)
		if before[q.Name] = ask(q); before[q.Name] == 0 {
			t.Errorf("%s: nothing was measured", q.Name)
		}
	}
	l.Fill(t, many)
	for _, q := range questions {
		ask(q)
		after := ask(q)
		t.Logf("%s: %d with %d runs, %d with %d", q.Name, before[q.Name], few, after, few+many)
		if after > 3*before[q.Name] {
			t.Errorf("%s: expected a cost that does not grow with the store, found %d with %d runs and %d with %d",
				q.Name, before[q.Name], few, after, few+many)
		}
	}
}
