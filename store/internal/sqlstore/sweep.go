package sqlstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
)

// SweepRows are the acts of a sweep in which the stores differ. They are carried out in
// one transaction.
type SweepRows interface {
	Statements
	// Each calls fn for each row of a query. scan reads the columns as Statements.Row does;
	// fn executes no statements.
	Each(text string, args []any, fn func(scan func(dest ...any) error) error) error
	// Lock keeps other transactions from changing the row of a run until this one ends. It
	// reports false if the run is there no more, or not idle.
	Lock(run int64) (bool, error)
	// Current returns the shards whose leases are current.
	Current(leases []store.Lease) (map[store.Shard]bool, error)
	// BeforeDelete is called before rows are deleted for the first time.
	BeforeDelete() error
	// DeleteRuns deletes the first runs of a list, as many as have limit rows in all, unless
	// they are not idle any more, and returns which are gone, how many rows they had, and
	// whether the limit has left some. It deletes none if the store gains nothing by it.
	DeleteRuns(runs []int64, limit int) (gone []int64, rows int64, full bool, err error)
	// DeleteItems deletes items and returns how many there were.
	DeleteItems(nos []int64) (int64, error)
}

const (
	// endedRuns are the runs that a rule is for, after a place in their order.
	endedRuns = `SELECT r.run_no, r.ended, r.grp, r.slot, ` + unneeded + `
		FROM stet.runs r /*sqlite INDEXED BY stet.runs_ended */
		WHERE r.workflow=$1 AND r.status=$2 AND r.ended>0 AND r.expires IS NULL AND r.ended<=$3
			AND (r.ended, r.run_no)>($4::bigint, $5::bigint)
		ORDER BY r.ended, r.run_no LIMIT $6`
	// expiredRuns are the runs whose own retention is over, after a place in their order.
	expiredRuns = `SELECT r.run_no, r.expires, r.grp, r.slot, ` + unneeded + `
		FROM stet.runs r /*sqlite INDEXED BY stet.runs_expires */
		WHERE r.expires>0 AND r.expires<=$1 AND (r.expires, r.run_no)>($2::bigint, $3::bigint)
		ORDER BY r.expires, r.run_no LIMIT $4`
	namedRun = `SELECT r.status IN {ended} AND ` + unneeded + ` FROM stet.runs r WHERE r.run_no=$1`
	// unneeded says that nothing but its retention keeps a run.
	unneeded = `r.ready={idle} AND NOT EXISTS (SELECT 1 FROM stet.inbox i WHERE i.state={new} AND i.run_no=r.run_no)
		AND NOT (r.parent_no>0 AND EXISTS (SELECT 1 FROM stet.runs p CROSS JOIN stet.entries e
			WHERE e.run_no=p.run_no AND e.incarnation=p.incarnation AND e.loc=r.parent_loc
			AND p.run_no=r.parent_no AND p.began<r.created AND p.status NOT IN {ended}))`
)

// sweepLook is how many rows an act looks at.
const sweepLook = 2000

// Sweep is one act of a sweep.
type Sweep struct {
	Rows SweepRows
	Now  store.Time
	// EntryTables are the tables besides entries that have rows with the key of an entry.
	// They are deleted with it and not counted.
	EntryTables []string
	// Most is how many rows are deleted; 0: store.SweepRows.
	Most int
	// RunTables are the tables with rows of a run that are deleted with the run's row and
	// not counted.
	RunTables []string
	// Needed, if not nil, returns which of some runs have a live parent elsewhere that needs them.
	Needed func(runs []int64) (map[int64]bool, error)
	// Result is set by Act.
	Result store.Swept

	shards  map[store.Shard]bool
	left    int // rows that may still be deleted
	looked  int
	deletes bool
}

// Act deletes at most as many rows as the request allows from the place where an earlier act stopped.
func (w *Sweep) Act(req *store.SweepRequest) error {
	w.left, w.Result.Next = req.Bound(), req.From
	if w.Most > 0 {
		w.left = min(w.Most, w.left)
	}
	if len(req.Runs) > 0 {
		return w.named(req.Runs)
	}
	if err := w.Leases(req.Leases); err != nil {
		return err
	}
	done, err := w.ended(req.Rules)
	if err != nil || !done {
		return err
	}
	if done, err = w.former(); err != nil || !done {
		return err
	}
	if req.Items {
		done, err = w.consumed()
	}
	w.Result.Done = done
	return err
}

