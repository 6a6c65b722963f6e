package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Features are what a seed switches on or off: kinds of operations, of acts and of faults.
var Features = []string{
	Sleep, All, Join, Any, Race, Loop, Call, Detach, Receive, Promise, Event, Send, Update, Value, Saga, Try, Version,
	Continue, Fail,
	"failures", "undo", "hangs", "beats", "kills", "queues", "rates", "groups", "emits", "deaf",
	Pause, Cancel, Terminate, Retry, Rewind, Fork, Nudge, SetQueue, "unkeyed",
	Kill, Stop, Deploy, Freeze, Cut, Mute, Lose, Unheard, Slow, Hints, Jump, Drift, Away, StoreLag, Linger,
	Map, Settle, Select, "twice", "limited", "undone children",
	Go, Await, Delete, Edit, "schedules", "sealed", "swept", "keyed rates", "costs", "run queues", "first messages",
	"together", "fails scope", "waits limited", "poison", "families", "steady drift", "scenes", Task, "replaces",
	Refuse, "joins", "letters", Ask, Hand,
}

// generator makes a plan. Small seeds and large ones are alike.
type generator struct {
	*rand.Rand
	Plan
	size  float64 // of the world, from 0 to 1
	on    map[string]bool
	name  int // of the last operation
	loops int // around the present place
	left  int // operations that the run may still get
	runs  int // that clients start

	unlimited bool // steps get no permits, take no time and end no process
}

// Generate returns the plan of a seed.
func Generate(seed uint64) Plan {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x706c616e)), on: map[string]bool{}}
	g.Seed = seed
	// A tenth of the worlds has everything, a tenth hardly any of it: what is rare meets.
	share := []float64{0.5, 0.5, 0.5, 0.5, 0.3, 0.3, 0.7, 0.7, 0.15, 1}[g.IntN(10)]
	for _, f := range Features {
		if g.Float64() < share {
			g.on[f] = true
			g.Features = append(g.Features, f)
		}
	}
	g.size = g.ofWorld()
	g.Length = time.Duration(5+g.IntN(g.most(55))) * time.Second
	g.Slots = pick(g, 1, 2, 4, 4, 4, 8, 16)
	g.nodes()
	if g.on["queues"] {
		g.queues()
	}
	g.runs = 1 + g.IntN(g.most(11))
	for i := range g.runs {
		g.run(i)
	}
	g.together()
	g.schedules()
	g.Sealed = g.on["sealed"] && g.chance(0.4)
	if g.on["swept"] && g.chance(0.05+0.4*g.size) {
		g.Sweep = max(g.some(5*time.Second), time.Second)
		// Something goes on for longer than an ended run is kept, at least.
		g.Runs = append(g.Runs, Run{ID: fmt.Sprintf("r%d", len(g.Runs)), Program: Program{
			{Kind: Sleep, Name: "sl1", Wait: g.Length + 80*time.Second}, {Kind: Step, Name: "st2", Body: &Body{}},
		}})
	}
	g.acts()
	g.faults()
	g.scene()
	g.zone()
	g.Apart = g.chance(0.3)
	return g.Plan
}

