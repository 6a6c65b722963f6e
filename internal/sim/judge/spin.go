package judge

import (
	"strings"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/store"
)

// spins counts what is done for each run, and says which run does not rest: more turns are written of it, or it is
// claimed more often, than its program and what has happened to it explain.
//
// A world need not see the end of one that spins. It executes a few hundred turns in a second of the world, and the
// world would end it half an hour later.
type spins struct {
	*oracle
	of    map[string]*spin
	lost  int                 // requests and answers; each may be repeated
	moved map[store.Shard]int // takeovers
}

// spin is what was done for a run.
type spin struct {
	turns, claims int
	requests      int // of clients and operators
	again         int // … that take back what was done
	work          int // of its program; 0: it has none
	shard         store.Shard
}

func newSpins(o *oracle) *spins {
	return &spins{o, map[string]*spin{}, 0, map[store.Shard]int{}}
}

func (s *spins) run(id string) *spin {
	r := s.of[id]
	if r == nil {
		r = &spin{}
		s.of[id] = r
	}
	return r
}

// started takes the start of a run by another one; by is "" if a client has started it.
func (s *spins) started(by, id string) {
	switch r := s.run(id); {
	case r.work > 0:
	case by != "" && !strings.HasPrefix(by, "stet.") && !strings.HasPrefix(id, "stet."):
		r.work = s.run(by).work // the programs of children are in that of their parent
	default:
		r.work = s.programOf(id)
	}
}

// programOf returns the work of the program of a run that no other one has started; 0: it is an entity.
func (s *spins) programOf(id string) int {
	if strings.HasPrefix(id, "stet.") {
		return 0
	}
	origin, _, _ := strings.Cut(id, "-fork-")
	for _, r := range s.plan.Runs {
		if r.ID == origin {
			return work(r.Program)
		}
	}
	if of, _, ok := s.plans.byName(id); ok {
		return work(of.Program)
	}
	return 0
}

// sent takes what a client or an operator has sent to a run.
func (s *spins) sent(id string, kind store.ItemKind) {
	r := s.run(id)
	r.requests++
	if kind == store.ItemRetry || kind == store.ItemRewind || kind == store.ItemEdit {
		r.again++
	}
}

// explained is how many turns of a run, and claims, its program and what has happened explain at most. Of an entity,
// which works for all runs, that is not known: its work is that of all of them, and grows with the time.
func (s *spins) explained(r *spin) int {
	n, from := r.work, 0
	if n == 0 {
		for _, of := range s.plan.Runs {
			n += work(of.Program)
		}
		for _, of := range s.plan.Schedules {
			n += work(of.Program) * (1 + int(s.now()/of.Every))
		}
		from = int(s.now() / (50 * time.Millisecond))
	}
	return usual*((20+n)*(1+r.again)+s.befell(r)) + from
}

// befell is how often something has happened to a run that lets it do something once more.
func (s *spins) befell(r *spin) int {
	return r.requests + s.moved[r.shard] + s.lost + s.reached["node died"]
}

// usual is how many turns an operation has at most, in each of its attempts and iterations.
const usual = 4

// wrote takes a turn that was written.
func (s *spins) wrote(id string, shard store.Shard) {
	r := s.run(id)
	r.turns++
	r.shard = shard
	s.judge(id, r, r.turns, "turns are written")
}

// claimed takes the claim of a run.
func (s *spins) claimed(id string, shard store.Shard) {
	r := s.run(id)
	r.claims++
	r.shard = shard
	s.judge(id, r, r.claims, "claims are made")
}

// begins takes the nth begin of an attempt of a body.
func (s *spins) begins(n int, of plan.Note) {
	if most := usual * (2 + s.befell(s.run(of.Run))); n > most {
		s.violated("spin: attempt %d of %s of %s begins %d times; what has happened explains %d",
			of.Attempt, of.Op, of.Run, n, most)
	}
}

func (s *spins) judge(id string, r *spin, n int, what string) {
	if most := s.explained(r); n > most {
		s.violated("spin: %d %s of %s; its program and what has happened explain %d", n, what, id, most)
	}
}

// work is how much there is to do in a program: its operations, with their attempts and iterations, and those of
// its children.
func work(p plan.Program) (n int) {
	for _, op := range p {
		n++
		if b := op.Body; b != nil {
			n += b.Fails + b.Kills + b.Emits + int(b.Takes/time.Second)
		}
		if b := op.Undo; b != nil {
			n += 1 + b.Fails
		}
		if op.Queue != "" {
			n++
		}
		if op.Kind == plan.Task { // workers fail otherwise as well, and leases expire
			n += 20
		}
		inside := 0
		for _, sub := range op.Subs {
			inside += work(sub)
		}
		if op.Kind == plan.Loop {
			inside = (1 + inside) * op.Count
		}
		n += inside
	}
	return n
}
