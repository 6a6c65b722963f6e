package committer

import (
	"runtime"
	"time"

	"github.com/stet-run/stet/store"
)

const (
	// mostGathered is how many runs are waited for at most. More take longer to send their turns than a
	// commit costs that has few: the next batch had better fill while one is written.
	mostGathered = 20
	// longestGather bounds how long a batch waits for the runs that a former one has let go on.
	longestGather = 250 * time.Microsecond
	// mostYields bounds it too, where time stands still.
	mostYields = 1000
	// mostSkips bounds how many batches do not wait after some that have waited in vain.
	mostSkips = 256
)

// gathering decides whether a batch waits for the runs that the batch before has let go on.
//
// Ten runs with short steps end their bodies within some tens of microseconds of one another. If
// the first were written at once, the others would wait for its commit: two commits in place of
// one for each round of steps. With many runs the next batch fills while one is written, and there
// is nothing to gain. So it is tried, and tried more and more rarely while the runs do not come in
// time.
type gathering struct {
	due    int       // runs that the latest batch has let go on, and that have sent no turn since
	until  time.Time // they are waited for
	took   time.Duration
	missed int // waits in vain in a row
	skip   int // batches that do not wait
}

// goesOn counts the runs that go on in memory once they have the verdicts and answers of a batch.
func goesOn(b *batch, result *store.BatchResult) (runs int) {
	for i, t := range b.turns {
		if u := t.Turn.Update; result.Turns[i].Verdict == store.Committed && (u == nil || u.Status == store.Running) {
			runs++
		}
	}
	for i := range result.Commands {
		if result.Commands[i].Claimed {
			runs++
		}
	}
	return runs
}

// expect notes, before a batch is delivered, how many runs go on with it.
func (g *gathering) expect(runs int, now time.Time) {
	if runs > mostGathered {
		runs = 0
	}
	g.due, g.until = runs, now.Add(min(g.took/2, longestGather))
}

// sent notes the turn of a run.
func (g *gathering) sent() { g.due = max(g.due-1, 0) }

// expects reports whether turns are about to come.
func (g *gathering) expects(now time.Time) bool { return g.due > 0 && now.Before(g.until) }

// gathers reports whether the next batch waits for the runs of a batch with this many turns.
func (g *gathering) gathers(turns int) bool {
	if g.skip > 0 {
		g.skip--
		return false
	}
	return turns <= mostGathered && g.took > 0
}

// settle notes whether at least half of the expected runs came.
func (g *gathering) settle(expected int) {
	if g.due <= expected/2 {
		g.missed = 0
		return
	}
	g.missed++
	g.skip = min(1<<min(g.missed, 20), mostSkips)
}

// gather waits for the runs that are about to send their turns. The caller writes the next batch.
func (c *Committer) gather() {
	expected := -1
	for range mostYields {
		c.mu.Lock()
		if expected < 0 {
			expected = c.gathering.due
		}
		expects := expected > 0 && c.gathering.expects(time.Now())
		if !expects {
			if expected > 0 {
				c.gathering.settle(expected)
			}
			c.gathering.due = 0
		}
		c.mu.Unlock()
		if !expects {
			return
		}
		runtime.Gosched()
	}
	c.mu.Lock()
	c.gathering.settle(expected)
	c.gathering.due = 0
	c.mu.Unlock()
}
