package sqlstore

import (
	"encoding/binary"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
)

// Line is the columns of a run in the line of a queue: q, qkey and qline. They are nil for a run in none.
type Line struct {
	Queue, Key any
	Order      []byte
}

// lineOf returns the columns of a run that a start makes.
func lineOf(st *store.Start, now store.Time) Line {
	if st.Queue == nil || st.Queue.Line == nil {
		return Line{}
	}
	l := st.Queue.Line
	return Line{l.Queue, l.Key, LineKey(l.Priority, st.Due(now))}
}

// LineKey returns 12 bytes that sort as a priority and a time do in store.Waiter.Compare.
func LineKey(priority int, due store.Time) []byte {
	var b [12]byte
	binary.BigEndian.PutUint32(b[:], ^(uint32(int32(priority)) ^ 1<<31))
	binary.BigEndian.PutUint64(b[4:], uint64(due))
	return b[:]
}

// ReadLineKey is the inverse of LineKey. It returns zeros for what is no such key.
func ReadLineKey(b []byte) (priority int, due store.Time) {
	if len(b) != 12 {
		return 0, 0
	}
	return int(int32(^binary.BigEndian.Uint32(b) ^ 1<<31)), store.Time(binary.BigEndian.Uint64(b[4:]))
}

// Waits is the condition under which the run r waits in a line. The index runs_waiting has the same condition, so
// a statement with it uses that index.
const Waits = "r.q IS NOT NULL AND r.marks & {pausedOrHeld} = {held} AND r.status < {succeeded}"

// admit carries out an Admit (law 32).
func (c *Commands) admit(cmd *store.Command) (store.Answer, error) {
	no := int64(cmd.RunNo)
	n, err := c.Rows.Exec(`UPDATE stet.runs AS r SET marks=r.marks & ~{held} | {admitted}, ready={ready}, wake_at=NULL
		WHERE r.run_no=$1 AND r.q=$2 AND r.ready<>{claimed} AND `+Waits, no, cmd.Admit)
	if err != nil {
		return store.Answer{}, err
	}
	run, ready, err := c.Rows.FindRun("", cmd.RunNo)
	if err != nil || run.No == 0 {
		return store.Answer{Outcome: store.NotFound}, err
	}
	answer := store.Answer{Outcome: store.Applied}
	if n > 0 {
		answer.Claimed, err = c.claim(cmd, &run, ready)
		answer.Run = run
		return answer, err
	}
	admitted := false
	if run.Marks&store.Admitted != 0 {
		if admitted, err = c.Rows.Row("SELECT 1 FROM stet.runs WHERE run_no=$1 AND q=$2", []any{no, cmd.Admit}); err != nil {
			return store.Answer{}, err
		}
	}
	switch {
	case admitted:
		answer.Repeated = true
		answer.Claimed = c.repeat() && ready == words.Claimed && c.mayClaim(cmd, run.Shard)
	case run.Status.Terminal():
		answer.Outcome = store.Ended
	default:
		answer.Outcome = store.Duplicate
	}
	answer.Run = run
	return answer, nil
}

// lineUp lets a run that an update holds wait again, from now on: it has begun to, if it was not held.
func (b *Batch) lineUp(turn *store.Turn) error {
	if turn.Update.Marks&store.Held == 0 {
		return nil
	}
	due := LineKey(0, b.Now)[4:]
	_, err := b.Rows.Exec(`UPDATE stet.runs SET qline=/*sqlite CAST( */substr(qline,1,4)||$1/*sqlite AS BLOB) */
		WHERE run_no=$2 AND q IS NOT NULL AND marks & {held} = 0`, due, int64(turn.Run))
	return err
}
