package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// Riders are the rarer parts of a batch: values, streams, what is pruned, answers to
// updates, the next incarnation, starts with tags or in queues, and items whose order
// matters. They ride with the statement that writes the rest of the batch: each kind is one
// or two statements more, in the same round trip and, without BEGIN, in the same
// transaction.
//
// Between them goes a guard, which fails unless the statement before it has written the
// batch; and a rider fails if it does not do what the turn says. Then nothing is written,
// and the batch goes turn by turn.
type riders struct {
	values    []valueRow
	streams   []streamRow
	appends   []appendRow
	prunes    []pruneRow
	answers   []itemRow
	continues []*store.Turn
	queued    []*store.Start // with tags, or in a queue
	tagged    []tagRow
	held      []updateRow // updates that are held back
	facts     []*fact     // commands that write nothing
	retagged  []retagRow
	admits    []*store.Command
	sends     bool   // the items ride as well
	posts     []post // for other databases
}

// valueRow is a value that a run shows.
type valueRow struct {
	run int64
	store.Setting
}

// streamRow is a stream that gets items. behind is how far behind its last position the
// items end that are dropped; 0: none are.
type streamRow struct {
	run           int64
	name          string
	count, behind int64
}

// appendRow is an item of a stream; back is how many items of the batch follow it there.
type appendRow struct {
	run, back int64
	name      string
	value     []byte
}

type pruneRow struct {
	run         int64
	incarnation int64
	store.Span
}

type tagRow struct {
	id string
	store.Pair
}

// emptied makes room for those of another batch.
func (r *riders) emptied() riders {
	return riders{values: emptied(r.values), streams: emptied(r.streams), appends: emptied(r.appends),
		prunes: emptied(r.prunes), answers: emptied(r.answers), continues: emptied(r.continues),
		queued: emptied(r.queued), tagged: emptied(r.tagged), held: emptied(r.held), posts: emptied(r.posts),
		facts: emptied(r.facts), retagged: emptied(r.retagged), admits: emptied(r.admits)}
}

func (r *riders) any() bool {
	return r.sends || len(r.values)+len(r.streams)+len(r.prunes)+len(r.answers)+len(r.continues)+
		len(r.queued)+len(r.held)+len(r.posts)+len(r.facts)+len(r.retagged)+len(r.admits) > 0
}

// turn takes the rarer parts of a turn. It reports false for some that need more care.
func (r *riders) turn(f *flatBatch, t *store.Turn) bool {
	run := int64(t.Run)
	if len(t.Tags) > 0 && !r.retag(f, t) {
		return false
	}
	for _, s := range t.Prune {
		r.prunes = append(r.prunes, pruneRow{run, int64(t.Incarnation), s})
	}
	for _, a := range t.Answers {
		if a.Verdict == nil {
			return false
		}
		r.answers = append(r.answers, itemRow{run, int64(a.Item), a.Verdict})
	}
	for _, v := range t.Values {
		r.values = append(r.values, valueRow{run, v})
	}
	r.stream(run, t.Appends)
	if u := t.Update; u != nil && u.Continue != nil {
		r.continues = append(r.continues, t)
	}
	return true
}

// stream takes the items that a turn appends to streams.
func (r *riders) stream(run int64, list []store.Append) {
	first := len(r.streams)
	for i := len(list) - 1; i >= 0; i-- {
		a := &list[i]
		at := slices.IndexFunc(r.streams[first:], func(o streamRow) bool { return o.name == a.Name })
		if at < 0 {
			at = len(r.streams) - first
			r.streams = append(r.streams, streamRow{run: run, name: a.Name})
		}
		s := &r.streams[first+at]
		if behind := s.count + a.Keep; a.Keep > 0 && (s.behind == 0 || behind < s.behind) {
			s.behind = behind
		}
		r.appends = append(r.appends, appendRow{run, s.count, a.Name, a.Value})
		s.count++
	}
}

