package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/store"
)

// CheckQuery selects the runs that Check replays. The zero CheckQuery selects a
// sample of all live runs.
type CheckQuery struct {
	// Filter selects runs. One without statuses selects those that have not ended:
	// queued, running, suspended and stalled. Its Cursor, Limit and Values are not
	// looked at.
	Filter store.Filter
	// Sample is how many runs of each workflow are replayed at most, chosen at
	// random among those that match. Default 1,000; None: all.
	Sample int
	// Definition is the code to replay against, for runs of its workflow; those of others are
	// Elsewhere. Default: the code that this engine has.
	Definition Definition
	// Seed makes the choice the same again for the same store. Default: another
	// one each time.
	Seed uint64
}

// CheckReport is what a Check has found.
type CheckReport struct {
	Found     int            // runs that match
	Replayed  int            // of these, replayed
	Elsewhere map[string]int // of these, by workflow, those whose code this engine does not have
	Gone      int            // of these, swept since, or changing too fast to be read
	Breaks    []*ReplayError // replays that have failed, in the order of workflows, then newest first
}

// CheckGroup is the runs of a check that break in the same way.
type CheckGroup struct {
	Workflow string
	Location string   // of the first one; "": the reason has no place
	Reason   string   // of the first one
	Runs     int      // how many there are
	RunIDs   []string // of up to three, newest first
}

// perGroup is how many runs a group names.
const perGroup = 3

// Groups returns the breaks by workflow, location and reason, the largest group of each
// workflow first. What differs from run to run does not tell them apart: the keys and
// indices of a Map or Loop, and recorded values. Each run is replayed up to its first
// difference, so there may be others behind it.
func (r *CheckReport) Groups() []CheckGroup {
	var groups []*CheckGroup
	of := map[string]*CheckGroup{}
	for _, b := range r.Breaks {
		key := b.alike()
		g := of[key]
		if g == nil {
			g = &CheckGroup{Workflow: b.Workflow, Location: b.Location, Reason: b.Reason}
			of[key], groups = g, append(groups, g)
		}
		if g.Runs++; len(g.RunIDs) < perGroup {
			g.RunIDs = append(g.RunIDs, b.RunID)
		}
	}
	slices.SortStableFunc(groups, func(a, b *CheckGroup) int {
		return cmp.Or(strings.Compare(a.Workflow, b.Workflow), cmp.Compare(b.Runs, a.Runs))
	})
	list := make([]CheckGroup, len(groups))
	for i, g := range groups {
		list[i] = *g
	}
	return list
}

// particular matches what a reason or a location says of one run alone.
var particular = regexp.MustCompile(`\[[^\]]*\]|[~#]\d+|completion \d+|"(?:[^"\\]|\\.)*"`)

// alike returns a text that is the same for runs that break in the same way.
func (e *ReplayError) alike() string {
	reason := e.Reason
	if e.Cause == CauseDecode { // the recorded value
		reason = strings.Replace(reason, e.Recorded, "", 1)
	}
	return strings.Join([]string{
		e.Workflow, string(e.Cause), particular.ReplaceAllString(e.Location, "*"), particular.ReplaceAllString(reason, "*"),
	}, "\x00")
}

// Err returns nil if every run that was replayed fits the code, and otherwise one error
// for all that do not.
func (r *CheckReport) Err() error {
	var all []error
	for _, b := range r.Breaks {
		all = append(all, b)
	}
	return errors.Join(all...)
}

// Check replays a sample of a store's runs against the code that this engine
// has, and reports which would break with it, where and why. It executes no step
// and writes nothing, so it may be called from a new build of an application,
// before its deploy, on the store that the former build works on. Errors:
// ErrInvalid for a bad query, and those of the store and of ctx.
//
// A replay ends at its first difference: a run that breaks may have others behind it.
// What is not recorded is not checked: a run that fits may still behave in another way
// from where it stands.
func (e *Engine) Check(ctx context.Context, q CheckQuery) (*CheckReport, error) {
	pick(&q.Sample, 1000)
	if q.Sample < None {
		return nil, fmt.Errorf("check: Sample: expected 1 or more, 0 (default) or None, found %d: %w", q.Sample, ErrInvalid)
	}
	pick(&q.Seed, rand.Uint64())
	report := &CheckReport{Elsewhere: map[string]int{}}
	samples, err := e.sample(ctx, &q, report)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	for _, s := range samples {
		slices.SortFunc(s.runs, func(a, b store.Run) int { return cmp.Compare(b.No, a.No) })
		for i := range s.runs {
			err := e.checkRun(ctx, &s.runs[i], q.Definition)
			mismatch, broken := errors.AsType[*ReplayError](err)
			switch {
			case broken:
				report.Replayed++
				report.Breaks = append(report.Breaks, mismatch)
			case errors.Is(err, ErrNotFound), errors.Is(err, errUnsteady):
				report.Gone++
			case err != nil:
				return report, fmt.Errorf("check: %w", err)
			default:
				report.Replayed++
			}
		}
	}
	return report, nil
}

// sampled are the chosen runs of one workflow.
type sampled struct {
	workflow string
	seen     int
	runs     []store.Run
}

// sample chooses runs among those that match, of each workflow equally likely.
func (e *Engine) sample(ctx context.Context, q *CheckQuery, report *CheckReport) ([]*sampled, error) {
	filter := q.Filter
	filter.Cursor, filter.Limit, filter.Values = "", store.MaxPage, false
	filter, none, err := e.resolve(ctx, filter)
	if err != nil || none {
		return nil, err
	}
	if len(filter.Statuses) == 0 {
		filter.Statuses = []store.Status{store.Queued, store.Running, store.Suspended, store.Stalled}
	}
	if q.Definition == nil {
		if _, err := e.inner.Workflows().Code.Look(ctx); err != nil {
			return nil, err
		}
	}
	random := rand.New(rand.NewPCG(q.Seed, 0))
	byName := map[string]*sampled{}
	for {
		page, err := e.store.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			run := &page.Runs[i]
			report.Found++
			known := e.inner.Workflows().Code.Has(run.Workflow)
			if q.Definition != nil {
				known = q.Definition.Name() == run.Workflow
			}
			if !known {
				report.Elsewhere[run.Workflow]++
				continue
			}
			s := byName[run.Workflow]
			if s == nil {
				s = &sampled{workflow: run.Workflow}
				byName[run.Workflow] = s
			}
			s.seen++
			if q.Sample == None || len(s.runs) < q.Sample {
				s.runs = append(s.runs, *run)
			} else if at := random.IntN(s.seen); at < q.Sample {
				s.runs[at] = *run
			}
		}
		if page.Next == "" {
			break
		}
		filter.Cursor = page.Next
	}
	samples := make([]*sampled, 0, len(byName))
	for _, s := range byName {
		samples = append(samples, s)
	}
	slices.SortFunc(samples, func(a, b *sampled) int { return strings.Compare(a.workflow, b.workflow) })
	return samples, nil
}

// checkRun replays a run of the store.
func (e *Engine) checkRun(ctx context.Context, run *store.Run, against Definition) error {
	s, err := e.snapshot(ctx, run.No)
	if errors.Is(err, ErrUnknownKey) || errors.Is(err, ErrSealed) || errors.Is(err, payload.ErrNoObjects) {
		return &ReplayError{RunID: run.ID, Workflow: run.Workflow, Reason: "the run would be left alone: " + err.Error()}
	}
	if err != nil {
		return err
	}
	return e.replay(ctx, s, against)
}