// OnDisk returns a plan in which the store is a file: one slot, and faults of its disk.
func OnDisk(of Plan) Plan {
	g := &generator{Rand: rand.New(rand.NewPCG(of.Seed, 0x6469736b)), Plan: of}
	g.Disk, g.Slots = true, 1
	// SQLite is slow in a machine of the world, so the world is small.
	g.Nodes, g.Runs = slices.Clone(g.Nodes[:min(len(g.Nodes), 2)]), g.Runs[:min(len(g.Runs), 5)]
	if g.Cast != nil && !g.lives(g.Cast[len(g.Cast)-1]) { // the others would wait for what nobody does
		g.Runs = slices.DeleteFunc(slices.Clone(g.Runs), func(r Run) bool { return slices.Contains(g.Cast, r.ID) })
		g.Scene, g.Cast = "", nil
	}
	g.Length, g.Schedules, g.Sweep = min(g.Length, 15*time.Second), nil, 0
	for i := range g.Nodes {
		g.Nodes[i].From, g.Nodes[i].Until = min(g.Nodes[i].From, g.Length/2), min(g.Nodes[i].Until, g.Length)
	}
	g.Faults = slices.DeleteFunc(slices.Clone(of.Faults), func(f Fault) bool {
		return f.Node >= len(g.Nodes) || f.At > g.Length
	})
	g.Acts = slices.DeleteFunc(slices.Clone(of.Acts), func(a Act) bool {
		return a.At > g.Length || a.Kind == PauseAll || a.Kind == ResumeAll || a.Kind == Trigger ||
			a.Run != "" && !g.lives(a.Run)
	})
	for i := range g.Runs {
		g.Runs[i].At = min(g.Runs[i].At, g.Length/2)
	}
	for range 1 + g.IntN(5) {
		g.Faults = append(g.Faults, Fault{
			Kind: PowerCut, At: g.upTo(g.Length), Lasts: g.some(500 * time.Millisecond), Calls: g.Int64N(300),
		})
	}
	for range 1 + g.IntN(3) { // in the middle of a commit
		g.Faults = append(g.Faults, Fault{
			Kind: PowerCut, At: g.upTo(g.Length), Lasts: g.some(500 * time.Millisecond), Calls: g.Int64N(60), Method: "Commit",
		})
	}
	if g.chance(0.5) { // a commit is asked for again whose answer was lost
		at, lasts, share := g.upTo(g.Length), g.some(5*time.Second), pick(g, 0.2, 1)
		for i := range g.Nodes { // any of them may own the slot then
			g.Faults = append(g.Faults, Fault{
				Kind: Unheard, At: at, Lasts: lasts, Node: i, Share: share, Method: "Commit",
			})
		}
	}
	for range g.IntN(3) {
		g.Faults = append(g.Faults, Fault{Kind: Full, At: g.upTo(g.Length), Lasts: g.some(2 * time.Second)})
	}
	slices.SortStableFunc(g.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	return g.Plan
}

// lives says whether there is a run.
func (g *generator) lives(id string) bool {
	return slices.ContainsFunc(g.Runs, func(r Run) bool { return r.ID == id })
}

// ofWorld draws the size of a world. A defect needs a few things that meet, and most defects need no
// more: so many small worlds find them sooner than few large ones, which cost ten times as much. Some
// need many nodes, long programs or several faults.
func (g *generator) ofWorld() float64 {
	switch n := g.IntN(20); {
	case n < 14:
		return 0.05 + 0.2*g.Float64()
	case n < 19:
		return 0.2 + 0.4*g.Float64()
	}
	return 1
}

// most returns how many there are at most of what the largest world has n of.
func (g *generator) most(n int) int { return 1 + int(g.size*float64(n-1)+0.5) }

func (g *generator) chance(p float64) bool { return g.Float64() < p }

// some returns a duration around d, now and then a much longer or shorter one.
func (g *generator) some(d time.Duration) time.Duration {
	switch g.IntN(10) {
	case 0:
		return d / 20
	case 1:
		return 5 * d
	}
	return d/2 + g.upTo(d)
}

func (g *generator) upTo(d time.Duration) time.Duration {
	return time.Duration(g.Int64N(int64(d) + 1)).Truncate(time.Microsecond)
}

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// enabled returns those of the features that are on.
func (g *generator) enabled(of ...string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(f string) bool { return !g.on[f] })
}