// start takes what a start has besides the run: its tags, its queue and its items.
func (r *riders) start(f *flatBatch, turn int64, st *store.Start) {
	tags := store.MergeTags(nil, st.Tags)
	for _, tag := range tags {
		r.tagged = append(r.tagged, tagRow{st.ID, tag})
	}
	if len(tags) > 0 || st.Queue != nil {
		r.queued = append(r.queued, st)
	}
	for i := range st.Items {
		f.addSend(sendRow{turn, &store.Command{RunID: st.ID, Item: &st.Items[i]}, true})
		r.sends = true
	}
	if asks(st) && !f.seat.elsewhere(&st.Queue.Ask) {
		ask := st.Queue.Ask
		ask.Claim = false
		f.ids[ask.RunID] = true
		f.addSend(sendRow{turn, &ask, true})
		r.sends = true
	}
}

// post takes the posts of a batch whose turns are all committed or held back, but for what starts ask that make no run.
func (r *riders) post(f *flatBatch) {
	for i := range f.posts {
		p := &f.posts[i]
		if (p.turn < 0 || !p.update || !f.held[f.b.Turns[p.turn].Run]) && f.known[f.startOf(p)] == nil {
			r.posts = append(r.posts, *p)
		}
	}
}

// orders finds out whether the order of the items matters: several are for one run, or one
// is for a run with a turn.
func (r *riders) orders(f *flatBatch) {
	if r.sends || len(f.sends) == 0 {
		return
	}
	nos := make(map[store.RunNo]bool, len(f.sends)+len(f.b.Turns))
	for _, t := range f.b.Turns {
		nos[t.Run] = true
	}
	for i := range f.sends {
		if no := f.names.of(f.sends[i].Command); no != 0 {
			if r.sends = nos[no]; r.sends {
				return
			}
			nos[no] = true
		}
	}
}

// done is the end of a rider that has to change as many rows as its first parameter has
// elements.
const done = " RETURNING 1) SELECT 1/(count(*)=cardinality($1))::integer FROM x"

