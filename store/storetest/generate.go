package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// generator makes operations that fit the present state of the specification, mostly; some are stale, some wrong, some
// repetitions.
type generator struct {
	*rand.Rand
	w     *world
	seeds int
	stale []leaseRef // leases of any time
}

func newGenerator(seed uint64, w *world) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 0)), w: w}
}

var (
	genShards    = []store.Shard{shardA, shardA, shardB}
	genWorkflows = []string{"w", "w", "w", "w", "w", "x", "x", entityWorkflow}
	genIDs       = []string{"a", "b", "c", "d", "e", "ä b"}
	genItems     = []string{"i1", "i2", "i3", "i4", "i5", "i6", "i7", "i8", "i9", "i10", "i11", "i12"}
	genLocs      = []string{"s", "s#2", "s/t", "s\x00\xff", "~1", "~2/a", "~2/b", "~2", "z", "ö"}
	genNodes     = []string{"n1", "n2"}
	genSizes     = []int{0, 1, 20, 512, 513, store.LargeValue - 1, store.LargeValue, 9000}
	genSteps     = []time.Duration{time.Microsecond, time.Second, 5 * time.Second, 11 * time.Second, time.Minute,
		25 * time.Hour, -time.Second, -time.Hour}
)

func pick[T any](g *generator, list []T) T { return list[g.IntN(len(list))] }

// chance is true in one of n cases.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

// some returns a part of a list.
func some[T any](g *generator, list []T, oneIn int) []T {
	var part []T
	for _, x := range list {
		if g.chance(oneIn) {
			part = append(part, x)
		}
	}
	return part
}

// next returns an operation.
func (g *generator) next() op {
	n := g.IntN(100)
	switch {
	case g.chance(40):
		return g.readFeed()
	case n < 6:
		return &clockOp{By: pick(g, genSteps)}
	case n < 8 && len(g.handles()) < 4:
		return &joinOp{}
	case n < 10 && len(g.handles()) > 1:
		return &killOp{Handle: g.handle()}
	case n < 13:
		return g.register()
	case n < 20 || len(g.w.spec.now.Leases) == 0:
		return g.acquire()
	case n < 23:
		return &renewOp{Handle: g.handle(), Leases: g.formerOr(g.leases("")), TTL: g.ttl()}
	case n < 25:
		return &releaseOp{Handle: g.handle(), Leases: g.formerOr(g.leases(""))}
	case n < 37:
		return &applyOp{Handle: g.handle(), Commands: g.commands(1 + g.IntN(3))}
	case n < 74:
		return g.commit()
	case n < 78:
		return g.repeat()
	case n < 91:
		return g.claim()
	}
	return g.read()
}

// last are the operations that end a script: all processes die, and the next
// owner finds everything that is ready now or later.
func (g *generator) last() []op {
	var ops []op
	for _, h := range g.handles() {
		ops = append(ops, &killOp{Handle: h})
	}
	h := len(g.w.alive)
	ops = append(ops, &joinOp{}, &clockOp{By: time.Minute},
		&acquireOp{Handle: h, Node: "last", Boot: "1", Shards: []store.Shard{shardA, shardB}, TTL: hour})
	for _, workflows := range [][]string{nil, {"w"}, {"w", "x"}, {"w", "x", entityWorkflow}} {
		for _, step := range []time.Duration{0, 300 * time.Hour} {
			claim := &claimOp{Handle: h, Node: "last", Boot: "1", Workflows: workflows, Limit: 100}
			for _, shard := range []store.Shard{shardA, shardB} {
				claim.Leases = append(claim.Leases, leaseRef{shard, g.w.spec.check.epochs[shard] + 1})
			}
			ops = append(ops, &clockOp{By: step}, claim)
		}
	}
	return ops
}

// handles are those of processes that live.
func (g *generator) handles() []int {
	var list []int
	for i, alive := range g.w.alive {
		if alive {
			list = append(list, i)
		}
	}
	return list
}

func (g *generator) handle() int { return pick(g, g.handles()) }

// boot returns a node's boot, of a handle: each process has at most two lives of
// a node, which may both be at work.
func (g *generator) boot() (handle int, node, boot string) {
	handle = g.handle()
	return handle, pick(g, genNodes), fmt.Sprintf("%d-%d", handle, max(g.IntN(5)-3, 0))
}

func (g *generator) ttl() store.Delay {
	return pick(g, []store.Delay{ttl, ttl, ttl, hour, 1})
}

