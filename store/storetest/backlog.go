package storetest

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stet-run/stet/store"
)

// Backlog makes work that no node takes up, for tests of a store's cost: a claim must not do
// more if there is more of it. It is not safe for concurrent use.
type Backlog struct {
	Store store.Store
	// Node and Leases are of a boot that has written no batch. One lease is of the first slot
	// of the default group.
	Node   store.Node
	Leases []store.Lease

	t     testing.TB
	n     int   // names
	batch int64 // the last
}

// BacklogKind is one kind of work that waits in vain. Add adds so much of it.
type BacklogKind struct {
	Name string
	Add  func(b *Backlog, n int)
}

// BacklogKinds returns all kinds.
func BacklogKinds() []BacklogKind {
	return []BacklogKind{
		{"messages of a paused run", func(b *Backlog, n int) { b.messages(b.paused(1)[0], n) }},
		{"messages of a delayed run", func(b *Backlog, n int) { b.messages(b.started(b.delayed(hour, "w"), 1)[0], n) }},
		{"messages of a held run", func(b *Backlog, n int) { b.messages(b.started(b.held(), 1)[0], n) }},
		{"paused runs with a message", func(b *Backlog, n int) {
			for _, run := range b.paused(n) {
				b.messages(run, 1)
			}
		}},
		{"queued runs without a node", func(b *Backlog, n int) { b.started(b.delayed(0, "nobody has it"), n) }},
		{"due runs without a node", func(b *Backlog, n int) { b.started(b.delayed(1, "nobody has it"), n) }},
		{"sleeping runs without a node", func(b *Backlog, n int) { b.started(b.delayed(hour, "nobody has it"), n) }},
		{"ready runs of a later build", func(b *Backlog, n int) {
			b.turns(b.claimed(n), store.Update{Status: store.Running, Build: "later", Unclaim: true})
		}},
	}
}

// Claim claims for the node, which finds nothing.
func (b *Backlog) Claim(t testing.TB, unservable bool) {
	t.Helper()
	claims, err := b.Store.Claim(t.Context(), store.ClaimRequest{Node: b.Node.ID, Boot: b.Node.Boot, Leases: b.Leases,
		Workflows: []string{"w"}, Build: "b", Unservable: unservable, Limit: 100})
	if err != nil || len(claims.Runs)+len(claims.Fenced) > 0 {
		t.Fatalf("expected a claim to find nothing, found %d runs, %d fenced shards: %v", len(claims.Runs),
			len(claims.Fenced), err)
	}
}

// Check adds a backlog of each kind, in subtests, and compares what a claim costs beside 200
// and beside 2,000 of it. work carries out a claim and returns how much the store has done for
// it; most is by how much the second may be above the first, and mostUnservable the same of a
// claim that asks for what the node cannot load, of which a store may read the first ones.
func (b *Backlog) Check(t *testing.T, most, mostUnservable int, work func(claim func()) int) {
	for _, kind := range BacklogKinds() {
		t.Run(kind.Name, func(t *testing.T) {
			b.t = t
			measure := func(n int) (cost [2]int) {
				kind.Add(b, n)
				for range 5 { // the first ones may put it away
					b.Claim(t, true)
				}
				for i := range cost {
					cost[i] = work(func() { b.Claim(t, i == 1) })
				}
				return cost
			}
			few, many := measure(200), measure(1800)
			for i, most := range []int{most, mostUnservable} {
				if few[i] == 0 || many[i] > few[i]+most {
					t.Errorf("asked for what is unservable: %v: expected about as much work beside 200 as beside 2,000, "+
						"found %d and %d", i == 1, few[i], many[i])
				}
			}
		})
	}
}