const (
	// wasWritten is the guard. The row of a batch that was written before is of another
	// transaction.
	wasWritten = `SELECT 1/count(*)::integer FROM stet.boots n, LATERAL (SELECT FROM stet.batches x
		WHERE x.life=n.life AND x.no=$3::bigint AND x.xmin=pg_current_xact_id()::xid OFFSET 0) x
		WHERE n.node=$1::text AND n.boot=$2::text`

	// pruneSpans finds a row that somebody changes meanwhile, such as a TxStep: the server looks again
	// whether the changed row is in the span. By ctid it might not.
	pruneSpans = `DELETE FROM stet.entries e
		USING unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[]) AS q(run, incarnation, first, past)
		WHERE e.run_no=q.run AND e.incarnation=q.incarnation AND e.loc>=q.first AND e.loc<q.past`

	areRunning = `SELECT 1/(count(*)=cardinality($1))::integer FROM stet.runs r
		WHERE r.run_no=ANY($1) AND r.status+0={running}`

	setValues = `INSERT INTO stet.feeds AS f (run_no, stream, name, last, at, val)
		SELECT q.run, false, q.name, 1, ` + nowOfRiders + `, q.val
		FROM unnest($3::bigint[], $4::text[], $5::bytea[]) AS q(run, name, val)
		ON CONFLICT (run_no, stream, name) DO UPDATE SET last=f.last+1, at=excluded.at, val=excluded.val`

	appendItems = `WITH f AS (INSERT INTO stet.feeds AS f (run_no, stream, name, last, at)
			SELECT q.run, true, q.name, q.count, ` + nowOfRiders + `
			FROM unnest($3::bigint[], $4::text[], $5::bigint[]) AS q(run, name, count)
			ON CONFLICT (run_no, stream, name) DO UPDATE SET last=f.last+excluded.last, at=excluded.at
			RETURNING run_no, name, last, at)
		INSERT INTO stet.streams (run_no, name, pos, at, rewound, val)
		SELECT f.run_no, f.name, f.last-q.back, f.at, false, q.val
		FROM unnest($6::bigint[], $7::text[], $8::bigint[], $9::bytea[]) AS q(run, name, back, val)
		JOIN f ON f.run_no=q.run AND f.name=q.name`

	dropItems = `WITH f AS (UPDATE stet.feeds f SET dropped=f.last-$3::bigint
			WHERE f.run_no=$1::bigint AND f.stream AND f.name=$2::text AND f.dropped<f.last-$3::bigint RETURNING f.dropped)
		DELETE FROM stet.streams s USING f WHERE s.run_no=$1::bigint AND s.name=$2::text AND s.pos<=f.dropped`

	answerUpdates = `WITH x AS (UPDATE stet.inbox i SET verdict=$3[width_bucket(i.item_no, $1)]
		WHERE i.item_no=ANY($1) AND i.run_no+0=$2[width_bucket(i.item_no, $1)] AND i.kind+0={update}
			AND i.state+0={consumed} AND i.verdict IS NULL` + done

	abandonUpdates = `UPDATE stet.inbox SET state={consumed}, val=NULL, headers=NULL, verdict=$2::bytea
		WHERE run_no=ANY($1) AND kind={update} AND verdict IS NULL AND state={consumed}`

	continueRuns = `WITH x AS (UPDATE stet.runs r SET incarnation=incarnation+1, random=NULL,
			(first, workflow, input, seed, began) = (
			SELECT CASE WHEN r.incarnation>0 THEN r.first ELSE coalesce($8[k],
					r.seed || sha256(coalesce(r.input, '')) || convert_to(r.workflow, 'UTF8')) END, -- see sqlstore.EncodeOrigin
				$2[k], $3[k], $4[k], greatest($5[k], ` + nowOfContinue + `)
			FROM (SELECT array_position($1, r.run_no) AS k OFFSET 0) q)
		WHERE r.run_no=ANY($1)` + done

	queueRuns = `WITH x AS (UPDATE stet.runs r SET (tags, queue, marks, q, qkey, qline, wake_at, ready) = (
			SELECT $2[k], $3[k], CASE WHEN $4[k] THEN r.marks | {held} ELSE r.marks END,
				convert_from($5[k], 'UTF8'), convert_from($6[k], 'UTF8'),
				$7[k] || int8send(coalesce(r.wake_at, r.created)),
				CASE WHEN $5[k] IS NULL THEN r.wake_at END, CASE WHEN $5[k] IS NULL THEN r.ready ELSE {ready} END
			FROM (SELECT array_position($1, r.id) AS k OFFSET 0) q)
		WHERE r.id=ANY($1)` + done

	tagRuns = `INSERT INTO stet.tags (key, value, tagged) SELECT q.key, q.value, r.run_no
		FROM unnest($1::text[], $2::text[], $3::text[]) AS q(id, key, value),
			LATERAL (SELECT r.run_no FROM stet.runs r WHERE r.id=q.id OFFSET 0) r`

	// stayReady is what remains of an update that is held back. The run could become suspended.
	stayReady = `WITH x AS (UPDATE stet.runs r SET (suspect, strikes, alone, build) = (
			SELECT CASE WHEN $2[k] THEN r.suspect ELSE 0 END, CASE WHEN $2[k] THEN r.strikes ELSE 0 END,
				$2[k] AND r.alone, greatest(r.build, $3[k])
			FROM (SELECT array_position($1, r.run_no) AS k OFFSET 0) q)
		WHERE r.run_no=ANY($1) AND r.status={running}` + done

	nowOfRiders   = `greatest($1::bigint, coalesce($2::bigint, (extract(epoch FROM clock_timestamp())*1000000)::bigint))`
	nowOfContinue = `greatest($6::bigint, coalesce($7::bigint, (extract(epoch FROM clock_timestamp())*1000000)::bigint))`

	// findReceivers gives, in the place of r, the run that an item i is for.
	findReceivers = `LATERAL (
			SELECT a.* FROM stet.runs a WHERE i.no=0 AND a.id=i.id AND a.status+0 NOT IN {ended}
			UNION ALL SELECT b.* FROM stet.runs b WHERE i.no<>0 AND b.run_no=i.no AND b.status+0 NOT IN {ended}) r`

	// sendItems inserts items in their order. It fails for an item whose turn stands before a
	// turn that changes the receiver, because that turn is then to see the item; and for
	// several to one run of which not each may claim it.
	sendItems = `WITH i AS MATERIALIZED (
			SELECT i.*, r.run_no AS run, r.marks & {held} <> 0 AS held
			FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::bytea[],
				$10::bigint[], $11::bigint[], $12::bytea[], $13::boolean[], $14::bytea[], $15::bytea[], $16::boolean[])
				WITH ORDINALITY
				AS i(turn, id, no, kind, name, item, origin, inc, gen, loc, failed, val, headers, adopt, place), ` +
		findReceivers + `
			WHERE NOT EXISTS (SELECT FROM unnest($17::bigint[], $18::bigint[]) AS t(run, place)
				WHERE t.run=r.run_no AND i.turn>0 AND t.place>i.turn)),
		s AS (INSERT INTO stet.inbox (run_no, kind, name, item_id, origin, incarnation, loc, failed, sent_at, val,
				headers, generation)
			SELECT run, kind, name, item, origin, inc, loc, failed, ` + nowOfRiders + `, val, headers, gen
			FROM i ORDER BY place RETURNING item_no)
		SELECT (SELECT array_agg(item_no ORDER BY item_no) FROM s), array_agg(run ORDER BY place),
			1/(count(*)=cardinality($3) AND NOT EXISTS (SELECT FROM i GROUP BY run HAVING count(*)>1
				AND (bool_or(kind={pause}) OR bool_or(held) AND NOT bool_and(kind={grant}))))::integer
		FROM i`

	// claimReceivers claims the runs that items may claim, see storekit.Claimable.
	claimReceivers = `WITH i AS MATERIALIZED (
			SELECT r.run_no AS run, i.kind={grant} AS granted
			FROM unnest($5::text[], $6::bigint[], $7::bigint[], $8::boolean[]) AS i(id, no, kind, adopt), ` +
		findReceivers + ` WHERE i.adopt AND i.kind<>{pause}),
		u AS (UPDATE stet.runs r SET ready={claimed}, wake_at=NULL, status={running}, marks=r.marks & ~{held},
				started=CASE WHEN r.started=0 THEN ` + nowOfRiders + ` ELSE r.started END
			WHERE r.run_no=ANY(ARRAY(SELECT run FROM i)) AND r.ready+0<>{claimed} AND r.marks & {paused} = 0
				AND CASE WHEN r.marks & {held} <> 0
					THEN r.status+0 NOT IN {ended} AND r.status+0<>{stalled} AND EXISTS (
						SELECT FROM i WHERE i.run=r.run_no AND i.granted)
					WHEN r.status={queued} THEN r.ready={ready} OR r.wake_at<=` + nowOfRiders + `
					ELSE r.status={suspended} END
				AND EXISTS (SELECT FROM unnest($3::text[], $4::bigint[]) AS l(grp, slot)
					WHERE l.grp=r.grp AND l.slot=r.slot)
			RETURNING r.run_no),
		n AS (UPDATE stet.inbox n SET rests=false WHERE n.run_no=ANY(ARRAY(SELECT run_no FROM u)) AND n.rests)
		SELECT array_agg(run_no) FROM u`
)