func (g *generator) nodes() {
	// What nodes do all the time costs more than all else: they renew leases, and look at what there is.
	ttl := pick(g, time.Second, 3*time.Second, 3*time.Second, 10*time.Second, 10*time.Second, 30*time.Second)
	poll := pick(g, 0, 3*time.Second, 10*time.Second)
	number := pick(g, 1, 1, 2, 2, 3, 4, 7)
	if g.size < 0.5 {
		ttl, number = min(ttl, 10*time.Second), min(number, 3)
	}
	for i := range number {
		n := Node{Name: fmt.Sprintf("node%d", i+1), Build: 1, LeaseTTL: ttl, Poll: poll}
		if g.chance(0.3) {
			n.MaxSteps = 1 + g.IntN(4)
		}
		if g.chance(0.3) {
			n.MaxRuns = 1 + g.IntN(5)
		}
		if g.chance(0.5) {
			n.MaxParkedBytes = pick(g, -1, 20_000, 60_000)
			n.ParkFor = pick(g, time.Millisecond, 100*time.Millisecond, time.Second)
		}
		if g.on["groups"] && i > 0 {
			n.Groups = pick(g, []string{"default"}, []string{"default", "other"}, []string{"other"})
		}
		n.Replaces = g.on["replaces"]
		if g.on["steady drift"] {
			n.Rate = 1 + float64(g.IntN(981)-490)/1e6 // what clock.Drift allows
		}
		g.Nodes = append(g.Nodes, n)
	}
	if g.on["joins"] {
		g.joins()
	}
}

// joins lets nodes join later, and leave for good. Each group has one that stays.
func (g *generator) joins() {
	stays := map[string]bool{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		groups := n.Groups
		if len(groups) == 0 {
			groups = []string{"default"}
		}
		more := slices.ContainsFunc(groups, func(group string) bool { return !stays[group] })
		if g.chance(0.5) {
			n.From = g.upTo(g.Length / 2)
		}
		if !more && g.chance(0.5) {
			n.Until = n.From + g.upTo(g.Length-n.From)
			continue
		}
		for _, group := range groups {
			stays[group] = true
		}
	}
}

func (g *generator) queues() {
	for i := range 1 + g.IntN(3) {
		q := Queue{Name: fmt.Sprintf("queue%d", i)}
		if i == 0 {
			q.Name = runsQueue
		}
		if g.chance(0.7) {
			q.Concurrency = 1 + g.IntN(3)
		}
		if g.chance(0.3) {
			q.PerKey = 1 + g.IntN(2)
		}
		if g.on["rates"] && g.chance(0.5) {
			q.Rate, q.Per = 1+g.IntN(5), pick(g, 100*time.Millisecond, time.Second, 10*time.Second)
		}
		if g.on["keyed rates"] && g.chance(0.5) {
			q.RatePerKey, q.Per = 1+g.IntN(3), pick(g, 100*time.Millisecond, time.Second, 10*time.Second)
		}
		q.Release = i == 0 && g.chance(0.2)
		if g.on["groups"] && g.chance(0.3) {
			for _, n := range g.Nodes {
				if slices.Contains(n.Groups, "other") {
					q.Group = "other"
				}
			}
		}
		g.Queues = append(g.Queues, q)
	}
}

// runsQueue is for runs alone: one that has the last permit of a queue and waits for a child
// which needs that permit for a step waits for ever, and is right to.
const runsQueue = "runs"

// queue returns a queue for a step; "": none.
func (g *generator) queue() string {
	if len(g.Queues) < 2 || g.unlimited || g.chance(0.6) {
		return ""
	}
	q := g.Queues[1+g.IntN(len(g.Queues)-1)]
	if g.loops > 0 && q.Per > time.Second {
		return "" // a loop in a loop would wait for its permits for an hour
	}
	return q.Name
}

func (g *generator) run(i int) {
	r := Run{ID: fmt.Sprintf("r%d", i), At: g.upTo(g.Length * 2 / 3), Undoes: g.on["undo"] && g.chance(0.5)}
	if g.chance(0.2) {
		r.After = g.some(2 * time.Second)
	}
	if g.on["limited"] && g.chance(0.2) {
		r.MaxRun = g.some(4 * time.Second)
	}
	if g.on["waits limited"] && g.chance(0.2) {
		r.MaxWait = g.some(4 * time.Second)
	}
	r.Alone = g.on["twice"] && g.chance(0.5)
	if g.on["first messages"] && g.chance(0.4) {
		r.First = fmt.Sprintf("%s-%d", Receive, g.IntN(2))
	}
	if len(g.Queues) > 0 && (g.chance(0.3) || g.on["run queues"] && g.chance(0.7)) {
		r.Queue = runsQueue
		r.Key = pick(g, "", "a", "b")
	}
	g.name, g.left = 0, 2+g.IntN(g.most(25))+g.IntN(3)
	r.Program = g.program(0, true)
	if g.on["poison"] && g.chance(0.15) {
		g.on["poison"] = false // one of them tells enough
		g.left = 1
		op := g.step()
		op.Queue, op.Body = "", &Body{Kills: Poison, Takes: g.upTo(time.Second)}
		r.Program = append(r.Program, op)
	}
	g.Runs = append(g.Runs, r)
}