// Leases finds out which leases are current.
func (w *Sweep) Leases(leases []store.Lease) (err error) {
	if w.shards, err = w.Rows.Current(leases); err != nil {
		return err
	}
	for i := range leases {
		if !w.shards[leases[i].Shard] {
			w.Result.Fenced = append(w.Result.Fenced, leases[i].Shard)
		}
	}
	return nil
}

// delete executes a statement that deletes at most as many rows as its last parameter
// says, and counts them.
func (w *Sweep) delete(text string, args ...any) error {
	if w.left == 0 {
		return nil
	}
	if err := w.beforeDelete(); err != nil {
		return err
	}
	n, err := w.Rows.Exec(text, append(args, w.left)...)
	w.count(n)
	return err
}

func (w *Sweep) beforeDelete() error {
	if w.deletes {
		return nil
	}
	w.deletes = true
	return w.Rows.BeforeDelete()
}

func (w *Sweep) count(n int64) {
	w.left -= int(n)
	w.Result.Rows += int(n)
}

// endedRun is a run whose retention is over, and whether it may be deleted.
type endedRun struct {
	no    int64
	ended int64
	free  bool
}

// ended deletes runs. It reports whether the stage is over.
func (w *Sweep) ended(rules []store.Retention) (bool, error) {
	if w.Result.Next.Stage > 0 {
		return true, nil
	}
	for w.Result.Next.Rule <= len(rules) {
		page := w.page()
		list, err := w.endedOf(rules, page)
		if err != nil {
			return false, err
		}
		if err := w.needed(list); err != nil {
			return false, err
		}
		gone, full, err := w.together(list)
		if err != nil {
			return false, err
		}
		for _, r := range list {
			if full && r.free && !gone[r.no] {
				return false, nil // the next act begins with it
			}
			if r.free && !gone[r.no] {
				if r.free, err = w.Rows.Lock(r.no); err != nil {
					return false, err
				}
			}
			if r.free && !gone[r.no] {
				if gone, err := w.run(r.no); err != nil || !gone {
					return false, err
				}
			}
			w.Result.Next.Ended, w.Result.Next.No = store.Time(r.ended), r.no
		}
		if w.looked += len(list); w.looked >= sweepLook {
			return false, nil
		}
		if len(list) < page {
			w.Result.Next = store.SweepPlace{Rule: w.Result.Next.Rule + 1}
		}
	}
	w.Result.Next = store.SweepPlace{Stage: 1, Rule: len(rules)}
	return true, nil
}

// needed keeps the runs that a parent elsewhere needs.
func (w *Sweep) needed(list []endedRun) error {
	var free []int64
	for _, r := range list {
		if r.free {
			free = append(free, r.no)
		}
	}
	if w.Needed == nil || len(free) == 0 {
		return nil
	}
	kept, err := w.Needed(free)
	for i := range list {
		list[i].free = list[i].free && !kept[list[i].no]
	}
	return err
}

const (
	fewestRuns = 32 // of a page
	usualRows  = 8  // of a run with its own, until the act knows better
)

// page returns how many runs are looked at together: those that this act can delete, by the rows of those before.
func (w *Sweep) page() int {
	rows := usualRows
	if w.Result.Runs > 0 {
		rows = max(1, w.Result.Rows/w.Result.Runs)
	}
	return max(fewestRuns, w.left/rows)
}

// together deletes runs that can be deleted together. full: the first of those that were not needs another act.
func (w *Sweep) together(list []endedRun) (gone map[int64]bool, full bool, err error) {
	var free []int64
	for _, r := range list {
		if r.free {
			free = append(free, r.no)
		}
	}
	if len(free) < 2 || w.left == 0 {
		return nil, false, nil
	}
	if err := w.beforeDelete(); err != nil {
		return nil, false, err
	}
	nos, rows, full, err := w.Rows.DeleteRuns(free, w.left)
	w.count(rows)
	w.Result.Runs += len(nos)
	gone = make(map[int64]bool, len(nos))
	for _, no := range nos {
		gone[no] = true
	}
	return gone, full && len(nos) > 0, err // the first one may be too large for any act
}

