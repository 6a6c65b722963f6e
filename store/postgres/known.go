package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// Some commands write nothing: a start whose run exists, an item that is there already, and one for a run that has
// ended or does not exist. The server refuses the statement of a batch with such a command, and is then asked, once for
// all of them, which these are. They are answered by what was found, and the rest of the batch is written at once; a
// rider fails unless it is still so.

// fact is what was found of a command that writes nothing.
type fact struct {
	of      *store.Command
	outcome store.Outcome
	run     int64 // 0: there is none
	item    int64 // 0: there is none
	same    bool  // the item or the run is from an earlier try of the command
	status  int64 // of the run, if the answer depends on it; -1: it does not
}

// asked is a command, and the place of its turn in the batch, counted from 1; 0: it is one of the batch.
type asked struct {
	turn int
	*store.Command
}

// commandsNow gives for commands q the run r that each is for, or would start, and the item i that is there.
const commandsNow = ` LEFT JOIN LATERAL (
		SELECT a.* FROM stet.runs a WHERE q.no=0 AND a.id=q.id
		UNION ALL SELECT b.* FROM stet.runs b WHERE q.no<>0 AND b.run_no=q.no) r ON true
	LEFT JOIN LATERAL (SELECT i.item_no, i.origin FROM stet.inbox i
		WHERE i.run_no=r.run_no AND i.item_id=q.item OFFSET 0) i ON NOT q.starts`

const (
	knownText = `SELECT q.place, coalesce(r.run_no, 0), coalesce(r.id, ''), coalesce(r.status, 0),
		coalesce(r.ready={claimed}, false), coalesce(CASE WHEN r.incarnation=0 THEN r.seed END, ''), r.first,
		coalesce(i.item_no, 0), coalesce(i.origin, '')
	FROM unnest($1::text[], $2::bigint[], $3::text[], $4::boolean[]) WITH ORDINALITY AS q(id, no, item, starts, place)` +
		commandsNow + `
	WHERE CASE WHEN q.starts THEN r.run_no IS NOT NULL
		ELSE r.run_no IS NULL OR i.item_no IS NOT NULL OR r.status+0 IN {ended} END`

	areKnown = `SELECT 1/(count(*)=cardinality($1))::integer
	FROM unnest($1::text[], $2::bigint[], $3::text[], $4::boolean[], $5::bigint[], $6::bigint[], $7::bigint[])
		AS q(id, no, item, starts, run, there, status)` + commandsNow + `
	WHERE coalesce(r.run_no, 0)=q.run AND coalesce(i.item_no, 0)=q.there
		AND (q.status<0 OR q.status=r.status) AND (q.starts OR q.run=0 OR q.there<>0 OR r.status+0 IN {ended})`
)

// mayBeKnown returns the commands of the batch that may write nothing.
func (f *flatBatch) mayBeKnown() (list []asked) {
	add := func(turn int, commands []store.Command) {
		for i := range commands {
			if c := &commands[i]; c.Admit == "" && (c.Start == nil || c.Start.Fork == nil) {
				list = append(list, asked{turn, c})
			}
		}
	}
	for i, t := range f.b.Turns {
		add(i+1, t.Sends)
		if t.Update != nil {
			add(i+1, t.Update.Sends)
		}
	}
	add(0, f.b.Commands)
	return list
}

// addAsked adds the columns of commands.
func addAsked(v *values, list []*store.Command) {
	textsOf(v, list, func(c *store.Command) string {
		if c.Start != nil {
			return c.Start.ID
		}
		return c.RunID
	})
	numbersOf(v, list, func(c *store.Command) int64 { return int64(c.RunNo) })
	textsOf(v, list, func(c *store.Command) string {
		if c.Start != nil {
			return ""
		}
		return c.Item.ID
	})
	boolsOf(v, list, func(c *store.Command) bool { return c.Start != nil })
}

// knownRow is a row of knownText.
type knownRow struct {
	place, run, status, item int64
	id                       string
	claimed                  bool
	seed, first, origin      []byte
}

// readKnown reads the answer to knownText.
func readKnown(conn *pgx.Conn, rows *pgconn.ResultReader) (list []knownRow, err error) {
	err = eachRow(pgx.RowsFromResultReader(conn.TypeMap(), rows), func(scan func(...any) error) error {
		var r knownRow
		err := scan(&r.place, &r.run, &r.id, &r.status, &r.claimed, &r.seed, &r.first, &r.item, &r.origin)
		list = append(list, r)
		return err
	})
	return list, err
}

// facts returns what was found of the commands that write nothing whatever the rest of the batch does.
func (f *flatBatch) facts(list []asked, rows []knownRow) map[*store.Command]*fact {
	facts := map[*store.Command]*fact{}
	ids, nos := map[string]bool{}, map[int64]bool{} // of runs that the batch makes or may claim
	at := make([]*knownRow, len(list))
	for i := range rows {
		at[rows[i].place-1] = &rows[i]
	}
	for i, c := range list {
		switch {
		case at[i] != nil:
		case c.Start != nil:
			ids[c.Start.ID] = true
		case c.Claim && c.RunNo != 0:
			nos[int64(c.RunNo)] = true
		case c.Claim:
			ids[c.RunID] = true
		}
	}
	for i, c := range list {
		r := at[i]
		if r == nil || nos[r.run] || ids[r.id] || r.run == 0 && ids[c.RunID] || f.changes(r.run, c) {
			continue
		}
		if k := factOf(c, r); k != nil {
			facts[c.Command] = k
		}
	}
	return facts
}

