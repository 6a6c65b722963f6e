package suspects_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/suspects"
	"github.com/stet-run/stet/store"
)

// owner makes trials durable at once, unless it is told to wait, and notes what it did.
type owner struct {
	mu       sync.Mutex
	draining atomic.Bool
	trials   []string // "alone" or "tried", and the run
	later    bool
	begin    []func() // if later
}

func (o *owner) Draining() bool  { return o.draining.Load() }
func (o *owner) Trying(int, int) {}

func (o *owner) Try(_ suspects.Candidate, run *store.Run, alone bool, begin func()) {
	o.mu.Lock()
	o.trials = append(o.trials, map[bool]string{true: "alone ", false: "tried "}[alone]+run.ID)
	o.begin = append(o.begin, begin)
	o.mu.Unlock()
	if !o.later {
		begin()
	}
}

type candidate struct {
	shard *ownership.Shard
	name  string
	no    store.RunNo
	kit   *kit
}

func (c *candidate) Shard() *ownership.Shard { return c.shard }
func (c *candidate) GoOn(*store.Snapshot) {
	c.kit.mu.Lock()
	defer c.kit.mu.Unlock()
	c.kit.went = append(c.kit.went, c.name)
}

func (c *candidate) TimeIsUp() bool {
	if c.kit.stuck {
		return true
	}
	if c.kit.inMemory {
		go c.kit.line.Ended(c.no)
	}
	return c.kit.inMemory
}

// kit is a line with two shards, in a bubble. The longest trial is 8 s. went lists the runs
// that were let go on, in order.
type kit struct {
	t        *testing.T
	owner    owner
	line     *suspects.Line
	set      ownership.Set
	shards   [2]*ownership.Shard
	inMemory bool // runs are still in memory when their time is up
	stuck    bool // and do not make its end durable
	nos      map[string]store.RunNo

	mu   sync.Mutex // timers let runs go on
	went []string
}

func bubble(t *testing.T, test func(*testing.T, *kit)) {
	synctest.Test(t, func(t *testing.T) {
		k := &kit{t: t, nos: map[string]store.RunNo{}}
		k.line = suspects.New(&k.owner, 8*time.Second)
		shard := func(slot int) store.Shard { return store.Shard{Group: store.DefaultGroup, Slot: slot} }
		k.set.Take(t.Context(), []store.Lease{{Shard: shard(0), Epoch: 1}, {Shard: shard(1), Epoch: 1}})
		for i := range k.shards {
			k.shards[i] = k.set.Now().Of(shard(i))
		}
		test(t, k)
		k.owner.draining.Store(true)
		for _, no := range k.nos {
			k.line.Ended(no)
		}
	})
}

// found adds a run that was found claimed so many times. All runs of a life are expected
// first, and arrive together.
func (k *kit) found(name string, times, strikes, shard int) {
	no := store.RunNo(len(k.nos) + 1)
	k.nos[name] = no
	c := &candidate{shard: k.shards[shard], name: name, no: no, kit: k}
	run := store.Run{No: no, ID: name, Suspect: times, Strikes: strikes}
	k.line.Queue(c, &store.Snapshot{Run: run})
}

// together adds runs that arrive together.
func (k *kit) together(add func()) {
	k.line.Expect(k.shards[0])
	add()
	k.line.Arrived(k.shards[0])
}

func (k *kit) ended(names ...string) {
	for _, name := range names {
		k.line.Ended(k.nos[name])
	}
}

// took returns the names of the runs that went on since the last call, in any order.
func (k *kit) took() []string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	names := k.went
	k.went = nil
	slices.Sort(names)
	return names
}

func (k *kit) wants(names ...string) {
	k.t.Helper()
	if got := k.took(); !slices.Equal(got, names) {
		k.t.Errorf("expected %v to go on, found %v", names, got)
	}
}

func TestOnlyRunsFoundTwiceAreSuspected(t *testing.T) {
	for n, want := range []bool{false, false, true, true} {
		if suspects.Suspected(&store.Run{Suspect: n}) != want {
			t.Errorf("found %d times: expected %t", n, want)
		}
	}
}

// Half of those found most often go on, then the other half, then all others.
func TestTrialsGoByHalves(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.inMemory = true
		k.together(func() {
			for i := range 10 {
				k.found(fmt.Sprint("most ", i), 3, 1, i%2)
			}
			k.found("other", 2, 0, 0)
		})
		first := k.took()
		if len(first) != 5 {
			t.Fatalf("%v go on first", first)
		}
		time.Sleep(4*time.Second - time.Millisecond)
		k.wants()
		time.Sleep(time.Millisecond)
		second := k.took()
		if len(second) != 5 || slices.ContainsFunc(second, func(s string) bool { return slices.Contains(first, s) }) ||
			slices.Contains(second, "other") {
			t.Fatalf("after %v %v go on", first, second)
		}
		time.Sleep(4 * time.Second)
		k.wants("other")
		k.found("late", 2, 0, 0)
		k.wants()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		k.wants("late") // a round of its own, alone after a pause
		for _, trial := range k.owner.trials {
			if alone := trial == "alone late"; !alone && trial[:5] != "tried" {
				t.Errorf("found %q", trial)
			}
		}
	})
}

