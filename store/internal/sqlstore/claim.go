package sqlstore

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Calls is the condition under which an unexamined item makes the run r ready, which is
// not due (laws 16, 18 and 28). item is the table that has the item's kind. loads is the
// condition under which the node can load the run: verbs that need none of its code call
// it without.
func Calls(item, loads string) string {
	return strings.NewReplacer("item.", item+".", "LOADS", loads).Replace(`CASE
			WHEN item.kind IN ({terminate},{pause}) THEN true
			WHEN item.kind={cancel} THEN r.status NOT IN ({running},{suspended}) OR r.marks & {paused} <> 0
				OR r.marks & {held} = 0 AND LOADS
			WHEN item.kind IN ({resume},{watch},{retry},{rewind},{edit},{nudge}) THEN r.status IN {ended} OR r.status={stalled}
				OR r.marks & {paused} <> 0 OR r.marks & {held} = 0 AND (r.status<>{queued} OR r.wake_at IS NULL) AND LOADS
			ELSE r.marks & {paused} = 0 AND CASE WHEN r.marks & {held} <> 0 THEN item.kind={grant}
				ELSE r.status<>{queued} OR r.wake_at IS NULL END AND LOADS END`)
}

// Candidate is a run that may be claimed.
type Candidate struct {
	Class    int    // why; the lower goes first
	Order    int64  // within the class
	Workflow string // of its line; "": all of the class are one line
	No       store.RunNo
}

// SortCandidates puts candidates into the order in which Claim takes them, and drops those that are in
// two classes from the later one.
func SortCandidates(list []Candidate) []Candidate {
	slices.SortFunc(list, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Order, b.Order), cmp.Compare(a.No, b.No))
	})
	seen := make(map[store.RunNo]bool, len(list))
	list = slices.DeleteFunc(list, func(c Candidate) bool {
		twice := seen[c.No]
		seen[c.No] = true
		return twice
	})
	type line struct {
		class    int
		workflow string
	}
	storekit.ByTurns(list, func(c Candidate) line { return line{c.Class, c.Workflow} })
	return list
}

// Stir ends the rest of the items of a run that has just been claimed. A claim passes over
// the items that rest: those that make their run ready for no node, because of what it is,
// which is changed by nobody as long as it is not claimed.
func Stir(rows Statements, run store.RunNo) error {
	_, err := rows.Exec("UPDATE stet.inbox SET rests=false WHERE run_no=$1 AND rests", int64(run))
	return err
}
