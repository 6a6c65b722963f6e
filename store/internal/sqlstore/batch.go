package sqlstore

import (
	"errors"
	"fmt"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// BatchRows are the acts of a batch in which the stores differ. They are carried out in
// one transaction.
type BatchRows interface {
	Rows
	// LastBatch returns the number of the last batch of the boot, 0 for none. If that is
	// the batch at hand, it also returns the encoded verdicts.
	LastBatch() (no int64, verdicts []byte, err error)
	// CurrentLeases returns the shards of the batch whose leases are current. They stay
	// so until the transaction ends.
	CurrentLeases() (map[store.Shard]bool, error)
	// RecordBatch makes the batch the last one of the boot.
	RecordBatch(turns []store.TurnResult) error
	// RunClaimed is called after a run was claimed for a command.
	RunClaimed(run *store.Run)

	// ExecEach executes a statement with each of several arguments, in their order. It returns how many of them
	// changed something before the first that did not: from there on it may execute it or not.
	ExecEach(text string, args [][]any) (changed int, err error)
	// RunState returns the state of the run that a turn changes, or false if there is no
	// such run.
	RunState(turn *store.Turn) (state RunState, found bool, err error)
	// InsertEntry inserts the turn's entry with the index i. It reports false if there is
	// one at its location.
	InsertEntry(turn *store.Turn, i int) (inserted bool, err error)
	// Entry returns the entry at a location of the turn's run, with its value.
	Entry(turn *store.Turn, loc string) (e store.Entry, found bool, err error)
	// Overwrite writes an entry in place of old, which is at its location.
	Overwrite(turn *store.Turn, old, e *store.Entry) error
	// UpdateRun writes a change of the run's row.
	UpdateRun(turn *store.Turn, c *Change) error
	// Continue writes the input, seed and workflow of the next incarnation, which begins
	// at a time.
	Continue(turn *store.Turn, began store.Time) error
}

// Batch is one try to write a batch, turn by turn, in one transaction.
type Batch struct {
	Rows BatchRows
	Now  store.Time
	*store.Batch
	// Refused are the turns that broke a law in a former try, and which law that was.
	Refused map[int]string
	// Guard, if not nil, calls act and takes its writes back if it waits for a lock that
	// another transaction holds. It then reports that the rows were held.
	Guard func(act func() error) (held bool, err error)
	// EntryTables are the tables besides entries that have rows with the key of an entry.
	EntryTables []string

	current map[store.Shard]bool
	repeat  bool // the batch was applied before

	examined []store.ItemNo // new items that the update of the turn at hand consumes, marked as seen
}

// Refusal is the error of a turn that breaks a law. The transaction is taken back and
// repeated without that turn.
type Refusal struct {
	Turn   int
	Reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("turn %d: %s", r.Turn, r.Reason) }

func refuse(format string, args ...any) error { return &Refusal{Reason: fmt.Sprintf(format, args...)} }

// Commit writes the turns, then the commands. A batch that was applied before writes no
// turn again, but repeats its commands: each finds whether it was carried out.
func (b *Batch) Commit() (store.BatchResult, error) {
	result := store.BatchResult{Now: b.Now}
	last, verdicts, err := b.Rows.LastBatch()
	if err != nil {
		return result, err
	}
	if b.No < last {
		return result, fmt.Errorf("%w: batch: expected a number from %d, found %d", store.ErrInvalid, last, b.No)
	}
	if err := storekit.Behind(last, b.Last); err != nil {
		return result, err
	}
	if b.current, err = b.Rows.CurrentLeases(); err != nil {
		return result, err
	}
	if b.repeat = b.No == last; b.repeat {
		result.Turns, err = b.repeated(verdicts)
	} else if result.Turns, err = b.turns(); err == nil {
		err = b.Rows.RecordBatch(result.Turns)
	}
	if err != nil {
		return result, err
	}
	if len(b.Batch.Commands) > 0 {
		result.Commands = make([]store.Answer, len(b.Batch.Commands))
	}
	commands := b.commands()
	for i := range b.Batch.Commands {
		if err := b.apply(commands, &b.Batch.Commands[i], &result.Commands[i]); err != nil {
			return result, err
		}
	}
	return result, nil
}

// Under returns what carries out commands of no batch, which may claim runs of the shards whose
// leases are current. repeat says that they were carried out before.
func Under(rows BatchRows, now store.Time, current map[store.Shard]bool, repeat bool) *Commands {
	b := &Batch{Rows: rows, Now: now, Batch: &store.Batch{}, current: current, repeat: repeat}
	return b.commands()
}

func (b *Batch) commands() *Commands { return &Commands{Rows: b.Rows, Now: b.Now, Batch: b} }

// apply carries out a command of the batch.
func (b *Batch) apply(commands *Commands, cmd *store.Command, answer *store.Answer) (err error) {
	if b.Guard == nil {
		*answer, err = commands.Apply(cmd)
		return err
	}
	held, err := b.Guard(func() (err error) {
		*answer, err = commands.Apply(cmd)
		return err
	})
	if held {
		*answer = store.Answer{Outcome: store.Undecided}
	}
	return err
}

// repeated returns the results of turns that were written before.
func (b *Batch) repeated(verdicts []byte) ([]store.TurnResult, error) {
	results, err := DecodeVerdicts(verdicts)
	if err != nil {
		return nil, err
	}
	for i, turn := range b.Turns[:min(len(b.Turns), len(results))] {
		if err := b.send(turn, &results[i]); err != nil {
			return results, err
		}
	}
	return results, nil
}

func (b *Batch) turns() ([]store.TurnResult, error) {
	results := make([]store.TurnResult, len(b.Turns))
	for i, turn := range b.Turns {
		switch reason, refused := b.Refused[i]; {
		case !b.current[turn.Shard]:
			results[i].Verdict = store.Fenced
		case refused:
			results[i] = store.TurnResult{Verdict: store.Refused, Reason: reason}
		default:
			err := b.write(turn, &results[i])
			if err != nil {
				if r := (*Refusal)(nil); errors.As(err, &r) {
					r.Turn = i
				}
				return nil, err
			}
		}
	}
	return results, nil
}

// write writes a turn and what it sends.
func (b *Batch) write(turn *store.Turn, result *store.TurnResult) error {
	if b.Guard == nil {
		return b.writeUnguarded(turn, result)
	}
	held, err := b.Guard(func() error { return b.writeUnguarded(turn, result) })
	if held {
		*result = store.TurnResult{Verdict: store.Busy}
	}
	return err
}

func (b *Batch) writeUnguarded(turn *store.Turn, result *store.TurnResult) error {
	verdict, err := b.turn(turn)
	if err != nil {
		return err
	}
	result.Verdict = verdict
	return b.send(turn, result)
}