// before returns the statements that go before the one that writes the rest.
func (r *riders) before() (list []statement) {
	if len(r.prunes) > 0 {
		v := newValues()
		numbersOf(v, r.prunes, func(p pruneRow) int64 { return p.run })
		numbersOf(v, r.prunes, func(p pruneRow) int64 { return p.incarnation })
		bytesOf(v, r.prunes, func(p pruneRow) string { return p.From })
		bytesOf(v, r.prunes, func(p pruneRow) string { return p.To })
		list = append(list, statement{pruneSpans, v, noAnswer})
	}
	if len(r.continues) > 0 {
		v := newValues()
		numbersOf(v, r.continues, func(t *store.Turn) int64 { return int64(t.Run) })
		list = append(list, statement{areRunning, v, noAnswer})
	}
	return list
}

// after returns those that go behind it.
func (r *riders) after(f *flatBatch, at stamp) (list []statement) {
	add := func(text string, v *values) { list = append(list, statement{text, v, noAnswer}) }
	guard := newValues()
	guard.text(f.b.Node)
	guard.text(f.b.Boot)
	guard.number(f.b.No)
	add(wasWritten, guard)
	r.addKnown(add)
	if len(r.answers) > 0 {
		byItem(r.answers)
		v := newValues()
		numbersOf(v, r.answers, func(a itemRow) int64 { return a.item })
		numbersOf(v, r.answers, func(a itemRow) int64 { return a.run })
		byteasOf(v, r.answers, func(a itemRow) []byte { return a.verdict })
		add(answerUpdates, v)
	}
	if len(r.values) > 0 {
		v := timed(at)
		numbersOf(v, r.values, func(o valueRow) int64 { return o.run })
		textsOf(v, r.values, func(o valueRow) string { return o.Name })
		byteasOf(v, r.values, func(o valueRow) []byte { return o.Value })
		add(setValues, v)
	}
	r.addStreams(at, add)
	if len(r.continues) > 0 {
		r.addContinues(at, add)
	}
	if len(r.queued) > 0 {
		r.addQueued(add)
	}
	r.addRetagged(add)
	if len(r.held) > 0 {
		v := newValues()
		numbersOf(v, r.held, func(u updateRow) int64 { return u.run })
		boolsOf(v, r.held, func(u updateRow) bool { return u.Isolate || u.EndIsolation })
		bytesOf(v, r.held, func(u updateRow) string { return u.Build })
		add(stayReady, v)
	}
	if len(r.posts) > 0 {
		targets, shards, bodies := columns(r.posts)
		v := newValues()
		v.numbers(targets)
		v.texts(shards)
		byteasOf(v, bodies, func(b []byte) []byte { return b })
		add(postText, v)
	}
	if len(r.admits) > 0 {
		list = append(list, f.admitStatement(at))
	}
	if r.sends && len(f.sends) > 0 {
		list = append(list, f.sendStatement(at))
		if f.claims {
			list = append(list, f.claimStatement(at))
		}
	}
	return list
}