func (g *generator) register() op {
	handle, node, boot := g.boot()
	n := store.Node{ID: node, Boot: boot, Build: pick(g, []string{"", "v1", "v2"}), Host: "host", PID: g.IntN(3),
		Workflows: some(g, genWorkflows, 2)}
	n.Groups = pick(g, [][]string{nil, {"default"}, {"other", "default"}})
	n.TTL = pick(g, []store.Delay{0, ttl, hour})
	if g.chance(3) {
		n.Requirements = []store.Requirement{{Shard: pick(g, genShards), Workflow: pick(g, genWorkflows),
			Build: pick(g, []string{"", "v2"}), Until: g.w.spec.now.Now}}
	}
	if g.chance(5) {
		n.Bodies = []store.Body{{RunID: "r", Workflow: pick(g, genWorkflows), Location: "a/b", Attempt: 1,
			Since: g.w.spec.now.Now}}
	}
	if g.chance(5) {
		n.Tasks = []string{"resize"}
	}
	if g.chance(5) {
		n.Lost = []store.Loss{{Node: "lost", Boot: "lost-1", SeenAt: g.w.spec.now.Now}}
		n.Zones, n.Lacks = "5eed", []string{"a key"}
	}
	n.Stopped, n.Draining = g.chance(6), g.chance(5)
	if g.chance(20) {
		n.Boot = ""
	}
	return &registerOp{Handle: handle, Node: n}
}

func (g *generator) acquire() op {
	handle, node, boot := g.boot()
	o := &acquireOp{Handle: handle, Node: node, Boot: boot, TTL: g.ttl()}
	o.Shards = [][]store.Shard{{shardA}, {shardA, shardB}, {shardB, shardA}, {shardB}}[g.IntN(4)]
	if g.chance(30) {
		o.TTL = 0
	}
	o.Replaces = g.chance(6)
	return o
}

// leases returns leases of a boot, or of all; now and then stale ones.
func (g *generator) leases(boot string) []leaseRef {
	var list []leaseRef
	for _, l := range g.w.spec.now.Leases {
		t := leaseRef{l.Shard, l.Epoch}
		g.remember(t)
		if boot == "" || l.Node+" "+l.Boot == boot || g.chance(10) {
			list = append(list, t)
		}
	}
	for i := range list {
		if len(g.stale) > 0 && g.chance(10) {
			list[i].Epoch = pick(g, g.stale).Epoch
		}
	}
	if boot == "" {
		return some(g, list, 2)
	}
	return list
}

// formerOr puts epochs of former leases into some leases.
func (g *generator) formerOr(leases []leaseRef) []leaseRef {
	for i := range leases {
		if g.chance(3) {
			leases[i].Epoch = max(leases[i].Epoch-1, 1)
		}
	}
	return leases
}

func (g *generator) remember(t leaseRef) {
	if len(g.stale) < 100 {
		g.stale = append(g.stale, t)
	}
}

// owner returns a boot that holds a lease and can act.
func (g *generator) owner() (handle int, node, boot string) {
	leases := g.w.spec.now.Leases
	if len(leases) > 0 && !g.chance(12) {
		l := pick(g, leases)
		if b := g.w.spec.boots[l.Node+" "+l.Boot]; b != nil && g.w.alive[b.handle] {
			return b.handle, l.Node, l.Boot
		}
	}
	return g.boot()
}

func (g *generator) value() []byte {
	if g.chance(3) {
		return nil
	}
	return []byte(strings.Repeat(string(rune('a'+g.IntN(3))), pick(g, genSizes)))
}

// receiver returns the ID of a run to send to, mostly of a claimed one: then a turn may be on its way.
func (g *generator) receiver() string {
	inHand := g.runs(func(r *store.Run) bool { return r.Claimed })
	switch {
	case len(inHand) > 0 && g.chance(2):
		return pick(g, inHand).ID
	case len(g.w.spec.now.Runs) > 0 && !g.chance(6):
		return pick(g, g.w.spec.now.Runs).ID
	}
	id := g.id()
	if g.w.apart { // a run that gets such a name in the same act gets it in another slot
		id, _, _ = strings.Cut(id, "@")
	}
	return id
}

// id returns the ID of a run, or one that is free.
func (g *generator) id() string {
	if runs := g.w.spec.now.Runs; len(runs) > 0 && g.chance(6) {
		r := pick(g, runs)
		return fmt.Sprintf("%s@%d", strings.SplitN(r.ID, "@", 2)[0], r.No)
	}
	return pick(g, genIDs)
}

