package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/store"
)

// away says whether an error is one of a store that cannot be reached.
func away(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

func rest(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}

// client is the machine of all who use the store without executing runs.
type client struct {
	*stet.Engine
	plan   plan.Plan
	begun  time.Time
	tokens chan plan.Note
	healed chan struct{}
}

// use carries out the acts of the plan, waits until all has ended, and reports what there is.
func use() error {
	c := &client{begun: time.Now(), tokens: make(chan plan.Note, 10_000), healed: make(chan struct{})}
	if err := json.Unmarshal([]byte(os.Args[2]), &c.plan); err != nil {
		return err
	}
	s := remote(func(_ byte, body []byte) {
		if len(body) == 0 {
			close(c.healed)
			return
		}
		var n plan.Note
		if err := json.Unmarshal(body, &n); err != nil {
			panic(err)
		}
		c.tokens <- n
	})
	ctx := context.Background()
	for {
		var err error
		opening, cancel := context.WithTimeout(ctx, 5*time.Second)
		c.Engine, err = stet.New(opening, stet.Config{Store: s, Node: os.Args[0], Logger: logger(),
			Payloads: payloads(c.plan.Sealed)})
		cancel()
		if err == nil {
			break
		} else if !away(err) {
			return err
		}
		rest(ctx)
	}
	var acting sync.WaitGroup
	for _, q := range c.plan.Queues {
		acting.Go(func() {
			err := c.insist(ctx, func(ctx context.Context) error {
				return c.Queues().Create(ctx, q.Name, stet.QueueSettings{
					Concurrency: q.Concurrency, PerKey: q.PerKey, Rate: q.Rate, RatePerKey: q.RatePerKey, Per: q.Per,
					Group: q.Group, ReleaseWhileSuspended: q.Release,
				})
			})
			if err != nil {
				fmt.Println("create the queue:", err)
			}
		})
	}
	for i, r := range c.plan.Runs {
		switch first := slices.IndexFunc(c.plan.Runs, func(o plan.Run) bool { return r.With > 0 && o.With == r.With }); {
		case r.With == 0:
			acting.Go(func() { c.start(ctx, r) })
		case first == i:
			acting.Go(func() { c.startAll(ctx, r.With) })
		}
	}
	for _, s := range c.plan.Schedules {
		acting.Go(func() { c.schedule(ctx, s) })
	}
	senders := map[int][]plan.Act{}
	for _, a := range c.plan.Acts {
		senders[a.From] = append(senders[a.From], a)
	}
	for _, from := range slices.Sorted(maps.Keys(senders)) {
		acting.Go(func() {
			for _, a := range senders[from] {
				c.until(a.At)
				c.act(ctx, a)
			}
		})
	}
	go c.resolve(ctx)
	if c.plan.Workers {
		for range 2 {
			go (&worker{tasks: c.Tasks(), badUntil: c.begun.Add(c.plan.Length)}).run(ctx)
		}
	}
	<-c.healed
	for _, s := range c.plan.Schedules {
		n := plan.Note{Kind: plan.Called, Op: plan.PauseAll, Value: s.Name}
		tell(n)
		c.done(n, c.insist(ctx, func(ctx context.Context) error {
			err := c.Schedules().Pause(ctx, s.Name, stet.Act{Why: "the end"})
			if errors.Is(err, stet.ErrNotFound) {
				return stet.ErrPending // its owner has not made it yet
			}
			return err
		}))
	}
	acted := make(chan struct{})
	go func() {
		acting.Wait()
		for _, s := range c.plan.Schedules { // an act may have resumed it since
			err := c.insist(ctx, func(ctx context.Context) error {
				return c.Schedules().Pause(ctx, s.Name, stet.Act{Why: "the very end"})
			})
			if err != nil {
				fmt.Println("pause the schedule:", err)
			}
		}
		close(acted)
	}()
	if err := c.settle(ctx, acted); err != nil {
		return err
	}
	return c.dump(ctx)
}

// until waits for a time of the plan.
func (c *client) until(at time.Duration) { time.Sleep(at - time.Since(c.begun)) }

// insist repeats what fails because the store is away, or a workflow is not known yet. What a
// healed world does not let it do in a minute it never will.
func (c *client) insist(ctx context.Context, do func(context.Context) error) error {
	for late := false; ; late = true {
		trying, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := do(trying)
		cancel()
		if !away(err) && !errors.Is(err, stet.ErrUnknownWorkflow) && !errors.Is(err, stet.ErrPending) &&
			!errors.Is(err, stet.ErrNoQueue) {
			if late && err != nil {
				// A former attempt may still be on its way, and succeed after this one.
				err = fmt.Errorf("%w, after others: %w", store.ErrUnavailable, err)
			}
			return err
		}
		select {
		case <-c.healed:
			if time.Since(c.begun) > c.plan.Length+5*time.Minute {
				return err
			}
		default:
		}
		rest(ctx)
	}
}

// startAll starts the runs of an act that starts several.
func (c *client) startAll(ctx context.Context, with int) {
	var inputs []plan.Input
	var opts [][]stet.StartOption
	var ids []string
	for _, r := range c.plan.Runs {
		if r.With == with {
			c.until(r.At)
			ids, inputs, opts = append(ids, r.ID), append(inputs, plan.Input{Program: r.Program}), append(opts, startOptions(r))
		}
	}
	for _, id := range ids {
		tell(plan.Note{Kind: plan.Called, Run: id, Op: plan.Restart})
	}
	err := c.insist(ctx, func(ctx context.Context) error {
		_, err := stet.Ref[plan.Input, []string](programName).StartAll(ctx, c.Engine, inputs,
			func(i int) []stet.StartOption { return opts[i] })
		return err
	})
	for _, id := range ids {
		c.done(plan.Note{Run: id, Op: plan.Restart}, err)
	}
}

// schedule makes a schedule.
func (c *client) schedule(ctx context.Context, s plan.Schedule) {
	c.until(s.At)
	settings := stet.Schedule{Every: s.Every, Offset: s.Offset, CatchUp: s.CatchUp}
	if s.Cron != "" {
		settings = stet.Schedule{Cron: s.Cron, Zone: s.Zone, CatchUp: s.CatchUp}
	}
	if s.CatchUp == 0 {
		settings.CatchUp = stet.None
	}
	n := plan.Note{Kind: plan.Called, Op: plan.Restart, Value: s.Name}
	err := settings.Overlap.UnmarshalText([]byte(s.Overlap))
	if err == nil {
		tell(n)
		err = c.insist(ctx, func(ctx context.Context) error {
			return stet.Ref[plan.Input, []string](programName).Schedule(ctx, c.Engine, s.Name,
				plan.Input{Program: s.Program}, settings)
		})
	}
	c.done(n, err)
}

func (c *client) start(ctx context.Context, r plan.Run) {
	c.until(r.At)
	w := stet.Ref[plan.Input, []string](programName)
	if r.Undoes {
		w = stet.Ref[plan.Input, []string](undoingName)
	}
	tell(plan.Note{Kind: plan.Called, Run: r.ID, Op: plan.Restart})
	err := c.insist(ctx, func(ctx context.Context) error {
		_, err := w.Start(ctx, c.Engine, plan.Input{Program: r.Program}, startOptions(r)...)
		return err
	})
	c.done(plan.Note{Run: r.ID, Op: plan.Restart}, err)
}

func startOptions(r plan.Run) []stet.StartOption {
	opts := []stet.StartOption{stet.ID(r.ID)}
	if r.After > 0 {
		opts = append(opts, stet.StartAfter(r.After))
	}
	if r.MaxRun > 0 {
		opts = append(opts, stet.MaxRunTime(r.MaxRun))
	}
	if r.Queue != "" {
		opts = append(opts, stet.OnQueue{Name: r.Queue, Key: r.Key})
	}
	if r.Alone {
		opts = append(opts, stet.RefuseExisting)
	}
	if r.MaxWait > 0 {
		opts = append(opts, stet.MaxSuspension(r.MaxWait))
	}
	if r.First != "" {
		opts = append(opts, stet.FirstMessage(stet.Message[string](r.First), "first of "+r.ID, stet.SendKey("first")))
	}
	return opts
}

func (c *client) done(n plan.Note, err error) {
	n.Kind = plan.Done
	if err != nil {
		n.Kind, n.Err = plan.Refused, err.Error()
		if away(err) || errors.Is(err, stet.ErrPending) {
			n.Kind = plan.Unknown
		}
	}
	tell(n)
}

// act does one act. An act without a key is tried once.
func (c *client) act(ctx context.Context, a plan.Act) {
	n := plan.Note{Run: a.Run, Op: a.Kind, Act: a.No}
	value := fmt.Sprintf("act %d", a.No)
	tell(plan.Note{Kind: plan.Called, Run: a.Run, Op: a.Kind, Act: a.No})
	var opts []stet.SendOption
	if a.Keyed {
		opts = append(opts, stet.SendKey(value))
	}
	do := func(ctx context.Context) (err error) {
		verb := func(f func(context.Context, string, stet.Act) (bool, error)) error {
			granted, err := f(ctx, a.Run, stet.Act{Why: value, Children: a.Children})
			n.Value = fmt.Sprint(granted)
			return err
		}
		switch runs := c.Runs(); a.Kind {
		case plan.Send:
			return stet.Message[string](a.Name).Send(ctx, c.Engine, a.Run, value, opts...)
		case plan.Publish:
			_, err := topic(a.Name).Publish(ctx, c.Engine, value, opts...)
			return err
		case plan.Update:
			n.Value, err = stet.Update[string, string](a.Name).Call(ctx, c.Engine, a.Run, value, opts...)
			return err
		case plan.Pause:
			return verb(runs.Pause)
		case plan.Resume:
			return verb(runs.Resume)
		case plan.Cancel:
			return verb(runs.Cancel)
		case plan.Terminate:
			return verb(runs.Terminate)
		case plan.Retry:
			return verb(runs.Retry)
		case plan.Nudge:
			return verb(runs.Nudge)
		case plan.Rewind:
			_, err := runs.Rewind(ctx, a.Run, a.Name, stet.Act{Why: value})
			return err
		case plan.Fork:
			n.Value, err = runs.Fork(ctx, a.Run, a.Name, stet.Act{Why: value}, stet.ID(a.Run+"-fork-"+fmt.Sprint(a.No)))
			return err
		case plan.Delete:
			_, err := runs.Delete(ctx, a.Run, stet.Act{Why: value})
			return err
		case plan.Edit:
			_, err := runs.EditResult(ctx, a.Run, a.Name, value, stet.Act{Why: value})
			return err
		case plan.PauseAll:
			return c.Schedules().Pause(ctx, a.Name, stet.Act{Why: value})
		case plan.ResumeAll:
			return c.Schedules().Resume(ctx, a.Name, stet.Act{Why: value})
		case plan.Trigger:
			n.Value, err = c.Schedules().Trigger(ctx, a.Name, stet.Act{Why: value})
			return err
		case plan.Replay, plan.Discard:
			letters, _, err := c.DeadLetters().List(ctx, store.DeadFilter{Limit: store.MaxPage})
			if a.Kind == plan.Replay { // others are for one place in one run
				letters = slices.DeleteFunc(letters, func(l stet.DeadLetter) bool { return l.Kind != store.ItemMessage })
			}
			if err != nil || len(letters) == 0 {
				return err
			}
			no := letters[a.Count%len(letters)].Number
			n.Value = fmt.Sprint(no)
			if a.Kind == plan.Discard {
				_, err = c.DeadLetters().Remove(ctx, stet.Act{Why: value}, no)
				return err
			}
			return c.DeadLetters().Replay(ctx, no, a.Run, stet.Act{Why: value})
		case plan.SetQueue:
			q := c.plan.Queues[slices.IndexFunc(c.plan.Queues, func(q plan.Queue) bool { return q.Name == a.Name })]
			// If some runs gave permits back in their waits and others did not, these could wait for those.
			return c.Queues().Set(ctx, a.Name, stet.QueueSettings{
				Concurrency: a.Count, ReleaseWhileSuspended: q.Release,
			}, stet.Act{Why: value})
		}
		return fmt.Errorf("unknown act %q", a.Kind)
	}
	var err error
	if a.Keyed {
		err = c.insist(ctx, do)
		if err == nil && a.Twice {
			_ = c.insist(ctx, do) // the run may have ended; nothing happens a second time
		}
	} else {
		trying, cancel := context.WithTimeout(ctx, 2*time.Second)
		err = do(trying)
		cancel()
	}
	c.done(n, err)
}

// resolve resolves promises whose tokens have come out.
func (c *client) resolve(ctx context.Context) {
	for n := range c.tokens {
		go func() {
			tell(plan.Note{Kind: plan.Called, Run: n.Run, Op: plan.Promise, Value: n.Op})
			err := c.insist(ctx, func(ctx context.Context) error { return c.Resolve(ctx, n.Value, "resolved "+n.Op) })
			c.done(plan.Note{Run: n.Run, Op: plan.Promise, Value: n.Op}, err)
			if err == nil && slices.Contains(c.plan.Features, "twice") {
				// It has a value, which another one does not replace.
				_ = c.insist(ctx, func(ctx context.Context) error { return c.Resolve(ctx, n.Value, "second "+n.Op) })
			}
		}()
	}
}

// settle waits until all acts are done and no run lives. It lets runs go on that an operator has
// paused or a fault has stalled, which is what an operator would do: an update waits for that.
func (c *client) settle(ctx context.Context, acted <-chan struct{}) error {
	deadline := time.Now().Add(10*time.Minute + c.plan.WaitsInVain())
	for {
		done := false
		select {
		case <-acted:
			done = true
		default:
		}
		live, err := c.live(ctx)
		switch {
		case err != nil:
			return err
		case len(live) == 0 && done:
			tell(plan.Note{Kind: plan.Settled})
			return nil
		case time.Now().After(deadline):
			var what []string
			for _, r := range live {
				what = append(what, fmt.Sprintf("%s %s %s %+v", r.ID, r.Status, r.Reason, r.WaitsFor))
			}
			tell(plan.Note{Kind: plan.Stuck, Value: strings.Join(what, "; ")})
			return nil
		}
		for _, r := range live {
			if r.Status == store.Stalled {
				tell(plan.Note{Kind: plan.Stalled, Run: r.ID, Value: string(r.Cause), Err: r.Reason})
			}
			if r.Status == store.Stalled || r.Marks&store.Paused != 0 {
				resuming, cancel := context.WithTimeout(ctx, 5*time.Second)
				_, err := c.Runs().Resume(resuming, r.ID, stet.Act{Why: "settle", AnyBuild: true})
				if r.Cause == stet.CauseMismatch { // the code cannot go on from what was edited
					_, err = c.Runs().Terminate(resuming, r.ID, stet.Act{Why: "settle"})
				}
				cancel()
				if err != nil {
					fmt.Println("resume", r.ID, err)
				}
			}
		}
		time.Sleep(2 * time.Second)
	}
}

func (c *client) live(ctx context.Context) (live []stet.RunInfo, err error) {
	err = c.insist(ctx, func(ctx context.Context) (err error) {
		live, err = c.list(ctx, store.Filter{Statuses: []store.Status{
			store.Queued, store.Running, store.Suspended, store.Stalled,
		}})
		return err
	})
	return live, err
}

func (c *client) list(ctx context.Context, f store.Filter) (all []stet.RunInfo, err error) {
	f.Limit = store.MaxPage
	for {
		page, next, err := c.Runs().List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if !strings.HasPrefix(r.Workflow, "stet.") {
				all = append(all, r)
			}
		}
		if next == "" {
			slices.SortFunc(all, func(a, b stet.RunInfo) int { return cmp.Compare(a.ID, b.ID) })
			return all, nil
		}
		f.Cursor = next
	}
}

