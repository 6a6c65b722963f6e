package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestPlans: no statement of the engine's daily work passes by many rows that are not
// for it, whether the server has planned it when the tables were large, or when they
// were empty, and known to be, and have grown since.
func TestPlans(t *testing.T) {
	t.Parallel()
	t.Run("planned when full", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		w.fill()
		w.analyze()
		w.open()
		w.days("full", 8, maxPassed)
	})
	t.Run("planned when empty", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		w.analyze() // otherwise the server takes an empty table for one that will be filled soon
		w.open()
		w.days("empty", 8, maxPassed)
		w.fill()
		w.days("filled", 8, maxPassed)
		w.analyze()
		w.days("analyzed", 8, maxPassed)
	})
	t.Run("planned when emptied", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		w.open()
		w.emptied()
		w.days("emptied", 8, maxPassed)
		w.fill()
		// A list may look at all 800 runs that others have claimed. Where the server expects no row at all, an index is
		// as good as another to it: one claim in some hundred takes that of lists for the sorts of runs that wait, and
		// passes by all runs, once. The next vacuum ends that. It never does so with entries, of which there are more.
		w.days("filled again", 8, 2*filledRuns)
	})
}

// TestAnInboxOfMany: each item of a turn is found by its number, also where the server knows the inbox as one of a few
// rows: that one run has many would make the index of a run's items the wrong one.
func TestAnInboxOfMany(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.exec(`INSERT INTO stet.inbox (run_no, sent_at, incarnation, generation, kind, state, failed, name, item_id, origin)
		SELECT -i, 1, 0, 0, 1, 3, false, 'word', 'few', 'x' FROM generate_series(1, 10) AS i`)
	w.analyze()
	w.open()
	run := w.n.started(t, "r")
	const many = 600 // more than there are leases
	var sends []store.Command
	for i := range many {
		sends = append(sends, message("r", fmt.Sprint(i)))
	}
	if _, _, err := w.n.s.Apply(t.Context(), sends); err != nil {
		t.Fatal(err)
	}
	items, err := w.n.s.Inbox(t.Context(), run.No)
	if err != nil || len(items) != many {
		t.Fatalf("the inbox has %d items: %v", len(items), err)
	}
	w.do("few", "count of updates", 10, func() error {
		updates := store.PendingQuery{Run: run.No, Kinds: []store.ItemKind{store.ItemUpdate}, Name: "create"}
		sum, err := w.n.s.Pending(t.Context(), updates)
		if sum.Items != 0 {
			t.Errorf("%d updates in an inbox of messages", sum.Items)
		}
		return err
	})
	// That a turn notes an act of an operator has it written turn by turn.
	turn := &store.Turn{Run: run.No, Shard: run.Shard, Audit: []store.Audit{{Who: "a", Verb: "pause"}}}
	for i, it := range items {
		switch {
		case i < many/3:
			turn.Dead = append(turn.Dead, it.No)
		case i < many*2/3:
			turn.Consumed = append(turn.Consumed, store.Consumption{Item: it.No})
			fallthrough
		default:
			turn.Seen = append(turn.Seen, it.No)
		}
	}
	w.do("few", "turn by turn", many/2, func() error { w.n.commit(t, turn); return nil })
}