// endedOf returns the next runs that the place's rule is for; after the rules, those with a
// retention of their own.
func (w *Sweep) endedOf(rules []store.Retention, page int) (list []endedRun, err error) {
	from := w.Result.Next
	text, args := expiredRuns, []any{int64(w.Now), from.Ended, from.No, page}
	if from.Rule < len(rules) {
		rule := &rules[from.Rule]
		text = endedRuns
		args = []any{rule.Workflow, int64(rule.Status), rule.Before(w.Now), from.Ended, from.No, page}
	}
	err = w.Rows.Each(text, args, func(scan func(...any) error) error {
		var r endedRun
		var group string
		var slot int64
		err := scan(&r.no, &r.ended, &group, &slot, &r.free)
		r.free = r.free && w.shards[store.Shard{Group: group, Slot: int(slot)}]
		list = append(list, r)
		return err
	})
	return list, err
}

// named deletes runs, each of which it judges once nobody else can change it.
func (w *Sweep) named(nos []store.RunNo) error {
	for _, no := range nos {
		if _, err := w.Rows.Lock(int64(no)); err != nil {
			return err
		}
		var free bool
		there, err := w.Rows.Row(namedRun, []any{int64(no)}, &free)
		if err == nil && there && free {
			one := []endedRun{{no: int64(no), free: true}}
			err = w.needed(one)
			free = one[0].free
		}
		switch {
		case err != nil:
			return err
		case there && !free:
			w.Result.Kept = append(w.Result.Kept, no)
		case there:
			if gone, err := w.run(int64(no)); err != nil || !gone {
				return err
			}
		}
	}
	w.Result.Done = true
	return nil
}

// belongings are the statements that delete the rows of a run, in this order, after its
// entries.
var belongings = []string{
	`DELETE FROM stet.inbox WHERE item_no IN (SELECT item_no FROM stet.inbox WHERE run_no=$1 LIMIT $2)`,
	`DELETE FROM stet.streams WHERE run_no=$1 AND (name, pos) IN (SELECT name, pos FROM stet.streams WHERE run_no=$1 LIMIT $2)`,
	`DELETE FROM stet.feeds WHERE run_no=$1 AND (stream, name) IN (SELECT stream, name FROM stet.feeds WHERE run_no=$1 LIMIT $2)`,
	`DELETE FROM stet.audit WHERE run_no=$1 AND no IN (SELECT no FROM stet.audit WHERE run_no=$1 LIMIT $2)`,
}

// run deletes the rows of a run, and then the run. It reports false if that takes more
// than this act.
func (w *Sweep) run(no int64) (gone bool, err error) {
	if err := w.entries(" WHERE run_no=$1", no); err != nil {
		return false, err
	}
	for _, text := range belongings {
		if err := w.delete(text, no); err != nil {
			return false, err
		}
	}
	if w.left == 0 {
		_, err := w.Rows.Exec("UPDATE stet.runs SET marks=marks|{expiring} WHERE run_no=$1", no)
		return false, err
	}
	tags, err := readTags(w.Rows, store.RunNo(no))
	switch {
	case err == nil:
		err = retag(w.Rows, store.RunNo(no), tags, nil)
	case errors.Is(err, store.ErrDamaged): // no index has them by their run, so all are read
		_, err = w.Rows.Exec("DELETE FROM stet.tags WHERE tagged=$1", no)
	}
	if err != nil {
		return false, err
	}
	for _, table := range w.RunTables {
		if _, err := w.Rows.Exec("DELETE FROM stet."+table+" WHERE run_no=$1", no); err != nil {
			return false, err
		}
	}
	if err := w.delete("DELETE FROM stet.runs WHERE run_no=$1 AND $2::bigint>0", no); err != nil {
		return false, err
	}
	w.Result.Runs++
	return true, nil
}

// entries deletes entries of one run, as many as the act still may. The parameters of
// where are the first ones; $1 is the run.
func (w *Sweep) entries(where string, args ...any) error {
	some := fmt.Sprintf(` WHERE run_no=$1 AND (incarnation, loc) IN
		(SELECT incarnation, loc FROM stet.entries%s ORDER BY incarnation, loc LIMIT $%d)`,
		where, len(args)+1)
	for _, table := range w.EntryTables {
		if _, err := w.Rows.Exec("DELETE FROM stet."+table+some, append(slices.Clip(args), w.left)...); err != nil {
			return err
		}
	}
	return w.delete("DELETE FROM stet.entries"+some, args...)
}

