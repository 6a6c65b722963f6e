package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// startSet carries out starts, with their tags, first messages, and what they ask of their queues, by one statement for
// the rows of each table, in the round trip in which their transaction begins.
//
// Used when newStartSet accepts the commands. Nothing is written if one of the runs exists, or an item has the ID of
// another one: the applier then carries out one command after the other.
type startSet struct {
	commands []store.Command
	floor    int64
	test     any
	items    sentItems

	tags bool // one of the runs has some

	answers []store.Answer
}

// sentItems are the items of starts, by column.
type sentItems struct {
	ids                              []string // of the runs; "": by number
	nos, kinds, incarnations, places []int64
	names, itemIDs                   []string
	origins, locs, values, headers   [][]byte
	failed                           []bool
	generations                      []int64
}

// newStartSet returns nil for commands that have to be carried out in another way.
func (s *Store) newStartSet(commands []store.Command) *startSet {
	ids, more := make(map[string]bool, len(commands)), false
	for i := range commands {
		st := commands[i].Start
		if st == nil || st.Fork != nil || ids[st.ID] || asks(st) && st.Queue.Ask.Start != nil {
			return nil
		}
		ids[st.ID] = true
		more = more || st.Queue != nil || len(st.Items)+len(st.Tags) > 0
	}
	if len(commands) < 2 && !more {
		return nil // startOne costs less
	}
	q := &startSet{commands: commands, answers: make([]store.Answer, len(commands))}
	q.floor, q.test = s.times()
	for i := range commands {
		st := commands[i].Start
		for k := range st.Items {
			q.items.add(st.ID, 0, &st.Items[k])
		}
	}
	for i := range commands {
		if queue := commands[i].Start.Queue; asks(commands[i].Start) {
			if queue.Ask.Item.Kind.Verb() || ids[queue.Ask.RunID] {
				return nil
			}
			q.items.add(queue.Ask.RunID, queue.Ask.RunNo, queue.Ask.Item)
		}
	}
	return q
}

// asks reports whether a start sends an item to its queue.
func asks(st *store.Start) bool { return st.Queue != nil && st.Queue.Line == nil }

// lineColumns are the columns of starts in lines: NULL for the others.
type lineColumns struct {
	queues, keys []*string
	priorities   [][]byte // the first bytes of sqlstore.LineKey
}

func (c *lineColumns) add(st *store.Start) {
	if st.Queue == nil || st.Queue.Line == nil {
		c.queues, c.keys, c.priorities = append(c.queues, nil), append(c.keys, nil), append(c.priorities, nil)
		return
	}
	l := st.Queue.Line
	c.queues, c.keys = append(c.queues, &l.Queue), append(c.keys, &l.Key)
	c.priorities = append(c.priorities, sqlstore.LineKey(l.Priority, 0)[:4])
}

func (c *sentItems) add(id string, no store.RunNo, it *store.Item) {
	if no != 0 {
		id = ""
	}
	c.ids, c.nos = append(c.ids, id), append(c.nos, int64(no))
	c.places = append(c.places, int64(len(c.places)))
	c.kinds, c.names = append(c.kinds, int64(it.Kind)), append(c.names, it.Name)
	c.itemIDs, c.origins = append(c.itemIDs, it.ID), append(c.origins, []byte(it.Origin))
	c.incarnations, c.locs = append(c.incarnations, int64(it.Incarnation)), append(c.locs, []byte(it.Loc))
	c.failed, c.values = append(c.failed, it.Failed), append(c.values, it.Value)
	c.headers, c.generations = append(c.headers, it.Headers), append(c.generations, int64(it.Generation))
}