func (g *generator) item() store.Item {
	kinds := []store.ItemKind{store.ItemMessage, store.ItemMessage, store.ItemUpdate, store.ItemUpdate,
		store.ItemResolution, store.ItemCancel, store.ItemTerminate, store.ItemResume, store.ItemEnd, store.ItemWatch,
		store.ItemWatch, store.ItemDelivery, store.ItemEvent,
		store.ItemPause, pick(g, []store.ItemKind{store.ItemRetry, store.ItemRewind, store.ItemEdit, store.ItemNudge}),
		store.ItemGrant, store.ItemGrant, store.ItemGiveBack}
	it := store.Item{Kind: pick(g, kinds), ID: pick(g, genItems), Origin: pick(g, []string{"o", "o", "p"}),
		Value: g.value()}
	switch it.Kind {
	case store.ItemMessage, store.ItemUpdate:
		it.Headers = g.headers()
		it.Name = pick(g, []string{"", "m", "ö"})
	case store.ItemResolution, store.ItemEnd, store.ItemWatch:
		it.Name = pick(g, []string{"", "n"})
		it.Incarnation, it.Generation, it.Loc, it.Failed = g.IntN(2), g.IntN(2), pick(g, genLocs), g.chance(2)
	}
	if g.chance(60) {
		it.ID = ""
	}
	if g.chance(4) {
		it.Origin = it.ID // without a key
	}
	return it
}

func (g *generator) start() *store.Start {
	s := &store.Start{ID: g.id(), Shard: pick(g, genShards), Workflow: pick(g, genWorkflows), Input: g.value()}
	g.seeds++
	s.Seed = seedOf(g.seeds)
	if g.chance(8) {
		s.Seed = seedOf(1 + g.IntN(g.seeds)) // a repeat, if that was of this ID
	}
	if g.chance(3) {
		s.Tags, s.Headers = g.tags(), g.headers()
	}
	switch g.IntN(8) {
	case 0:
		s.At = g.w.spec.now.Now + store.Time(g.IntN(5)-2)*store.Time(second)
	case 1:
		s.After = pick(g, []store.Delay{1, second, minute, 200 * hour})
	case 2:
		s.Existing = pick(g, []store.ExistingPolicy{store.ReplaceFailed, store.ReplaceEnded})
	case 3:
		for i := range g.IntN(3) {
			it := g.item()
			it.ID = genItems[i]
			s.Items = append(s.Items, it)
		}
	case 4:
		if runs := g.w.spec.now.Runs; len(runs) > 0 {
			s.Parent, s.ParentLoc = pick(g, runs).No, pick(g, genLocs)
		}
	}
	if s.At == 0 && s.After == 0 && g.chance(4) {
		s.Queue = g.place()
	}
	if g.w.lines && s.Queue == nil && g.chance(3) {
		s.Queue = g.line(s.ID)
	}
	if g.chance(8) {
		s.Fork = g.fork()
	}
	if s.Fork == nil && g.chance(2) {
		s.Build = pick(g, []string{"v1", "v2"})
	}
	policy := pick(g, []store.ExistingPolicy{store.ReplaceFailed, store.ReplaceEnded})
	if ended := g.runs(func(r *store.Run) bool { return policy.Replaces(r.Status) }); len(ended) > 0 && g.chance(2) {
		s.ID, s.Existing = pick(g, ended).ID, policy
	}
	if g.w.apart {
		s.ID, _, _ = strings.Cut(s.ID, "@")
	}
	return s
}

// place returns where a run stands in a queue.
func (g *generator) place() *store.QueueEntry {
	it := g.item()
	it.Kind = pick(g, []store.ItemKind{store.ItemAsk, store.ItemMessage})
	return &store.QueueEntry{Data: []byte(pick(g, []string{"p", "place"})),
		Ask: store.Command{RunID: g.receiver(), Item: &it, Claim: g.chance(2)}}
}

// line returns a place in the line of an entity, mostly, or of a run that does not exist.
func (g *generator) line(id string) *store.QueueEntry {
	queue := pick(g, genIDs)
	entities := g.runs(func(r *store.Run) bool { // a number in an ID is another one in the store under test
		return store.IsEntity(r.Workflow) && !strings.Contains(r.ID, "@")
	})
	if len(entities) > 0 && !g.chance(6) {
		queue = pick(g, entities).ID
	}
	if queue == id {
		return nil
	}
	return &store.QueueEntry{Data: []byte("line"), Line: &store.Line{Queue: queue, Key: pick(g, []string{"", "k", "ö"}),
		Priority: pick(g, []int{0, 0, -1, 1000})}}
}

