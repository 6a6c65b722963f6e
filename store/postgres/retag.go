package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// Tags that a turn changes are merged with those that the run has: the server is asked for these before the batch is
// written, and the rider fails unless they are still the same.

// retagRow is a run whose tags change, as they are stored, with the pairs that it loses and gets.
type retagRow struct {
	run        int64
	from, to   []byte
	lost, gets []store.Pair
}

const (
	tagsText = "SELECT r.run_no, r.tags FROM stet.runs r WHERE r.run_no=ANY($1::bigint[])"

	setTags = `WITH x AS (UPDATE stet.runs r SET tags=$3[array_position($1, r.run_no)]
		WHERE r.run_no=ANY($1) AND r.tags IS NOT DISTINCT FROM $2[array_position($1, r.run_no)]` + done

	loseTags = `DELETE FROM stet.tags t USING unnest($1::bigint[], $2::text[], $3::text[]) AS q(run, key, value)
		WHERE t.key=q.key AND t.value=q.value AND t.tagged=q.run`

	getTags = `INSERT INTO stet.tags (tagged, key, value) SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])`
)

// readTags reads the answer to tagsText.
func readTags(conn *pgx.Conn, rows *pgconn.ResultReader) (map[store.RunNo][]byte, error) {
	tags := map[store.RunNo][]byte{}
	return tags, eachRow(pgx.RowsFromResultReader(conn.TypeMap(), rows), func(scan func(...any) error) error {
		var run int64
		var stored []byte
		err := scan(&run, &stored)
		tags[store.RunNo(run)] = stored
		return err
	})
}

// retags returns the runs whose turns change their tags.
func (f *flatBatch) retags() (runs []int64) {
	for _, t := range f.b.Turns {
		if len(t.Tags) > 0 {
			runs = append(runs, int64(t.Run))
		}
	}
	return runs
}

// retag takes the tags of a turn. It reports false if those of the run are not known.
func (r *riders) retag(f *flatBatch, t *store.Turn) bool {
	stored, ok := f.tags[t.Run]
	if !ok {
		f.again = f.tags == nil
		return false
	}
	former, err := sqlstore.DecodeTags(stored)
	if err != nil {
		return false // the turn is refused
	}
	tags := store.MergeTags(former, t.Tags)
	row := retagRow{run: int64(t.Run), from: stored, to: sqlstore.EncodeTags(tags)}
	for _, tag := range former {
		if !slices.Contains(tags, tag) {
			row.lost = append(row.lost, tag)
		}
	}
	for _, tag := range tags {
		if !slices.Contains(former, tag) {
			row.gets = append(row.gets, tag)
		}
	}
	r.retagged = append(r.retagged, row)
	r.sends = true // an answer has the receiver as it was before a later turn, see sendItems
	return true
}

// addRetagged adds the riders that change tags.
func (r *riders) addRetagged(add func(string, *values)) {
	if len(r.retagged) == 0 {
		return
	}
	v := newValues()
	numbersOf(v, r.retagged, func(o retagRow) int64 { return o.run })
	byteasOf(v, r.retagged, func(o retagRow) []byte { return o.from })
	byteasOf(v, r.retagged, func(o retagRow) []byte { return o.to })
	add(setTags, v)
	addPairs(add, loseTags, r.retagged, func(o retagRow) []store.Pair { return o.lost })
	addPairs(add, getTags, r.retagged, func(o retagRow) []store.Pair { return o.gets })
}

// addPairs adds a rider over pairs of runs, if there are any.
func addPairs(add func(string, *values), text string, rows []retagRow, of func(retagRow) []store.Pair) {
	var runs []int64
	var keys, pairs []string
	for _, o := range rows {
		for _, tag := range of(o) {
			runs, keys, pairs = append(runs, o.run), append(keys, tag.Key), append(pairs, tag.Value)
		}
	}
	if len(runs) > 0 {
		v := newValues()
		v.numbers(runs)
		v.texts(keys, pairs)
		add(text, v)
	}
}