// Poison is how often a body kills its node that does so until its run is stalled.
const Poison = 20

// together lets one act start several runs.
func (g *generator) together() {
	for i := 0; g.on["together"] && i+1 < len(g.Runs) && g.chance(0.5); i += 3 {
		for j := i; j < min(i+2+g.IntN(2), len(g.Runs)); j++ {
			g.Runs[j].With, g.Runs[j].At, g.Runs[j].Undoes = i+1, g.Runs[i].At, false
		}
	}
}

func (g *generator) schedules() {
	if !g.on["schedules"] {
		return
	}
	for i := range 1 + g.IntN(2) {
		s := Schedule{
			Name: fmt.Sprintf("s%d", i), At: g.upTo(g.Length / 2),
			Every:   max(g.Length/time.Duration(4+g.IntN(12)), time.Second),
			Overlap: pick(g, "skip", "buffer-one", "allow", "cancel-previous"),
			CatchUp: pick(g, 0, time.Second, time.Hour),
		}
		s.Every = s.Every.Truncate(time.Millisecond)
		if g.chance(0.3) {
			s.Offset = g.upTo(s.Every - 1).Truncate(time.Millisecond)
		}
		g.name, g.left, g.unlimited = 0, 1+g.IntN(4), true // it must not outrun a rate
		s.Program = g.program(2, false)
		g.unlimited = false
		g.Schedules = append(g.Schedules, s)
	}
}

func (g *generator) program(depth int, root bool) (p Program) {
	for n := 1 + g.IntN(6); n > 0 && g.left > 0; n-- {
		p = append(p, g.op(depth, root))
	}
	if len(p) == 0 {
		p = append(p, g.step())
	}
	return p
}

func (g *generator) named(kind string) Op {
	g.name++
	g.left--
	return Op{Kind: kind, Name: fmt.Sprintf("%s%d", kind[:2], g.name)}
}

func (g *generator) step() Op {
	op := g.named(Step)
	op.Body = g.body()
	op.Queue = g.queue()
	if op.Queue != "" {
		op.Key = pick(g, "", "a", "b")
		for _, q := range g.Queues {
			// What costs more than a rate allows waits until nothing counts.
			if most := min(cmp.Or(q.Rate, q.RatePerKey), cmp.Or(q.RatePerKey, q.Rate)); q.Name == op.Queue &&
				most > 0 && g.on["costs"] && g.chance(0.5) {
				op.Cost = 1 + g.IntN(most)
				if g.chance(0.4) {
					op.Spent = 1 + g.IntN(most)
				}
			}
		}
	}
	op.Undo = g.undo()
	if op.Undo != nil && len(g.Queues) > 1 && g.loops == 0 && g.chance(0.7) {
		op.Where = g.Queues[1+g.IntN(len(g.Queues)-1)].Name
	}
	return op
}

// task returns a step whose body a worker executes.
func (g *generator) task() Op {
	g.Workers = true
	op := g.named(Task)
	op.Body = &Body{Takes: g.some(200 * time.Millisecond)}
	if g.on["failures"] && g.chance(0.3) {
		op.Body.Fails = 1 + g.IntN(2)
	}
	op.Body.Final = g.final()
	if op.Queue = g.queue(); op.Queue != "" {
		op.Key = pick(g, "", "a", "b")
	}
	op.Undo = g.undo()
	return op
}

