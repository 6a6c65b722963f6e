package runner

import (
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// versionLocation is where the version of a change is recorded: beside all
// operations, because a key never follows a loop's iteration or the root.
func versionLocation(scope location.Loc, change string) location.Loc {
	return scope.Enclosing().Key("version", 1).Name(change, 1)
}

// Version returns which version of a change the run takes, or the innermost loop
// iteration around the call: what is recorded; else 0 if former code has passed
// this point; else the newest, which is recorded. See the package comment. It
// blocks no branch, and a cancel does not refuse it.
func (b *Branch) Version(call Call, newest int) int {
	if b.Check(call) != nil {
		return 0
	}
	if err := location.CheckName(call.Name); err != nil {
		b.Misnamed(fmt.Errorf("change: %w", err))
	}
	if newest < 1 {
		b.Misnamed(fmt.Errorf("change %q: expected a version of 1 or more, found %d", call.Name, newest))
	}
	r := b.run
	loc := b.Bounded(versionLocation(b.Location(), call.Name))
	version, decided := r.versions[loc]
	if !decided {
		version = b.decide(loc, newest)
		if r.versions == nil {
			r.versions = map[location.Loc]int{}
		}
		r.versions[loc] = version
		if in := b.segment(); in != nil {
			in.versions = append(in.versions, loc)
		}
	}
	if version > newest {
		r.stall(&Stall{
			Location: loc.String(), Recorded: fmt.Sprintf("version %d of the change", version), Asked: fmt.Sprintf("version %d at most", newest),
			Remedy: fmt.Sprintf("run it with code that knows version %d of %q", version, call.Name),
		})
		b.Halt()
	}
	return version
}

// decide returns the version that is recorded at loc, or decides it.
func (b *Branch) decide(loc location.Loc, newest int) int {
	r := b.run
	if rec := r.replay.records[string(loc)]; rec != nil {
		r.replay.account(rec)
		b.segment().count(1, max(rec.Size, len(rec.Value)))
		version, err := stored.DecodeVersion(rec.Value)
		if err != nil {
			r.damaged(loc, err)
			b.Halt()
		}
		return version
	}
	if r.passed() {
		return 0
	}
	in := b.segment()
	b.spend(loc, in)
	value := stored.EncodeVersion(newest)
	r.count(in, 0, len(value))
	r.pos++ // a transactional step behind it must not become durable before it
	r.log.Add(store.Entry{
		Loc: string(loc), Kind: store.KindVersion, State: store.Done, Born: r.seq, Generation: r.cfg.Run.Generation,
		Started: r.now, Ended: r.now, Value: value,
	})
	return newest
}

// passed reports whether the code that executes now has been executed before,
// by an activation whose outcome is durable. A turn is committed only when every
// branch is blocked: with a completion, all is durable that the code asked for
// because of it.
func (r *Run) passed() bool {
	run := &r.cfg.Run
	switch {
	case r.live || r.seq > r.recorded:
		return false
	case r.recorded > 0:
		return true
	case slices.ContainsFunc(r.cfg.Entries, func(e store.Entry) bool { return e.Generation == run.Generation }):
		return true
	}
	// A turn without an entry leaves Waits, be they empty. A new incarnation, and a run
	// that was rewound to its begin, begin without a turn.
	return run.Waits != nil && run.Incarnation == 0 && run.Generation == 0
}
