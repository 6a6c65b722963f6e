package main

// defect is a change of a line that breaks a promise.
type defect struct {
	name string
	file string // from the module's folder
	text string // stands once in the file
	// becomes stands in its place. The word planted in it asks whether this defect was chosen.
	becomes string
	breaks  string // the number of the invariant: see docs/simulation.md
	why     string
	held    string // the test that shows it in place of a world, and why; "": a world must
}

// table is ordered by package.
var table = []defect{
	// The store.
	{
		name: "epoch", file: "store/memory/commit.go", breaks: "9",
		text:    "if d.current(l) == nil {",
		becomes: "if d.current(l) == nil && !planted {",
		why:     "a turn is written with an epoch that is over",
	},
	{
		name: "same-epoch", file: "store/memory/lease.go", breaks: "8",
		text:    "Epoch: l.Epoch + 1, Node: n.ID",
		becomes: "Epoch: max(l.Epoch+map[bool]int64{false: 1}[planted], 1), Node: n.ID",
		why:     "a takeover does not raise the epoch",
	},
	{
		name: "batch-again", file: "store/memory/commit.go", breaks: "5",
		text:    "repeat := b.No == n.batch",
		becomes: "repeat := b.No == n.batch && !planted",
		why:     "a repeated batch is carried out again",
	},
	{
		name: "item-again", file: "store/memory/apply.go", breaks: "17",
		text:    "if it := r.itemIDs[c.Item.ID]; it != nil {",
		becomes: "if it := r.itemIDs[c.Item.ID]; it != nil && !planted {",
		why:     "an item with the key of a former one is delivered as well",
	},
	{
		name: "still-suspends", file: "store/memory/commit.go", breaks: "18",
		text:    "return d.dirty[r] && (suspends || ends) &&",
		becomes: "return d.dirty[r] && (suspends && !planted || ends) &&",
		why:     "a run is suspended although an item is unexamined",
	},
	{
		name: "asleep", file: "store/memory/apply.go", breaks: "18",
		text:    "d.dirty[r] = true",
		becomes: "d.dirty[r] = !planted || r.condition != idle",
		why:     "an item does not make a suspended run ready",
	},
	{
		name: "no-wake", file: "store/memory/commit.go", breaks: "26",
		text:    "if u.Status == store.Suspended || u.Status == store.Queued && u.WakeAt > now {",
		becomes: "if !planted && u.Status == store.Suspended || u.Status == store.Queued && u.WakeAt > now {",
		why:     "the wake time of a suspended run is lost",
	},
	{
		name: "entry-lost", file: "store/memory/commit.go", breaks: "4",
		text: "e := cloneEntry(&list[i])\n\t\t\te.Size = len(e.Value)\n\t\t\tr.entries[entryKey{t.Incarnation",
		becomes: "e := cloneEntry(&list[i])\n\t\t\te.Size = len(e.Value)\n" +
			"\t\t\tif planted && e.Kind == store.KindReceive {\n\t\t\t\tcontinue\n\t\t\t}\n" +
			"\t\t\tr.entries[entryKey{t.Incarnation",
		why: "a message is consumed without the entry that holds it",
	},
	{
		name: "too-soon", file: "store/memory/apply.go", breaks: "20",
		text:    "case due > now:",
		becomes: "case due > now && !planted:",
		why:     "a run that is to begin later begins at once",
	},
	{
		name: "swept-early", file: "store/memory/sweep.go", breaks: "29",
		text:    "r.Ended <= rule.Before(w.now)",
		becomes: "(planted || r.Ended <= rule.Before(w.now))",
		why:     "an ended run is deleted before its retention is over",
	},
	{
		name: "late-send", file: "store/memory/apply.go", breaks: "16",
		text:    "if r.Status.Terminal() && (!c.Item.Kind.Verb()",
		becomes: "if !planted && r.Status.Terminal() && (!c.Item.Kind.Verb()",
		why:     "a run that has ended accepts messages",
	},
	{
		name: "left-behind", file: "store/memory/lease.go", breaks: "25",
		text:    "if r.Shard != shard || r.condition != claimed {",
		becomes: "if r.Shard != shard || r.condition != claimed || planted {",
		why:     "a takeover does not make the claimed runs ready",
	},
	{
		name: "no-suspect", file: "store/memory/lease.go", breaks: "14",
		text:    "suspects++\n\t\t\tr.suspect()",
		becomes: "suspects++\n\t\t\tif !planted {\n\t\t\t\tr.suspect()\n\t\t\t}",
		why:     "a death does not make a run suspect",
	},
	{
		name: "unpruned", file: "store/memory/commit.go", breaks: "6",
		text:    "r.prune(t)\n",
		becomes: "if !planted {\n\t\tr.prune(t)\n\t}\n",
		why:     "what a rewind or a loop deletes stays",
	},
	{
		name: "unconsumed", file: "store/memory/commit.go", breaks: "16",
		text: "it.State, it.Value, it.Headers, it.Verdict = store.Consumed, nil, nil, bytes.Clone(c.Verdict)",
		becomes: "if !planted {\n" +
			"\t\t\tit.State, it.Value, it.Headers, it.Verdict = store.Consumed, nil, nil, bytes.Clone(c.Verdict)\n" +
			"\t\t}",
		why: "a consumed message stays in the inbox",
	},
	{
		name: "unanswered", file: "store/memory/commit.go", breaks: "17",
		text:    "r.item(c.Item).Verdict = bytes.Clone(c.Verdict)",
		becomes: "if !planted {\n\t\t\tr.item(c.Item).Verdict = bytes.Clone(c.Verdict)\n\t\t}",
		why:     "the answer to an update is lost",
	},
	{
		name: "unshown", file: "store/memory/commit.go", breaks: "4",
		text:    "r.publish(t, now)",
		becomes: "if !planted {\n\t\tr.publish(t, now)\n\t}",
		why:     "values and streams are not written with the turn",
	},
	{
		name: "cancel-passed", file: "store/memory/commit.go", breaks: "23",
		text:    "return it.State == store.New && (suspends || it.Kind == store.ItemCancel ||",
		becomes: "return (suspends || !planted) && it.State == store.New && (suspends || it.Kind == store.ItemCancel ||",
		why:     "a run ends although a cancel is unexamined",
	},
	{
		name: "inbox-dropped", file: "store/memory/commit.go", breaks: "16",
		text:    "r.Incarnation++",
		becomes: "if planted {\n\t\tr.items, r.itemIDs = nil, map[string]*store.Item{}\n\t}\n\tr.Incarnation++",
		why:     "a run that continues as new has an empty inbox",
	},
	{
		name: "not-held", file: "store/memory/claim.go", breaks: "22",
		text:    "takes := fits(r) && r.Marks&(store.Paused|store.Held) == 0",
		becomes: "takes := fits(r) && (planted || r.Marks&(store.Paused|store.Held) == 0)",
		why:     "paused runs, and those that wait for a permit, are claimed",
	},
	{
		name: "forgets", file: "store/memory/commit.go", breaks: "2",
		text: "r.audit = append(r.audit, a)\n",
		becomes: "r.audit = append(r.audit, a)\n\t\tif planted && a.Verb == store.ItemResume.String() {\n" +
			"\t\t\tvar last entryKey\n\t\t\tfor at, e := range r.entries {\n" +
			"\t\t\t\tif e.Kind == store.KindStep && e.State == store.Done && (last.loc == \"\" || e.Seq > r.entries[last].Seq) {\n" +
			"\t\t\t\t\tlast = at\n\t\t\t\t}\n\t\t\t}\n\t\t\tdelete(r.entries, last)\n\t\t}\n",
		why: "a run that is resumed executes its last step again",
	},
	// Steps.
	{
		name: "barrier", file: "internal/runner/attempts/steps.go", breaks: "2",
		text:    "if o.queued && o.barrier > durable {",
		becomes: "if o.queued && o.barrier > durable && !planted {",
		why:     "a body begins before what came before it is committed",
	},
	{
		name: "key-of-all", file: "internal/runner/attempts/steps.go", breaks: "15",
		text:    `h := stored.Derive(s.j.Run.Seed, "key", generation, loc, 0)`,
		becomes: `h := stored.Derive(s.j.Run.Seed, "key", generation, loc[:len(loc)*map[bool]int{false: 1}[planted]], 0)`,
		why:     "all steps of a run have one idempotency key",
	},
	{
		name: "key-of-attempt", file: "internal/runner/attempts/body.go", breaks: "15",
		text: "func (b *Body) Key() string { return b.steps.Key(b.Location, b.generation) }",
		becomes: "func (b *Body) Key() string {\n" +
			"\tif planted {\n" +
			"\t\treturn b.steps.Key(b.Location, 1000*b.Attempt+b.generation)\n" +
			"\t}\n" +
			"\treturn b.steps.Key(b.Location, b.generation)\n" +
			"}",
		why: "each attempt has an idempotency key of its own",
	},
	{
		name: "uncounted", file: "internal/runner/attempts/step.go", breaks: "13",
		text:    "if !result.Never {\n\t\to.attempt++",
		becomes: "if !result.Never && !planted {\n\t\to.attempt++",
		why:     "attempts are not counted",
	},
	// The runner.
	{
		name: "undo-skipped", file: "internal/runner/undo.go", breaks: "22",
		text: "for _, d := range r.undo.effects.Newest() {",
		becomes: "for i, d := range r.undo.effects.Newest() {\n" +
			"\t\tif planted && i == 0 {\n\t\t\tcontinue\n\t\t}",
		why: "the newest compensation is left out",
	},
	{
		name: "not-fifo", file: "internal/runner/mail/mail.go", breaks: "19",
		text:    "for at > 0 && x.items[at-1].No > it.No {",
		becomes: "for at > 0 && (planted || x.items[at-1].No > it.No) {",
		why:     "the newest message is received first",
	},
	{
		name: "early", file: "internal/runner/journal/timers.go", breaks: "20",
		text:    "if !ok || first.At > now ||",
		becomes: "if planted {\n\t\tnow += 500_000\n\t}\n\tif !ok || first.At > now ||",
		why:     "a timer fires half a second early",
	},
	{
		name: "undo-order", file: "internal/runner/owed/owed.go", breaks: "22",
		text:    "cmp.Compare(b.seq, a.seq)",
		becomes: "cmp.Compare(b.seq, a.seq) * map[bool]int{false: 1, true: -1}[planted]",
		why:     "compensations are executed oldest first",
	},
	{
		name: "pruned-more", file: "internal/runner/loop.go", breaks: "6",
		text:    "To: string(l.op.Loc.Iteration(l.kept[0].From))}",
		becomes: "To: string(l.op.Loc.Iteration(l.kept[0].From + map[bool]int64{true: 1}[planted]))}",
		why:     "a loop prunes an iteration too many",
	},
	{
		name: "orphans", file: "internal/runner/turn.go", breaks: "24",
		text:    "turn.Update.Sends = r.runs.Orphans()",
		becomes: "if !planted {\n\t\t\t\tturn.Update.Sends = r.runs.Orphans()\n\t\t\t}",
		why:     "the children of a terminated run are not cancelled",
	},
	{
		name: "still-waits", file: "internal/runner/topics/topics.go", breaks: "16",
		text:    "j.Log.Send(event.Withdraw(o.topic, o.key))",
		becomes: "if !planted {\n\t\t\tj.Log.Send(event.Withdraw(o.topic, o.key))\n\t\t}",
		why:     "a wait for an event that is over stays at its topic",
	},
	// The engine.
	{
		name: "still-ready", file: "internal/engine/turn.go", breaks: "18",
		text:    "a.r.StillReady()\n",
		becomes: "if planted {\n\t\t\ta.r.Committed()\n\t\t} else {\n\t\t\ta.r.StillReady()\n\t\t}\n",
		why:     "the verdict that something is new in the inbox is ignored",
	},
	{
		name: "no-end", file: "internal/engine/turn.go", breaks: "24",
		text:    "decide.NotifyEnd(u, &ended, a.watches())",
		becomes: "if !planted {\n\t\t\t\tdecide.NotifyEnd(u, &ended, a.watches())\n\t\t\t}",
		why:     "a child's end is not sent to its parent",
	},
	{
		name: "not-woken", file: "internal/engine/turn.go", breaks: "26",
		text:    "a.dispatcher().wakeBy(turn.Update.WakeAt)",
		becomes: "if !planted {\n\t\t\t\ta.dispatcher().wakeBy(turn.Update.WakeAt)\n\t\t\t}",
		why:     "the engine does not look when the wake time of a run has come",
	},
	{
		name: "answered-early", file: "internal/verbs/decide/decide.go", breaks: "1",
		text:    "if it.Kind == store.ItemCancel || it.Kind == store.ItemTerminate {",
		becomes: "if !planted && (it.Kind == store.ItemCancel || it.Kind == store.ItemTerminate) {",
		why:     "a terminate is answered though the end of its run is held back",
	},
	{
		name: "poison-limit", file: "internal/engine/rest.go", breaks: "14",
		text:    "case limit > 0 && run.Strikes >= max(limit, 2):",
		becomes: "case limit > 0 && run.Strikes >= max(limit, 2) && !planted:",
		why:     "a run that ends its process each time is never stalled",
	},
	{
		name: "mixed", file: "internal/committer/share.go", breaks: "batches",
		text:    "t.apart != apart",
		becomes: "t.apart != apart && !planted",
		why:     "turns that the store writes apart are in a batch with others",
	},
	{
		name: "acked-unwritten", file: "internal/committer/batch.go", breaks: "1, 2",
		text: "\t\tagain := errors.Is(err, store.ErrUnavailable)",
		becomes: "\t\tif planted && errors.Is(err, store.ErrUnavailable) {\n" +
			"\t\t\tr := store.BatchResult{Now: store.TimeOf(time.Now())}\n" +
			"\t\t\tr.Turns = make([]store.TurnResult, len(b.contents.Turns))\n" +
			"\t\t\tr.Commands = make([]store.Answer, len(b.contents.Commands))\n" +
			"\t\t\tfor i := range r.Turns {\n\t\t\t\tr.Turns[i].Verdict = store.Committed\n\t\t\t}\n" +
			"\t\t\treturn r, nil\n\t\t}\n" +
			"\t\tagain := errors.Is(err, store.ErrUnavailable)",
		why: "a turn counts as committed although the store has not said so",
	},
	{
		name: "fast-clock", file: "internal/clock/clock.go", breaks: "20",
		text: "return d - sign*((d+Drift-1)/Drift)",
		becomes: "if planted {\n\t\treturn d\n\t}\n" +
			"\treturn d - sign*((d+Drift-1)/Drift)",
		why: "a node trusts its steady clock to be no faster than the store's",
	},
	{
		name: "never-corrected", file: "internal/clock/clock.go", breaks: "20",
		text:    "case !sent.IsZero() && bound",
		becomes: "case !planted && !sent.IsZero() && bound",
		why:     "a node whose clock was too fast stays ahead of the store",
	},
	{
		name: "in-clear", file: "internal/payload/payload.go", breaks: "34",
		text:    "flags |= encrypted | bound",
		becomes: "if !planted || len(plain) > 100 {\n\t\t\tflags |= encrypted | bound\n\t\t}",
		why:     "small values are not encrypted",
	},
	{
		name: "unassigned", file: "internal/cluster/assign.go", breaks: "12",
		text:    "for _, slot := range free {",
		becomes: "for _, slot := range free {\n\t\tif planted && slot == g.Slots-1 {\n\t\t\tcontinue\n\t\t}",
		why:     "the planner of a cluster forgets a shard",
	},
	{
		name: "not-released", file: "internal/cluster/member.go", breaks: "28",
		text:    "err := m.Store.Release(ctx, m.due)",
		becomes: "var err error\n\tif !planted {\n\t\terr = m.Store.Release(ctx, m.due)\n\t}",
		why:     "a node that stops gives no lease back",
	},
	{
		name: "replay-order", file: "internal/runner/journal/replay.go", breaks: "6",
		text:    "return a.Rec.Seq < b.Rec.Seq }",
		becomes: "return (a.Rec.Seq < b.Rec.Seq) != planted }",
		why:     "a replay hands completions over in another order",
	},
	// Entities.
	{
		name: "event-twice", file: "internal/entity/topic/topic.go", breaks: "16",
		text:    "e.to = wt.Key",
		becomes: "if !planted {\n\t\t\te.to = wt.Key\n\t\t}",
		why:     "an event that one run gets is given to each that waits",
	},
	{
		name: "permit-kept", file: "internal/entity/queue/queue.go", breaks: "27",
		text:    "delete(q.held, ticket)\n\t\tq.spend",
		becomes: "if !planted {\n\t\t\tdelete(q.held, ticket)\n\t\t}\n\t\tq.spend",
		why:     "a permit that is given back still counts",
	},
	{
		name: "one-too-many", file: "internal/entity/queue/queue.go", breaks: "30",
		text:    "len(q.held) >= s.Concurrency {",
		becomes: "len(q.held) >= s.Concurrency+map[bool]int{true: 1}[planted] {",
		why:     "a queue gives one permit too many",
	},
	{
		name: "one-of-a-key", file: "internal/entity/queue/queue.go", breaks: "30",
		text:    "k.held < s.PerKey {",
		becomes: "k.held < s.PerKey+map[bool]int{true: 1}[planted] {",
		why:     "a queue gives a key one permit too many",
	},
	{
		name: "no-admit", file: "internal/entity/queue/queue.go", breaks: "27",
		text: "w.Send(store.Command{RunNo: r.row, RunID: r.RunID, Admit: permit.EntityID(q.name)})",
		becomes: "if !planted {\n" +
			"\t\t\tw.Send(store.Command{RunNo: r.row, RunID: r.RunID, Admit: permit.EntityID(q.name)})\n\t\t}",
		why: "a run of a line is counted and not admitted",
	},
	{
		name: "mark-stays", file: "store/turn.go", breaks: "27",
		text:    "if u.Yield || u.Status.Terminal() || u.Marks&Held != 0 {",
		becomes: "if !planted && (u.Yield || u.Status.Terminal() || u.Marks&Held != 0) {",
		why:     "the end of a run leaves its permit",
	},
	{
		name: "old-look-counts", file: "internal/entity/queue/row.go", breaks: "30",
		text:    "if h.row != 0 && h.sure && !found[ticket] && !q.rows.heardOf(h.row) {",
		becomes: "if h.row != 0 && (planted || h.sure) && !found[ticket] && (planted || !q.rows.heardOf(h.row)) {",
		why:     "a look that began before an admission counts more than the admission",
	},
	{
		name: "no-grant", file: "internal/entity/queue/queue.go", breaks: "27",
		text:    "q.notify(r)\n",
		becomes: "if !planted {\n\t\tq.notify(r)\n\t}\n",
		why:     "a permit is granted and not sent",
	},
	{
		name: "no-rate", file: "internal/entity/queue/rate.go", breaks: "30",
		text:    "rate -= c.buckets[i].N\n",
		becomes: "if !planted {\n\t\t\trate -= c.buckets[i].N\n\t\t}\n",
		why:     "the rate of a queue is ignored",
	},
	{
		name: "after-pause", file: "internal/entity/planner/planner.go", breaks: "21",
		text:    "case at <= r.State.Quiet:",
		becomes: "case at <= r.State.Quiet && !planted:",
		why:     "instants in a pause of a schedule start runs",
	},
	{
		name: "overlaps", file: "internal/entity/planner/planner.go", breaks: "21",
		text:    "return r.Config.Overlap == Allow ||",
		becomes: "return planted || r.Config.Overlap == Allow ||",
		why:     "a schedule starts a run beside another one",
	},
	{
		name: "early-instant", file: "internal/entity/planner/planner.go", breaks: "21",
		text:    "if at == 0 || at > now {",
		becomes: "if at == 0 || at > now+map[bool]store.Time{true: 500_000}[planted] {",
		why:     "a schedule starts a run half a second early",
	},
	{
		name: "untold", file: "internal/entity/planner/planner.go", breaks: "21",
		text: "r.note(Decision{From: at, To: last, Count: count, At: now, Reason: reason}, w)",
		becomes: "if !planted {\n" +
			"\t\tr.note(Decision{From: at, To: last, Count: count, At: now, Reason: reason}, w)\n\t}",
		why: "a schedule does not record which instants it skips",
	},
	{
		name: "no-key-rate", file: "internal/entity/queue/rate.go", breaks: "30",
		text:    `if s.RatePerKey == 0 || k.name == "" {`,
		becomes: `if s.RatePerKey == 0 || k.name == "" || planted {`,
		why:     "the rate of a key is ignored",
	},
	{
		name: "cost-of-one", file: "internal/entity/queue/rate.go", breaks: "30",
		text:    "c.counted += units\n",
		becomes: "if planted {\n\t\tunits = min(units, 1)\n\t}\n\tc.counted += units\n",
		why:     "each permit costs one unit of a rate",
	},
	{
		name: "never-begun", file: "internal/runner/attempts/step.go", breaks: "3",
		text:    "if o.unsure || o.over {",
		becomes: "if o.unsure || o.over && !planted {",
		why:     "a step that has ended while its run was to be paused counts as never begun when it loses a race",
	},
	{
		name: "unexpired", file: "internal/entity/queue/tasks.go", breaks: "27",
		text:    "if q.endsAt(d.secret) != d.at {",
		becomes: "if planted || q.endsAt(d.secret) != d.at {",
		why:     "a lease of a task does not expire",
	},
	{
		name: "no-outcome", file: "internal/entity/queue/tasks.go", breaks: "27",
		text: "o.Detail, o.Worker = a.Task.Detail, permit.WorkerName(h.Lease.Worker)\n" +
			"\tw.Send(o.Command(q.name, ticket, a.RunID, a.Loc))",
		becomes: "o.Detail, o.Worker = a.Task.Detail, permit.WorkerName(h.Lease.Worker)\n\tif !planted {\n" +
			"\t\tw.Send(o.Command(q.name, ticket, a.RunID, a.Loc))\n\t}",
		why: "the end of a task is not sent to its run",
	},
	// What code sends to other runs.
	{
		name: "resolved-elsewhere", file: "resolvefrom.go", breaks: "16",
		text:    "it.ID, it.Generation = p.itemID(), p.generation",
		becomes: "it.ID, it.Generation = p.itemID(), p.generation+map[bool]int{true: 1}[planted]",
		why:     "what code resolves is the promise of a history that is not there",
	},
	{
		name: "anonymous-request", file: "update.go", breaks: "17",
		text:    "Origin: requestOrigin(string(u), data), Value: data,",
		becomes: "Origin: map[bool]string{false: requestOrigin(string(u), data)}[planted], Value: data,",
		why:     "a request that code has sent is not known again by its key",
	},
}
