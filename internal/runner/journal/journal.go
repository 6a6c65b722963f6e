package journal

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/runner/turnlog"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Owner is the run to which a Journal belongs.
type Owner interface {
	// Stall ends the activation: history and code do not fit together.
	Stall(s *Stall)
	// Damaged ends the activation: what is stored at a location cannot be read.
	Damaged(loc location.Loc, err error)
	// Break ends the activation for an error that is not the run's: it is to be loaded
	// again.
	Break(err error)
	// Note tells the log of the process something.
	Note(loc location.Loc, text string, err error)
	// StandsStill reports whether ends of attempts are recorded and not handed over.
	StandsStill() bool
	// HasReturned reports whether the workflow's function has returned.
	HasReturned() bool
	// Owes is called when the recorded completion of a step that carries a compensation
	// is handed over, with its number. o is nil if nothing waits for it.
	Owes(rec *Record, seq int64, o *Op)
	// Undone is called when the recorded compensation of a saga that the code has no more
	// is passed.
	Undone(step location.Loc)
}

// Config is what a Journal is made from.
type Config struct {
	Run     *store.Run
	Entries []store.Entry // of the incarnation, in the order of locations
	// Fetch returns the value of an entry that the snapshot left out.
	Fetch  func(loc string) ([]byte, error)
	Limits Limits
	// LongPause is how long nothing happens in a run before Resumed notes when it has gone on;
	// 0: it never does.
	LongPause time.Duration
	// NewKey returns a key that was never returned before. nil: it is derived, which is
	// enough for a run that is not committed.
	NewKey    func() string
	Owner     Owner
	Scheduler *sched.Scheduler
}

// Limits bound what one run may hold. Zero fields mean the defaults.
type Limits struct {
	Entries     int // per incarnation; default 100,000
	Bytes       int // of values per incarnation; default 256 MiB
	Value       int // bytes of one value; default 2 MiB
	TurnEntries int // a turn is cut after so many; default 1,000
	TurnBytes   int // default 4 MiB
}

// WithDefaults returns the limits with the defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.Entries, 100_000}, {&l.Bytes, 256 << 20}, {&l.Value, 2 << 20},
		{&l.TurnEntries, 1_000}, {&l.TurnBytes, 4 << 20},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return l
}

// Journal is the memory of one activation of a run. Its methods are called by the
// goroutine that has the baton.
type Journal struct {
	Config
	Log    turnlog.Log // the turn that fills
	Timers Timers      // of live operations
	Items  Items       // of the inbox

	now     store.Time // the run's time: that of the last hand-over
	bound   store.Time // lower bound of the store's time, as last given
	inboxAt store.Time // the inbox was read at this time or later
	resumed store.Time // when a wait was over during which nothing had happened for LongPause; 0: none was
	seq     int64      // completions handed over
	pos     int64      // barrier: hand-overs and failed attempts so far

	replay
	recorded int64 // the last completion number of the history
	handed   int   // recorded completions
	live     bool
	versions map[location.Loc]int // what Version has returned
	gone     map[string]*Record   // accepted by Removed; set when the run goes live

	last     *Op // was handed over live since the checkpoint; nil: none
	lastSlot turnlog.Slot

	entries int // recorded and new
	bytes   int
	loaded  int                    // bytes of memory that Config.Entries take
	shares  []share                // of the budget that are not used up: a line is logged for each
	pruned  map[location.Loc]int64 // the oldest iteration of loops that keeps its history
}

// New returns the journal of a run that has done nothing yet.
func New(cfg Config) *Journal {
	cfg.Limits = cfg.Limits.WithDefaults()
	j := &Journal{
		Config: cfg, Timers: newTimers(), Items: Items{known: map[store.ItemNo]struct{}{}},
		now: max(cfg.Run.Started, cfg.Run.Began), entries: len(cfg.Entries), pruned: map[location.Loc]int64{},
	}
	j.replay.init(cfg.Entries)
	if n := len(j.numbered); n > 0 {
		j.recorded = j.numbered[n-1].Seq
	}
	for i := range cfg.Entries {
		e := &cfg.Entries[i]
		j.bytes += max(e.Size, len(e.Value))
		j.loaded += loadedEntryBytes + 2*len(e.Loc) + len(e.Value)
	}
	j.shares = shares
	j.passShares(func(share) {}) // a former activation has said it
	return j
}

// Advance takes the time: now is a lower bound of the store's, and at inboxAt or later
// the inbox was read. Neither goes back.
func (j *Journal) Advance(now, inboxAt store.Time) {
	j.bound, j.inboxAt = max(j.bound, now), max(j.inboxAt, inboxAt)
}

// Now returns the run's time: that of the last hand-over.
func (j *Journal) Now() store.Time { return j.now }

// Resumed returns when a wait was over during which nothing had happened in the run for
// LongPause; 0: none was, as far as the history that is left says.
func Resumed(j *Journal) store.Time { return j.resumed }

// resume notes the end of a long pause, if an operation of the kind, handed over at a time, is one.
func resume(j *Journal, kind store.Kind, at store.Time) {
	if j.LongPause > 0 && kind != store.KindStep && !kind.Undoes() && at.Sub(j.now) > j.LongPause {
		j.resumed = at
	}
}

// Bound returns a lower bound of the store's time.
func (j *Journal) Bound() store.Time { return j.bound }

// InboxAt returns a time at or after which the inbox was read.
func (j *Journal) InboxAt() store.Time { return j.inboxAt }

// Seq returns how many completions were handed over.
func (j *Journal) Seq() int64 { return j.seq }

// Pos returns how many hand-overs and failed attempts there were in this activation.
// What depends on them waits until they are durable.
func (j *Journal) Pos() int64 { return j.pos }