// undo returns the compensation of a step; nil: it has none.
func (g *generator) undo() *Body {
	if !g.on["undo"] || !g.chance(0.4) {
		return nil
	}
	return &Body{Takes: g.upTo(100 * time.Millisecond), Fails: g.IntN(3) / 2}
}

// final says whether a body fails for good.
func (g *generator) final() bool { return g.on["failures"] && g.chance(0.05) }

func (g *generator) body() *Body {
	b := &Body{}
	if g.chance(0.7) {
		b.Takes = g.some(200 * time.Millisecond)
	}
	if g.chance(0.05) {
		b.Takes = g.some(4 * time.Second)
	}
	if g.on["failures"] && g.chance(0.3) {
		b.Fails, b.Panics = 1+g.IntN(3), g.chance(0.3)
	}
	b.Final = g.final()
	if g.unlimited {
		b.Takes = min(b.Takes, 100*time.Millisecond)
	}
	if b.Hangs = g.on["hangs"] && !g.unlimited && g.chance(0.1); b.Hangs {
		b.Takes = min(b.Takes, 100*time.Millisecond) // the attempt may take ten times as long
	}
	b.Beats = g.on["beats"] && g.chance(0.3)
	b.Deaf = g.on["deaf"] && g.chance(0.2)
	if g.on["kills"] && !g.unlimited && g.loops == 0 && g.chance(0.03) {
		b.Kills = 1
	}
	if g.on["emits"] && g.chance(0.2) {
		b.Emits = 1 + g.IntN(5)
	}
	return b
}

func (g *generator) op(depth int, root bool) (op Op) {
	if g.chance(0.45) {
		if g.on[Task] && !g.unlimited && g.chance(0.3) { // a worker may be slow
			return g.task()
		}
		return g.step()
	}
	kinds := g.enabled(Sleep, Receive, Promise, Event, Send, Publish, Update, Value, Stream, Version, Await, Ask)
	if depth < 3 {
		kinds = append(kinds, g.enabled(
			All, Join, Any, Race, Loop, Call, Detach, Saga, Try, Map, Settle, Select, Go, Hand,
		)...)
		if g.on["families"] { // runs that start others, which an operator ends in the middle
			kinds = append(kinds, Go, Call, Call, Detach)
		}
	}
	if root {
		kinds = append(kinds, g.enabled(Continue)...)
	}
	if depth > 0 || g.chance(0.3) {
		kinds = append(kinds, g.enabled(Fail)...)
	}
	if g.on[Value] {
		kinds = append(kinds, Stream)
	}
	if g.on[Event] {
		kinds = append(kinds, Publish)
	}
	if len(kinds) == 0 {
		return g.step()
	}
	op = g.named(kinds[g.IntN(len(kinds))])
	defer func() {
		for range g.loops {
			op.Wait /= 10 // each iteration waits
		}
		op.Wait = time.Duration(float64(op.Wait) * (0.2 + 0.8*g.size)).Truncate(time.Microsecond)
	}()
	inside := func(n int) {
		for range n {
			op.Subs = append(op.Subs, g.program(depth+1, false))
		}
	}
	switch op.Kind {
	case Sleep:
		op.Wait = g.some(time.Second)
	case Receive, Update:
		op.To, op.Wait = fmt.Sprintf("%s-%d", op.Kind, g.IntN(2)), g.some(Patience/2)
	case Promise:
		op.Wait = g.some(Patience)
	case Event:
		op.To, op.Wait = pick(g, "all", "once"), g.some(Patience/2)
	case Publish:
		op.To = pick(g, "all", "once")
	case Send:
		op.To, op.Key = g.another(), fmt.Sprintf("%s-%d", Receive, g.IntN(2))
	case Value, Stream:
		op.To = fmt.Sprintf("%s-%d", op.Kind, g.IntN(2))
	case Await:
		op.To, op.Wait = fmt.Sprintf("r%d", (len(g.Runs)+1+g.IntN(11))%12), g.some(Patience/4)
	case Ask:
		op.To, op.Key = g.another(), fmt.Sprintf("%s-%d", Update, g.IntN(2))
		op.Wait = g.some(Patience / 8)
	case Hand:
		op.Fails, op.Count, op.Wait = g.chance(0.3), g.IntN(2), g.some(Patience/2)
		inside(1)
	case Go:
		op.Fails, op.Leave = g.on["fails scope"] && g.chance(0.5), g.chance(0.3)
		op.Count = g.IntN(2)
		inside(2)
		if op.Leave {
			op.Name = "leave" + op.Name
		}
	case All, Join, Any, Race, Settle:
		inside(1 + g.IntN(3))
	case Map:
		op.Count = g.IntN(3)
		inside(1 + g.IntN(4))
	case Select:
		op.To, op.Wait = fmt.Sprintf("%s-%d", Receive, g.IntN(2)), g.some(Patience/4)
		inside(1)
	case Loop:
		op.Count = 1 + g.IntN(6)
		g.loops++
		inside(1)
		g.loops--
	case Call, Detach, Saga, Try, Version:
		if op.Kind == Call && g.on["undone children"] && g.chance(0.5) {
			op.Undo = &Body{Takes: g.upTo(100 * time.Millisecond), Fails: g.IntN(3) / 2}
		}
		inside(1)
	}
	return op
}

