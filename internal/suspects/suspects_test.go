package suspects_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/suspects"
	"github.com/stet-run/stet/store"
)

// owner isolates at once, unless it is told to wait, and notes what it did.
type owner struct {
	mu       sync.Mutex
	draining bool
	isolated []string
	later    bool
	begin    func() // of the last one, if later
}

func (o *owner) Draining() bool { return o.draining }

func (o *owner) Isolate(_ suspects.Candidate, run *store.Run, begin func()) {
	o.mu.Lock()
	o.isolated = append(o.isolated, run.ID)
	o.begin = begin
	o.mu.Unlock()
	if !o.later {
		begin()
	}
}

type candidate struct {
	shard    *ownership.Shard
	name     string
	kit      *kit
	timeIsUp func() bool
}

func (c *candidate) Shard() *ownership.Shard { return c.shard }
func (c *candidate) GoOn(*store.Snapshot) {
	c.kit.mu.Lock()
	defer c.kit.mu.Unlock()
	c.kit.went = append(c.kit.went, c.name)
}
func (c *candidate) TimeIsUp() bool { return c.timeIsUp() }

// kit is a line with two shards; went lists the runs that were let go on, in order.
type kit struct {
	t        *testing.T
	owner    owner
	line     *suspects.Line
	set      ownership.Set
	shards   [2]*ownership.Shard
	inMemory bool // runs are still in memory when their time is up
	nos      map[string]store.RunNo

	mu   sync.Mutex // timers let runs go on
	went []string
}

func newKit(t *testing.T) *kit {
	k := &kit{t: t, nos: map[string]store.RunNo{}}
	k.line = suspects.New(&k.owner, time.Second)
	shard := func(slot int) store.Shard { return store.Shard{Group: store.DefaultGroup, Slot: slot} }
	k.set.Take(t.Context(), []store.Lease{{Shard: shard(0), Epoch: 1}, {Shard: shard(1), Epoch: 1}})
	for i := range k.shards {
		k.shards[i] = k.set.Now().Of(shard(i))
	}
	return k
}

// found adds a run that was found claimed so many times.
func (k *kit) found(name string, times, shard int) {
	no := store.RunNo(len(k.nos) + 1)
	k.nos[name] = no
	c := &candidate{shard: k.shards[shard], name: name, kit: k, timeIsUp: func() bool { return k.inMemory }}
	snapshot := &store.Snapshot{Run: store.Run{No: no, ID: name, Suspect: times}}
	if times > 1 {
		k.line.Queue(c, snapshot)
	} else {
		k.line.StandBeside(c, snapshot)
	}
}

func (k *kit) wants(names ...string) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(k.went, names) {
		k.t.Errorf("expected %v to go on, found %v", names, k.went)
	}
}

func TestARunFoundOnceGoesOnAtOnce(t *testing.T) {
	k := newKit(t)
	k.found("a", 1, 0)
	k.wants("a")
}

func TestOneSuspectAtATimeIsAlone(t *testing.T) {
	k := newKit(t)
	k.found("a", 2, 0)
	k.found("b", 3, 0)
	k.found("c", 1, 1)
	k.wants("a")
	k.line.Ended(k.nos["b"]) // is not alone
	k.wants("a")
	k.line.Ended(k.nos["a"])
	k.wants("a", "b")
	k.line.Ended(k.nos["b"])
	k.wants("a", "b", "c")
	if want := []string{"a", "b"}; !slices.Equal(k.owner.isolated, want) {
		t.Errorf("expected %v to be isolated, found %v", want, k.owner.isolated)
	}
}

func TestRunsFoundOnceWaitForSuspectsThatAreLoading(t *testing.T) {
	k := newKit(t)
	k.line.Expect(k.shards[0])
	k.found("beside", 1, 1)
	k.wants()
	k.found("alone", 2, 0)
	k.line.Arrived(k.shards[0])
	k.wants("alone")
	k.line.Ended(k.nos["alone"])
	k.wants("alone", "beside")
}

func TestNoRunGoesOnBeforeItsIsolationIsDurable(t *testing.T) {
	k := newKit(t)
	k.owner.later = true
	k.found("a", 2, 0)
	k.wants()
	k.owner.begin()
	k.wants("a")
}

func TestALostShardEndsTheTimeAlone(t *testing.T) {
	k := newKit(t)
	k.owner.later = true
	k.found("lost", 2, 0)
	k.found("also lost", 2, 0)
	k.found("next", 2, 1)
	begin := k.owner.begin
	k.owner.later = false
	k.set.Lose(k.shards[0])
	k.line.Forget(map[*ownership.Shard]bool{k.shards[0]: true})
	k.wants("next")
	begin() // its commit is answered late
	k.wants("next")
	k.found("too late", 2, 0)
	k.line.Ended(k.nos["next"])
	k.wants("next")
}

func TestADrainingOwnerBeginsNothing(t *testing.T) {
	k := newKit(t)
	k.owner.draining = true
	k.found("a", 2, 0)
	k.wants()
}

func TestTheTimeAloneDoublesAndEnds(t *testing.T) {
	for found, want := range map[int]time.Duration{2: time.Second, 3: 2 * time.Second, 5: 8 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			k := newKit(t)
			k.found("a", found, 0) // has left memory when its time is up
			k.found("b", 2, 0)
			time.Sleep(want - time.Millisecond)
			synctest.Wait()
			k.wants("a")
			time.Sleep(time.Millisecond)
			synctest.Wait()
			k.wants("a", "b")
			k.line.Ended(k.nos["b"])
		})
	}
}

func TestARunInMemoryEndsItsOwnTimeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t)
		k.inMemory = true
		k.found("a", 2, 0)
		k.found("b", 2, 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		k.wants("a") // until it says that the end is durable
		k.line.Ended(k.nos["a"])
		k.wants("a", "b")
		k.line.Ended(k.nos["b"])
	})
}