// admits lets an entity admit runs, in its line or not.
func (g *generator) admits(t *store.Turn, r *store.Run) {
	if !g.w.lines || !store.IsEntity(r.Workflow) {
		return
	}
	runs := some(g, g.w.spec.now.Runs, 8)
	for _, w := range some(g, g.w.spec.now.Lines[r.ID], 2) {
		runs = append(runs, store.Run{No: w.No})
	}
	for i := range runs {
		t.Sends = append(t.Sends, store.Command{RunNo: runs[i].No, Admit: r.ID, Claim: g.chance(2)})
	}
}

// fork returns the history that a run begins with, mostly that of an existing run.
func (g *generator) fork() *store.Fork {
	f := &store.Fork{Random: seedOf(g.IntN(5)), Started: g.w.spec.now.Now, Audit: g.audit()}
	if runs := g.w.spec.now.Runs; len(runs) > 0 {
		r := pick(g, runs)
		f.Started = r.Started
		for _, e := range g.w.spec.now.Entries[r.No] {
			e.Size = 0
			f.Entries = append(f.Entries, e)
		}
		for _, it := range g.w.spec.now.Items[r.No] {
			it.No, it.Verdict = 0, nil
			if it.State == store.Seen {
				it.State = store.New
			}
			f.Items = append(f.Items, it)
		}
	}
	return f
}

// audit returns acts of operators.
func (g *generator) audit() []store.Audit {
	var list []store.Audit
	for range max(g.IntN(4)-1, 0) {
		list = append(list, store.Audit{Who: pick(g, []string{"", "ada"}), Verb: pick(g, []string{"pause", "rewind"}),
			Why: "why", Detail: pick(g, []string{"", "d"})})
	}
	return list
}

func (g *generator) runs(want func(*store.Run) bool) []store.Run {
	var list []store.Run
	for i := range g.w.spec.now.Runs {
		if r := &g.w.spec.now.Runs[i]; want(r) {
			list = append(list, *r)
		}
	}
	return list
}

func (g *generator) commands(n int) []store.Command {
	commands := make([]store.Command, n)
	for i := range commands {
		c := store.Command{Claim: g.chance(2)}
		if len(g.w.spec.now.Runs) < 12 && g.chance(3) || len(g.w.spec.now.Runs) == 0 {
			c.Start = g.start()
		} else {
			it := g.item()
			c.RunID, c.Item = g.receiver(), &it
			if runs := g.w.spec.now.Runs; len(runs) > 0 && g.chance(4) {
				c.RunID, c.RunNo = "", pick(g, runs).No+store.RunNo(g.IntN(20)/19*100)
			}
		}
		commands[i] = c
	}
	return commands
}

func (g *generator) commit() op {
	handle, node, boot := g.owner()
	o := &commitOp{Handle: handle, Node: node, Boot: boot, Leases: g.leases(node + " " + boot), Former: g.chance(40)}
	held := map[store.Shard]bool{}
	for _, l := range o.Leases {
		held[l.Shard] = true
	}
	for _, r := range g.runs(func(r *store.Run) bool { return held[r.Shard] && (r.Claimed || g.chance(15)) }) {
		if len(o.Turns) < 4 && !g.chance(4) {
			o.Turns = append(o.Turns, g.turn(&r))
		}
	}
	if len(o.Turns) == 0 && g.chance(2) {
		return g.claim()
	}
	if g.chance(3) {
		o.Commands = g.commands(1 + g.IntN(3))
		for i := range o.Commands {
			o.Commands[i].Claim = !g.chance(4)
		}
	}
	if g.w.apart {
		o.askAlone()
	}
	if len(o.Turns) > 0 && g.chance(40) {
		g.spoil(&o.Turns[0])
	}
	return o
}

// askAlone leaves out asks of starts for runs to which the same batch sends something else: what a start asks goes
// by way of the start's slot, and may come later than what is sent directly.
func (o *commitOp) askAlone() {
	commands := [][]store.Command{o.Commands}
	for i := range o.Turns {
		commands = append(commands, o.Turns[i].Sends)
		if u := o.Turns[i].Update; u != nil {
			commands = append(commands, u.Sends)
		}
	}
	receivers := map[string]bool{}
	for _, list := range commands {
		for i := range list {
			receivers[list[i].RunID] = true
		}
	}
	for _, list := range commands {
		for i := range list {
			start := list[i].Start
			if start == nil || start.Queue == nil {
				continue
			}
			if to := start.Queue.Ask.RunID; receivers[to] {
				start.Queue = nil
			} else {
				receivers[to] = true
			}
		}
	}
}

