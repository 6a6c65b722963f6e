package runner

import (
	"fmt"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// Stall says why the history and the code do not fit together.
type Stall struct {
	Location string   // where
	Recorded string   // what the history has
	Asked    string   // what the code asks for instead
	Nearest  []string // recorded locations with names near to the one asked for, or asked ones near to the recorded
	Remedy   string
}

// Error returns all of it in one line.
func (s *Stall) Error() string {
	text := fmt.Sprintf("mismatch at %s: the history has %s, the code asks for %s", s.Location, s.Recorded, s.Asked)
	if len(s.Nearest) > 0 {
		text += "; nearest: " + strings.Join(s.Nearest, ", ")
	}
	return text + "; " + s.Remedy
}

const remedy = "restore the former name and order, mark what is new with Version, or what is gone with Removed; then resume the run"

func describe(kind store.Kind, loc location.Loc) string { return fmt.Sprintf("%s %s", kind, loc) }

func (rec *record) describe() string {
	text := describe(rec.Kind, location.Loc(rec.Loc))
	if rec.Seq > 0 {
		return fmt.Sprintf("%s (%s, completion %d)", text, rec.State, rec.Seq)
	}
	return fmt.Sprintf("%s (%s)", text, rec.State)
}

func (r *Run) stall(s *Stall) {
	if r.over == nil {
		r.over = &Outcome{Status: store.Stalled, Stall: s}
	}
}

// damaged stalls the run because what is stored cannot be read.
func (r *Run) damaged(loc location.Loc, err error) {
	if r.over == nil {
		r.over = &Outcome{Status: store.Stalled, Reason: fmt.Sprintf("damaged entry %s: %v; restore the store from a backup, or edit the entry", loc, err)}
	}
}

// remaining returns the recorded completion with the lowest number that was not
// handed over and is not gone, or nil.
func (r *Run) remaining() *record {
	p := &r.replay
	for p.lowest < len(p.numbered) && p.numbered[p.lowest].handed {
		p.lowest++
	}
	for _, rec := range p.numbered[p.lowest:] {
		if !rec.handed && !rec.gone {
			return rec
		}
	}
	return nil
}

// blocked is the divergence in which completions remain that nobody waits for.
func (r *Run) blocked() *Stall { return r.mismatch(r.remaining()) }

// unasked is the divergence in which a begun operation was not asked for.
func (r *Run) unasked() *Stall {
	var first *record
	for _, rec := range r.replay.records {
		if !rec.asked && rec.Seq == 0 && (first == nil || rec.Loc < first.Loc) {
			first = rec
		}
	}
	return r.mismatch(first)
}

func (r *Run) mismatch(rec *record) *Stall {
	loc := location.Loc(rec.Loc)
	s := &Stall{Location: loc.String(), Recorded: rec.describe(), Remedy: remedy}
	var asked []location.Loc
	var texts []string
	for _, o := range r.replay.fresh {
		if !o.closed {
			asked = append(asked, o.loc)
			texts = append(texts, describe(o.kind, o.loc))
		}
	}
	switch {
	case rec.asked:
		s.Asked = "it, but nobody waits for its completion"
	case len(texts) == 0 && r.root.future.settled, r.result != nil:
		s.Asked = "the end of the workflow"
	case len(texts) == 0:
		s.Asked = "nothing new"
	default:
		if len(texts) > 5 {
			texts = append(texts[:5], "…")
		}
		s.Asked = strings.Join(texts, ", ")
	}
	if !rec.asked {
		for _, near := range location.Nearest(loc, asked, 3) {
			s.Nearest = append(s.Nearest, near.String())
		}
	}
	return s
}
