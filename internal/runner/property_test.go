package runner

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/soak"
)

// count is how many programs a property is tried on, as STET_SOAK says: a sixth of n if it says nothing.
func count(t *testing.T, n int) int {
	switch {
	case testing.Short():
		n /= 10
	case !soak.Usual(t):
		n /= 2
	}
	return soak.Cases(t, n)
}

// seedOf returns the seed of a test: STET_SEED, else a new one.
func seedOf(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("STET_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d; repeat with STET_SEED=%d", seed, seed)
	return seed
}

// TestRandomPrograms cuts random programs at random points, with random timing
// in between. Every activation sees what the one before has seen, as far as it is
// durable; no step runs again; and the whole history replays to the same end
// without doing anything.
func TestRandomPrograms(t *testing.T) {
	seed := seedOf(t)
	var cuts, evictions, lost, transactions, pruned, ends, renewals, given, strays, granted, together, unwanted, scopes int
	for i := range count(t, 3000) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		d := newDriver(t, generate(random, 4+random.IntN(25)), random)
		d.cruel = random.IntN(4) == 0
		d.cfg.PauseAfter = random.IntN(4)
		d.prog.again = max(random.IntN(6)-3, 0)
		often := 4 + random.IntN(60)
		over := d.run(func() bool { return random.IntN(often) == 0 })
		cuts, evictions, lost, transactions = cuts+d.cuts, evictions+d.evictions, lost+d.lost, transactions+d.transactions
		pruned, ends = pruned+d.j.prunings, ends+d.ends
		renewals, scopes = renewals+d.renewals, scopes+d.failedScopes
		granted, together, unwanted = granted+d.j.queues.granted, together+d.j.queues.together, unwanted+d.j.queues.strays
		given, strays = given+d.j.topics.given, strays+d.j.topics.strays
		if problem := d.verify(over); problem != "" {
			t.Fatalf("program %d: %s", i, problem)
		}
	}
	t.Logf("%d cuts, %d of them with a commit that nobody was told of, %d evictions, %d steps with a "+
		"transaction of their own, %d turns that pruned, %d ends of children, %d continuations, %d "+
		"events, %d of them too late, %d permits, %d of them too late, %d items of several, %d scopes failed by children",
		cuts, lost, evictions, transactions, pruned, ends, renewals, given, strays, granted, unwanted,
		together, scopes)
	if !soak.Usual(t) {
		return // too few to see all
	}
	if cuts == 0 || lost == 0 || evictions == 0 || transactions == 0 || pruned == 0 || ends == 0 || renewals == 0 ||
		given == 0 || strays == 0 || granted == 0 || together == 0 || unwanted == 0 || scopes == 0 {
		t.Error("something of this never happened")
	}
}

// TestSameScheduleSameEnd fixes the order in which completions come, and compares
// interrupted runs with the uninterrupted one: every value seen, every winner,
// the result.
func TestSameScheduleSameEnd(t *testing.T) {
	seed := seedOf(t)
	for i := range count(t, 2000) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		prog := generate(random, 4+random.IntN(25))
		prog.again = i % 3
		run := func(mayCut func() bool) *driver {
			d := newDriver(t, prog, nil)
			if over := d.run(mayCut); over.Stall != nil {
				t.Fatalf("program %d stalls: %s", i, over.Stall)
			}
			return d
		}
		whole := run(nil)
		often := 3 + random.IntN(20)
		cut := run(func() bool { return random.IntN(often) == 0 })
		if len(cut.j.broken) > 0 {
			t.Fatalf("program %d: %s", i, cut.j.broken[0])
		}
		if a, b := whole.seen.of(cut.j), cut.seen.of(cut.j); a != b {
			t.Fatalf("program %d: uninterrupted\n%s\ninterrupted\n%s", i, a, b)
		}
	}
}

// TestWeakeningsAreNoticed leaves out one part of the rule at a time. The
// property must notice each.
func TestWeakeningsAreNoticed(t *testing.T) {
	for weak := highestFirst; weak <= loopsAtOnce; weak++ {
		t.Run(weak.String(), func(t *testing.T) {
			seed := seedOf(t)
			for i := range 3000 {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				d := newDriver(t, generate(random, 4+random.IntN(25)), random)
				d.weak = weak
				over := d.run(func() bool { return random.IntN(10) == 0 })
				if problem := d.verify(over); problem != "" {
					t.Logf("noticed in program %d: %.200s", i, problem)
					return
				}
			}
			t.Fatal("not noticed in 3,000 programs")
		})
	}
}

func (w weakness) String() string {
	return [...]string{"sound", "highest number first", "order of request", "no barrier", "woken branches in any order",
		"loops entered at once"}[w]
}
