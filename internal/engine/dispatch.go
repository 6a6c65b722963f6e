package engine

import (
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
)

// loadChunk is how many runs are loaded in one call.
const loadChunk = 64

// dispatch claims what is ready until the tenure is asked to stop or is lost.
func (t *tenure) dispatch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := t.e.hub.wait()
		select {
		case <-t.stop.Done():
			return
		case <-t.held.Done():
			return
		case <-t.kick:
		case <-changed:
		case <-timer.C:
		}
		t.claim()
		timer.Reset(t.pause())
	}
}

// pause returns how long the dispatcher may wait without a hint.
func (t *tenure) pause() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := t.e.cfg.Poll
	if t.nextWake != 0 {
		// A microsecond more, so that the bound has passed the wake time by then.
		wait = min(wait, max(t.nextWake.Sub(t.e.time.now()), 0)+time.Microsecond)
	}
	return wait
}

// claimSoon wakes the dispatcher.
func (t *tenure) claimSoon() { hint(t.kick) }

// claimFor has the inbox read for an activation that waits for a deadline.
func (t *tenure) claimFor(a *activation) {
	t.mu.Lock()
	t.readers = append(t.readers, a)
	t.mu.Unlock()
	t.claimSoon()
}

// wakeBy tells the dispatcher of a wake time.
func (t *tenure) wakeBy(at store.Time) {
	t.mu.Lock()
	earlier := t.nextWake == 0 || at < t.nextWake
	if earlier {
		t.nextWake = at
	}
	t.mu.Unlock()
	if earlier && at.Sub(t.e.time.now()) < t.e.cfg.Poll {
		t.claimSoon()
	}
}

// claim takes in hand what is ready and tells activations what is new.
func (t *tenure) claim() {
	room := t.room()
	t.mu.Lock()
	t.nextWake = 0 // wake times told from here on may be missing in the answer
	readers := t.readers
	t.readers = nil
	t.mu.Unlock()
	claims, err := t.e.cfg.Store.Claim(t.held, store.ClaimRequest{
		Node: t.e.cfg.Node, Boot: t.e.boot, Leases: t.leases, Workflows: t.workflows, Limit: room,
	})
	if err != nil {
		if t.held.Err() == nil {
			t.log().Error("claiming; trying again", "error", err)
			time.AfterFunc(t.e.cfg.Poll/4, t.claimSoon)
		}
		t.mu.Lock()
		t.readers = append(readers, t.readers...)
		t.mu.Unlock()
		return
	}
	t.e.time.observe(claims.Now)
	if len(claims.Fenced) > 0 {
		t.log().Error("leases are not current any more", "shards", claims.Fenced)
		t.lose()
		return
	}
	var load []store.RunNo
	for i := range claims.Runs {
		if c := &claims.Runs[i]; !t.tell(c) {
			load = append(load, c.Run.No)
		}
	}
	t.load(load)
	t.mu.Lock()
	if claims.NextWake != 0 && (t.nextWake == 0 || claims.NextWake < t.nextWake) {
		t.nextWake = claims.NextWake
	}
	if claims.More {
		t.starved = room == 0
	} else {
		t.read = max(t.read, claims.Now)
	}
	t.mu.Unlock()
	if claims.More && room > 0 {
		t.claimSoon()
	}
	for _, a := range readers {
		a.post(event{tick: true})
	}
}

// tell posts a claim to the run's activation. It reports false if the run has to
// be loaded.
func (t *tenure) tell(c *store.Claimed) bool {
	a := t.find(c.Run.No)
	if a == nil {
		return false
	}
	if c.Fresh {
		t.mu.Lock()
		t.unparkLocked(c.Run.No)
		t.mu.Unlock()
	}
	return a.post(event{claimed: c})
}

// load brings claimed runs into memory.
func (t *tenure) load(runs []store.RunNo) {
	for len(runs) > 0 {
		chunk := runs[:min(len(runs), loadChunk)]
		runs = runs[len(chunk):]
		t.drivers.Add(1)
		go func() {
			defer t.drivers.Done()
			t.loadChunk(chunk)
		}()
	}
}

func (t *tenure) loadChunk(runs []store.RunNo) {
	snapshots, err := t.e.cfg.Store.Load(t.held, runs)
	if err != nil {
		if t.held.Err() == nil {
			t.log().Error("loading runs; trying again", "error", err, "runs", len(runs))
			for _, no := range runs {
				t.reload(no)
			}
		}
		return
	}
	for i := range snapshots {
		t.admit(&snapshots[i])
	}
}