// Recorded returns the number of the last completion of the history.
func (j *Journal) Recorded() int64 { return j.recorded }

// Replayed returns how many recorded completions were handed over.
func (j *Journal) Replayed() int { return j.handed }

// Live reports whether the run has passed its history.
func (j *Journal) Live() bool { return j.live }

// Checkpoint is called when every branch of a live run is blocked: what the turn holds
// then is the doing of code that has come as far as it could.
func Checkpoint(j *Journal) {
	j.Log.Checkpoint()
	j.last = nil
}

// Retract takes back what was handed over since the checkpoint, and what the code has
// done because of it: the code has not come to where it would have waited, so a replay
// could not tell what of it has happened. What had arrived arrives again. The end of a
// step is recorded without a number. Nothing is handed over afterwards.
func Retract(j *Journal) {
	j.Log.Restore()
	if j.last == nil {
		return
	}
	if x, ok := j.last.Is.(Postponed); ok {
		j.last.slot = j.lastSlot
		x.Retract()
	}
}

// Barrier lets what is requested later wait for the turn that fills.
func (j *Journal) Barrier() { j.pos++ }

// Size returns the entries of the incarnation and the bytes of their values.
func (j *Journal) Size() (entries, bytes int) { return j.entries, j.bytes }

const (
	loadedEntryBytes = 300 // an entry of the snapshot with what the replay knows of it, without its location and value
	entryBytes       = 64  // what the scheduler keeps of a location that was called
)

// Held returns about how many bytes of memory the history takes: the entries of the snapshot, which are kept, and all
// values once more, because the code may hold what it was given.
func (j *Journal) Held() int { return j.loaded + entryBytes*j.entries + j.bytes }

// Full reports whether the turn that fills holds as much as one should.
func (j *Journal) Full() bool { return j.Log.Full(j.Limits.TurnEntries, j.Limits.TurnBytes) }

// Repeats reports whether the code that runs now has run before: the run is not live,
// and something of it has been committed.
func (j *Journal) Repeats() bool { return !j.live && (len(j.Entries) > 0 || j.Run.Waits != nil) }

// Derive returns bytes that only this run, in this generation, has for the purpose and
// location.
func (j *Journal) Derive(purpose string, loc location.Loc, n int64) [32]byte {
	return stored.Derive(j.Run.Seed, purpose, j.Run.Generation, loc, n)
}

// Random is like Derive for what hands nothing out: a run that was forked has it from the
// run that it was forked from, whatever its generation.
func (j *Journal) Random(purpose string, loc location.Loc, n int64) [32]byte {
	seed := j.Run.Random
	if seed == (store.Seed{}) {
		seed = j.Run.Seed
	}
	return stored.Derive(seed, purpose, 0, loc, n)
}

// KeyFor returns a key that was never used, of a wait or a permit of an operation.
func (j *Journal) KeyFor(o *Op) string {
	if j.NewKey != nil {
		return j.NewKey()
	}
	h := j.Derive("wait", o.Loc, int64(j.bound))
	return hex.EncodeToString(h[:16])
}

// FetchValue returns the value of an entry, also one that the snapshot left out. When it
// fails the activation is broken.
func (j *Journal) FetchValue(e *store.Entry) ([]byte, error) {
	if e.Value != nil || e.Size == 0 {
		return e.Value, nil
	}
	value, err := j.Fetch(e.Loc)
	if err != nil {
		err = fmt.Errorf("fetch the value of %s: %w", location.Loc(e.Loc), err)
		j.Owner.Break(err)
	}
	return value, err
}

// Spend counts one more entry, or stops the run if that exceeds its budget.
func (j *Journal) Spend(b *sched.Branch, loc location.Loc, in *Segment) {
	// While completions remain, what is recorded counts in full although the code
	// had not got so far when it called this.
	if (j.entries >= j.Limits.Entries || j.bytes >= j.Limits.Bytes) && (j.live || j.Remaining() == nil) {
		b.Fail(&stored.Failure{Code: stored.CodeBudget, Location: loc.String(), Message: fmt.Sprintf(
			"operation %s exceeds the budget of a run: %d entries (limit %d) with %d bytes (limit %d); "+
				"raise Config.MaxEntries or Config.MaxBytes, and use Loop or continue-as-new for work without an end",
			loc, j.entries, j.Limits.Entries, j.bytes, j.Limits.Bytes)})
	}
	j.Count(in, 1, 0)
}

// Count adds to the size of the history, and of the segments that s is in.
func (j *Journal) Count(s *Segment, entries, bytes int) {
	j.entries += entries
	j.bytes += bytes
	s.count(entries, bytes)
	j.passShares(func(part share) {
		j.Owner.Note("", part.text, fmt.Errorf("%d entries (limit %d) with %d bytes (limit %d): at the limit it stalls "+
			"until that is raised; use Loop or continue-as-new for work without an end",
			j.entries, j.Limits.Entries, j.bytes, j.Limits.Bytes))
	})
}

// share is a part of a run's budget.
type share struct {
	part float64
	text string // for the log
}

// shares are the parts of a budget. A line is logged once when each is used up.
var shares = []share{
	{0.5, "the run has used half of its budget"}, {0.8, "the run has used 80 % of its budget"},
}

// passShares drops the shares of the budget that are used up, and calls fn for the largest.
func (j *Journal) passShares(fn func(share)) {
	n := 0
	for n < len(j.shares) && (float64(j.entries) >= j.shares[n].part*float64(j.Limits.Entries) ||
		float64(j.bytes) >= j.shares[n].part*float64(j.Limits.Bytes)) {
		n++
	}
	if n > 0 {
		last := j.shares[n-1]
		j.shares = j.shares[n:]
		fn(last)
	}
}
