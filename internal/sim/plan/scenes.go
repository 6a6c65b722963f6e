package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// scenes are situations that chance alone seldom makes: each is a few runs and acts that must meet.
// The rest of the world goes on around them.
var scenes = []struct {
	name string
	play func(g *generator, at time.Duration)
}{
	{LettersAtOnce, (*generator).lettersAtOnce}, {EndedParent, (*generator).endedParent},
	{EventForOne, (*generator).eventForOne}, {WaitInVain, (*generator).waitInVain},
	{FullRate, (*generator).fullRate}, {CommitsLost, (*generator).commitsLost}, {ClaimsLost, (*generator).claimsLost},
	{LetterAgain, (*generator).letterAgain}, {QuietSleeps, (*generator).quietSleeps},
	{CodeToCode, (*generator).codeToCode}, {PausedRace, (*generator).pausedRace},
	{FastClock, (*generator).fastClock},
}

// Names of scenes.
const (
	LettersAtOnce = "letters at once"
	EndedParent   = "ended parent"
	EventForOne   = "event for one"
	WaitInVain    = "wait in vain"
	FullRate      = "full rate"
	CommitsLost   = "commits lost"
	ClaimsLost    = "claims lost"
	LetterAgain   = "letter again"
	QuietSleeps   = "quiet sleeps"
	CodeToCode    = "code to code"
	PausedRace    = "paused race"
	FastClock     = "fast clock"
)