// former deletes entries of former incarnations. It reports whether the stage is over.
func (w *Sweep) former() (bool, error) {
	if w.Result.Next.Stage > 1 {
		return true, nil
	}
	type owner struct {
		no, incarnation int64
		held            bool
	}
	var list []owner
	err := w.Rows.Each(`SELECT run_no, incarnation, grp, slot FROM stet.runs /*sqlite INDEXED BY stet.runs_former */
		WHERE incarnation>swept AND run_no>$1 ORDER BY run_no LIMIT $2`,
		[]any{w.Result.Next.No, store.SweepRows}, func(scan func(...any) error) error {
			var o owner
			var group string
			var slot int64
			err := scan(&o.no, &o.incarnation, &group, &slot)
			o.held = w.shards[store.Shard{Group: group, Slot: int(slot)}]
			list = append(list, o)
			return err
		})
	if err != nil {
		return false, err
	}
	for _, o := range list {
		if o.held {
			if gone, err := w.incarnations(o.no, o.incarnation); err != nil || !gone {
				return false, err
			}
		}
		w.Result.Next.No = o.no
	}
	if len(list) == store.SweepRows {
		return false, nil
	}
	w.Result.Next = store.SweepPlace{Stage: 2, Rule: w.Result.Next.Rule}
	return true, nil
}

// incarnations deletes the entries of a run's incarnations before one. It reports false
// if that takes more than this act.
func (w *Sweep) incarnations(run, before int64) (gone bool, err error) {
	const former = " WHERE run_no=$1 AND incarnation<$2"
	if err := w.entries(former, run, before); err != nil {
		return false, err
	}
	if w.left == 0 {
		if more, err := w.Rows.Row("SELECT 1 FROM stet.entries"+former+" LIMIT 1", []any{run, before}); err != nil || more {
			return false, err
		}
	}
	_, err = w.Rows.Exec("UPDATE stet.runs SET swept=$1 WHERE run_no=$2", before, run)
	return err == nil, err
}

// consumed deletes items that were consumed and answered a while ago, and those whose run
// was deleted before they became visible. It reports whether the stage is over.
func (w *Sweep) consumed() (bool, error) {
	var old []int64
	last, looked, recent := w.Result.Next.No, 0, true // recent: none of the items looked at may be deleted yet
	err := w.Rows.Each(`SELECT i.item_no, i.sent_at, i.kind, i.item_id, i.origin,
			r.run_no IS NULL OR i.state={consumed} AND (i.kind<>{update} OR i.verdict IS NOT NULL),
			r.run_no IS NULL, coalesce(r.grp, ''), coalesce(r.slot, 0)
		FROM stet.inbox i LEFT JOIN stet.runs r ON r.run_no=i.run_no WHERE i.item_no>$1 ORDER BY i.item_no LIMIT $2`,
		[]any{last, sweepLook}, func(scan func(...any) error) error {
			var no, sent, kind, slot int64
			var done, lost bool
			var id, group string
			var origin []byte
			if err := scan(&no, &sent, &kind, &id, &origin, &done, &lost, &group, &slot); err != nil {
				return err
			}
			looked++
			if len(old) >= w.left {
				return nil
			}
			it := store.Item{Kind: store.ItemKind(kind), ID: id, Origin: string(origin)}
			aged := store.Time(sent) <= w.Now-store.Time(it.Window())
			recent = recent && store.Time(sent) > w.Now-store.Time(store.RepeatWindow)
			if aged && done && (lost || w.shards[store.Shard{Group: group, Slot: int(slot)}]) {
				old = append(old, no)
			}
			last = no
			return nil
		})
	if err != nil {
		return false, err
	}
	full := len(old) >= w.left
	if len(old) > 0 {
		if err := w.beforeDelete(); err != nil {
			return false, err
		}
		n, err := w.Rows.DeleteItems(old)
		if err != nil {
			return false, err
		}
		w.count(n)
	}
	w.Result.Next.No = last
	return !full && (recent || looked < sweepLook), nil // all that follow are younger
}
