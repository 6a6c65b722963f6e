// Package reload executes the code of suspended runs again that a former build has left,
// a few at a time. A run whose wait is gone from the code goes on then, and need not sleep
// until the wait would be over.
//
// Which runs are left says their build: a run that has recorded something here has this
// build, or a later one. A run that goes on waiting has recorded nothing and keeps its
// build, so that a former one may take it up after a rollback; that it was executed is
// noted in its waits. So nothing is noted elsewhere, and what a restart interrupts goes on
// after it.
//
// On the way it finds the suspended runs that have lost their wake time, and lets them find
// it again in the same way.
package reload

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stet-run/stet/store"
)

const (
	// pause is the least time between two looks for shards that were not gone through.
	pause = 10 * time.Second
	// most is how many runs are reloaded before it is looked at what has become of them.
	most = 20
	// patience is how long is waited for that.
	patience = 2 * time.Second
	// again is the time after which all shards are gone through again.
	again = 24 * time.Hour
	// page is how many runs are read at once.
	page = 500
	// share is how much longer it rests after reading a page than that took.
	share = 4
	// brake is how many runs of a workflow may stall before the others are left alone.
	brake = 3
)

// Reloader is what reloading needs. All fields are required.
type Reloader struct {
	Store interface {
		List(context.Context, store.Filter) (store.Page, error)
	}
	Build     string   // of this process; "": none is later than another
	Workflows []string // whose code it has
	Rate      int      // runs of former builds per second; 0 or less: none
	Leases    func() []store.Lease
	Poll      time.Duration // between two looks for shards; less than ten seconds means that
	Idle      func() bool   // there is room in memory
	Apply     func(context.Context, []store.Command) ([]store.Answer, error)
	Log       *slog.Logger
}

// workflow is what is known of the runs of one workflow.
type workflow struct {
	sound   bool // one was reloaded and has not stalled
	stalled int
}

// pass is one way through the suspended runs.
type pass struct {
	*Reloader
	ctx              context.Context
	owned            map[store.Shard]bool
	workflows        map[string]*workflow
	reloaded, stalls int
}

// Run reloads until stop or ctx ends. It goes through the suspended runs once, and again
// when this process has got other shards.
func (r *Reloader) Run(ctx context.Context, stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	done := map[store.Shard]int64{} // epochs of the shards that were gone through
	doneAt := time.Now()
	workflows := map[string]*workflow{}
	for _, name := range r.Workflows {
		workflows[name] = &workflow{}
	}
	for rest(ctx, max(pause, r.Poll)) {
		p := pass{Reloader: r, ctx: ctx, owned: map[store.Shard]bool{}, workflows: workflows}
		now := map[store.Shard]int64{}
		for _, l := range r.Leases() {
			now[l.Shard] = l.Epoch
			p.owned[l.Shard] = done[l.Shard] != l.Epoch
		}
		if maps.Equal(now, done) {
			if time.Since(doneAt) > again {
				clear(done)
			}
			continue
		}
		err := p.run()
		if p.reloaded > 0 && (err == nil || ctx.Err() != nil) {
			r.Log.Info("suspended runs of former builds were loaded", "build", r.Build, "runs", p.reloaded,
				"stalled", p.stalls)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.Log.Warn("loading suspended runs of former builds; trying again", "error", err)
			continue
		}
		done, doneAt = now, time.Now()
	}
}

func (p *pass) run() error {
	f := store.Filter{Workflows: p.Workflows, Statuses: []store.Status{store.Suspended}, Limit: page}
	for {
		begun := time.Now()
		found, err := p.Store.List(p.ctx, f)
		if err != nil {
			return err
		}
		if !rest(p.ctx, share*time.Since(begun)) {
			return p.ctx.Err()
		}
		may := slices.DeleteFunc(found.Runs, func(r store.Run) bool {
			return !p.owned[r.Shard] || r.Marks&(store.Paused|store.Held) != 0 || r.WakeAt != 0 && !p.former(&r) ||
				p.workflows[r.Workflow].stalled >= brake
		})
		for some := range slices.Chunk(may, most) {
			if err := p.reloadLeft(some); err != nil {
				return err
			}
		}
		if f.Cursor = found.Next; f.Cursor == "" {
			return nil
		}
	}
}