// scene adds one of them to most worlds of that feature.
func (g *generator) scene() {
	if !g.on["scenes"] || g.chance(0.3) {
		return
	}
	s := scenes[g.IntN(len(scenes))]
	g.Scene = s.name
	s.play(g, g.upTo(g.Length/2))
	slices.SortStableFunc(g.Acts, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(g.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// enters adds a run.
func (g *generator) enters(at time.Duration, p Program) string {
	id := fmt.Sprintf("r%d", len(g.Runs))
	g.Runs = append(g.Runs, Run{ID: id, At: at, Program: p})
	g.Cast = append(g.Cast, id)
	return id
}

// stageHand is the sender of a scene's acts.
const stageHand = 1000

func (g *generator) does(at time.Duration, kind, run, name string) {
	g.Acts = append(g.Acts, Act{
		No: len(g.Acts) + 1, At: at, Kind: kind, Run: run, Name: name, From: stageHand, Keyed: true,
	})
}

func (g *generator) waits(kind, to string, wait time.Duration) Op {
	op := g.named(kind)
	op.To, op.Wait = to, wait
	return op
}

// lettersAtOnce: several messages of one sender wait when their run comes to receive them.
func (g *generator) lettersAtOnce(at time.Duration) {
	box := Receive + "-scene"
	p := Program{g.waits(Sleep, "", time.Second+g.upTo(2*time.Second))}
	n := 2 + g.IntN(3)
	for range n {
		p = append(p, g.waits(Receive, box, Patience))
	}
	id := g.enters(at, p)
	for range n {
		g.does(at+300*time.Millisecond, Send, id, box)
	}
}

// endedParent: a run is terminated while it executes a step and a child of it lives.
func (g *generator) endedParent(at time.Duration) {
	all, call, child, step := g.named(All), g.named(Call), g.waits(Sleep, "", 40*time.Second), g.named(Step)
	step.Body = &Body{Takes: 4 * time.Second}
	call.Subs = []Program{{child}}
	all.Subs = []Program{{call}, {step}}
	id := g.enters(at, Program{all})
	g.does(at+time.Second+g.upTo(time.Second), Terminate, id, "")
}

// eventForOne: several runs wait for an event that one of them gets.
func (g *generator) eventForOne(at time.Duration) {
	n := 2 + g.IntN(2)
	for range n {
		g.enters(at, Program{g.waits(Event, "once", Patience)})
	}
	g.does(at+2*time.Second, Publish, "", "once")
}

// waitInVain: a run waits for an event in vain, and goes on. Another one waits for the event that is
// published then.
func (g *generator) waitInVain(at time.Duration) {
	g.enters(at, Program{g.waits(Event, InVain, time.Second), g.waits(Sleep, "", 20*time.Second)})
	g.enters(at+200*time.Millisecond, Program{g.waits(Event, InVain, VeryLong)})
	g.does(at+3*time.Second, Publish, "", InVain)
}

// InVain is the topic of that scene. One event is published there.
const InVain = "once in vain"

// VeryLong is longer than anything that goes wrong.
const VeryLong = 5 * time.Minute

// WaitsInVain returns how long a run waits at most for what nobody sends, as when its sender was terminated: one
// VeryLong wait after another.
func (p *Plan) WaitsInVain() (longest time.Duration) {
	for i := range p.Runs {
		sum := time.Duration(0)
		for _, op := range p.Runs[i].Program {
			if op.Wait >= VeryLong {
				sum += op.Wait
			}
		}
		longest = max(longest, sum)
	}
	return longest
}

// fullRate: many steps want the permits of a queue at once, with one key, and each costs more than
// one unit. The act that changes settings, which clears rates, is not for this queue.
func (g *generator) fullRate(time.Duration) {
	q := Queue{Name: "rated", Per: 10 * time.Second}
	if g.chance(0.5) {
		q.Rate = 4
	} else {
		q.RatePerKey = 4
	}
	all := g.named(All)
	for range 8 {
		step := g.named(Step)
		step.Body, step.Queue, step.Key, step.Cost = &Body{}, q.Name, "a", 2
		all.Subs = append(all.Subs, Program{step})
	}
	g.Queues = append(g.Queues, q)
	g.enters(0, Program{all})
}

// commitsLost: requests to commit are lost while a run has one short step after another.
func (g *generator) commitsLost(at time.Duration) {
	var p Program
	for range 12 {
		step := g.named(Step)
		step.Body = &Body{Takes: g.upTo(200 * time.Millisecond)}
		p = append(p, step)
	}
	g.enters(at, p)
	for node := range g.Nodes {
		g.Faults = append(g.Faults, Fault{
			Kind: Lose, At: min(at+500*time.Millisecond, g.Length), Lasts: time.Second, Node: node, Share: 0.5, Method: "Commit",
		})
	}
}

// claimsLost: answers to claims are lost while a run wakes again and again.
func (g *generator) claimsLost(at time.Duration) {
	var p Program
	for range 12 {
		p = append(p, g.waits(Sleep, "", 100*time.Millisecond+g.upTo(300*time.Millisecond)))
	}
	g.enters(at, p)
	for node := range g.Nodes {
		g.Faults = append(g.Faults, Fault{
			Kind: Unheard, At: min(at+300*time.Millisecond, g.Length), Lasts: 3 * time.Second, Node: node, Share: 0.4,
			Method: "Claim",
		})
	}
}

// letterAgain: a run ends without a message, and an operator sends the dead letter to another one, which waits for it.
func (g *generator) letterAgain(at time.Duration) {
	box := Receive + "-scene"
	first := g.enters(at, Program{g.waits(Sleep, "", time.Second)})
	second := g.enters(at, Program{g.waits(Receive, box, Patience)})
	g.does(at+300*time.Millisecond, Send, first, box)
	g.does(at+2*time.Second, Replay, second, "")
}

// quietSleeps: a run sleeps for short times when nothing else happens, and nodes seldom look by themselves.
func (g *generator) quietSleeps(time.Duration) {
	for i := range g.Nodes {
		g.Nodes[i].Poll, g.Nodes[i].MaxRuns = 10*time.Second, 0
	}
	p := Program{g.waits(Sleep, "", g.Length+g.Nodes[0].LeaseTTL+40*time.Second)}
	for range 4 {
		p = append(p, g.waits(Sleep, "", time.Second+g.upTo(3*time.Second)))
	}
	g.enters(0, p)
}

// codeToCode: a run sends messages to another one and hands a promise to a child; then it asks the other one for
// something. Both wait for longer than anything that goes wrong.
func (g *generator) codeToCode(at time.Duration) {
	box, n := Receive+"-scene", 2+g.IntN(3)
	receiver := Program{g.waits(Sleep, "", g.upTo(2*time.Second))}
	for range n {
		receiver = append(receiver, g.waits(Receive, box, VeryLong))
	}
	to := g.enters(at, append(receiver, g.waits(Update, Update+"-scene", VeryLong)))
	sender := Program{g.waits(Sleep, "", g.upTo(2*time.Second))}
	for range n {
		send := g.waits(Send, to, 0)
		send.Key = box
		sender = append(sender, send)
	}
	hand, ask := g.waits(Hand, "", VeryLong), g.waits(Ask, to, Patience)
	hand.Subs, ask.Key = []Program{{g.waits(Sleep, "", g.upTo(time.Second))}}, Update+"-scene"
	g.enters(at, append(sender, hand, ask))
}

// pausedRace: a run is to be paused while the bodies of a race execute. Two have ended, of which one has an effect,
// when the pause is withdrawn: the first one wins.
func (g *generator) pausedRace(at time.Duration) {
	race := g.named(Race)
	for _, takes := range []time.Duration{2 * time.Second, 2500 * time.Millisecond, 8 * time.Second} {
		step := g.named(Step)
		step.Body, step.Undo = &Body{Takes: takes}, &Body{}
		race.Subs = append(race.Subs, Program{step})
	}
	race.Subs[0][0].Undo = nil
	id := g.enters(at, Program{race})
	g.does(at+time.Second, Pause, id, "")
	g.does(at+4*time.Second, Resume, id, "")
	g.Acts[len(g.Acts)-1].From++
}

// fastClock: all nodes have clocks that are too fast for a while. When they have nothing left of that, a run sleeps
// beside a step, so that its process's own timers wake it.
func (g *generator) fastClock(at time.Duration) {
	lasts := time.Second + g.upTo(2*time.Second)
	for i := range g.Nodes {
		g.Faults = append(g.Faults, Fault{Kind: Drift, At: at, Lasts: lasts, Node: i, Share: 2})
	}
	all, step, sleeps := g.named(All), g.named(Step), Program{}
	step.Body = &Body{Takes: 8 * time.Second}
	for range 4 {
		sleeps = append(sleeps, g.waits(Sleep, "", 500*time.Millisecond+g.upTo(time.Second)))
	}
	all.Subs = []Program{{step}, sleeps}
	g.enters(at, Program{g.waits(Sleep, "", g.Length+100*time.Second), all})
}