// TestAClaimTrustsTheFence: a claim that has to look again, here because a letter came too late, does not read the
// leases again, of which a node may have hundreds. It does when they have changed.
func TestAClaimTrustsTheFence(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.open()
	run := w.n.started(t, "r")
	w.n.commit(t, &store.Turn{Run: run.No, Shard: run.Shard, Update: &store.Update{Status: store.Succeeded}})
	claim := func(stage string) (claims store.Claims) {
		w.exec(fmt.Sprintf(`INSERT INTO stet.inbox (run_no, sent_at, incarnation, generation, kind, state, failed, name,
			item_id, origin) VALUES (%d, 1, 0, 0, 1, 1, false, 'word', '%s', 'x')`, run.No, stage))
		w.do(stage, "claim", 600, func() (err error) {
			claims, err = w.n.s.Claim(t.Context(), store.ClaimRequest{Node: w.n.node.ID, Boot: w.n.node.Boot,
				Leases: w.n.leases, Workflows: []string{"w"}, Limit: 10})
			return err
		})
		return claims
	}
	claim("first") // it learns the leases
	claim("again")
	w.unread("again", "leases")
	if err := w.n.s.Release(t.Context(), w.n.leases[:1]); err != nil {
		t.Fatal(err)
	}
	if claims := claim("given back"); len(claims.Fenced) != 1 || claims.Fenced[0] != w.n.leases[0].Shard {
		t.Errorf("of %s, which was given back, the claim says: fenced %v", w.n.leases[0].Shard, claims.Fenced)
	}
}

// What fill puts into the tables, and how many rows a statement may pass by.
const (
	filledRuns = 20_000
	maxPassed  = 600
)

// watched is a store whose server reports the plan of each statement.
type watched struct {
	*testing.T
	dsn, schema string
	admin       *pgx.Conn
	n           *node
	round       int

	mu    sync.Mutex
	act   string
	plans []executed
}

// executed is a statement as the server has executed it.
type executed struct {
	act  string
	Text string `json:"Query Text"`
	Plan planned
}

// planned is a node of a plan; what it says of rows is per loop.
type planned struct {
	Type    string    `json:"Node Type"`
	Table   string    `json:"Relation Name"`
	Index   string    `json:"Index Name"`
	Rows    float64   `json:"Actual Rows"`
	Loops   float64   `json:"Actual Loops"`
	Removed float64   `json:"Rows Removed by Filter"`
	Checked float64   `json:"Rows Removed by Index Recheck"`
	Hit     float64   `json:"Shared Hit Blocks"` // with those below
	Read    float64   `json:"Shared Read Blocks"`
	Plans   []planned `json:"Plans"`
}

// passed returns the most rows of a table that a node has looked at, and says where.
func (p *planned) passed() (rows float64, where string) {
	if p.Table != "" && strings.HasSuffix(p.Type, "Scan") {
		rows, where = p.Loops*max(1, p.Rows+p.Removed+p.Checked), fmt.Sprintf("%s of %s %s", p.Type, p.Table, p.Index)
	}
	for i := range p.Plans {
		if r, w := p.Plans[i].passed(); r > rows {
			rows, where = r, w
		}
	}
	return rows, where
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{T: t}
	w.dsn, w.schema = servers.SharedPostgres(t)
	var err error
	if w.admin, err = pgx.Connect(t.Context(), w.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.admin.Close(context.Background()) })   // it has served
	open(t, w.dsn, postgres.Schema(w.schema), postgres.AllowLoss()) // makes the tables
	for _, table := range []string{"runs", "entries", "inbox", "nodes", "leases", "boots", "batches"} {
		w.exec("ALTER TABLE stet." + table + " SET (autovacuum_enabled=off)")
	}
	return w
}

func (w *watched) exec(text string) {
	w.Helper()
	if _, err := w.admin.Exec(w.Context(), strings.ReplaceAll(text, "stet.", w.schema+".")); err != nil {
		w.Fatal(err)
	}
}

func (w *watched) analyze() {
	for _, table := range []string{"runs", "entries", "inbox", "nodes", "leases", "boots", "batches", "workflows"} {
		w.exec("VACUUM ANALYZE stet." + table)
	}
}

// emptied makes the server take all tables for empty, as a vacuum does that could not give their pages back: whatever
// is written then, it expects one row until the next vacuum.
func (w *watched) emptied() {
	w.Helper()
	w.exec(`UPDATE pg_class SET reltuples=0, relpages=8 WHERE relkind IN ('r', 'i')
		AND relnamespace=(SELECT oid FROM pg_namespace WHERE nspname='` + w.schema + `')`)
}