// former reports whether a run may have been left by a former build.
func (p *pass) former(r *store.Run) bool { return p.Rate > 0 && r.Build < p.Build }

// reloadLeft reloads those of the runs that this build has not tried, or that never wake.
func (p *pass) reloadLeft(former []store.Run) error {
	begun := time.Now()
	found, err := p.Store.List(p.ctx, store.Filter{Nos: numbers(former), Limit: len(former), Values: true}) // with waits
	if err != nil {
		return err
	}
	if !rest(p.ctx, share*time.Since(begun)) {
		return p.ctx.Err()
	}
	runs := slices.DeleteFunc(found.Runs, func(r store.Run) bool {
		lost := r.Status == store.Suspended && LostWake(&r)
		if lost {
			p.Log.Warn("a suspended run has lost its wake time: it is loaded, and finds it again", "run_id", r.ID,
				"workflow", r.Workflow)
		}
		return r.Status != store.Suspended || !lost && !(p.former(&r) && left(&r, p.Build))
	})
	for len(runs) > 0 {
		var some []store.Run
		if some, runs = p.next(runs); len(some) == 0 {
			return nil
		}
		if err := p.reload(some); err != nil {
			return err
		}
	}
	return nil
}

func numbers(runs []store.Run) []store.RunNo {
	nos := make([]store.RunNo, len(runs))
	for i := range runs {
		nos[i] = runs[i].No
	}
	return nos
}

// next takes the runs that are reloaded next: of a workflow of which none was yet, or has
// stalled, one alone.
func (p *pass) next(runs []store.Run) (some, rest []store.Run) {
	alone := map[string]bool{}
	for len(runs) > 0 && len(some) < min(most, max(p.rate()/10, 1)) {
		run := runs[0]
		w := p.workflows[run.Workflow]
		if (!w.sound || w.stalled > 0) && alone[run.Workflow] {
			break
		}
		if runs = runs[1:]; w.stalled < brake {
			some, alone[run.Workflow] = append(some, run), true
		}
	}
	return some, runs
}

// reload nudges some runs and looks what becomes of them.
func (p *pass) reload(runs []store.Run) error {
	for !p.Idle() {
		if !rest(p.ctx, time.Second) {
			return p.ctx.Err()
		}
	}
	begun := time.Now()
	commands := make([]store.Command, len(runs))
	for i := range runs {
		id := uuid.NewString()
		commands[i] = store.Command{
			RunID: runs[i].ID, Claim: true, Item: &store.Item{Kind: store.ItemNudge, ID: id, Origin: id},
		}
	}
	if _, err := p.Apply(p.ctx, commands); err != nil {
		return err
	}
	p.reloaded += len(commands)
	share := time.Duration(len(commands)) * time.Second / time.Duration(p.rate())
	for {
		if !rest(p.ctx, max(share, 50*time.Millisecond)) {
			return p.ctx.Err()
		}
		found, err := p.Store.List(p.ctx, store.Filter{Nos: numbers(runs), Limit: len(runs)})
		if err != nil {
			return err
		}
		late := time.Since(begun) > patience
		underWay := func(r store.Run) bool { return r.Status == store.Running && p.former(&r) }
		if !late && slices.ContainsFunc(found.Runs, underWay) {
			continue
		}
		for i := range found.Runs {
			p.look(&found.Runs[i])
		}
		return nil
	}
}

// rate is how many runs are loaded per second.
func (p *pass) rate() int {
	if p.Rate > 0 {
		return p.Rate
	}
	return most
}

// look keeps what has become of a run that was reloaded.
func (p *pass) look(run *store.Run) {
	w := p.workflows[run.Workflow]
	if w == nil {
		return // it goes on as a run of another workflow
	}
	if run.Status != store.Stalled {
		w.sound = true
		return
	}
	p.stalls++
	if w.stalled++; w.stalled == brake {
		p.Log.Error("runs of a workflow stall when their code is executed: its other suspended runs are left alone",
			"workflow", run.Workflow, "build", p.Build, "stalled", brake, "run_id", run.ID, "reason", run.Reason)
	}
}

// rest waits. It reports false if ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