// dump reports what the store has.
func (c *client) dump(ctx context.Context) error {
	var all []stet.RunInfo
	err := c.insist(ctx, func(ctx context.Context) (err error) {
		all, err = c.list(ctx, store.Filter{})
		return err
	})
	for _, r := range all {
		d := &plan.Dump{ID: r.ID, No: int64(r.Number), Status: r.Status.String(), Reason: fmt.Sprint(r.Reason)}
		filled := c.insist(ctx, func(ctx context.Context) error { return c.fill(ctx, d) })
		if errors.Is(filled, stet.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		err = errors.Join(err, filled)
		tell(plan.Note{Kind: plan.Found, Run: r.ID, Dump: d})
	}
	for _, s := range c.plan.Schedules {
		n := plan.Note{Kind: plan.Decided, Op: s.Name}
		err = errors.Join(err, c.insist(ctx, func(ctx context.Context) error {
			info, err := c.Schedules().Info(ctx, s.Name)
			if errors.Is(err, stet.ErrNotFound) {
				return nil
			}
			if err == nil {
				n.Planned = planned(info)
			}
			return err
		}))
		tell(n)
	}
	for _, name := range topics {
		n := plan.Note{Kind: plan.Kept, Op: name}
		err = errors.Join(err, c.insist(ctx, func(ctx context.Context) error {
			n.Texts = nil
			events, err := c.Topics().Events(ctx, name)
			if errors.Is(err, stet.ErrNotFound) {
				return nil
			}
			for i := range events {
				var value string
				err = errors.Join(err, events[i].Decode(&value))
				n.Texts = append(n.Texts, value)
			}
			return err
		}))
		tell(n)
	}
	letters := plan.Note{Kind: plan.Letters}
	for f := (store.DeadFilter{Limit: store.MaxPage}); ; {
		var page store.DeadPage
		err = errors.Join(err, c.insist(ctx, func(ctx context.Context) (err error) {
			page, err = c.Store().DeadLetters(ctx, f)
			return err
		}))
		for _, l := range page.Letters {
			letters.Items = append(letters.Items, int64(l.Item.No))
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	tell(letters)
	return err
}

// topics are those of all plans.
var topics = []string{"all", "once", plan.InVain}

func planned(info *stet.ScheduleInfo) *plan.Planned {
	p := &plan.Planned{Started: info.Started, Skipped: info.Skipped}
	if !info.Buffered.IsZero() {
		p.Buffered = info.Buffered.UnixMicro()
	}
	for _, r := range info.Running {
		p.Running = append(p.Running, r.RunID)
	}
	for _, d := range info.Past {
		p.Past = append(p.Past, plan.Decision{
			From: d.From.UnixMicro(), To: d.To.UnixMicro(), Count: d.Count, Run: d.RunID, Reason: d.Reason,
		})
	}
	return p
}

func (c *client) fill(ctx context.Context, d *plan.Dump) error {
	lines, done, err := stet.Ref[plan.Input, []string](programName).Handle(c.Engine, d.ID).Result(ctx)
	switch {
	case away(err):
		return err
	case err != nil:
		d.Error = err.Error()
	case done:
		d.Lines = lines
	}
	entries, err := c.Runs().History(ctx, d.ID, stet.HistoryQuery{Values: true})
	if err != nil {
		return err
	}
	d.Entries = nil
	for _, e := range entries {
		of := plan.Entry{
			At: e.Location, Kind: fmt.Sprint(e.Kind), State: fmt.Sprint(e.State), Order: e.Number, Tries: e.Attempts,
			Owes: e.Owes, Undone: e.Undone,
		}
		if e.State == store.Done {
			_ = e.Decode(&of.Value) // what is no text has none
		}
		d.Entries = append(d.Entries, of)
	}
	feeds, err := c.Runs().Feeds(ctx, d.ID)
	if err != nil {
		return err
	}
	d.Values, d.Streams = map[string]string{}, map[string][]string{}
	for _, f := range feeds {
		if !f.Stream {
			var value string
			err = f.Decode(&value)
			d.Values[f.Name] = value
		}
		for after := int64(0); f.Stream && err == nil; {
			var page []stet.StreamItem[string]
			page, err = stet.Stream[string](f.Name).Items(ctx, c.Engine, d.ID, after, 1000)
			for _, i := range page {
				d.Streams[f.Name] = append(d.Streams[f.Name], i.Value)
				after = i.Position
			}
			if len(page) == 0 {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	items, err := c.Store().Inbox(ctx, store.RunNo(d.No))
	if err == nil {
		_, err = store.FillItems(ctx, c.Store(), store.RunNo(d.No), items)
	}
	if err != nil {
		return err
	}
	d.Inbox, d.Items = nil, nil
	for _, i := range items {
		d.Inbox = append(d.Inbox, fmt.Sprintf("%d %s %q", i.Kind, i.Name, i.Value))
		d.Items = append(d.Items, int64(i.No))
	}
	return nil
}