// fill makes runs in all conditions, with three entries and an item each.
func (w *watched) fill() {
	w.Helper()
	// Of 100: 60 completed, 25 asleep, 10 suspended, 4 claimed by somebody, 1 ready there.
	w.exec(fmt.Sprintf(`INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, wake_at, created, started, ended,
		seed)
		SELECT 'filled-'||i, CASE WHEN i%%100<95 THEN 'default' ELSE 'other' END, i%%256, 'w',
			CASE WHEN i%%100<60 THEN 4 WHEN i%%100<95 THEN 3 WHEN i%%100<99 THEN 2 ELSE 1 END,
			CASE WHEN i%%100<95 THEN 0 WHEN i%%100<99 THEN 2 ELSE 1 END,
			CASE WHEN i%%100 BETWEEN 60 AND 84 THEN 4000000000000000+i END, i, i, CASE WHEN i%%100<60 THEN i ELSE 0 END, '\x00'
		FROM generate_series(1, %d) AS i`, filledRuns))
	w.exec(`INSERT INTO stet.entries (run_no, seq, born, at, wake, started, ended, incarnation, attempt, generation,
		size, kind, state, owes, loc, val)
		SELECT run_no, i, 1, 1, 0, 1, 1, 0, 1, 0, 1, 1, 2, false, ('\x0'||i)::bytea, '\x00'
			FROM stet.runs, generate_series(1, 3) AS i WHERE id LIKE 'filled-%'`)
	// Open items of those that are suspended, new ones of those that others have claimed.
	w.exec(`INSERT INTO stet.inbox (run_no, sent_at, incarnation, generation, kind, state, failed, name, item_id, origin)
		SELECT run_no, 1, 0, 0, 1, CASE WHEN status=4 THEN 3 WHEN status=3 THEN 2 ELSE 1 END, false, 'word', 'filled', 'x'
			FROM stet.runs WHERE id LIKE 'filled-%' AND (status<>2 OR run_no%4=0)`)
}

// open opens the store and takes 256 shards.
func (w *watched) open(opts ...postgres.Option) {
	w.Helper()
	settings := map[string]string{
		"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on",
		"auto_explain.log_timing": "off", "auto_explain.log_nested_statements": "on", "auto_explain.log_format": "json",
		"auto_explain.log_level": "notice", "auto_explain.log_buffers": "on",
	}
	s, err := postgres.OpenWatched(w.Context(), w.dsn, settings, w.hear, append(opts, postgres.Schema(w.schema),
		postgres.AllowLoss(), postgres.Conns(2))...)
	if err != nil {
		w.Fatalf("expected auto_explain, which the server's contrib package has, and a role that may load it: %v", err)
	}
	w.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.Error(err)
		}
	})
	w.n = &node{s: s, node: store.Node{ID: "n", Boot: "n-1", Workflows: []string{"w"}}}
	if _, err := s.Register(w.Context(), w.n.node); err != nil {
		w.Fatal(err)
	}
	shards := make([]store.Shard, 256)
	for i := range shards {
		shards[i] = store.Shard{Group: store.DefaultGroup, Slot: i}
	}
	got, _, err := s.Acquire(w.Context(), w.n.node, shards, ttl)
	if err != nil {
		w.Fatal(err)
	}
	for _, a := range got {
		w.n.leases = append(w.n.leases, a.Lease)
	}
}

// hear notes how a statement was executed.
func (w *watched) hear(n *pgconn.Notice) {
	_, plan, ok := strings.Cut(n.Message, "plan:\n")
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e := executed{act: w.act}
	if err := json.Unmarshal([]byte(plan), &e); err != nil {
		w.Errorf("%v: %s", err, plan)
		return
	}
	if !strings.Contains(e.Text, "pg_locks") { // otherwise a witness has looked, of which no act knows
		w.plans = append(w.plans, e)
	}
}

