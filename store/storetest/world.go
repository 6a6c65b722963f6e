package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// specification is the harness of store/memory.
type specification struct{ first *memory.Store }

func newSpecification(clock func() time.Time, opts ...memory.Option) specification {
	return specification{memory.New(append(opts, memory.Clock(clock))...)}
}

func (s specification) First() store.Store { return s.first }

func (s specification) Join(testing.TB) store.Store { return s.first.Join() }

func (s specification) Kill(t testing.TB, h store.Store) bool {
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// Save implements Saver.
func (s specification) Save(testing.TB) (restore func() store.Store) {
	back := s.first.Save()
	return func() store.Store {
		back()
		return s.first
	}
}

// side is one of the two stores that go in lock-step.
type side struct {
	harness Harness
	handles []store.Store
	viewer  reader // by a handle for this alone
	boots   map[string]*batches
	now     *state
	check   checker
}

// batches are those of a node's boot.
type batches struct {
	handle int
	no     int64 // of the last one
	last   *store.Batch
	heard  store.Time // when it registered or, if it never has, first committed
}

func newSide(t testing.TB, h Harness) *side {
	s := &side{harness: h, handles: []store.Store{h.First()}, viewer: reader{store: h.Join(t)},
		boots: map[string]*batches{}, now: &state{}}
	s.check.init()
	return s
}

// world is the specification and the store under test, side by side.
type world struct {
	t       testing.TB
	clock   *clock
	latest  time.Time // that the clock has shown
	spec    *side
	subject *side
	alive   []bool // by handle
	numbers *numbers
	ids     map[string]bool       // of items
	buried  map[store.ItemNo]bool // items of the specification that were dead letters
	reached map[string]int        // how often something worth it happened
	steps   int                   // operations carried out
	apart   bool                  // see spreadHarness.apart
	lines   bool                  // the store under test has lines
	births  *births
}

// births are the runs that an operation has made in the store under test. The specification numbers its own in the
// same order: a store on several servers may number runs that are made together in any.
type births struct {
	last  store.RunNo            // that the specification has given
	given map[string]store.RunNo // to those of this operation
}

// number returns the number of a new run of the specification.
func (b *births) number(id string) store.RunNo {
	if no, ok := b.given[id]; ok {
		delete(b.given, id)
		return no
	}
	b.last++
	return b.last
}

// attend looks which runs the store under test has made.
func (b *births) attend(ctx context.Context, w *world) error {
	b.given = map[string]store.RunNo{}
	runs, err := w.subject.viewer.runs(ctx, false)
	for i := range runs {
		if r := &runs[i]; w.numbers.runsBack[r.No] == 0 {
			b.last++
			b.given[r.ID] = b.last
		}
	}
	return err
}

func newWorld(t testing.TB, open func(clock func() time.Time) Harness) *world {
	c := newClock()
	births := &births{}
	w := &world{
		t: t, clock: c, latest: c.Now(), spec: newSide(t, newSpecification(c.Now, memory.Numbers(births.number))),
		subject: newSide(t, open(c.Now)),
		alive:   []bool{true}, numbers: newNumbers(), ids: map[string]bool{}, buried: map[store.ItemNo]bool{},
		reached: map[string]int{}, births: births,
	}
	if h, ok := w.subject.harness.(interface{ apart() bool }); ok {
		w.apart = h.apart()
	}
	if d, err := w.subject.harness.First().Describe(context.Background()); err == nil {
		w.lines = d.Lines
	}
	if err := w.observe(context.Background()); err != nil {
		t.Fatal(err)
	}
	return w
}

// deadline bounds one operation.
const deadline = time.Minute

// do carries out an operation on both sides. The error names a difference, or a broken invariant of one of them. After
// the last operation the whole state is compared; before, runs that an ordinary operation has not changed are compared
// by turns.
func (w *world) do(o op, last bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if !w.possible(o) {
		return nil
	}
	w.noteItems(o)
	want, got, err := w.both(ctx, o)
	if err != nil {
		return err
	}
	if err := w.view(ctx, last || !ordinary(o)); err != nil {
		return fmt.Errorf("reading all that can be seen: %w", err)
	}
	if err := w.numbers.learn(w.spec.now, w.subject.now); err != nil {
		return err
	}
	given := w.numbers.forSpec(got).(answer)
	if w.apart {
		inOrder(&want, &given)
	}
	if diff := difference(want, given); diff != "" {
		return fmt.Errorf("the answer differs (-specification +store):\n%s", diff)
	}
	if diff := difference(w.spec.now, w.numbers.forSpec(w.subject.now)); diff != "" {
		return fmt.Errorf("what can be seen differs (-specification +store):\n%s", diff)
	}
	if err := w.spec.check.after(o, w.spec.now); err != nil {
		return fmt.Errorf("of the specification: %w", err)
	}
	if err := w.subject.check.after(o, w.subject.now); err != nil {
		return err
	}
	w.count(o, want)
	return nil
}

// inOrder sorts dead letters: those of several servers that were sent at the same time may come in any order. How many
// are on each page stays as it is.
func inOrder(answers ...*answer) {
	for _, a := range answers {
		pages, ok := a.Value.([][]store.DeadLetter)
		if !ok {
			continue
		}
		all := slices.Concat(pages...)
		slices.SortFunc(all, func(a, b store.DeadLetter) int { return cmp.Compare(b.Item.No, a.Item.No) })
		sorted := make([][]store.DeadLetter, len(pages))
		for i := range pages {
			sorted[i], all = all[:len(pages[i])], all[len(pages[i]):]
		}
		a.Value = sorted
	}
}

// byTurns is the number of ordinary operations after which all of an unchanged run is compared.
const byTurns = 8

// view reads the state of both sides, and all parts of the same runs.
func (w *world) view(ctx context.Context, all bool) (err error) {
	w.steps++
	if w.spec.now, err = w.spec.viewer.read(ctx, w.ids,
		func(no store.RunNo) bool { return all || (int(no)+w.steps)%byTurns == 0 }); err != nil {
		return err
	}
	w.subject.now, err = w.subject.viewer.read(ctx, w.ids, func(no store.RunNo) bool {
		return all || w.spec.viewer.asked[w.numbers.runsBack[no]]
	})
	return err
}

// ordinary reports whether an operation that changes consumed items, dead items or acts of a run changes the run's
// other state too. What is returned to a run that has ended goes from consumed to dead.
func ordinary(o op) bool {
	switch o := o.(type) {
	case *sweepOp, *discardOp, *repeatOp:
		return false
	case *commitOp:
		return !slices.ContainsFunc(o.Turns, func(t store.Turn) bool { return len(t.Returned) > 0 })
	}
	return true
}

// handleOf returns the handle of an operation, and the boot if it has one.
func handleOf(o op) (handle int, boot string) {
	switch o := o.(type) {
	case *killOp:
		return o.Handle, ""
	case *registerOp:
		return o.Handle, o.Node.ID + " " + o.Node.Boot
	case *acquireOp:
		return o.Handle, o.Node + " " + o.Boot
	case *renewOp:
		return o.Handle, ""
	case *releaseOp:
		return o.Handle, ""
	case *applyOp:
		return o.Handle, ""
	case *commitOp:
		return o.Handle, o.Node + " " + o.Boot
	case *claimOp:
		return o.Handle, o.Node + " " + o.Boot
	case *loadOp:
		return o.Handle, ""
	case *listOp:
		return o.Handle, ""
	case *countOp:
		return o.Handle, ""
	case *historyOp:
		return o.Handle, ""
	case *inboxOp:
		return o.Handle, ""
	case *pendingOp:
		return o.Handle, ""
	case *feedsOp:
		return o.Handle, ""
	case *streamOp:
		return o.Handle, ""
	case *deadOp:
		return o.Handle, ""
	case *discardOp:
		return o.Handle, ""
	case *sweepOp:
		return o.Handle, ""
	}
	return -1, ""
}

// possible reports whether an operation can be: its handle lives, and its boot
// is of that handle, because a boot is one life of one process. Others are left
// out; they come up when a script is made shorter.
func (w *world) possible(o op) bool {
	if r, ok := o.(*repeatOp); ok {
		b := w.spec.boots[r.Node+" "+r.Boot]
		return b != nil && b.last != nil && w.alive[b.handle] && !w.forgotten(b)
	}
	handle, boot := handleOf(o)
	if handle < 0 && boot == "" {
		return true
	}
	if handle < 0 || handle >= len(w.alive) || !w.alive[handle] {
		return false
	}
	if boot == "" {
		return true
	}
	for _, s := range []*side{w.spec, w.subject} {
		if s.boots[boot] == nil {
			s.boots[boot] = &batches{handle: handle}
		}
	}
	if c, ok := o.(*commitOp); ok && c.Former && w.forgotten(w.spec.boots[boot]) {
		return false
	}
	if w.spec.boots[boot].handle != handle {
		return false
	}
	if r, ok := o.(*registerOp); ok {
		switch b := w.spec.boots[boot]; {
		case r.Node.Stopped:
			b.heard = 0
		case !r.Node.Draining: // which has no other effect
			b.heard = w.spec.now.Now
		}
	}
	return true
}

// forgotten reports whether a store may have forgotten the batches of a boot: it has stopped, or was silent for 24
// hours. They are not repeated then.
func (w *world) forgotten(b *batches) bool {
	return b.heard == 0 || b.heard+store.Time(24*hour) < w.spec.now.Now
}

// noteItems remembers the IDs of the items that an operation sends.
func (w *world) noteItems(o op) {
	commands := func(list []store.Command) {
		for _, c := range list {
			note(w.ids, c)
		}
	}
	switch o := o.(type) {
	case *applyOp:
		commands(o.Commands)
	case *commitOp:
		commands(o.Commands)
		for i := range o.Turns {
			commands(o.Turns[i].Sends)
			for k := range o.Turns[i].Returned {
				w.ids[o.Turns[i].Returned[k].ID] = true
			}
			if u := o.Turns[i].Update; u != nil {
				commands(u.Sends)
			}
		}
	}
}

// answer is what an operation gave.
type answer struct {
	Error string // "" or its class
	Value any
}

// classes are the errors that a caller can distinguish.
var classes = []error{store.ErrInvalid, store.ErrBadCursor, store.ErrClosed, store.ErrUnavailable, store.ErrUnknown,
	store.ErrSchema, store.ErrDamaged}

func answerOf(value any, err error) answer {
	if err == nil {
		return answer{Value: value}
	}
	for _, class := range classes {
		if errors.Is(err, class) {
			return answer{Error: class.Error()}
		}
	}
	return answer{Error: "another error: " + err.Error()}
}

// both carries out an operation on each side.
func (w *world) both(ctx context.Context, o op) (want, got answer, err error) {
	switch o := o.(type) {
	case *clockOp:
		w.clock.step(o.By)
		if now := w.clock.Now(); now.After(w.latest) {
			w.latest = now
		}
		return want, got, w.observe(ctx)
	case *joinOp:
		back := w.latest.Sub(w.clock.Now())
		w.clock.step(back) // a new process has not seen the time that others have
		w.alive = append(w.alive, true)
		for _, s := range []*side{w.spec, w.subject} {
			s.handles = append(s.handles, s.harness.Join(w.t))
		}
		err = w.observe(ctx)
		w.clock.step(-back)
		return want, got, err
	case *killOp:
		w.alive[o.Handle] = false
		for _, s := range []*side{w.spec, w.subject} {
			s.harness.Kill(w.t, s.handles[o.Handle])
		}
		return want, got, nil
	case *acquireOp:
		want, got = w.acquire(ctx, o)
		return want, got, nil
	}
	translated := w.numbers.forSubject(o).(op)
	got = w.subject.do(ctx, translated)
	if w.apart {
		if err := w.births.attend(ctx, w); err != nil {
			return want, got, err
		}
	}
	if c, ok := o.(*commitOp); ok {
		o = w.numbers.withoutLater(c)
	}
	return w.spec.do(ctx, o), got, nil
}

// observe makes every process read the clock: the times of one do not go back,
// and those of two are not compared here.
func (w *world) observe(ctx context.Context) error {
	for _, s := range []*side{w.spec, w.subject} {
		for i, h := range append(slices.Clone(s.handles), s.viewer.store) {
			if i < len(w.alive) && !w.alive[i] {
				continue
			}
			if _, err := h.Describe(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// acquire lets the store under test go first. A store may or may not know that a holder is dead, so the specification
// is not asked for a lease that has not ended and that the other refuses.
func (w *world) acquire(ctx context.Context, o *acquireOp) (want, got answer) {
	node := store.Node{ID: o.Node, Boot: o.Boot, Replaces: o.Replaces}
	given, now, err := w.subject.handles[o.Handle].Acquire(ctx, node, o.Shards, o.TTL)
	got = answerOf(acquired{given, now}, err)
	asked := []store.Shard{}
	results := make([]store.Acquired, len(o.Shards))
	var index []int
	for i, shard := range o.Shards {
		if err == nil && !given[i].Held {
			if l := w.spec.lease(shard); l.Node != "" && l.Until > w.spec.now.Now &&
				(l.Node != o.Node || l.Boot != o.Boot) && !node.Supersedes(&l) {
				results[i] = store.Acquired{Lease: l}
				continue
			}
		}
		asked, index = append(asked, shard), append(index, i)
	}
	taken, now, specErr := w.spec.handles[o.Handle].Acquire(ctx, node, asked, o.TTL)
	for k, i := range index {
		if specErr != nil {
			break
		}
		results[i] = taken[k]
		if err == nil && taken[k].Held && given[i].Held {
			w.numbers.took(taken[k].Lease, given[i].Lease)
		}
	}
	if specErr != nil {
		results = nil
	}
	return answerOf(acquired{results, now}, specErr), got
}

type acquired struct {
	Shards []store.Acquired
	Now    store.Time
}

// lease returns the lease of a shard, zero if it is not held.
func (s *side) lease(shard store.Shard) store.Lease {
	for _, l := range s.now.Leases {
		if l.Shard == shard {
			return l
		}
	}
	return store.Lease{Shard: shard}
}

func leasesOf(refs []leaseRef, node, boot string) []store.Lease {
	leases := make([]store.Lease, len(refs))
	for i, t := range refs {
		leases[i] = store.Lease{Shard: t.Shard, Epoch: t.Epoch, Node: node, Boot: boot}
	}
	return leases
}

// do carries out an operation on one side.
func (s *side) do(ctx context.Context, o op) answer {
	switch o := o.(type) {
	case *registerOp:
		return answerOf(s.handles[o.Handle].Register(ctx, o.Node))
	case *renewOp:
		renewed, now, err := s.handles[o.Handle].Renew(ctx, leasesOf(o.Leases, "", ""), o.TTL)
		return answerOf(acquired{renewed, now}, err)
	case *releaseOp:
		return answerOf(nil, s.handles[o.Handle].Release(ctx, leasesOf(o.Leases, "", "")))
	case *applyOp:
		answers, now, err := s.handles[o.Handle].Apply(ctx, o.Commands)
		return answerOf(struct {
			Answers []store.Answer
			Now     store.Time
		}{answers, now}, err)
	case *commitOp:
		return s.commit(ctx, o)
	case *repeatOp:
		b := s.boots[o.Node+" "+o.Boot]
		return answerOf(plain(s.handles[b.handle].Commit(ctx, *b.last)))
	case *claimOp:
		return answerOf(s.handles[o.Handle].Claim(ctx, store.ClaimRequest{
			Node: o.Node, Boot: o.Boot, Leases: leasesOf(o.Leases, o.Node, o.Boot), Workflows: o.Workflows, Limit: o.Limit,
			Build: o.Build, Unservable: o.Unservable,
		}))
	case *loadOp:
		return answerOf(loadAll(ctx, s.handles[o.Handle], o.Runs))
	case *listOp:
		return answerOf(pages(ctx, s.handles[o.Handle], o.Filter))
	case *countOp:
		return answerOf(s.handles[o.Handle].Count(ctx, o.Filter))
	case *historyOp:
		return answerOf(s.handles[o.Handle].History(ctx, o.Query))
	case *inboxOp:
		return answerOf(s.handles[o.Handle].Inbox(ctx, o.Run, o.IDs...))
	case *pendingOp:
		return answerOf(s.handles[o.Handle].Pending(ctx, o.Query))
	case *feedsOp:
		return answerOf(s.handles[o.Handle].Feeds(ctx, o.Query))
	case *streamOp:
		return answerOf(s.handles[o.Handle].Stream(ctx, o.Query))
	case *deadOp:
		return answerOf(deadPages(ctx, s.handles[o.Handle], o.Filter))
	case *discardOp:
		return answerOf(s.handles[o.Handle].Discard(ctx, o.Items))
	case *sweepOp:
		return answerOf(pass(ctx, s.handles[o.Handle],
			store.SweepRequest{Runs: o.Runs, Leases: leasesOf(o.Leases, "", ""), Rules: o.Rules, Items: o.Items,
				Most: o.Most}))
	}
	return answer{Error: fmt.Sprintf("there is no operation %T", o)}
}

func (s *side) commit(ctx context.Context, o *commitOp) answer {
	boot := s.boots[o.Node+" "+o.Boot]
	b := store.Batch{Node: o.Node, Boot: o.Boot, No: boot.no + 1, Leases: leasesOf(o.Leases, o.Node, o.Boot),
		Commands: o.Commands}
	if o.Former {
		b.No = boot.no - 1
	}
	for i := range o.Turns {
		b.Turns = append(b.Turns, &o.Turns[i])
	}
	result, err := s.handles[o.Handle].Commit(ctx, b)
	if err == nil {
		boot.no, boot.last = b.No, &b
		if boot.heard == 0 {
			boot.heard = result.Now
		}
	}
	return answerOf(plain(result, err))
}

// plain makes the reasons of refusals equal: their words are free.
func plain(result store.BatchResult, err error) (store.BatchResult, error) {
	for i := range result.Turns {
		if result.Turns[i].Reason != "" {
			result.Turns[i].Reason = "some reason"
		}
	}
	return result, err
}

// mostPages bounds how many pages a listing is read for: with a cursor that does not advance it has no end.
const mostPages = 10_000

// pages lists all pages, or with a cursor one.
func pages(ctx context.Context, s store.Store, f store.Filter) ([][]store.Run, error) {
	var all [][]store.Run
	given := f.Cursor != ""
	for range mostPages {
		page, err := s.List(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Runs)
		if f.Cursor = page.Next; page.Next == "" || given {
			return all, nil
		}
	}
	return nil, fmt.Errorf("a list of runs has no end after %d pages", mostPages)
}
