package storetest

import (
	"fmt"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// Harness opens handles on one store, each as another process would have.
type Harness interface {
	// First returns the handle of the process that has made the store, always the
	// same.
	First() store.Store
	// Join returns a further handle. It is closed when the test ends.
	Join(t testing.TB) store.Store
	// Kill ends the process of a handle without giving its leases back. It reports
	// whether the store notices that, so that the leases can be taken at once.
	Kill(t testing.TB, s store.Store) (noticed bool)
}

// Saver is a Harness of a store that can be set back to an earlier state, as by a restored backup. A Harness
// implements it for any store of which an operator can keep a copy.
type Saver interface {
	// Save keeps the present state. restore sets the store back to that, and returns the handle that a process has then:
	// the first one, or a new one where that cannot stay open.
	Save(t testing.TB) (restore func() store.Store)
}

// Open makes an empty store that reads the time from clock, which is safe for concurrent use and may go back. The store
// is closed when the test ends.
type Open = func(t *testing.T, clock func() time.Time) Harness

// group is the cases for one rule of the contract.
type group struct {
	name  string
	rule  string
	cases []testCase
}

type testCase struct {
	name string
	run  func(*kit)
}

func groups() []group {
	return []group{
		{"Law01", "acts are atomic and durable before they return", law01},
		{"Law02", "a commit whose epoch is not the shard's current one writes nothing of that shard's turns: fenced", law02},
		{"Law03", "an epoch only grows; each Acquire that succeeds raises it", law03},
		{"Law04", "an entry, once done or failed, does not change, except that it may get a completion number", law04},
		{"Law05", "an unexamined item keeps a run from suspending, a Cancel or Terminate from ending", law05},
		{"Law06", "an item is accepted once per run and item ID; items are numbered in the order in which they become visible", law06},
		{"Law07", "a command changes nothing that a turn writes, except when it claims the run", law07},
		{"Law08", "a status changes only along Status.CanBecome", law08},
		{"Law09", "repeating the last batch of a node's boot changes nothing and gives the same results", law09},
		{"Law10", "times are the store's clock, and do not go back within a process", law10},
		{"Law11", "unknown, oversized or malformed input changes nothing", law11},
		{"Law12", "a store does not keep or change its arguments; what it returns belongs to the caller", law12},
		{"Law13", "a turn deletes what stands in its spans, of its run and incarnation, before it writes its entries", law13},
		{"Law14", "a turn's sends are sent in its act and answered; those of its end only with the end", law14},
		{"Law15", "a Watch that a turn sends to a run that does not exist is answered in the sender's inbox", law15},
		{"Law16", "appends get the positions that follow, a value that is set counts one more; feeds and tags belong to the run", law16},
		{"Law17", "an update is answered once, and by the end of its run at the latest", law17},
		{"Law18", "a paused run is claimed for verbs alone and, like one to be paused, at rest", law18},
		{"Law19", "a turn rewrites existing entries after it prunes and before it writes", law19},
		{"Law20", "a returned item is new again in its place", law20},
		{"Law21", "audits are numbered and timed; a generation grows; a fork begins with the given history", law21},
		{"Law22", "a continuation raises the incarnation, replaces workflow, input and seed, and leaves the rest of the run alone", law22},
		{"Law23", "an item is new, seen, consumed or dead; the end of a run makes dead letters, going on makes them new", law23},
		{"Law24", "a sweep deletes only what has outlived its retention, in parts, the run last", law24},
		{"Law25", "builds are text; a run's build only rises; a claim for a build leaves runs of a later one", law25},
		{"Law26", "a node's boot that is to be drained stays so", law26},
		{"Law27", "a filter selects entities only by workflow, ID or number", law27},
		{"Law28", "a run in a queue is held until a grant comes", law28},
		{"Law29", "a store that has gone back says so to a sender that knows of a later batch", law29},
		{"Law30", "a node that replaces others takes the leases of its own earlier boots, and no other, at once", law30},
		{"Law31", "a run waits for a queue in its row", law31},
		{"Law32", "an Admit of a queue's entity makes a run of its line ready", law32},
		{"Law33", "a run is admitted until it ends or yields", law33},
		{"Law34", "an entity that rests is ready while a run waits in its line", law34},
		{"Claims", "Claim takes ready runs, in order; of runs whose code the node lacks, those that need none", claimCases},
		{"Starts", "a start finds its own repeat by the seed, leaves or replaces an existing run by its policy", startCases},
		{"Reads", "Load, List, Count, History and Inbox return the requested rows, in order", slices.Concat(loadCases, listCases)},
		{"Nodes", "Register lists a node until it stops or is forgotten, and remembers workflows", nodeCases},
		{"History", "calls of several processes at once on one shard can be put in an order that explains their answers", linearCases},
		{"Changed", "Changed returns when another process may have made a run ready, and not for ever", changedCases},
	}
}

// Run checks the store that open makes.
func Run(t *testing.T, open Open) {
	RunPart(t, open, 0, 1)
}

// RunPart is Run with one of so many parts of the random operations, counted from 0:
// for a store of which several settings are tried, each with a part.
func RunPart(t *testing.T, open Open, part, of int) {
	RunCases(t, open)
	t.Run("Differential", func(t *testing.T) {
		first, end := soak.Range(t, seeds)
		runDifferential(t, open, share{part, of}, first, end)
	})
}

// RunShare is Run with one of so many parts of everything, counted from 0: of the cases, the scripts and the random
// operations. It is for further settings of a store that passes Run with one, where all of it takes too long for each.
func RunShare(t *testing.T, open Open, part, of int) {
	s := share{part, of}
	runCases(t, open, s)
	t.Run("Differential", func(t *testing.T) { runDifferential(t, open, s, 0, seeds*soak.Times(t)) })
}

// RunCases is Run without the random operations: for a store that another test tries
// them on, in another place.
func RunCases(t *testing.T, open Open) { runCases(t, open, share{0, 1}) }

// share is one of so many parts of a list.
type share struct{ part, of int }

// has reports whether an element of the list is in the part.
func (s share) has(i int) bool { return i%s.of == s.part }

func runCases(t *testing.T, open Open, s share) {
	i := 0
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				if i++; !s.has(i) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Cleanup(func() {
						if t.Failed() {
							t.Logf("%s: %s", g.name, g.rule)
						}
					})
					clock := newClock()
					runCase(c, newKit(t, open(t, clock.Now), clock, time.Minute))
				})
			}
		})
	}
	t.Run("Scripts", func(t *testing.T) { runScripts(t, open, s) })
}

// runCase carries out a case. A panic fails this case alone, and not all tests with it.
func runCase(c testCase, k *kit) {
	defer func() {
		if p := recover(); p != nil {
			k.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	c.run(k)
}

// shardA and shardB are the shards that the cases use.
var (
	shardA = store.Shard{Group: store.DefaultGroup}
	shardB = store.Shard{Group: "other"}
)

const (
	second = store.Delay(1_000_000)
	minute = 60 * second
	hour   = 60 * minute
)

func seedOf(n int) store.Seed { return store.Seed([]byte(fmt.Sprintf("%016d", n))) }