// another returns the ID of a run, which now and then there is not.
func (g *generator) another() string { return fmt.Sprintf("r%d", g.IntN(g.runs+1)) }

func (g *generator) acts() {
	add := func(n int, make func(a *Act)) {
		for range n {
			a := Act{No: len(g.Acts) + 1, At: g.upTo(g.Length), From: g.IntN(3), Keyed: !g.on["unkeyed"] || g.chance(0.7)}
			run := g.Runs[g.IntN(len(g.Runs))]
			a.Run = run.ID
			if g.chance(0.6) { // while it lives, if it does for long
				a.At = min(run.At+g.some(3*time.Second), g.Length)
			}
			make(&a)
			a.Twice = a.Keyed && g.on["twice"] && (a.Kind == Send || a.Kind == Publish || a.Kind == Update)
			g.Acts = append(g.Acts, a)
		}
	}
	several := func(feature string, most int) int {
		if !g.on[feature] {
			return 0
		}
		return 1 + g.IntN(g.most(most))
	}
	add(several(Receive, 20), func(a *Act) { a.Kind, a.Name = Send, fmt.Sprintf("%s-%d", Receive, g.IntN(2)) })
	for range several(Receive, 3) { // some at once, of one sender
		to, name, at := g.Runs[g.IntN(len(g.Runs))], fmt.Sprintf("%s-%d", Receive, g.IntN(2)), g.upTo(2*time.Second)
		add(2+g.IntN(3), func(a *Act) {
			a.Kind, a.Name, a.Run, a.From, a.At = Send, name, to.ID, 0, min(to.At+to.After+at, g.Length)
		})
	}
	add(several(Event, 10), func(a *Act) { a.Kind, a.Name, a.Run = Publish, pick(g, "all", "once"), "" })
	add(several(Update, 10), func(a *Act) {
		a.Kind, a.Name, a.From = Update, fmt.Sprintf("%s-%d", Update, g.IntN(2)), 100+a.No
	})
	for _, verb := range []string{Pause, Cancel, Terminate, Retry, Rewind, Fork, Nudge, Delete, Edit} {
		add(several(verb, 3), func(a *Act) {
			a.Kind, a.From = verb, 100+a.No
			a.Children = verb == Pause && g.chance(0.4)
			if verb == Rewind || verb == Fork || verb == Edit {
				p := g.Runs[slices.IndexFunc(g.Runs, func(r Run) bool { return r.ID == a.Run })].Program
				a.Name = p[g.IntN(len(p))].Name
			}
		})
	}
	for _, verb := range []string{Replay, Discard} {
		add(several("letters", 3), func(a *Act) {
			a.Kind, a.From, a.Keyed, a.Count = verb, 100+a.No, false, g.IntN(3)
			a.At = g.Length/2 + g.upTo(g.Length/2) // there are some by then
			switch last := slices.MaxFunc(g.Runs, func(a, b Run) int { return cmp.Compare(a.At, b.At) }); {
			case verb == Discard || g.chance(0.2):
				a.Run = ""
			case g.chance(0.8): // it may still live
				a.Run, a.At = last.ID, max(a.At, last.At+g.upTo(time.Second))
			}
		})
	}
	if g.on[Pause] {
		for _, a := range slices.Clone(g.Acts) {
			if a.Kind == Pause {
				add(1, func(r *Act) {
					r.Kind, r.Run, r.At, r.From = Resume, a.Run, a.At+g.some(2*time.Second), 100+r.No
					r.Children = a.Children
				})
			}
		}
	}
	for _, s := range g.Schedules {
		if !g.on[Pause] {
			break
		}
		at := s.At + g.upTo(g.Length/2)
		add(1, func(a *Act) { a.Kind, a.Run, a.Name, a.At, a.From = PauseAll, "", s.Name, at, 100+a.No })
		at += s.Every + g.some(2*s.Every)
		add(1, func(a *Act) { a.Kind, a.Run, a.Name, a.At, a.From = ResumeAll, "", s.Name, at, 100+a.No })
		add(g.IntN(2), func(a *Act) { a.Kind, a.Run, a.Name, a.From = Trigger, "", s.Name, 100+a.No })
	}
	if len(g.Queues) > 0 {
		add(several(SetQueue, 3), func(a *Act) {
			a.Kind, a.Run, a.From = SetQueue, "", 100+a.No
			a.Name, a.Count = g.Queues[g.IntN(len(g.Queues))].Name, 1+g.IntN(4)
		})
	}
	slices.SortStableFunc(g.Acts, func(a, b Act) int { return int(a.At - b.At) })
}