func (r *riders) addStreams(at stamp, add func(string, *values)) {
	if len(r.streams) == 0 {
		return
	}
	v := timed(at)
	numbersOf(v, r.streams, func(s streamRow) int64 { return s.run })
	textsOf(v, r.streams, func(s streamRow) string { return s.name })
	numbersOf(v, r.streams, func(s streamRow) int64 { return s.count })
	numbersOf(v, r.appends, func(a appendRow) int64 { return a.run })
	textsOf(v, r.appends, func(a appendRow) string { return a.name })
	numbersOf(v, r.appends, func(a appendRow) int64 { return a.back })
	byteasOf(v, r.appends, func(a appendRow) []byte { return a.value })
	add(appendItems, v)
	for _, s := range r.streams {
		if s.behind == 0 {
			continue
		}
		v := newValues()
		v.number(s.run)
		v.text(s.name)
		v.number(s.behind)
		add(dropItems, v)
	}
}

func (r *riders) addContinues(at stamp, add func(string, *values)) {
	c := r.continues
	runs := func(v *values) { numbersOf(v, c, func(t *store.Turn) int64 { return int64(t.Run) }) }
	v := newValues()
	runs(v)
	v.bytea([]byte(store.Unanswered))
	add(abandonUpdates, v)
	v = newValues()
	runs(v)
	textsOf(v, c, func(t *store.Turn) string { return t.Update.Continue.Workflow })
	byteasOf(v, c, func(t *store.Turn) []byte { return t.Update.Continue.Input })
	byteasOf(v, c, func(t *store.Turn) []byte { return t.Update.Continue.Seed[:] })
	numbersOf(v, c, func(t *store.Turn) int64 { return int64(t.Update.Continue.At) })
	addTimes(v, at)
	byteasOf(v, c, func(t *store.Turn) []byte {
		if first := &t.Update.Continue.First; *first != (store.Origin{}) {
			return sqlstore.EncodeOrigin(first)
		}
		return nil
	})
	add(continueRuns, v)
}

