package sqlite

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// A batch is applied once although its answer may be lost: its number and verdicts stand
// in the node's row. Most batches leave that row alone, which saves a page of the WAL:
// the rows that they insert are stamped with the batch instead. The first entry of a
// single turn shows that the turn was committed. The row of a start or an item shows that
// the command was applied, and all commands can be repeated.
//
// The numbers in the node's row then have gaps, and the Store remembers the last number
// that it committed. With the row of a boot its batches are forgotten.
//
// A Store may not know the outcome of its batch and meanwhile lose its lease to an owner
// that deletes the stamped entry. The repeat of its batch is then answered Fenced, which
// is true.

// newStamp returns a number that no other batch has, but for a chance of 2^-64.
// It is 0 as long as the boot has no row.
func (t *committing) newStamp() int64 {
	if !t.listed {
		return 0
	}
	var numbers [16]byte
	binary.LittleEndian.PutUint64(numbers[:], uint64(t.b.No))
	binary.LittleEndian.PutUint64(numbers[8:], uint64(t.life))
	return int64(xxhash.Sum64(numbers[:]) | 1)
}

// stampOf returns the stamp of the i-th entry of the batch's turns; 0: none.
func (t *committing) stampOf(i int) int64 {
	if i > 0 || len(t.b.Turns) != 1 {
		return 0
	}
	return t.stamp
}

// LastBatch implements sqlstore.BatchRows.
func (t *committing) LastBatch() (last int64, verdicts []byte, err error) {
	b := t.b
	if known := &t.cache.last; known.boot == bootOf(b) && known.no < b.No {
		t.listed, t.life = true, known.life
		t.stamp = t.newStamp()
		return known.no, nil, nil
	}
	t.listed, err = t.c.row("SELECT batch_no, verdicts, life FROM stet_nodes WHERE node=? AND boot=?",
		[]any{b.Node, b.Boot}, &last, &verdicts, &t.life)
	t.stamp = t.newStamp()
	applied := t.cache.applied[bootOf(b)]
	switch {
	case err != nil || !t.listed:
		return 0, nil, err // with its row a boot's batches are gone
	case applied > b.No:
		return applied, nil, nil
	case last >= b.No:
		return last, verdicts, nil
	}
	known := applied == b.No // and it is not in the row, so it was stamped
	if !known && len(b.Turns) == 1 && len(b.Turns[0].Entries) > 0 {
		turn := b.Turns[0]
		known, err = t.c.row("SELECT 1 FROM stet_entries WHERE run_no=? AND incarnation=? AND loc=? AND stamp=?",
			[]any{int64(turn.Run), turn.Incarnation, bytesOf(turn.Entries[0].Loc), t.stamp})
	}
	if err != nil || !known {
		return max(last, applied), nil, err
	}
	return b.No, sqlstore.EncodeVerdicts(slices.Repeat([]store.TurnResult{{Verdict: store.Committed}}, len(b.Turns))), nil
}