// reload loads a run again after a pause.
func (t *tenure) reload(no store.RunNo) {
	t.drivers.Add(1)
	go func() {
		defer t.drivers.Done()
		select {
		case <-time.After(t.e.cfg.Poll):
			t.loadChunk([]store.RunNo{no})
		case <-t.stop.Done():
		case <-t.held.Done():
		}
	}()
}

// admit decides what becomes of a claimed run that is not in memory.
func (t *tenure) admit(s *store.Snapshot) {
	run := &s.Run
	if run.Status.Terminal() || run.Status == store.Stalled || endsUnrun(s) {
		t.decide(s)
		return
	}
	if _, ok := t.e.cfg.Workflows[run.Workflow]; !ok {
		t.log().Warn("a claimed run has no code here", "run_id", run.ID, "workflow", run.Workflow)
		return
	}
	if limit := t.e.cfg.PoisonLimit; limit > 0 && run.Strikes >= limit {
		t.stall(*run, "poison: the process ended "+times(run.Strikes)+" while only this suspect was running; mend its code, then resume it")
		return
	}
	a := t.activate(run.No, run.ID, run.Workflow)
	if a == nil {
		return
	}
	if run.Suspect >= 2 && t.e.cfg.PoisonLimit > 0 {
		t.suspect(a, s)
		return
	}
	a.post(event{snapshot: s})
}

// endsUnrun reports whether a run is to be ended without its code: terminated,
// or cancelled before any turn of it was committed.
func endsUnrun(s *store.Snapshot) bool {
	for _, it := range s.Items {
		if it.Kind == store.ItemTerminate || it.Kind == store.ItemCancel && s.Run.Build == "" && len(s.Entries) == 0 {
			return true
		}
	}
	return false
}

// decide answers the verbs in the inbox of a run whose code does not run.
func (t *tenure) decide(s *store.Snapshot) {
	run := &s.Run
	turn := &store.Turn{Run: run.No, Shard: run.Shard, Incarnation: run.Incarnation}
	update := &store.Update{Status: run.Status, Marks: run.Marks, Reason: run.Reason}
	turn.Update = update
	for _, it := range s.Items {
		var verdict []byte
		switch {
		case !it.Kind.Verb() && update.Status.Terminal():
			// What came while the run was ending; nobody will take it any more.
		case !it.Kind.Verb():
			turn.Seen = append(turn.Seen, it.No)
			continue
		case update.Status.Terminal():
			verdict = runner.Verdict(false, "the run is already "+update.Status.String())
		case it.Kind == store.ItemResume && update.Status == store.Stalled:
			verdict = runner.Verdict(true, "")
			update.Status, update.Reason = store.Running, ""
		case it.Kind == store.ItemResume:
			verdict = runner.Verdict(false, "the run is not stalled")
		default:
			verdict = runner.Verdict(true, "")
			update.Status, update.Reason = store.Cancelled, endReason(it)
			update.Marks = 0
		}
		turn.Consumed = append(turn.Consumed, store.Consumption{Item: it.No, Verdict: verdict})
	}
	former := run.Status
	t.commits.submitTurn(pendingTurn{turn, func(result store.TurnResult) {
		switch {
		case result.Verdict == store.Fenced:
			t.lose()
			return
		case result.Verdict == store.Refused:
			t.log().Error("deciding a verb", "run_id", run.ID, "reason", result.Reason)
			return
		case result.Verdict == store.StillReady:
			t.claimSoon()
			return
		}
		t.e.answered(turn.Consumed)
		switch {
		case update.Status == store.Running:
			t.load([]store.RunNo{run.No})
		case former != update.Status:
			ended := *run
			ended.Status, ended.Marks, ended.Reason = update.Status, update.Marks, update.Reason
			t.e.ended(ended)
		}
	}})
}

func endReason(it store.Item) string {
	reason := "cancelled"
	if it.Kind == store.ItemTerminate {
		reason = "terminated"
	}
	if len(it.Value) > 0 {
		reason += ": " + string(it.Value)
	}
	return reason
}

// stall stops a run for a person.
func (t *tenure) stall(run store.Run, reason string) {
	update := &store.Update{Status: store.Stalled, Marks: run.Marks, Reason: reason}
	turn := &store.Turn{Run: run.No, Shard: run.Shard, Incarnation: run.Incarnation, Update: update}
	t.commits.submitTurn(pendingTurn{turn, func(result store.TurnResult) {
		if result.Verdict != store.Committed {
			t.log().Error("stalling a run", "run_id", run.ID, "verdict", result.Verdict.String(), "reason", result.Reason)
			return
		}
		t.log().Error("run stalled", "run_id", run.ID, "workflow", run.Workflow, "reason", reason)
		run.Status, run.Reason = store.Stalled, reason
		t.e.ended(run)
	}})
}
