package postgres

import (
	"fmt"
	"regexp"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
)

// The parts of which commit_batch.go and commit_one.go compose their statements. A name that
// begins with @ stands for a parameter, or an element of one, which differs between them. A
// word in braces is a number of the contract, see package words.
//
// Both statements first add the batch to those of the boot, if all conditions hold. All other
// writes select from that, b, so a statement whose conditions do not hold writes nothing.

// addBatch begins a statement; conditions follow. Its parameters are those of addHead. The lock
// of the boot's row makes no version of it. It keeps others from taking leases of the boot, and
// waits for them; the row is then read as they have left it.
const addBatch = `WITH n AS MATERIALIZED (
		SELECT life, settled FROM stet.boots WHERE node=$1 AND boot=$2 AND fence=$4 FOR KEY SHARE),
	b AS (INSERT INTO stet.batches (life, no, verdicts) SELECT n.life, $3, $5
		FROM (SELECT n.life, ` + lastBatch + ` AS last FROM n OFFSET 0) n WHERE true`

// lastBatch is the number of the last batch of the boot n.
const lastBatch = `greatest(n.settled,
	(SELECT x.no FROM stet.batches x WHERE x.life=n.life ORDER BY x.no DESC LIMIT 1))`

// returnNow ends the insertion of the batch: b has the time of the batch.
const returnNow = " RETURNING " +
	"greatest($6, coalesce($7, (extract(epoch FROM clock_timestamp())*1000000)::bigint)) AS now)"

// isClaimed says that r is the run of a turn, and is claimed.
const isClaimed = "r.run_no=@run AND r.slot+0=@slot AND r.incarnation=@incarnation AND r.grp=@group" +
	" AND r.ready+0={claimed}"

// mayBecome says that r may be changed as an update asks.
var mayBecome = `r.status+0 IN {live} AND @marks & ~r.marks & {undoing} = 0
		AND (` + canBecome("r.status", "@status") + ")"

// noneHoldsBack says that nothing unexamined keeps the run from suspending or ending,
// and that nothing in the inbox of one that ends would have to be answered, or become a
// dead letter. @but leaves out what the turn consumes.
const noneHoldsBack = `
		AND NOT EXISTS (SELECT FROM stet.inbox i WHERE i.run_no=@run AND i.state<{consumed}
			AND (@status={suspended} AND @marks & {paused} = 0 AND i.state={new} OR @status IN {ended})@but OFFSET 0)
		AND NOT EXISTS (SELECT FROM stet.inbox i WHERE i.run_no=@run AND i.kind={update} AND i.verdict IS NULL
			AND @status IN {ended} OFFSET 0)`

// canBecome says that a live run may go from one status to another.
func canBecome(from, to string) string {
	text := from + "=" + to
	for _, s := range store.AllStatuses() {
		if !s.Terminal() {
			next := words.In(store.AllStatuses(), func(t store.Status) bool { return t != s && s.CanBecome(t) })
			text += fmt.Sprintf(" OR %s=%d AND %s IN %s", from, s, to, next)
		}
	}
	return text
}

// entryNumbers are the first columns of an entry, in the order of addEntry.
var entryNumbers = []string{
	"run_no", "incarnation", "kind", "state", "seq", "born", "at", "wake", "attempt", "started", "ended", "generation",
}

// insertEntries adds entries.
const insertEntries = `
	INSERT INTO stet.entries (run_no, incarnation, kind, state, seq, born, at, wake, attempt, started, ended, generation,
		owes, size, loc, val)
	SELECT @run_no, @incarnation, @kind, @state, @seq, @born, @at, @wake, @attempt, @started, @ended,
		@generation, @owes, @size, @loc,
		@val
	FROM @from`

// The columns that an update of a run's row changes, and their new values.
const (
	updatedColumns = "suspect, strikes, alone, build, status, marks, reason, waits, output, wake_at, ready, " +
		"started, ended, expires"

	updatedValues = `CASE WHEN @clear AND NOT @alone THEN 0 ELSE r.suspect END,
			CASE WHEN @clear OR NOT @alone THEN 0 ELSE r.strikes END, @alone,
			greatest(r.build, @build), @status, @marks & (r.marks | ~{admitted}), @reason, @waits, coalesce(@output, r.output),
			CASE WHEN @status={suspended} OR @status={queued} AND @wake>now THEN nullif(@wake, 0) END,
			CASE WHEN @status={running} AND @marks & {paused} = 0 AND NOT @back THEN {claimed}
				WHEN @status={running} OR @status={queued} AND @wake<=now THEN {ready} ELSE {idle} END,
			CASE WHEN r.started=0 AND @status={running} THEN now ELSE r.started END,
			CASE WHEN @status IN {ended} THEN now ELSE 0 END,
			CASE WHEN @keep>0 THEN now+greatest(@keep, 60000000) WHEN @keep<0 THEN -1 END`
)

// insertRuns begins the insertion of new runs, which selects startedValues. There @begins
// says that the run is claimed at once, @waits that it has a wake time, @at.
const (
	insertRuns = `INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, wake_at, seed, parent_no, parent_loc,
		created, started, input, headers, build)`

	startedValues = `@id, @group, @slot, @workflow, CASE WHEN @begins THEN {running} ELSE {queued} END,
			CASE WHEN @waits THEN {idle} WHEN @claim THEN {claimed} ELSE {ready} END, CASE WHEN @waits THEN @at END,
			@seed, @parent, @parentLoc, b.now, CASE WHEN @begins THEN b.now ELSE 0 END, @input, @headers,
			CASE WHEN @begins THEN @build ELSE '' END`
)

// params are the texts that stand for the names of a part.
type params map[string]string

var paramName = regexp.MustCompile(`@\w+`)

// in returns a part with the texts in place of its names.
func (p params) in(part string) string {
	return paramName.ReplaceAllStringFunc(part, func(name string) string {
		value, ok := p[name[1:]]
		if !ok {
			panic("postgres: nothing stands for " + name + " in: " + part)
		}
		return value
	})
}
