package committer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// ErrNotOwner is the error of a command that the committer does not write any more.
var ErrNotOwner = errors.New("not the owner")

// Turn is a turn on its way, and the callback that receives its verdict.
type Turn struct {
	Shard *ownership.Shard // of the run
	Turn  *store.Turn
	Done  func(store.TurnResult)

	stored  *store.Turn // in its stored form
	apart   bool        // the store writes it in a batch of such turns, see store.Separator
	leftOut int         // how often it was put aside, to be tried alone
	tries   int         // how often the store did not take it, though it was alone
	written int64       // the committer's, at the first of these tries
}

// finish delivers the verdict.
func (t *Turn) finish(result store.TurnResult) {
	t.Done(result)
	t.Shard.TurnEnded()
}

// Command is a command in its stored form, on its way, and the callback that receives its
// answer, or the error that it caused. in are the shards that were held at the commit.
type Command struct {
	Command store.Command
	Done    func(in *ownership.Shards, answer store.Answer, now store.Time, err error)

	together bool // with the next one, in one batch
}

// Owner holds the shards that a committer writes for. Its methods are safe for concurrent
// use.
type Owner interface {
	// Shards returns the shards that are held now.
	Shards() *ownership.Shards

	// Claims appends to list the shards of in whose runs a command may claim; nil for one
	// that is not held. It appends none if only the store knows them.
	Claims(list []*ownership.Shard, in *ownership.Shards, c *store.Command) []*ownership.Shard

	// Sent receives the answers to what a turn has sent, after the turns of its batch
	// have their verdicts.
	Sent(in *ownership.Shards, turn *store.Turn, result *store.TurnResult, now store.Time)

	// WentBack is called when the store does not have the batch last, which it had
	// acknowledged. It calls Lost of the Numbers, which has it end the stay of all shards if
	// that is news. When it returns, no turn of before will be written.
	WentBack(last int64, err error)

	// StoreClosed is called when the store says that it was closed. The owner ends the
	// committer's context.
	StoreClosed(error)

	// Go runs f on a goroutine that the owner waits for. f returns soon after the
	// committer's context has ended.
	Go(f func())
}

// Config is what a Committer is made from. All fields are required.
type Config struct {
	Store   store.Store
	Node    string
	Boot    string
	Batches *Numbers      // of the boot's batches
	TTL     time.Duration // of a lease

	// Seal returns a turn in its stored form. After store.ErrUnavailable it is called
	// again.
	Seal func(context.Context, *store.Turn) (*store.Turn, error)
	// Crowded reports whether more turns are about to come. They wait for a batch that the
	// submitter of one writes, so that it leaves that to the committer.
	Crowded func() bool
	// Observe receives the store's time with every answer, and when the request was sent first.
	Observe func(sent time.Time, now store.Time)
	Log     *slog.Logger
}

// Committer writes turns and commands, one batch at a time. See the package's comment.
type Committer struct {
	cfg   Config
	apart func(*store.Turn) bool
	ctx   context.Context // ends when nothing may be written any more
	owner Owner
	wake  chan struct{} // capacity 1: a hint that there is something to write

	claims []*ownership.Shard // room for what newBatch asks, which is called by one at a time

	mu          sync.Mutex
	most        bounds // of a batch, while the store finds larger ones too large; zero: the usual ones
	written     int64  // batches whose results were delivered
	turns       []Turn
	commands    []Command
	wasApart    bool           // the latest batch was one of turns that are written apart
	failed      *batch         // written inline without success, and to be repeated
	writing     bool           // a batch is on its way
	undelivered chan struct{}  // closed when the latest batch is delivered; nil: it is
	closed      bool           // nothing is taken any more
	delivering  sync.WaitGroup // goroutines that deliver results

	gathering gathering

	inFlight *batch             // waits for the store; nil: none
	abandon  context.CancelFunc // … and this ends the wait
}

// New returns a committer that writes until ctx ends, once Run is called.
func New(ctx context.Context, cfg Config, owner Owner) *Committer {
	return &Committer{cfg: cfg, ctx: ctx, owner: owner, wake: make(chan struct{}, 1), apart: store.SeparateOf(cfg.Store)}
}