// A trial ends when all its runs have committed.
func TestTrialsEndWithTheirRuns(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.together(func() {
			for _, name := range []string{"a", "b", "c", "d"} {
				k.found(name, 2, 0, 0)
			}
		})
		first := k.took()
		k.ended(first[0])
		k.wants()
		k.ended(first[1])
		if second := k.took(); len(second) != 2 {
			t.Errorf("%v go on, then %v", first, second)
		}
	})
}

// The pause before a trial alone grows: the third trial begins when the others would be over
// long since. Everybody waits meanwhile.
func TestAPauseComesBeforeATrialAlone(t *testing.T) {
	for strikes, pause := range map[int]time.Duration{0: 2 * time.Second, 1: 4 * time.Second, 2: 16 * time.Second} {
		bubble(t, func(t *testing.T, k *kit) {
			k.inMemory = true
			k.together(func() {
				k.found("poison", 5, strikes, 0)
				k.found("other", 4, 0, 1)
			})
			time.Sleep(pause - time.Millisecond)
			k.wants()
			time.Sleep(time.Millisecond)
			k.wants("poison")
			time.Sleep(8*time.Second - time.Millisecond)
			k.wants()
			time.Sleep(time.Millisecond)
			k.wants("other")
			if want := []string{"alone poison", "tried other"}; !slices.Equal(k.owner.trials, want) {
				t.Errorf("expected the trials %q, found %q", want, k.owner.trials)
			}
		})
	}
}

func TestARunThatHasLeftMemoryIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.together(func() { k.found("a", 2, 0, 0); k.found("b", 2, 0, 0) })
		first := k.took()
		time.Sleep(2 * time.Second)
		if second := k.took(); len(first) != 1 || len(second) != 1 {
			t.Errorf("%v go on, then %v", first, second)
		}
	})
}

// A store that is away keeps the others waiting for a bounded time only.
func TestATrialEndsThoughItsEndDoesNotBecomeDurable(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.stuck = true
		k.together(func() { k.found("a", 2, 0, 0); k.found("b", 2, 0, 0) })
		first := k.took()
		time.Sleep(4*time.Second - time.Millisecond)
		k.wants()
		time.Sleep(time.Millisecond)
		if second := k.took(); len(first) != 1 || len(second) != 1 {
			t.Errorf("%v go on, then %v", first, second)
		}
		time.Sleep(time.Minute)
	})
}

func TestNoRunGoesOnBeforeItsTrialIsDurable(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.owner.later = true
		k.together(func() { k.found("a", 2, 0, 0); k.found("b", 2, 0, 0); k.found("c", 2, 0, 0); k.found("d", 2, 0, 0) })
		k.wants()
		if len(k.owner.begin) != 2 {
			t.Fatalf("%d trials", len(k.owner.begin))
		}
		k.owner.begin[0]()
		k.owner.begin[0]()
		if went := k.took(); len(went) != 1 {
			t.Errorf("%v go on", went)
		}
		k.owner.begin[1]()
		if went := k.took(); len(went) != 1 {
			t.Errorf("%v go on", went)
		}
	})
}

func TestALostShardEndsItsTrials(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.owner.later = true
		k.found("lost", 2, 0, 0)
		k.found("also lost", 2, 0, 0)
		k.found("next", 2, 0, 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		begin := k.owner.begin[0]
		k.set.Lose(k.shards[0])
		k.owner.later = false
		k.line.Forget(map[*ownership.Shard]bool{k.shards[0]: true})
		time.Sleep(time.Minute)
		begin() // its commit is answered late
		k.found("too late", 2, 0, 0)
		time.Sleep(time.Minute)
		k.wants("next")
	})
}

func TestADrainingOwnerBeginsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.owner.draining.Store(true)
		k.found("a", 2, 0, 0)
		time.Sleep(time.Hour)
		k.wants()
	})
}

// process is what a life of a process leaves in the store: how often each run was found, and
// its strikes.
type process struct {
	suspect, strikes map[string]int
	alone            map[string]bool // durable
}

// life lets the runs of a process go on as a new one would. A poison run ends it so long
// after it has begun; other causes after limit. It reports how long it lived, and which runs
// went on.
func (p *process) life(t *testing.T, poison map[string]time.Duration, limit time.Duration) (
	lived time.Duration, went map[string]time.Duration,
) {
	went = map[string]time.Duration{}
	bubble(t, func(t *testing.T, k *kit) {
		k.inMemory = true
		begun := time.Now()
		k.together(func() {
			for _, name := range slices.Sorted(maps.Keys(p.suspect)) {
				if p.suspect[name] < 2 {
					k.went = append(k.went, name)
				} else {
					k.found(name, p.suspect[name], p.strikes[name], 0)
				}
			}
		})
		for {
			for _, name := range k.took() {
				went[name] = time.Since(begun)
			}
			for name, after := range poison {
				if at, ok := went[name]; ok {
					limit = min(limit, at+after)
				}
			}
			if lived = time.Since(begun); lived >= limit {
				break
			}
			time.Sleep(min(limit-lived, 100*time.Millisecond))
		}
		// Those on trial are the last ones that were tried.
		p.alone = k.onTrial(went, lived)
		p.die()
	})
	return lived, went
}