func (r *riders) addQueued(add func(string, *values)) {
	q := r.queued
	v := newValues()
	textsOf(v, q, func(s *store.Start) string { return s.ID })
	byteasOf(v, q, func(s *store.Start) []byte { return sqlstore.EncodeTags(store.MergeTags(nil, s.Tags)) })
	byteasOf(v, q, func(s *store.Start) []byte {
		if s.Queue == nil {
			return nil
		}
		return append([]byte{}, s.Queue.Data...)
	})
	boolsOf(v, q, func(s *store.Start) bool { return s.Queue != nil })
	lines := lineColumns{}
	for _, s := range q {
		lines.add(s)
	}
	byteasOf(v, lines.queues, optional)
	byteasOf(v, lines.keys, optional)
	byteasOf(v, lines.priorities, func(p []byte) []byte { return p })
	add(queueRuns, v)
	if t := r.tagged; len(t) > 0 {
		v := newValues()
		textsOf(v, t, func(t tagRow) string { return t.id })
		textsOf(v, t, func(t tagRow) string { return t.Key })
		textsOf(v, t, func(t tagRow) string { return t.Value })
		add(tagRuns, v)
	}
}

// sendStatement inserts the items.
func (f *flatBatch) sendStatement(at stamp) statement {
	v := timed(at)
	f.addItems(v, f.sends)
	var runs, places []int64
	for i, t := range f.b.Turns {
		if t.Update != nil && !f.held[t.Run] || len(t.Tags) > 0 {
			runs, places = append(runs, int64(t.Run)), append(places, int64(i+1))
		}
	}
	v.numbers(runs, places)
	return statement{sendItems, v, func(a *answer, rows *pgconn.ResultReader) error {
		row, err := onlyRow(rows, 3)
		if err == nil {
			a.items, err = readNumbers(row[0])
		}
		if err == nil {
			a.receivers, err = readNumbers(row[1])
		}
		return err
	}}
}

// claimStatement claims the runs that the items may claim.
func (f *flatBatch) claimStatement(at stamp) statement {
	v := timed(at)
	textsOf(v, f.leases, func(l store.Lease) string { return name(l.Shard.Group) })
	numbersOf(v, f.leases, func(l store.Lease) int64 { return int64(l.Shard.Slot) })
	textsOf(v, f.sends, func(r sendRow) string { return r.RunID })
	numbersOf(v, f.sends, func(r sendRow) int64 { return int64(r.RunNo) })
	numbersOf(v, f.sends, func(r sendRow) int64 { return int64(r.Item.Kind) })
	boolsOf(v, f.sends, func(r sendRow) bool { return r.Claim })
	return statement{claimReceivers, v, func(a *answer, rows *pgconn.ResultReader) error {
		row, err := onlyRow(rows, 1)
		if err == nil {
			a.claimed, err = readNumbers(row[0])
		}
		return err
	}}
}

// timed returns room for parameters of which the first two are those of nowOfRiders.
func timed(at stamp) *values {
	v := newValues()
	addTimes(v, at)
	return v
}

// noAnswer reads the end of a statement whose rows say nothing.
func noAnswer(_ *answer, rows *pgconn.ResultReader) error { return rows.Read().Err }

// byItem sorts rows by the number of the item.
func byItem(rows []itemRow) {
	slices.SortFunc(rows, func(a, b itemRow) int { return cmp.Compare(a.item, b.item) })
}