// do calls an act, and checks what its statements have passed by.
func (w *watched) do(stage, act string, most float64, fn func() error) {
	w.Helper()
	w.mu.Lock()
	w.act, w.plans = act, nil
	w.mu.Unlock()
	if err := fn(); err != nil {
		w.Fatalf("%s: %v", act, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.plans) == 0 {
		w.Errorf("%s, %s: the server has told no plan", stage, act)
	}
	for i := range w.plans {
		e := &w.plans[i]
		if rows, where := e.Plan.passed(); rows > most {
			plan, _ := json.MarshalIndent(e.Plan, "", " ")
			w.Errorf("%s, day %d, %s: %.0f rows by %s, expected at most %.0f:\n%s\n%s", stage, w.round, act, rows, where, most,
				e.Text, plan)
		}
	}
}

// unread checks that the last act has read no row of a table.
func (w *watched) unread(stage, table string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.plans {
		if e := &w.plans[i]; e.Plan.reads(table) {
			w.Errorf("%s, day %d, %s: expected %s not to be read:\n%s", stage, w.round, e.act, table, e.Text)
		}
	}
}

// without checks that no statement of the last act has a word.
func (w *watched) without(stage, word string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.plans {
		if e := &w.plans[i]; strings.Contains(e.Text, word) || strings.Contains(e.Text, "commit_1") {
			w.Errorf("%s, day %d, %s: expected a statement without lists, found one with %s:\n%s", stage, w.round, e.act, word,
				e.Text)
		}
	}
}

// reads reports whether a plan reads a table.
func (p *planned) reads(table string) bool {
	return p.Table == table && strings.HasSuffix(p.Type, "Scan") ||
		slices.ContainsFunc(p.Plans, func(p planned) bool { return p.reads(table) })
}

// days lives some days.
func (w *watched) days(stage string, days int, most float64) {
	w.Helper()
	for range days {
		w.day(stage, most)
	}
}

// day does all that an engine does every day.
func (w *watched) day(stage string, most float64) {
	w.Helper()
	w.round++
	ctx, n, s := w.Context(), w.n, w.n.s
	do := func(act string, fn func() error) { w.Helper(); w.do(stage, act, most, fn) }
	name := func(what string) string { return fmt.Sprintf("%s-%d", what, w.round) }
	commit := func(act string, turns []*store.Turn, commands ...store.Command) (result store.BatchResult) {
		w.Helper()
		do(act, func() (err error) {
			result, err = s.Commit(ctx, n.batch(turns, commands...))
			for _, turn := range result.Turns {
				if turn.Verdict != store.Committed {
					return fmt.Errorf("a turn is %s: %s", turn.Verdict, turn.Reason)
				}
			}
			return err
		})
		return result
	}
	register := func() error { _, err := s.Register(ctx, n.node); return err }
	do("heartbeat", register)
	do("renew", func() error { _, _, err := s.Renew(ctx, n.leases, ttl); return err })

	// Starts that are claimed; steps; a turn that has all; the end.
	first := commit("start", nil, claimedStart(name("a")), claimedStart(name("b"))).Commands
	a, b := &first[0].Run, &first[1].Run
	commit("steps", []*store.Turn{
		{Run: a.No, Shard: shard, Insert: true, Entries: []store.Entry{done("1"), done("2")}},
		{Run: b.No, Shard: shard, Insert: true, Entries: []store.Entry{done("1")}},
	})
	commit("step of one run", []*store.Turn{{Run: a.No, Shard: shard, Insert: true, Entries: []store.Entry{done("21")}}})
	commit("next step of it", []*store.Turn{{Run: a.No, Shard: shard, Insert: true, Entries: []store.Entry{done("22")}}})
	w.unread(stage, "runs")
	commit("suspend", []*store.Turn{{Run: b.No, Shard: shard, Update: &store.Update{Status: store.Suspended}}})
	w.without(stage, "unnest")

	// A run that is alone: each batch is one statement without lists.
	one := commit("start of one", nil, claimedStart(name("l"))).Commands[0].Run
	w.without(stage, "unnest")
	commit("its first step", []*store.Turn{{Run: one.No, Shard: shard, Insert: true, Entries: []store.Entry{done("1")}}})
	w.unread(stage, "runs")
	commit("its last step and its end",
		[]*store.Turn{{Run: one.No, Shard: shard, Insert: true, Entries: []store.Entry{done("2")},
			Update: &store.Update{Status: store.Succeeded}}})
	w.without(stage, "unnest")

	// A message claims a run that waits, which receives it: neither has a need of commit_1.
	got := commit("start of a receiver", nil, claimedStart(name("g"))).Commands[0].Run
	for i, after := range []store.Update{{Status: store.Suspended}, {Status: store.Suspended}, {Status: store.Succeeded}} {
		turn := &store.Turn{Run: got.No, Shard: shard, Update: &after}
		if i > 0 {
			word := message(got.ID, fmt.Sprint(i))
			word.Claim = true
			sent := commit("a message that claims", nil, word).Commands[0]
			w.without(stage, "commit_1")
			if !sent.Claimed {
				w.Fatalf("the message has not claimed the run: %+v", sent)
			}
			turn.Insert, turn.Entries = true, []store.Entry{done(fmt.Sprint(i))}
			turn.Consumed = []store.Consumption{{Item: sent.Item}}
		}
		commit("what receives it", []*store.Turn{turn})
		w.without(stage, "commit_1")
	}

	// Items for several runs that wait claim them at once.
	both := commit("start of two receivers", nil, claimedStart(name("h")), claimedStart(name("i"))).Commands
	var rests, ends []*store.Turn
	var words []store.Command
	for i := range both {
		to := &both[i].Run
		rests = append(rests, &store.Turn{Run: to.No, Shard: shard, Update: &store.Update{Status: store.Suspended}})
		word := message(to.ID, name("e"))
		word.Claim = true
		words = append(words, word)
	}
	commit("both suspend", rests)
	for i, sent := range commit("two messages that claim", nil, words...).Commands {
		if !sent.Claimed {
			w.Fatalf("message %d has not claimed its run: %+v", i, sent)
		}
		ends = append(ends, &store.Turn{Run: both[i].Run.No, Shard: shard, Consumed: []store.Consumption{{Item: sent.Item}},
			Update: &store.Update{Status: store.Succeeded}})
	}
	commit("both receive", ends)

	send := message(b.ID, name("m"))
	commit("send in a batch", []*store.Turn{{Run: a.No, Shard: shard, Entries: []store.Entry{done("3")},
		Sends: []store.Command{send}}})
	turnOf := func(c *store.Claimed) *store.Turn {
		turn := &store.Turn{Run: c.Run.No, Shard: shard, Entries: []store.Entry{done("4")}}
		for _, it := range c.Items {
			turn.Seen = append(turn.Seen, it.No)
			turn.Consumed = append(turn.Consumed, store.Consumption{Item: it.No})
		}
		return turn
	}
	claim := func(act string, want int) (claims store.Claims) {
		w.Helper()
		do(act, func() (err error) {
			claims, err = s.Claim(ctx, store.ClaimRequest{Node: n.node.ID, Boot: n.node.Boot, Leases: n.leases,
				Workflows: []string{"w"}, Limit: 100})
			// Of those that were filled in, some others have items.
			claims.Runs = slices.DeleteFunc(claims.Runs,
				func(c store.Claimed) bool { return c.New && strings.HasPrefix(c.Run.ID, "filled-") })
			if len(claims.Runs) != want || err != nil {
				err = fmt.Errorf("expected %d runs, found %d: %w", want, len(claims.Runs), err)
			}
			return err
		})
		return claims
	}
	claims := claim("claim of an item", 1)
	commit("consume", []*store.Turn{turnOf(&claims.Runs[0])})
	do("start by a command", func() error { _, _, err := s.Apply(ctx, []store.Command{start(name("c"))}); return err })
	do("send by a command", func() error {
		_, _,
			err := s.Apply(ctx, []store.Command{message(name("b"), name("n"))})
		return err
	})
	claims = claim("claim of a run and an item", 2)
	c := &claims.Runs[0].Run
	claim("claim of an item of a claimed run", 1) // the same again
	do("load", func() error { _, _, err := s.Load(ctx, []store.RunNo{a.No, b.No, c.No}); return err })
	do("load one", func() error { _, _, err := s.Load(ctx, []store.RunNo{a.No}); return err })
	do("history", func() error { _, err := s.History(ctx, store.HistoryQuery{Run: a.No}); return err })
	do("inbox", func() error { _, err := s.Inbox(ctx, b.No); return err })
	do("list by number", func() error { _, err := s.List(ctx, store.Filter{Nos: []store.RunNo{a.No, b.No}}); return err })
	claimed := store.Filter{Claimed: []store.Shard{a.Shard}}
	do("list what is claimed", func() error { _, err := s.List(ctx, claimed); return err })
	do("list by ID", func() error { _, err := s.List(ctx, store.Filter{IDs: []string{a.ID, b.ID}, Limit: 2}); return err })
	// A tag goes turn by turn; so does an item that is there.
	commit("turn by turn", []*store.Turn{turnOf(&claims.Runs[1]),
		{Run: a.No, Shard: shard, Tags: []store.Pair{{Key: "k", Value: "v"}}, Entries: []store.Entry{done("5")}}}, send)
	over := &store.Update{Status: store.Succeeded, Output: []byte("out")}
	commit("end", []*store.Turn{{Run: a.No, Shard: shard, Update: over}, {Run: b.No, Shard: shard, Update: over},
		{Run: c.No, Shard: shard, Entries: []store.Entry{done("1")}, Update: over}})
	claim("claim of nothing", 0)
	do("sweep", func() error {
		_, err := s.Sweep(ctx, store.SweepRequest{Leases: n.leases,
			Rules: []store.Retention{{Workflow: "w", Status: store.Succeeded, Keep: 100 * 365 * 86400_000_000}}})
		return err
	})
}

// sorts reports whether a plan sorts rows of a table.
func (p *planned) sorts(table string) bool {
	return slices.ContainsFunc(p.Plans, func(below planned) bool {
		return strings.HasSuffix(p.Type, "Sort") && below.reads(table) || below.sorts(table)
	})
}

// TestLoadStreamsHistories: the server sends the entries of runs as it reads them. It sorts none
// of them first, which it would do on its disk.
func TestLoadStreamsHistories(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.analyze()
	w.open()
	const runs, entries = 5, 40
	var nos []store.RunNo
	for i := range runs {
		run := w.n.started(t, fmt.Sprint("run-", i))
		turn := &store.Turn{Run: run.No, Shard: run.Shard, Insert: true}
		for k := range entries + i {
			turn.Entries = append(turn.Entries, done(fmt.Sprintf("step %02d", (k*13)%(entries+i))))
		}
		w.n.commit(t, turn)
		nos = append(nos, run.No)
	}
	slices.Reverse(nos)
	w.mu.Lock()
	w.plans = nil
	w.mu.Unlock()
	got, _, err := w.n.s.Load(t.Context(), nos)
	if err != nil || len(got) != runs {
		t.Fatalf("loaded %d of %d runs: %v", len(got), runs, err)
	}
	for i, snap := range got {
		inOrder := slices.IsSortedFunc(snap.Entries, func(a, b store.Entry) int { return strings.Compare(a.Loc, b.Loc) })
		if snap.Run.No != nos[i] || len(snap.Entries) != entries+runs-1-i || !inOrder {
			t.Errorf("run %d of %d: %d entries, in order: %v", i, snap.Run.No, len(snap.Entries), inOrder)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	read := 0
	for i := range w.plans {
		if plan := &w.plans[i].Plan; plan.reads("entries") {
			read++
			if plan.sorts("entries") {
				t.Errorf("the server sorts: %+v", plan)
			}
		}
	}
	if read != 1 {
		t.Errorf("%d statements have read entries, expected one", read)
	}
}