// changes reports whether a turn changes the row of a run after a command of another turn, or at all if the answer to
// it depends on the status.
func (f *flatBatch) changes(run int64, c asked) bool {
	from := c.turn
	switch {
	case run == 0:
		return false
	case c.Start != nil && c.Start.Existing != store.KeepExisting:
		from = 0
	case c.turn == 0:
		return false
	}
	for _, t := range f.b.Turns[from:] {
		if int64(t.Run) == run && (t.Update != nil || len(t.Tags) > 0) {
			return true
		}
	}
	return false
}

// factOf returns what a row says of a command, or nil if the command writes something, see sqlstore.Commands.
func factOf(c asked, r *knownRow) *fact {
	k := &fact{of: c.Command, run: r.run, item: r.item, status: -1}
	ended := store.Status(r.status).Terminal()
	if st := c.Start; st != nil {
		var seed store.Seed
		copy(seed[:], r.seed)
		if len(r.seed) == 0 {
			seed = sqlstore.DecodeOrigin(r.first).Seed
		}
		switch k.same = seed == st.Seed; {
		case k.same && c.Claim && !r.claimed && !ended:
			return nil // it may claim the run
		case k.same:
			k.outcome = store.Applied
		case st.Existing.Replaces(store.Status(r.status)):
			return nil
		case st.Existing != store.KeepExisting:
			k.status = r.status
			fallthrough
		default:
			k.outcome = store.Exists
		}
		return k
	}
	switch k.same = r.item != 0 && string(r.origin) == c.Item.Origin; {
	case k.same:
		k.outcome = store.Applied
	case r.item != 0:
		k.outcome = store.Duplicate
	case c.turn > 0 && c.Item.Kind == store.ItemWatch:
		return nil // the run of the turn gets an answer
	case r.run == 0:
		k.outcome = store.NotFound
	case c.Item.Kind.Verb():
		return nil // of these one that has ended takes some
	default:
		k.outcome = store.Ended
	}
	return k
}

// answer returns the answer to the command.
func (k *fact) answer(runs map[store.RunNo]*store.Run) (a store.Answer, ok bool) {
	a.Outcome = k.outcome
	if k.same && k.of.Item != nil {
		a.Item, a.Repeated = store.ItemNo(k.item), true
	}
	if k.run == 0 {
		return a, true
	}
	run := runs[store.RunNo(k.run)]
	if run == nil {
		return a, false
	}
	a.Run = *run
	return a, true
}

// startOf returns the start that asks for a post, or nil.
func (f *flatBatch) startOf(p *post) *store.Command {
	switch {
	case p.start < 0:
		return nil
	case p.turn < 0:
		return &f.b.Commands[p.start]
	}
	t := f.b.Turns[p.turn]
	if p.start < len(t.Sends) {
		return &t.Sends[p.start]
	}
	return &t.Update.Sends[p.start-len(t.Sends)]
}

// addKnown adds the rider that fails unless all facts are still so.
func (r *riders) addKnown(add func(string, *values)) {
	if len(r.facts) == 0 {
		return
	}
	commands := make([]*store.Command, len(r.facts))
	for i, k := range r.facts {
		commands[i] = k.of
	}
	v := newValues()
	addAsked(v, commands)
	numbersOf(v, r.facts, func(k *fact) int64 { return k.run })
	numbersOf(v, r.facts, func(k *fact) int64 { return k.item })
	numbersOf(v, r.facts, func(k *fact) int64 { return k.status })
	add(areKnown, v)
}

// found is what the server knows of a batch that it has refused.
type found struct {
	held, places, named []int64 // see unexaminedText
	known               []knownRow
	tags                map[store.RunNo][]byte
}

// askServer asks what is to be known about the runs that the batch suspends and about its commands, in one round trip.
func (f *flatBatch) askServer(ctx context.Context, s *Store, conn *pgx.Conn, runs, examined []int64, ids []string,
	commands []asked) (is found, err error) {
	batch := &pgconn.Batch{}
	tagged := f.retags()
	if len(runs) > 0 {
		v := newValues()
		v.numbers(runs, examined)
		v.texts(ids)
		if err := s.statement(ctx, batch, conn.PgConn(), unexaminedText, v); err != nil {
			return is, err
		}
	}
	if len(commands) > 0 {
		list := make([]*store.Command, len(commands))
		for i, c := range commands {
			list[i] = c.Command
		}
		v := newValues()
		addAsked(v, list)
		if err := s.statement(ctx, batch, conn.PgConn(), knownText, v); err != nil {
			return is, err
		}
	}
	if len(tagged) > 0 {
		v := newValues()
		v.numbers(tagged)
		if err := s.statement(ctx, batch, conn.PgConn(), tagsText, v); err != nil {
			return is, err
		}
	}
	results := conn.PgConn().ExecBatch(ctx, batch)
	if len(runs) > 0 && results.NextResult() {
		var row [][]byte
		row, err = onlyRow(results.ResultReader(), 3)
		for i, list := range []*[]int64{&is.held, &is.places, &is.named} {
			if err == nil {
				*list, err = readNumbers(row[i])
			}
		}
	}
	if err == nil && len(commands) > 0 && results.NextResult() {
		is.known, err = readKnown(conn, results.ResultReader())
	}
	if err == nil && len(tagged) > 0 && results.NextResult() {
		is.tags, err = readTags(conn, results.ResultReader())
	}
	if closed := results.Close(); closed != nil {
		return is, closed // the first error
	}
	return is, err
}