// Bench measures claims that find nothing, in an empty store, and beside 10,000 queued runs that no node can load and
// 2,000 messages of a paused run, each times the number in STET_BACKLOG. Default: 1.
func (b *Backlog) Bench(t *testing.B) {
	times := 1
	if text := os.Getenv("STET_BACKLOG"); text != "" {
		var err error
		if times, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	b.t = t
	claims := func(name string) {
		t.Run(name, func(t *testing.B) {
			for t.Loop() {
				b.Claim(t, false)
			}
		})
	}
	claims("empty")
	runs, messages := 10_000*times, 2000*times
	b.started(b.delayed(0, "nobody has it"), runs)
	b.messages(b.paused(1)[0], messages)
	for range 5 { // the first ones may put it away
		b.Claim(t, true)
	}
	claims(fmt.Sprintf("runs=%d/messages=%d", runs, messages))
}

// chunk is how many commands or turns one act gets.
const chunk = 200

// chunks calls fn with the bounds of each chunk of n.
func chunks(n int, fn func(from, to int)) {
	for from := 0; from < n; from += chunk {
		fn(from, min(n, from+chunk))
	}
}

func (b *Backlog) name() string {
	b.n++
	return fmt.Sprintf("backlog-%09d", b.n)
}

func (b *Backlog) start() *store.Start {
	id := b.name()
	return &store.Start{ID: id, Shard: shardA, Workflow: "w", Seed: store.Seed([]byte(id[1:]))}
}

// delayed returns starts of a workflow.
func (b *Backlog) delayed(after store.Delay, workflow string) func() *store.Start {
	return func() *store.Start {
		s := b.start()
		s.After, s.Workflow = after, workflow
		return s
	}
}

// held returns starts in a queue, which asks nobody.
func (b *Backlog) held() func() *store.Start {
	return func() *store.Start {
		s := b.start()
		s.Queue = &store.QueueEntry{Data: []byte("q"), Ask: message("nobody", s.ID)}
		return s
	}
}

func (b *Backlog) started(make func() *store.Start, n int) (ids []string) {
	chunks(n, func(from, to int) {
		var commands []store.Command
		for range to - from {
			s := make()
			ids = append(ids, s.ID)
			commands = append(commands, store.Command{Start: s})
		}
		b.apply(commands)
	})
	return ids
}

func (b *Backlog) messages(run string, n int) {
	chunks(n, func(from, to int) {
		var commands []store.Command
		for range to - from {
			commands = append(commands, message(run, b.name()))
		}
		b.apply(commands)
	})
}

func (b *Backlog) apply(commands []store.Command) {
	b.t.Helper()
	answers, _, err := b.Store.Apply(b.t.Context(), commands)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range answers {
		if answers[i].Outcome != store.Applied {
			b.t.Fatalf("command %d: outcome %d", i, answers[i].Outcome)
		}
	}
}

// claimed starts runs that the node has claimed.
func (b *Backlog) claimed(n int) (runs []store.Run) {
	chunks(n, func(from, to int) {
		batch := b.next()
		for range to - from {
			batch.Commands = append(batch.Commands, store.Command{Claim: true, Start: b.start()})
		}
		for _, a := range b.commit(batch).Commands {
			runs = append(runs, a.Run)
		}
	})
	return runs
}

// paused starts runs and pauses them.
func (b *Backlog) paused(n int) (ids []string) {
	runs := b.claimed(n)
	b.turns(runs, store.Update{Status: store.Suspended, Marks: store.Paused})
	for i := range runs {
		ids = append(ids, runs[i].ID)
	}
	return ids
}

// turns updates runs.
func (b *Backlog) turns(runs []store.Run, u store.Update) {
	chunks(len(runs), func(from, to int) {
		batch := b.next()
		for _, r := range runs[from:to] {
			batch.Turns = append(batch.Turns, update(r, u))
		}
		b.commit(batch)
	})
}

func (b *Backlog) next() store.Batch {
	b.batch++
	return store.Batch{Node: b.Node.ID, Boot: b.Node.Boot, No: b.batch, Last: b.batch - 1, Leases: b.Leases}
}

func (b *Backlog) commit(batch store.Batch) store.BatchResult {
	b.t.Helper()
	result, err := b.Store.Commit(b.t.Context(), batch)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range result.Turns {
		if result.Turns[i].Verdict != store.Committed {
			b.t.Fatalf("turn %d is %s: %s", i, result.Turns[i].Verdict, result.Turns[i].Reason)
		}
	}
	return result
}