func (g *generator) faults() {
	kinds := g.enabled(
		Kill, Stop, Deploy, Freeze, Cut, Mute, Lose, Unheard, Slow, Hints, Jump, Drift, Away, StoreLag, Linger,
		Refuse,
	)
	if g.on["replaces"] {
		kinds = append(kinds, Twin)
	}
	if len(kinds) == 0 {
		return
	}
	for range g.IntN(1 + g.most(11)) {
		f := Fault{Kind: kinds[g.IntN(len(kinds))], At: g.upTo(g.Length), Node: g.IntN(len(g.Nodes))}
		ttl := g.Nodes[f.Node].LeaseTTL
		switch f.Kind {
		case Kill:
			f.Lasts, f.Calls = g.some(ttl), g.Int64N(200)
		case Stop, Deploy:
			f.Lasts = g.some(time.Second)
		case Freeze, Cut, Mute, Twin:
			f.Lasts = pick(g, g.some(100*time.Millisecond), g.some(ttl), ttl+g.upTo(ttl))
		case Lose, Unheard, Refuse:
			f.Lasts, f.Share = g.some(5*time.Second), pick(g, 0.02, 0.2, 1)
			if g.chance(0.5) {
				f.Method = pick(g, "Commit", "Apply", "Claim", "Renew", "Acquire", "Load", "Register", "Release")
			}
		case Slow:
			f.Lasts, f.Share = g.some(5*time.Second), pick(g, 0.1, 1)
		case Hints, Linger:
			f.Lasts = g.some(10 * time.Second)
		case Jump:
			f.Lasts = pick[time.Duration](g, -1, 1) * g.some(time.Hour)
		case Drift:
			f.Lasts, f.Share = g.some(20*time.Second), pick(g, 0.5, 0.9, 0.99, 1.01, 1.1, 2)
		case Away, StoreLag:
			f.Lasts = pick(g, g.some(200*time.Millisecond), g.some(ttl))
		}
		if f.Kind == Cut && g.chance(0.4) {
			f.Lasts, f.Period = ttl+g.upTo(ttl), g.some(ttl/4)+time.Millisecond
		}
		if g.chance(0.25) && slices.Contains([]string{Cut, Mute, Lose, Unheard, Refuse, Slow, Hints}, f.Kind) {
			f.Node = -1
		}
		g.Faults = append(g.Faults, f)
	}
	slices.SortStableFunc(g.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}
