// Package stet runs durable workflows: ordinary Go functions that survive crashes,
// deploys and machine loss.
//
// Every durable operation of a workflow, such as a [Step] or a [Sleep], is written to a
// store when it completes. If the process dies, any process that has the code takes the
// run up, replays what is recorded, and goes on from there.
//
// # A first workflow
//
// A workflow is a function, [Define] gives it a name, and an [Engine] executes it:
//
//	var Checkout = stet.Define("checkout", checkout)
//
//	func checkout(ctx stet.Context, o Order) (Receipt, error) {
//		charge, err := stet.Step(ctx, "charge", func(ctx context.Context) (Charge, error) {
//			return cards.Charge(ctx, o, stet.IdempotencyKey(ctx))
//		})
//		if err != nil {
//			return Receipt{}, err
//		}
//		if err := stet.Sleep(ctx, "cooling off", 24*time.Hour); err != nil {
//			return Receipt{}, err
//		}
//		return Receipt{charge}, nil
//	}
//
//	db, err := sqlite.Open(ctx, "shop.db")
//	engine, err := stet.New(ctx, stet.Config{Store: db, Workflows: []stet.Definition{Checkout}})
//	go engine.Run(ctx)
//	run, err := Checkout.Start(ctx, engine, order, stet.ID("order-42"))
//	receipt, err := run.Wait(ctx)
//
// Code outside of steps must do the same in every replay: it takes the time from [Now],
// random numbers from [Random] and IDs from [UUID], and touches the world in steps.
//
// # Authoring: steps and waiting
//
// [Step] and [Do] execute a function outside the journal and record what it returns. A
// [Retry] says how often, [Permanent] that it is of no use. [TxStep] commits what it
// writes together with its record. A step that runs long calls [Heartbeat].
//
// [Sleep] and [SleepUntil] wait for a time, [Message] for what is sent to the run,
// [Topic] for what is published, [Promise] for an answer from outside, and [Await] for
// another run. [Within] gives a wait a deadline. [Select] waits for the first of several:
//
//	var answer string
//	won, err := stet.Select(ctx, Answers.Case(&answer), stet.AfterDelay("patience", time.Hour))
//
// # Authoring: branches, loops and children
//
// [Go] begins a branch, [Join], [All], [Any] and [Race] wait for branches, and [Map] does
// the same for every item of a list:
//
//	parcels, err := stet.Map(ctx, "pack", o.Lines, func(ctx stet.Context, l Line) (Parcel, error) {
//		return stet.Step(ctx, "pack", func(ctx context.Context) (Parcel, error) { return packer.Pack(ctx, l) })
//	}, stet.MapLimit(8))
//
// [Loop] does work without an end in bounded memory and storage, and [ContinueAsNew] lets
// a run go on from a new input. [Workflow.Go] and [Workflow.Call] start children, which
// end with the function that has started them; [Workflow.Detach] starts a run that does
// not.
//
// # Authoring: failure and undoing
//
// An error that a workflow returns fails its run. With [StallOnFailure] the run stalls
// instead, until an operator has looked at it. Errors that code branches on are
// registered in [Config].Errors, so that errors.Is finds them after a replay. An [Undo]
// gives a step its compensation, which is executed when the run fails or is cancelled, as
// [UndoOn] says:
//
//	room, err := stet.Step(ctx, "book", book, stet.Undo(func(ctx context.Context, r Room) error {
//		return hotel.Release(ctx, r)
//	}))
//
// A cancel ends every operation with [ErrCancelled]; [WithoutCancel] is for cleaning up.
//
// # Changing code
//
// A run that has begun with the former code goes on with the new one. [Version] tells
// them apart, [Removed] stands where an operation was. A run that does not fit its
// history stalls with a reason that names both. [Engine.Check] replays the live runs of a
// store against new code before a deploy; package codecheck makes that a command.
//
// # Sending
//
// Code outside of workflows, and a step's body, uses what both sides declare once:
// [Workflow.Start], [Workflow.StartAll] and [Workflow.Schedule] start runs, [StartTx], [StartAllTx] and
// [SendTx] act in a transaction of the application's own, and
//
//	var (
//		Approvals = stet.Message[Approval]("approval")
//		Orders    = stet.Topic[Order]{Name: "orders", Mode: stet.Consumed}
//		SetLimit  = stet.Update[int, int]("set-limit")
//		Progress  = stet.Value[int]("progress")
//		Lines     = stet.Stream[string]("log")
//	)
//
// send with [Message.Send], publish with [Topic.Publish], and ask with [Update.Call]. They
// read what a run shows of itself with [Value.Get], [Value.Watch] and [Stream.Tail].
// [Engine.Resolve] and [Engine.Reject] settle a [Promise] by its token.
//
// # Options
//
// A single option is NAME(value); a group of options is a struct; a policy is one of its
// constants. 0 is the default everywhere, and [None] means "none", "never" or "without
// limit". In which calls an option is allowed the compiler says:
//
//   - names of operations: [Key], [Named], [KeyBy]
//   - starts: [ID], [IDFrom], [StartAt], [StartAfter], [UseExisting], [ReplaceEnded], [FirstMessage], [Tags], [Headers]
//   - sends: [SendKey], [Headers]
//   - steps: [Retry], [Undo], [UndoDo], [Permit], [OnStepQueue]; what one has taken: [Spent]; on each node: [PerNode]
//   - limits: [MapLimit], [OnQueue], [Config].MaxRuns and its like
//   - loops: [LoopOptions]
//   - children: [LeaveChild]
//   - definitions: [UndoOn], [OnFailure], [Retention], [MaxRunTime], [MaxSuspension], [PauseAfter]
//
// # Operating
//
// What an operator does stands together by noun. Each request takes an [Act], which says
// who asks and why:
//
//	engine.Runs().Rewind(ctx, "order-42", "charge", stet.Act{By: "ada", Why: "wrong card"})
//	engine.Queues().Pause(ctx, "imports", stet.Act{Why: "maintenance"})
//
// The nouns are these:
//
//   - [Runs]: list, count, read, cancel, terminate, pause, resume, retry, rewind, edit, fork, export
//   - [Queues]: create, set, pause, resume, delete, list
//   - [Schedules]: pause, resume, trigger, backfill, delete, list
//   - [Topics]: list, and the events that are kept
//   - [DeadLetters]: list, replay, remove
//   - [Nodes]: list, drain
//
// The command stet offers the same on a terminal.
//
// # Testing
//
// Package stettest executes workflows in virtual time, and kills the process at every
// commit:
//
//	func TestBookingSurvivesEveryCrash(t *testing.T) {
//		got, err := stettest.CrashEverywhere(t, stet.Define("book", book), Order{ID: "1"})
//		if err != nil || got.ID != "c-1" {
//			t.Errorf("got %+v, %v", got, err)
//		}
//	}
//
// # Errors
//
// The errors that callers branch on are variables of this package, matched by errors.Is;
// [RunError], [StepError], [BranchError], [BranchErrors], [Failure] and [ReplayError] carry more and are
// matched by errors.As. Each call names those that it returns.
package stet