// SubmitTurn takes a turn. It may wait for objects outside of the store, so a callback
// must not call it if the turn is to be sealed.
func (c *Committer) SubmitTurn(t Turn) {
	t.Shard.TurnBegun()
	if !c.seal(&t) {
		t.Shard.TurnEnded()
		return
	}
	c.mu.Lock()
	c.gathering.sent()
	if delivered := c.beginInline(); delivered != nil {
		c.mu.Unlock()
		c.writeInline([]Turn{t}, nil, delivered)
		return
	}
	c.turns = append(c.turns, t)
	c.mu.Unlock()
	c.hint()
}

// seal makes the stored form of a turn. While the objects that it needs cannot be
// written it tries again. It reports false if the turn is not to be written.
func (c *Committer) seal(t *Turn) bool {
	ctx := t.Shard.Context()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var err error
		t.stored, err = c.cfg.Seal(ctx, t.Turn)
		switch {
		case err == nil:
			t.apart = c.apart(t.stored)
			return true
		case ctx.Err() != nil:
			return false
		case !errors.Is(err, store.ErrUnavailable):
			c.cfg.Log.Error("sealing a turn", "error", err, "run_no", t.Turn.Run)
			t.Done(store.TurnResult{Verdict: store.Refused, Reason: err.Error()})
			return false
		}
		c.cfg.Log.Error("sealing a turn; trying again", "error", err, "run_no", t.Turn.Run, "wait", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

// SubmitCommands takes commands. It reports false if the committer takes no more.
func (c *Committer) SubmitCommands(commands []Command) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	if delivered := c.beginInline(); delivered != nil {
		c.mu.Unlock()
		c.writeInline(nil, commands, delivered)
		return true
	}
	for i := range commands {
		commands[i].together = i < len(commands)-1
	}
	c.commands = append(c.commands, commands...)
	c.mu.Unlock()
	c.hint()
	return true
}

// beginInline makes the caller the writer of the next batch if none is being written and no
// more turns are about to come, and returns the channel to close when its results are
// delivered; nil: queue instead. While results are delivered nobody may write inline: it may
// be the goroutine that delivers them which asks. c.mu must be held.
func (c *Committer) beginInline() (delivered chan struct{}) {
	if c.writing || c.closed || c.undelivered != nil || c.queued() || c.cfg.Crowded() ||
		c.gathering.expects(time.Now()) {
		return nil
	}
	c.writing, c.undelivered = true, make(chan struct{})
	return c.undelivered
}

// queued reports whether something waits for a batch. c.mu must be held.
func (c *Committer) queued() bool { return len(c.turns)+len(c.commands) > 0 }

// hint wakes the committer's goroutine, unless it is already being woken.
func (c *Committer) hint() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Idle reports whether nothing is queued or on its way.
func (c *Committer) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.writing && c.undelivered == nil && !c.queued()
}

// Settle waits until what is on its way to the store now is delivered. It reports false if that takes longer.
func (c *Committer) Settle(ctx context.Context, longest time.Duration) bool {
	c.mu.Lock()
	undelivered := c.undelivered
	c.mu.Unlock()
	if undelivered == nil {
		return true
	}
	limit := time.NewTimer(longest)
	defer limit.Stop()
	select {
	case <-undelivered:
		return true
	case <-limit.C:
	case <-ctx.Done():
	}
	return false
}

// ShardsLost is called when shards were lost. A batch under way that is written under
// their leases alone is not waited for any longer.
func (c *Committer) ShardsLost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.inFlight; b != nil && b.abandoned == 0 && !b.givenUp && b.lost() {
		b.givenUp = true
		c.abandon()
	}
}

// Run writes batches until ctx ends, and returns when no results are being delivered any
// more. Commands that are left then get ErrNotOwner; turns are forgotten.
func (c *Committer) Run(ctx context.Context) {
	defer c.delivering.Wait()
	for {
		if b := c.nextBatch(); b != nil {
			if c.write(ctx, b) {
				c.end(b)
			}
			continue
		}
		select {
		case <-c.wake:
			continue
		case <-ctx.Done():
		}
		for _, command := range c.close() {
			command.Done(nil, store.Answer{}, 0, ErrNotOwner)
		}
		return
	}
}

// close takes nothing more, and returns the commands that are left.
func (c *Committer) close() []Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	commands := c.commands
	if c.failed != nil {
		commands = append(commands, c.failed.commands...)
	}
	c.closed = true
	c.commands, c.turns, c.failed = nil, nil, nil
	return commands
}
