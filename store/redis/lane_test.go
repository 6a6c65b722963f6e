package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestClusterEngine puts the engine on a cluster of three masters through what users rely on. A quick run takes another
// part of the suite each day.
func TestClusterEngine(t *testing.T) {
	t.Parallel()
	today, parts := 0, 1
	if !soak.Usual(t) {
		today, parts = soak.Part(t, 1, soak.Week), soak.Week
	}
	enginetest.RunShare(t, func(t testing.TB) func() store.Store {
		url, prefix := servers.SharedRedisCluster(t)
		h := &harness{url: url, options: []redis.Option{redis.Prefix(prefix), redis.Slots(7)}}
		return func() store.Store {
			s := h.open(t)
			if n := len(s.Lanes()); n != 3 {
				t.Fatalf("the store has %d lanes; want 3", n)
			}
			return s
		}
	}, today, parts)
}

var number = stet.Message[int]("number")

// adding receives so many numbers and returns their sum.
var adding = stet.Define("adding", func(ctx stet.Context, n int) (sum int, err error) {
	for range n {
		v, err := number.Receive(ctx)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
})

// family starts children, and returns the sum of what they return.
var family = stet.Define("family", func(ctx stet.Context, n int) (sum int, err error) {
	var children []*stet.RunFuture[int]
	for i := range n {
		child, err := leaf.Go(ctx, i)
		if err != nil {
			return 0, err
		}
		children = append(children, child)
	}
	for _, child := range children {
		v, err := child.Await(ctx)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
})

var leaf = stet.Define("leaf", func(ctx stet.Context, n int) (int, error) {
	return stet.Step(ctx, "step", func(context.Context) (int, error) { return n, nil })
})

// crew is an engine on a cluster, until the test ends.
type crew struct {
	*stet.Engine
	t     *testing.T
	ctx   context.Context
	store *redis.Store
	next  int
	said  int
}

func newCrew(t *testing.T, s *redis.Store, lease time.Duration) *crew {
	t.Helper()
	e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{adding, family, leaf}, Build: "b",
		LeaseTTL: lease, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(life) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // of a machine that is very busy
	t.Cleanup(func() {
		cancel()
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &crew{Engine: e, t: t, ctx: ctx, store: s}
}

// id returns the ID of a run in a lane.
func (c *crew) id(lane int) string {
	for {
		c.next++
		if id := fmt.Sprint("run ", c.next); c.store.LaneOf(redis.SlotOf(c.store, id)) == lane {
			return id
		}
	}
}

func (c *crew) start(id string, n int) {
	c.t.Helper()
	if _, err := adding.Start(c.ctx, c.Engine, n, stet.ID(id)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *crew) say(id string, n int) {
	c.t.Helper()
	c.said++
	key := stet.SendKey(fmt.Sprint("say ", c.said))
	patiently(c.t, func() error { return number.Send(c.ctx, c.Engine, id, n, key) })
}

func (c *crew) ends(id string, want int) {
	c.t.Helper()
	if got, err := adding.Handle(c.Engine, id).Wait(c.ctx); err != nil || got != want {
		c.t.Fatalf("run %s: %d, %v; want %d", id, got, err, want)
	}
}

func (c *crew) family(id string) {
	c.t.Helper()
	if _, err := family.Start(c.ctx, c.Engine, 20, stet.ID(id)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *crew) familyEnds(id string) {
	c.t.Helper()
	if sum, err := family.Handle(c.Engine, id).Wait(c.ctx); err != nil || sum != 190 {
		c.t.Fatalf("family %s: %d, %v; want 190", id, sum, err)
	}
}

// Of three masters one dies, or stands still without a word, for longer than leases last. The runs of
// the others start, receive and end meanwhile; what they send to the first one waits. When it is back
// everything goes on, and has happened once.
func TestAMasterThatIsAwayStopsItsRunsAlone(t *testing.T) {
	soak.Faults(t)
	t.Run("Dead", func(t *testing.T) { t.Parallel(); withoutAMaster(t, newMasters(t, stopped)) })
	t.Run("Still", func(t *testing.T) { t.Parallel(); withoutAMaster(t, newMasters(t, still)) })
}

// TestAMasterThatIsNotReachedStopsItsRunsAlone is the same for a process that does not reach one of the masters: its
// connections are refused, or end in silence. A quick run has one of the two, with the other one the next day.
func TestAMasterThatIsNotReachedStopsItsRunsAlone(t *testing.T) {
	both := soak.Usual(t)
	part := 0
	if !both {
		part = soak.Part(t, 0, 2)
	}
	if both || part == 0 {
		t.Run("Refused", func(t *testing.T) { withoutAMaster(t, newGround(t, refused)) })
	}
	if both || part == 1 {
		t.Run("Silent", func(t *testing.T) { withoutAMaster(t, newGround(t, (*servers.Proxy).Sever)) })
	}
}

func withoutAMaster(t *testing.T, g *ground) {
	s := g.open(t)
	const lease = 3 * time.Second
	c := newCrew(t, s, lease)
	gone := redis.Masters(s)[0] // that of part 0
	ids := make([][]string, 3)
	for lane := range ids {
		for range 4 {
			ids[lane] = append(ids[lane], c.id(lane))
		}
	}
	var families []string
	for lane := range ids {
		for _, id := range ids[lane] {
			c.start(id, 2)
			c.say(id, 1)
		}
		families = append(families, c.id(lane))
		c.family(families[lane])
	}
	for _, id := range families {
		c.familyEnds(id)
	}
	// A busy machine is slow without a master that is away, too.
	limit := lease
	for lane := range ids {
		begun, id := time.Now(), c.id(lane)
		c.start(id, 1)
		c.say(id, 1)
		c.ends(id, 1)
		limit = max(limit, lease+10*time.Since(begun))
	}
	comeBack := g.takeAway(t, gone)
	began := time.Now()
	next := time.NewTicker(200 * time.Millisecond) // it need not work without a pause
	defer next.Stop()
	var slowest time.Duration
	for i := 0; i < 8 || time.Since(began) < 2*lease; i++ {
		begun := time.Now()
		lane := 1 + i%2
		id := c.id(lane)
		if i < 8 {
			id = ids[lane][i/2]
		} else {
			c.start(id, 2)
			c.say(id, 1)
		}
		c.say(id, 2)
		c.ends(id, 3)
		slowest = max(slowest, time.Since(begun))
		<-next.C
	}
	if slowest > limit {
		t.Errorf("a run of a master that is there took %s, want at most %s", slowest, limit)
	}
	t.Logf("the slowest run beside a master that is away took %s", slowest)
	stuck := c.id(1)
	c.family(stuck)
	for _, all := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := s.List(ctx, store.Filter{}); return err },
		func(ctx context.Context) error { _, err := s.Count(ctx, store.Filter{}); return err },
	} {
		limited, cancel := context.WithTimeout(c.ctx, time.Second)
		err := all(limited)
		cancel()
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) ||
			!strings.Contains(fmt.Sprint(err), gone) {
			t.Errorf("a list without a master: %v; want %s in it", err, gone)
		}
	}
	if page, err := s.List(c.ctx, store.Filter{IDs: ids[1]}); err != nil || len(page.Runs) != len(ids[1]) {
		t.Errorf("of runs of another one %d are listed, %v", len(page.Runs), err)
	}
	begun := time.Now()
	if d, err := s.Describe(c.ctx); err != nil || d.Lanes != 3 || len(d.Nodes) != 1 {
		t.Errorf("described without a master: %d lanes, %d nodes, %v", d.Lanes, len(d.Nodes), err)
	}
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("describing without a master took %s", took)
	}
	comeBack()
	for _, id := range ids[0] {
		patiently(t, func() error { return number.Send(c.ctx, c.Engine, id, 2, stet.SendKey("second")) })
		c.ends(id, 3)
	}
	c.familyEnds(stuck)
	var page store.Page
	patiently(t, func() (err error) {
		page, err = s.List(c.ctx, store.Filter{Workflows: []string{"leaf"}, Limit: 1000})
		return err
	})
	if len(page.Runs) != 80 {
		t.Errorf("%d children; want 80", len(page.Runs))
	}
	healthy(t, s)
}

// A process begins while a master is away, that of the first part: it works on the others, and on the
// first when it is back. Without all masters a store is not made.
func TestAStoreIsOpenedWithoutOneOfItsMasters(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	openedWithoutAMaster(t, newMasters(t, still))
}

// TestAStoreIsOpenedThatDoesNotReachAMaster is the same where the first master's connections are refused.
func TestAStoreIsOpenedThatDoesNotReachAMaster(t *testing.T) {
	t.Parallel()
	openedWithoutAMaster(t, newGround(t, refused))
}

func openedWithoutAMaster(t *testing.T, g *ground) {
	made := g.open(t)
	resume := g.takeAway(t, redis.Masters(made)[0])
	begun := time.Now()
	s := g.open(t, redis.Slots(300)) // it keeps its own
	t.Logf("opened in %s", time.Since(begun))
	if d, err := s.Describe(t.Context()); err != nil || d.Slots != 256 || d.Lanes != 3 {
		t.Errorf("described with %d slots and %d lanes, %v", d.Slots, d.Lanes, err)
	}
	other := append(slices.Clone(g.options), redis.Prefix("other-"+t.Name()), quiet)
	_, err := redis.Open(t.Context(), g.url, other...)
	if !away(err) || !strings.Contains(fmt.Sprint(err), "when all masters are there") {
		t.Errorf("a store is made without a master: %v", err)
	}
	c := newCrew(t, s, 10*time.Second)
	for _, lane := range []int{1, 2} {
		id := c.id(lane)
		c.start(id, 1)
		c.say(id, 5)
		c.ends(id, 5)
	}
	resume()
	id := c.id(0)
	patiently(t, func() error { _, err := adding.Start(c.ctx, c.Engine, 1, stet.ID(id)); return err })
	c.say(id, 6)
	c.ends(id, 6)
}

func away(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown)
}

// A store that was made without lanes, by an older version or on a single server, gets them when it is opened on
// a cluster with all masters. What is noted is noted once.
func TestAStoreWithoutLanesGetsThem(t *testing.T) {
	t.Parallel()
	g := newGround(t, refused)
	former := g.open(t, redis.Slots(9))
	run := func(s *redis.Store) store.Answer {
		t.Helper()
		c := start("r")
		c.Start.Shard.Slot = redis.SlotOf(s, "r")
		answers, _, err := s.Apply(t.Context(), []store.Command{c})
		if err != nil {
			t.Fatal(err)
		}
		return answers[0]
	}
	first := run(former)
	cluster := clusterOf(t, g.url)
	for part := range 9 {
		forget := cluster.B().Del().Key(noted(former, part)).Build()
		if part == 0 {
			forget = cluster.B().Hdel().Key(noted(former, part)).Field("lanes").Build()
		}
		if n, err := cluster.Do(t.Context(), forget).AsInt64(); err != nil || n != 1 {
			t.Fatalf("part %d: %d, %v", part, n, err)
		}
	}
	open := func() (*redis.Store, error) {
		return redis.Open(t.Context(), g.url, append(slices.Clone(g.options), quiet)...)
	}
	comeBack := g.takeAway(t, redis.Masters(former)[2])
	if _, err := open(); !away(err) || !strings.Contains(fmt.Sprint(err), "when all masters are there") {
		t.Errorf("opened without a master: %v", err)
	}
	comeBack()
	var s *redis.Store
	patiently(t, func() (err error) { s, err = open(); return err })
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if again := run(s); len(s.Lanes()) != 3 || again.Run.No != first.Run.No {
		t.Errorf("%d lanes, run %+v; want that of before, %+v", len(s.Lanes()), again.Run, first.Run)
	}
	if other := g.open(t); fmt.Sprint(redis.Homes(other)) != fmt.Sprint(redis.Homes(s)) {
		t.Errorf("the homes of the lanes are %v and %v", redis.Homes(other), redis.Homes(s))
	}
}

// noted returns the key of what is noted of a store, in a part.
func noted(s *redis.Store, part int) string {
	return strings.Replace(redis.Homes(s)[0], ":0}", fmt.Sprintf(":%d}M", part), 1)
}

// TestAProcessSaysThatSlotsHaveMoved: a part is noted in the lane of another master than the one that has it now.
func TestAProcessSaysThatSlotsHaveMoved(t *testing.T) {
	t.Parallel()
	url, prefix := servers.SharedRedisCluster(t)
	cluster := clusterOf(t, url)
	var log strings.Builder
	open := func() *redis.Store {
		log.Reset()
		return openAt(t, url, redis.Prefix(prefix), redis.Slots(9), redis.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	}
	s := open()
	open()
	const says = "slots have moved"
	if strings.Contains(log.String(), says) {
		t.Errorf("at first the log has %q:\n%s", says, log.String())
	}
	key := noted(s, 0)
	lanes, err := cluster.Do(t.Context(), cluster.B().Hget().Key(key).Field("lanes").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	of := strings.Split(lanes, ",")
	of[8] = map[string]string{"0": "1", "1": "2", "2": "0"}[of[8]]
	moved := cluster.B().Hset().Key(key).FieldValue().FieldValue("lanes", strings.Join(of, ",")).Build()
	if err := cluster.Do(t.Context(), moved).Error(); err != nil {
		t.Fatal(err)
	}
	after := open()
	if !strings.Contains(log.String(), says) {
		t.Errorf("after a part has moved the log does not have %q:\n%s", says, log.String())
	}
	if lane := fmt.Sprint(after.LaneOf(8)); lane != of[8] {
		t.Errorf("part 8 is of lane %s; want %s", lane, of[8])
	}
	if _, _, err := after.Apply(t.Context(), starts(after, 64)); err != nil {
		t.Errorf("with a part apart from its lane: %v", err)
	}
	healthy(t, after)
}

// After a failover a lane goes on at the new master; after slots have moved, wherever its parts are. A
// process that begins then says that the lanes are not those of the masters any more.
func TestALaneFollowsItsParts(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	cluster := servers.NewRedisCluster(t, append([]string{"cluster-require-full-coverage no"}, servers.Durable...)...)
	s := openAt(t, cluster.URL())
	c := newCrew(t, s, 5*time.Second)
	works := func(what string) {
		t.Helper()
		var ids []string
		for lane := range s.Lanes() {
			id := c.id(lane)
			patiently(t, func() error { _, err := adding.Start(c.ctx, c.Engine, 1, stet.ID(id)); return err })
			patiently(t, func() error { return number.Send(c.ctx, c.Engine, id, 7, stet.SendKey("seven")) })
			ids = append(ids, c.id(lane))
			patiently(t, func() error { _, err := family.Start(c.ctx, c.Engine, 20, stet.ID(ids[lane])); return err })
			c.ends(id, 7)
		}
		for _, id := range ids {
			c.familyEnds(id)
		}
		t.Log(what)
	}
	works("at first")
	lost := cluster.Owner(t, cluster.SlotOf(t, redis.Homes(s)[1]))
	begun := time.Now()
	cluster.Lose(t, lost)
	works(fmt.Sprint("after a failover of ", time.Since(begun)))
	if err := lost.Start(); err != nil {
		t.Fatal(err)
	}
	masters := cluster.Masters()
	var log strings.Builder
	opened := func() *redis.Store {
		log.Reset()
		return openAt(t, cluster.URL(), redis.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	}
	opened()
	if says := "slots have moved"; strings.Contains(log.String(), says) {
		t.Errorf("after a failover the log has %q:\n%s", says, log.String())
	}
	if err := cluster.Reshard(t, masters[0], masters[1], 1500); err != nil {
		t.Fatal(err)
	}
	works("after slots have moved")
	opened()
	if says := "slots have moved"; !strings.Contains(log.String(), says) {
		t.Errorf("after slots have moved the log does not have %q:\n%s", says, log.String())
	}
	healthy(t, s)
}

// laneCrew is a node that commits in lanes.
type laneCrew struct {
	t      *testing.T
	store  *redis.Store
	leases [][]store.Lease // by lane
	no     int64
}

func newLaneCrew(t *testing.T, s *redis.Store, slots int) *laneCrew {
	t.Helper()
	c := &laneCrew{t: t, store: s, leases: make([][]store.Lease, len(s.Lanes()))}
	for i, lane := range s.Lanes() {
		var shards []store.Shard
		for slot := range slots {
			if s.LaneOf(slot) == i {
				shards = append(shards, store.Shard{Group: store.DefaultGroup, Slot: slot})
			}
		}
		got, _, err := lane.Acquire(t.Context(), node, shards, anHour)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range got {
			c.leases[i] = append(c.leases[i], a.Lease)
		}
	}
	return c
}

// id returns an ID of a run in a lane.
func (c *laneCrew) id(lane int) string {
	for i := 0; ; i++ {
		if id := fmt.Sprint("run ", i); c.store.LaneOf(redis.SlotOf(c.store, id)) == lane {
			return id
		}
	}
}

// start returns the command that starts a run.
func (c *laneCrew) start(id string) store.Command {
	command := start(id)
	command.Start.Shard.Slot = redis.SlotOf(c.store, id)
	return command
}

func (c *laneCrew) commit(lane int, b store.Batch) (store.BatchResult, error) {
	c.no++
	b.Node, b.Boot, b.No, b.Leases = node.ID, node.Boot, c.no, c.leases[lane]
	return c.store.Lanes()[lane].Commit(c.t.Context(), b)
}

// run starts a run in its lane.
func (c *laneCrew) run(id string) store.Run {
	c.t.Helper()
	result, err := c.commit(c.store.LaneOf(redis.SlotOf(c.store, id)), store.Batch{Commands: []store.Command{c.start(id)}})
	if err != nil || result.Commands[0].Outcome != store.Applied {
		c.t.Fatalf("start: %+v, %v", result.Commands, err)
	}
	return result.Commands[0].Run
}

// sends returns a batch of one turn of a run, which sends a message.
func sends(from store.Run, command store.Command) store.Batch {
	return store.Batch{Turns: []*store.Turn{{Run: from.No, Shard: from.Shard, Sends: []store.Command{command},
		Entries: []store.Entry{{Loc: command.Item.ID, Kind: store.KindStep, State: store.Done}}}}}
}

// received waits until a run has so many messages.
func (c *laneCrew) received(run store.RunNo, n int) {
	c.t.Helper()
	servers.Until(c.t, "messages arrive", func() bool {
		items, err := c.store.Inbox(c.t.Context(), run)
		if err != nil && !away(err) {
			c.t.Fatal(err)
		}
		return len(items) == n
	})
}

// What a lane is asked concerns its own slots alone; what its turns send to others is posted, and a
// command for another lane is left to Apply.
func TestALaneConcernsItsSlotsAlone(t *testing.T) {
	t.Parallel()
	url, prefix := servers.SharedRedis(t)
	s := openAt(t, url, redis.Prefix(prefix), redis.Slots(7), redis.Spread(), redis.Lanes(3))
	c := newLaneCrew(t, s, 7)
	if n := len(c.leases[0]) + len(c.leases[1]) + len(c.leases[2]); n != 7 || len(c.leases[0]) != 3 {
		t.Fatalf("%d leases, of lane 0 %d", n, len(c.leases[0]))
	}
	lanes := s.Lanes()
	first, second := c.run(c.id(0)), c.run(c.id(1))
	send := message(second.ID, "a")
	result, err := c.commit(0, sends(first, send))
	if err != nil || result.Turns[0].Verdict != store.Committed || result.Turns[0].Sends[0].Outcome != store.Posted {
		t.Fatalf("a send to another lane: %+v, %v", result.Turns, err)
	}
	c.received(second.No, 1)
	result, err = c.commit(0, store.Batch{Commands: []store.Command{message(second.ID, "b"), message(first.ID, "c"),
		message(first.ID+"@1", "d")}})
	if err != nil || result.Commands[0].Outcome != store.Undecided || result.Commands[1].Outcome != store.Applied ||
		result.Commands[2].Outcome != store.Undecided {
		t.Errorf("commands: %+v, %v", result.Commands, err)
	}
	wrong := sends(second, send)
	wrong.Node, wrong.Boot, wrong.No, wrong.Leases = node.ID, node.Boot, 100, c.leases[1]
	_, commitErr := lanes[0].Commit(t.Context(), wrong)
	_, _, acquireErr := lanes[0].Acquire(t.Context(), node, []store.Shard{second.Shard}, anHour)
	_, _, renewErr := lanes[0].Renew(t.Context(), c.leases[1], anHour)
	_, claimErr := lanes[0].Claim(t.Context(), store.ClaimRequest{Node: node.ID, Boot: node.Boot, Leases: c.leases[1],
		Limit: 1})
	_, sweepErr := lanes[0].Sweep(t.Context(), store.SweepRequest{Leases: c.leases[1]})
	for what, err := range map[string]error{"commit": commitErr, "acquire": acquireErr, "renew": renewErr,
		"claim": claimErr, "release": lanes[0].Release(t.Context(), c.leases[1]), "sweep": sweepErr} {
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "lane 2 of 3") {
			t.Errorf("%s in the slots of another lane: %v", what, err)
		}
	}
	if _, err := lanes[2].Register(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 0, 1} {
		if d, err := lanes[i].Describe(t.Context()); err != nil || len(d.Nodes) != want || len(d.Leases) != len(c.leases[i]) {
			t.Errorf("lane %d: %d nodes, %d leases, %v", i, len(d.Nodes), len(d.Leases), err)
		}
	}
	if d, err := s.Describe(t.Context()); err != nil || len(d.Nodes) != 1 || len(d.Leases) != 7 || d.Lanes != 3 {
		t.Errorf("the store: %d nodes, %d leases, %d lanes, %v", len(d.Nodes), len(d.Leases), d.Lanes, err)
	}
}

// A turn sends to a run that was replaced, and to one that is replaced by that, while their lane stands
// still: the commit waits for a moment alone, and everything arrives.
func TestALaneDoesNotWaitForReplacedRuns(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	sendsToReplacedRuns(t, newMasters(t, still))
}

// TestALaneDoesNotWaitForReplacedRunsInSilence is the same where nothing comes from their master.
func TestALaneDoesNotWaitForReplacedRunsInSilence(t *testing.T) {
	t.Parallel()
	sendsToReplacedRuns(t, newGround(t, (*servers.Proxy).Sever))
}

func sendsToReplacedRuns(t *testing.T, g *ground) {
	s := g.open(t)
	c := newLaneCrew(t, s, 256)
	sender := c.run(c.id(1))
	var former store.Run
	var name string
	for i := 0; ; i++ { // a run of lane 0 with a former name that would be in lane 1
		id := fmt.Sprint("x", i)
		if s.LaneOf(redis.SlotOf(s, id)) != 0 {
			continue
		}
		if former = c.run(id); s.LaneOf(redis.SlotOf(s, fmt.Sprintf("%s@%d", id, former.No))) == 1 {
			name = fmt.Sprintf("%s@%d", id, former.No)
			break
		}
	}
	if _, err := c.commit(0, store.Batch{Turns: []*store.Turn{{Run: former.No, Shard: former.Shard,
		Update: &store.Update{Status: store.Failed}}}}); err != nil {
		t.Fatal(err)
	}
	again := c.start(former.ID)
	again.Claim, again.Start.Existing = false, store.ReplaceFailed
	again.Start.Seed = store.Seed([]byte("another seed 16b"))
	if answers, _, err := s.Apply(t.Context(), []store.Command{again}); err != nil || answers[0].Outcome != store.Applied {
		t.Fatalf("%+v, %v", answers, err)
	}
	resume := g.takeAway(t, redis.Masters(s)[0])
	verb := store.Command{RunID: name, Item: &store.Item{Kind: store.ItemRetry, ID: "v", Origin: "o"}}
	begun := time.Now()
	result, err := c.commit(1, sends(sender, verb))
	if err != nil || result.Turns[0].Verdict != store.Committed || result.Turns[0].Sends[0].Outcome != store.Posted {
		t.Fatalf("%+v, %v", result.Turns, err)
	}
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("the commit took %s", took)
	}
	resume()
	c.received(former.No, 1)
}