// spoil makes a turn one that no owner would send.
func (g *generator) spoil(t *store.Turn) {
	switch g.IntN(5) {
	case 0:
		t.Shard = shardB
	case 1:
		t.Incarnation++
	case 2:
		t.Run += 100
	case 3:
		t.Seen = append(t.Seen, 9999)
	case 4:
		t.Entries = append(t.Entries, store.Entry{Kind: store.KindStep, State: store.Done})
	}
}

func (g *generator) turn(r *store.Run) store.Turn {
	t := store.Turn{Run: r.No, Shard: r.Shard, Incarnation: r.Incarnation}
	for range g.IntN(3) {
		t.Entries = append(t.Entries, g.entry(r))
	}
	t.Insert = (int(r.No)+len(t.Entries))%2 == 0 // right or wrong
	if g.chance(6) {
		t.Prune = append(t.Prune, g.span())
	}
	if !g.chance(3) {
		t.Update = g.update(r)
	}
	if stands := g.w.spec.now.Entries[r.No]; len(stands) > 0 && g.chance(4) {
		for range 1 + g.IntN(2) {
			e := g.entry(r)
			if !g.chance(20) {
				e.Loc = pick(g, stands).Loc
			}
			t.Rewrites = append(t.Rewrites, e)
		}
	}
	t.Audit = g.audit()
	careful := !g.chance(3) // examines everything
	if t.Update != nil && t.Update.Status.Terminal() {
		careful = g.chance(3)
	}
	for _, it := range g.w.spec.now.Items[r.No] {
		switch {
		case it.State == store.Consumed && !it.Kind.Verb() && g.chance(3), g.chance(60):
			it.Value = g.value()
			t.Returned = append(t.Returned, it)
		case it.State == store.Consumed && !g.chance(60):
		case it.State == store.Dead && !g.chance(60):
		case g.chance(4):
			t.Consumed = append(t.Consumed, store.Consumption{Item: it.No, Verdict: g.value()})
		case t.Update != nil && g.chance(6):
			t.Update.Consumed = append(t.Update.Consumed, store.Consumption{Item: it.No, Verdict: g.value()})
		case g.chance(8) && (it.Kind.CanBeDead() || g.chance(20)):
			t.Dead = append(t.Dead, it.No)
		case g.chance(8) && (it.Kind.CanBeRefused() || g.chance(20)):
			t.Refused = append(t.Refused, store.Refusal{Item: it.No, Reason: []byte("why")})
		case it.State == store.New && careful || g.chance(5):
			t.Seen = append(t.Seen, it.No)
		}
	}
	g.shows(r, &t)
	if g.chance(20) { // one that was swept, or never there
		it := g.item()
		it.Kind, it.No, it.Sent = store.ItemMessage, store.ItemNo(g.IntN(20)), g.w.spec.now.Now
		if g.w.apart { // the number may be that of another run's item, so of another slot
			it.No = 0
		}
		t.Returned = append(t.Returned, it)
	}
	if g.chance(6) {
		t.Sends = g.commands(1)
	}
	if t.Update != nil && g.chance(4) {
		t.Update.Sends = g.commands(1 + g.IntN(2))
	}
	g.admits(&t, r)
	if t.Update != nil && g.chance(3) {
		t.Update.Audit = g.audit()
	}
	return t
}

// span returns a range between two locations, now and then an empty one.
func (g *generator) span() store.Span {
	s := store.Span{From: pick(g, genLocs), To: pick(g, genLocs)}
	if s.From > s.To {
		s.From, s.To = s.To, s.From
	}
	if s.From == s.To && !g.chance(8) {
		s.To += "\xff"
	}
	return s
}

