package journal

import (
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// VersionLocation is where the version of a change is recorded: beside all
// operations, because a key never follows a loop's iteration or the root.
func VersionLocation(scope location.Loc, change string) location.Loc {
	return scope.Enclosing().Key("version", 1).Name(change, 1)
}

// Version returns which version of a change the run takes, or the innermost loop
// iteration around the call: what is recorded; otherwise 0 if former code has
// passed this point; otherwise the newest, which is recorded. See the package comment. It
// blocks no branch, and a cancel does not refuse it.
func (j *Journal) Version(b *sched.Branch, call sched.Call, newest int) int {
	if b.Check(call) != nil {
		return 0
	}
	if err := location.CheckName(call.Name); err != nil {
		b.Misnamed(fmt.Errorf("change: %w", err))
	}
	if newest < 1 {
		b.Misnamed(fmt.Errorf("change %q: expected a version of 1 or more, found %d", call.Name, newest))
	}
	loc := b.Bounded(VersionLocation(b.Location(), call.Name))
	version, decided := j.versions[loc]
	if !decided {
		version = j.decide(b, loc, newest)
		if j.versions == nil {
			j.versions = map[location.Loc]int{}
		}
		j.versions[loc] = version
		SegmentOf(b).OnPrune(func() { delete(j.versions, loc) })
	}
	if version > newest {
		j.Owner.Stall(&Stall{
			Location: loc.String(), Recorded: fmt.Sprintf("version %d of the change", version),
			Asked:  fmt.Sprintf("version %d at most", newest),
			Remedy: fmt.Sprintf("run it with code that knows version %d of %q", version, call.Name),
		})
		b.Halt()
	}
	return version
}

// decide returns the version that is recorded at loc, or decides it.
func (j *Journal) decide(b *sched.Branch, loc location.Loc, newest int) int {
	if rec := j.RecordAt(loc); rec != nil {
		j.account(rec)
		SegmentOf(b).count(1, max(rec.Size, len(rec.Value)))
		version, err := stored.DecodeVersion(rec.Value)
		if err != nil {
			j.Owner.Damaged(loc, err)
			b.Halt()
		}
		return version
	}
	if j.passed() {
		return 0
	}
	in := SegmentOf(b)
	j.Spend(b, loc, in)
	value := stored.EncodeVersion(newest)
	j.Count(in, 0, len(value))
	j.pos++ // a transactional step behind it must not become durable before it
	j.Log.Add(store.Entry{
		Loc: string(loc), Kind: store.KindVersion, State: store.Done, Born: j.seq, Generation: j.Run.Generation,
		Started: j.now, Ended: j.now, Value: value,
	})
	return newest
}

// passed reports whether the code that executes now has been executed before,
// by an activation whose outcome is durable. A turn is committed only when every
// branch is blocked: with a completion, all is durable that the code asked for
// because of it.
func (j *Journal) passed() bool {
	run := j.Run
	switch {
	case j.live || j.seq > j.recorded:
		return false
	case j.recorded > 0:
		return true
	case slices.ContainsFunc(j.Entries, func(e store.Entry) bool { return e.Generation == run.Generation }):
		return true
	}
	// A turn without an entry leaves Waits, be they empty. A new incarnation, and a run
	// that was rewound to its begin, begin without a turn.
	return run.Waits != nil && run.Incarnation == 0 && run.Generation == 0
}