// onTrial returns the runs whose trial is not over, with whether they are alone.
func (k *kit) onTrial(went map[string]time.Duration, now time.Duration) map[string]bool {
	on, last := map[string]bool{}, time.Duration(-1)
	for _, trial := range k.owner.trials {
		last = max(last, went[trial[6:]])
	}
	length := 8 * time.Second
	for _, trial := range k.owner.trials {
		if name := trial[6:]; went[name] == last && now-last < length {
			on[name] = trial[:5] == "alone"
		}
	}
	return on
}

// die is what the store does with the claimed runs of a process that has ended uncleanly.
func (p *process) die() {
	for name, n := range p.suspect {
		alone, tried := p.alone[name]
		switch {
		case tried && alone:
			p.suspect[name], p.strikes[name] = n+1, p.strikes[name]+1
		case tried:
			p.suspect[name], p.strikes[name] = n+1, 1
		case n < 2:
			p.suspect[name], p.strikes[name] = n+1, 0
		default:
			p.suspect[name], p.strikes[name] = max(n-1, 2), 0
		}
	}
}

func newProcess(n int) *process {
	p := &process{suspect: map[string]int{}, strikes: map[string]int{}}
	for i := range n {
		p.suspect[fmt.Sprintf("run %04d", i)] = 0
	}
	return p
}

// stalled returns the run with so many strikes that it is stalled.
func (p *process) stalled() string {
	for name, n := range p.strikes {
		if n >= 3 {
			return name
		}
	}
	return ""
}

// Out of a thousand runs that never commit, the one that ends the process is found in some
// fifteen lives, whether it does so at once or after some seconds.
func TestAPoisonRunIsFoundByHalves(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 64, 1000} {
		for _, after := range []time.Duration{0, 700 * time.Millisecond, 5 * time.Second} {
			p := newProcess(n)
			poison := fmt.Sprintf("run %04d", rand.IntN(n))
			most := 2 + 10 + 3
			if after > time.Second { // the first trials are too short, and those ends say nothing
				most *= 5
			}
			lives := 0
			for p.stalled() == "" && lives <= most {
				p.life(t, map[string]time.Duration{poison: after}, time.Hour)
				lives++
			}
			if got := p.stalled(); got != poison || lives > most {
				t.Errorf("%d runs, one ends the process after %s: after %d lives %q is stalled; want %q within %d",
					n, after, lives, got, poison, most)
			}
		}
	}
}

// Several are found one after the other, and no other run is stalled for them.
func TestSeveralPoisonRunsAreFound(t *testing.T) {
	p := newProcess(40)
	poison := map[string]time.Duration{"run 0003": 0, "run 0017": 0, "run 0018": 300 * time.Millisecond}
	for lives := 0; len(poison) > 0; lives++ {
		p.life(t, poison, time.Hour)
		if got := p.stalled(); got != "" {
			if _, ok := poison[got]; !ok {
				t.Fatalf("%s is stalled after %d lives", got, lives)
			}
			delete(poison, got)
			delete(p.suspect, got)
			delete(p.strikes, got)
		}
		if lives > 200 {
			t.Fatalf("after %d lives these are not found: %v", lives, slices.Sorted(maps.Keys(poison)))
		}
	}
}

// A process that is killed again and again by something else stalls no run: neither about
// once a second, nor at any other interval.
func TestACrashLoopOfAnotherCauseStallsNoRun(t *testing.T) {
	for _, every := range []time.Duration{
		300 * time.Millisecond, time.Second, 2500 * time.Millisecond, 3 * time.Second, 5 * time.Second, 9 * time.Second,
		11 * time.Second, 13 * time.Second, 17 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute,
	} {
		for _, n := range []int{1, 2, 5, 60} {
			p := newProcess(n)
			for kill := range 60 {
				jitter := time.Duration(rand.Int64N(int64(every / 8)))
				p.life(t, nil, every+jitter)
				if got := p.stalled(); got != "" {
					t.Fatalf("%d runs, a kill each %s: after %d kills %s is stalled", n, every, kill+1, got)
				}
			}
		}
	}
}

// However often the process was killed: when it lives again all runs go on within a bound.
func TestNoRunWaitsLong(t *testing.T) {
	for kills := range 30 {
		p := newProcess(1000)
		for range kills {
			p.life(t, nil, time.Duration(rand.Int64N(int64(12*time.Second))))
		}
		_, went := p.life(t, nil, 2*time.Minute)
		last := time.Duration(0)
		for _, at := range went {
			last = max(last, at)
		}
		bound := 24 * time.Second // three times the longest trial
		if kills <= 2 {
			bound = 4 * time.Second
		}
		if len(went) != 1000 || last > bound {
			t.Errorf("after %d kills %d of 1000 go on, the last after %s; want all within %s",
				kills, len(went), last, cmp.Or(bound, 0))
		}
	}
}
