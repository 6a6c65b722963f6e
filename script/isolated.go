package script

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/stet-run/stet"
)

// isolated is an interpreter in a child. It keeps what the interpreter was entered with: if its child ends, it is made
// again in another one, and executes the same code with the same outcomes. The run does not notice.
type isolated struct {
	*compiled
	host
	in      *process // that has the interpreter; nil: none has
	run     uint64   // its number there
	before  int      // how many replies it had given before this attempt
	past    []stretch
	errs    []error   // by the numbers of problems, from 1
	tokens  []answer  // that the script was given
	numbers []float64 // random ones
	drawn   struct{ tokens, numbers int }
	lines   int // of the log, of this stretch, so far
	logged  int // of these, written
}

// stretch is what another child needs to execute an ended stretch again.
type stretch struct {
	entry entry
	calls int // how many it began
}

// maxNumbers is how many random numbers an isolated interpreter keeps, to be made again.
const maxNumbers = 1 << 20

// maxTries is how often a stretch is executed whose child ends for no reason that is known.
const maxTries = 3

// programIDs numbers the compiled scripts that children execute.
var programIDs atomic.Uint64

// enter implements script.
func (s *isolated) enter(e entry) left {
	if e.Settle != nil && e.Settle.Problem != nil {
		s.register(e.Settle.Problem)
	}
	s.logged = 0
	for tries := 0; ; {
		at, err := s.attempt(e)
		var failed *failure
		switch {
		case err == nil:
			s.past = append(s.past, stretch{e, len(at.Calls)})
			s.resolve(at.Failure)
			return *at
		case errors.As(err, &failed):
			return left{Failure: failed}
		case s.in.heard == s.before && s.before > 0:
			continue // it had ended before the stretch began
		}
		if tries++; tries == maxTries {
			return left{Failure: faultf("expected a process for scripts that executes it, found in %d attempts that it ends: %v",
				tries, err)}
		}
	}
}

// end implements script.
func (s *isolated) end() {
	if s.in != nil {
		s.in.forget(s.run)
	}
}

// attempt executes a stretch in the child that has the interpreter, or in another one.
func (s *isolated) attempt(e entry) (*left, error) {
	at, found, err := s.inFormer(e)
	if err != nil || found {
		return at, err
	}
	if s.in != nil {
		s.in.forget(s.run)
		s.in = nil
	}
	in, err := processes.take()
	if err != nil {
		return nil, faultf("a process for scripts cannot be started: %v", err)
	}
	defer in.turn.Unlock()
	s.in, s.run, s.before = in, in.number(), in.heard
	if err := s.again(); err != nil {
		return nil, err
	}
	return s.executeNew(e)
}

// inFormer executes a stretch in the child that has the interpreter. found is false if none has.
func (s *isolated) inFormer(e entry) (at *left, found bool, err error) {
	if s.in == nil {
		return nil, false, nil
	}
	s.in.turn.Lock()
	defer s.in.turn.Unlock() // also where an answer ends this goroutine
	if s.in.dead {
		return nil, false, nil
	}
	s.before = s.in.heard
	return s.execute(e)
}

// executeNew executes a stretch of an interpreter that was made just now.
func (s *isolated) executeNew(e entry) (*left, error) {
	at, found, err := s.execute(e)
	if err == nil && !found {
		err = errors.New("the process has dropped the interpreter at once")
	}
	return at, err
}

// again makes the interpreter in another child: it executes the stretches that have ended.
func (s *isolated) again() error {
	s.drawn.tokens, s.drawn.numbers = 0, 0
	if len(s.numbers) > maxNumbers {
		return faultf("its process has ended, and it has used more than %d random numbers, which are not kept", maxNumbers)
	}
	written := s.logged
	defer func() { s.logged = written }()
	for i := range s.past {
		s.logged = 1<<63 - 1
		at, err := s.executeNew(s.past[i].entry)
		switch {
		case err != nil:
			return err
		case at.Failure == nil && len(at.Calls) != s.past[i].calls:
			return faultf("expected %d operations in stretch %d, as in a process that has ended, found %d", s.past[i].calls, i+1,
				len(at.Calls))
		}
	}
	return nil
}

// execute executes a stretch in the child. found is false if the child does not have the interpreter any more.
func (s *isolated) execute(e entry) (at *left, found bool, err error) {
	s.lines = 0
	r := &request{Run: s.run, Entry: &e}
	if e.Begin != nil {
		r.Program = &program{ID: s.program, Trace: s.trace != nil}
	}
	for {
		got, err := s.in.exchange(r, s.answer)
		switch {
		case err != nil:
			return nil, false, err
		case got.Left != nil:
			return got.Left, true, nil
		case got.Missing == missingProgram && r.Program.Source == "":
			r.Program.Name, r.Program.Source = s.name, s.source
		case got.Missing == missingInterpreter && e.Begin == nil:
			return nil, false, nil
		default:
			return nil, false, fmt.Errorf("expected an answer to a stretch, found %+v", got)
		}
	}
}

// register gives the error of a problem a number.
func (s *isolated) register(p *problem) {
	s.errs = append(s.errs, p.err)
	p.Number = len(s.errs)
}

// resolve gives a failure the error that its problem has the number of.
func (s *isolated) resolve(f *failure) {
	if f == nil || f.Problem == nil {
		return
	}
	switch n := f.Problem.Number; {
	case n > 0 && n <= len(s.errs):
		f.Problem.err = s.errs[n-1]
	case f.Problem.cancels():
		f.Problem.err = stet.ErrCancelled
	default:
		f.Problem.err = errors.New(f.Problem.Message)
	}
}

// answer answers an ask of the child. What the interpreter was given before it is given again.
func (s *isolated) answer(q *ask) *answer {
	switch q.Kind {
	case askRandom:
		return &answer{Random: s.draw(min(max(q.Count, 1), maxRandom))}
	case askHeader:
		return &answer{Text: s.header(q.Text)}
	case askToken:
		if s.drawn.tokens == len(s.tokens) {
			var a answer
			a.Text, a.Number, a.Problem = s.token(q.Text, q.Clean)
			if a.Problem != nil {
				s.register(a.Problem)
			}
			s.tokens = append(s.tokens, a)
		}
		s.drawn.tokens++
		return &s.tokens[s.drawn.tokens-1]
	case askContinue:
		p := s.continueAsNew(q.Text)
		s.register(p)
		return &answer{Problem: p}
	case askLog:
		if s.lines++; s.lines > s.logged {
			s.logged++
			s.log(q.Level, q.Text)
		}
	}
	return nil
}

func (s *isolated) draw(n int) []float64 {
	if len(s.numbers) > maxNumbers { // none is kept any more
		drawn := make([]float64, n)
		for i := range drawn {
			drawn[i] = s.random()
		}
		return drawn
	}
	for len(s.numbers) < s.drawn.numbers+n {
		s.numbers = append(s.numbers, s.random())
	}
	s.drawn.numbers += n
	return slices.Clone(s.numbers[s.drawn.numbers-n : s.drawn.numbers])
}