const (
	startAll = `WITH x AS (INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, wake_at, seed, parent_no,
			parent_loc, created, started, input, headers, tags, queue, marks, q, qkey, qline)
		SELECT q.id, q.grp, q.slot, q.workflow, {queued},
			CASE WHEN w.at>b.now AND q.q IS NULL THEN {idle} ELSE {ready} END,
			CASE WHEN w.at>b.now AND q.q IS NULL THEN w.at END, q.seed, q.parent, q.loc, b.now, 0, q.input,
			q.headers, q.tags, q.queue,
			CASE WHEN q.queue IS NULL THEN 0 ELSE {held} END, q.q, q.qkey, q.prio||int8send(greatest(w.at, b.now))
		FROM (SELECT ` + nowExpr + ` AS now OFFSET 0) b, unnest($3::text[], $4::text[], $5::bigint[], $6::text[],
				$7::bytea[], $8::bigint[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bigint[], $13::bigint[],
				$14::bytea[], $15::bytea[], $16::text[], $17::text[], $18::bytea[])
				WITH ORDINALITY q(id, grp, slot, workflow, seed, parent, loc, input, headers, at, after, tags, queue, q, qkey,
				prio, place),
			LATERAL (SELECT greatest(q.at, CASE WHEN q.after>0 THEN b.now+q.after ELSE 0 END) AS at) w
		ORDER BY q.place ON CONFLICT (id) DO NOTHING RETURNING id, run_no, created)
		SELECT array_agg(id), array_agg(run_no), coalesce(max(created), 0) FROM x`

	// tagStarted is tagRuns for starts that may have made no run: then the transaction is rolled back.
	tagStarted = tagRuns + " ON CONFLICT DO NOTHING"

	// itemsOfStarts returns how many items have a run that takes them, and how many were inserted.
	itemsOfStarts = `WITH q AS MATERIALIZED (SELECT i.*, r.run_no FROM unnest($3::text[], $4::bigint[], $5::bigint[],
				$6::text[], $7::text[], $8::bytea[], $9::bigint[], $10::bytea[], $11::boolean[], $12::bytea[],
				$13::bytea[], $14::bigint[], $15::bigint[])
				i(id, no, kind, name, item_id, origin, incarnation, loc, failed, val, headers, generation, place), ` +
		findReceivers + `),
		x AS (INSERT INTO stet.inbox (run_no, kind, name, item_id, origin, incarnation, loc, failed, sent_at,
				val, headers, generation)
			SELECT run_no, kind, name, item_id, origin, incarnation, loc, failed, ` + nowExpr + `, val, headers, generation
			FROM q ORDER BY place ON CONFLICT (run_no, item_id) DO NOTHING RETURNING 1)
		SELECT (SELECT count(*) FROM q), (SELECT count(*) FROM x)`
)

func (q *startSet) queue(s *Store, batch *pgx.Batch) {
	var c struct {
		ids, groups, workflows                     []string
		slots, parents, ats, afters                []int64
		seeds, locs, inputs, headers, tags, queues [][]byte
		tagged, keys, values                       []string
		lines                                      lineColumns
	}
	for i := range q.commands {
		st := q.commands[i].Start
		c.ids, c.groups = append(c.ids, st.ID), append(c.groups, st.Shard.Group)
		c.slots, c.workflows = append(c.slots, int64(st.Shard.Slot)), append(c.workflows, st.Workflow)
		c.seeds, c.parents = append(c.seeds, st.Seed[:]), append(c.parents, int64(st.Parent))
		c.locs, c.inputs = append(c.locs, []byte(st.ParentLoc)), append(c.inputs, st.Input)
		c.headers, c.ats = append(c.headers, st.Headers), append(c.ats, int64(st.At))
		c.afters = append(c.afters, int64(st.After))
		tags := store.MergeTags(nil, st.Tags)
		c.tags = append(c.tags, sqlstore.EncodeTags(tags))
		for _, t := range tags {
			c.tagged, c.keys, c.values = append(c.tagged, st.ID), append(c.keys, t.Key), append(c.values, t.Value)
		}
		var queue []byte
		if st.Queue != nil {
			queue = append([]byte{}, st.Queue.Data...)
		}
		c.queues = append(c.queues, queue)
		c.lines.add(st)
	}
	batch.Queue(s.sql(startAll), q.floor, q.test, c.ids, c.groups, c.slots, c.workflows, c.seeds, c.parents, c.locs,
		c.inputs, c.headers, c.ats, c.afters, c.tags, c.queues, c.lines.queues, c.lines.keys, c.lines.priorities)
	if q.tags = len(c.tagged) > 0; q.tags {
		batch.Queue(s.sql(tagStarted), c.tagged, c.keys, c.values)
	}
	i := &q.items
	if len(i.ids) == 0 {
		return
	}
	batch.Queue(s.sql(itemsOfStarts), q.floor, q.test, i.ids, i.nos, i.kinds, i.names, i.itemIDs, i.origins,
		i.incarnations, i.locs, i.failed, i.values, i.headers, i.generations, i.places)
}

func (q *startSet) read(results pgx.BatchResults) error {
	var ids []string
	var nos []int64
	var created, matched, inserted int64
	if err := results.QueryRow().Scan(&ids, &nos, &created); err != nil {
		return err
	}
	if q.tags {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	if len(q.items.ids) > 0 {
		if err := results.QueryRow().Scan(&matched, &inserted); err != nil {
			return err
		}
	}
	if len(ids) < len(q.commands) || inserted < matched {
		return errNotAtOnce
	}
	numbers := make(map[string]store.RunNo, len(ids))
	for i, id := range ids {
		numbers[id] = store.RunNo(nos[i])
	}
	for i := range q.commands {
		st := q.commands[i].Start
		q.answers[i] = started(st, numbers[st.ID], false, store.Time(created))
	}
	return nil
}