// entry returns a new entry, or the one at a location, equal or not quite.
func (g *generator) entry(r *store.Run) store.Entry {
	e := store.Entry{
		Loc: pick(g, genLocs), Kind: pick(g, []store.Kind{store.KindStep, store.KindSleep, 99}), Value: g.value(),
		Attempt: g.IntN(3),
		State:   pick(g, []store.EntryState{store.Open, store.Open, store.Done, store.FailedEntry, store.Withdrawn}),
		Started: g.w.spec.now.Now, Born: int64(g.IntN(2)), Generation: max(g.IntN(5)-3, 0), Owes: g.chance(4),
	}
	if e.State == store.Done && g.chance(2) {
		e.Seq, e.At = int64(1+g.IntN(5)), g.w.spec.now.Now
	}
	if stands := g.w.spec.now.Entries[r.No]; len(stands) > 0 && g.chance(4) {
		e = pick(g, stands)
		switch g.IntN(7) {
		case 0:
			e.Seq, e.At = int64(g.IntN(5)), g.w.spec.now.Now
		case 1:
			e.Value = g.value()
		case 2:
			e.Attempt++
		case 3:
			e.State = store.FailedEntry
		case 4:
			e.Owes = !e.Owes
		}
	}
	e.Size = 0
	return e
}

func (g *generator) update(r *store.Run) *store.Update {
	u := &store.Update{
		Status: pick(g, store.AllStatuses()), Marks: store.Marks(g.IntN(8)), Build: pick(g, []string{"", "", "v1", "v2"}),
		Reason: pick(g, []string{"", "because"}), Output: g.value(), Waits: g.value(), Isolate: g.chance(4),
		EndIsolation: g.chance(8), Discard: g.chance(3),
	}
	if g.chance(3) {
		u.DiscardNames = some(g, []string{"m", "ö", "1:m;"}, 2)
	}
	for range 5 {
		if !r.Status.CanBecome(u.Status) || u.Status == r.Status {
			u.Status = pick(g, store.AllStatuses())
		}
	}
	if r.Status == store.Running && g.chance(2) {
		u.Status = pick(g, []store.Status{store.Suspended, store.Suspended, store.Running, store.Failed})
	}
	if u.Status == store.Running && g.chance(2) {
		u.Marks &^= store.Paused // otherwise all would be, sooner or later
	}
	if g.chance(8) {
		u.Generation = r.Generation + g.IntN(3)
	}
	if g.chance(6) {
		u.Marks |= store.Held
	}
	if g.w.lines {
		u.Yield = g.chance(4)
	}
	if g.chance(4) {
		u.Queue = []byte(pick(g, []string{"", "p", "q"}))
	}
	if r.Status == store.Queued && g.chance(2) {
		u.Status = store.Queued
	}
	if u.Status == store.Running && u.Marks&store.Paused == 0 && g.chance(8) {
		u.Unclaim = true
	}
	u.AnyBuild = g.chance(8)
	if u.Status.Terminal() && g.chance(3) {
		u.Keep = pick(g, []store.Delay{store.KeepForever, 1, minute, 2 * minute, 26 * hour})
	}
	if u.Status == store.Running && g.chance(3) {
		g.seeds++
		u.Continue = &store.Continuation{Workflow: pick(g, genWorkflows), Input: g.value(), Seed: seedOf(g.seeds),
			At: g.w.spec.now.Now}
	}
	if g.chance(2) {
		u.WakeAt = g.w.spec.now.Now + store.Time(pick(g, []store.Delay{-second, 1, second, minute, 100 * hour}))
	}
	return u
}

// repeat repeats the last batch of a boot that can.
func (g *generator) repeat() op {
	key := g.lastBoot()
	if key == "" {
		return g.claim()
	}
	node, boot, _ := strings.Cut(key, " ")
	return &repeatOp{Node: node, Boot: boot}
}

// lastBoot returns one of the boots that have committed.
func (g *generator) lastBoot() string {
	var keys []string
	for _, node := range genNodes {
		for _, handle := range g.handles() {
			for life := range 2 {
				key := fmt.Sprintf("%s %d-%d", node, handle, life)
				if b := g.w.spec.boots[key]; b != nil && b.last != nil {
					keys = append(keys, key)
				}
			}
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return pick(g, keys)
}

func (g *generator) claim() op {
	handle, node, boot := g.owner()
	return &claimOp{
		Handle: handle, Node: node, Boot: boot, Leases: g.leases(node + " " + boot),
		Limit: pick(g, []int{10, 10, 10, 1, 2, 0, -1}),
		Workflows: pick(g, [][]string{{"w", "x", entityWorkflow}, {"w", "x", entityWorkflow}, {"w", "x"}, {"w"}, {"x"}, nil,
			{"none"}}),
		Build: pick(g, []string{"", "", "v1", "v2"}), Unservable: g.chance(2),
	}
}
