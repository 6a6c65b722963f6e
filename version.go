package stet

// Version returns which version of a change to the code this run takes: 0, the
// former one, or newest. It is how code is changed while runs are under way:
//
//	if stet.Version(ctx, "check for fraud", 1) >= 1 {
//		… // what is new
//	}
//
// A run that has passed this point with code that did not have the call yet gets
// 0, now and in every replay, also if the operation behind the call has not
// completed. A run that comes here for the first time gets newest, which is
// recorded once per run, or in a Loop once per iteration: every later call with
// the same change, in whichever branch, returns what the first one did. So a
// change may be used in several places. A rewind keeps the versions of what it
// does not take back; continue-as-new begins with the newest ones.
//
// newest is 1 for the first change of that name, 2 if the same place is changed
// again, and so on; the code then tells 0, 1 and 2 apart for as long as runs of
// these versions live. A run whose version is greater than newest is one of newer
// code, and stalls.
//
// Once no run with version 0 is left, remove the former code; what it recorded is
// not in the other runs. The call itself stays until no run is left that has
// recorded it, or is replaced by Removed(ctx, change).
//
// change is 1 to 64 bytes and may be equal to the name of an operation. Version
// is not refused in a cancelled branch. A wrong change or a newest below 1 fails
// the run.
func Version(ctx Context, change string, newest int) int {
	return ctx.branch.Version(ctx.call(change, ""), newest)
}

// Removed stands where the code had an operation of that name, and says that runs
// may have a record of it:
//
//	stet.Removed(ctx, "notify") // was: stet.Do(ctx, "notify", notify)
//
// Any kind is accepted: a step, a sleep, a receive, a timer of a Select, a branch
// that Go began, a Map or a Loop with all that is in them, a Version. A record is
// accepted where it was made: in the same branch or Map, in the same order with
// what remains, and with the same Key, if it had one. Each call stands for one
// occurrence of the name in its scope, so a Removed for an operation in a Go loop
// stands in the loop, too. A Version belongs to the run or iteration, so it is not
// accepted with a branch that called it.
//
// In a run that has no such record Removed does nothing. It records nothing, waits
// for nothing that is still to come, and returns no error: a cancel is seen by the
// next operation. A run that waits in what was removed goes on when it is loaded: by a
// later build (Config.ReloadRate), by a nudge (Runs.Nudge), or when its wait is over. A
// child that still runs ends with the run, unless it goes on without its parent. What a
// removed step has done stays done: if it has left a compensation, that is owed all the
// same, and a run that comes to be undone stalls for it. Delete the call once no run is
// left that has the record.
//
// A key is that of the removed operation; of several the last one counts.
func Removed(ctx Context, name string, key ...Key) {
	ctx.branch.Removed(ctx.call(name, lastKey(key)))
}
