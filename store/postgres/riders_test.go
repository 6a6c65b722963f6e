package postgres_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
)

// TestRarerPartsTakeOneStatement: values, streams, answers and the like are written in the round
// trip of the plain turns beside them. The application holds the boots' rows as plain commits
// do; one that goes turn by turn would wait for it.
func TestRarerPartsTakeOneStatement(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t).DSN()
	s := open(t, dsn)
	n := takeAll(t, s, "n")
	a, b := n.started(t, "a"), n.started(t, "b")
	if _, err := s.Commit(t.Context(), n.batch(nil, update(b.ID, "u"))); err != nil {
		t.Fatal(err)
	}
	items, err := s.Inbox(t.Context(), b.No, "u")
	if err != nil || len(items) != 1 {
		t.Fatalf("found %+v: %v", items, err)
	}
	n.commit(t, turn(&b, func(t *store.Turn) { t.Consumed = []store.Consumption{{Item: items[0].No}} }))
	over := n.started(t, "over")
	n.commit(t, turn(&over, func(t *store.Turn) { t.Update = &store.Update{Status: store.Succeeded} }))
	foreign := start("a")
	foreign.Start.Seed = store.Seed([]byte("another seed 16b"))
	if _, err := s.Commit(t.Context(), n.batch(nil, message(a.ID, "there"))); err != nil {
		t.Fatal(err)
	}
	another := message(a.ID, "there")
	another.Item = &store.Item{Kind: store.ItemMessage, ID: "there", Origin: "another"}
	if _, err := application(t, dsn).Exec(t.Context(), "BEGIN; SELECT FROM stet.boots FOR KEY SHARE"); err != nil {
		t.Fatal(err)
	}
	tagged := start("tagged")
	tagged.Start.Tags = []store.Pair{{Key: "k", Value: "v"}}
	tagged.Start.Items = []store.Item{*message("", "first").Item}
	claim := message(b.ID, "second")
	claim.Claim = true
	for _, test := range []struct {
		name     string
		a, b     func(*store.Turn)
		commands []store.Command
		want     store.Verdict   // of b
		answers  []store.Outcome // of what a sends, and of the commands; nil: all are applied
	}{
		{name: "a value", b: func(t *store.Turn) { t.Values = []store.Setting{{Name: "v", Value: []byte("1")}} }},
		{name: "a stream", b: func(t *store.Turn) {
			t.Appends = []store.Append{{Name: "s", Value: []byte("1")}, {Name: "s", Value: []byte("2"), Keep: 1}}
		}},
		{name: "what is pruned", b: func(t *store.Turn) { t.Prune = []store.Span{{From: "a", To: "b"}} }},
		{name: "an answer", b: func(t *store.Turn) {
			t.Answers = []store.Consumption{{Item: items[0].No, Verdict: []byte("x")}}
		}},
		{name: "a start with tags", commands: []store.Command{tagged}},
		{name: "tags", a: func(t *store.Turn) { t.Tags = []store.Pair{{Key: "k", Value: "1"}, {Key: "l", Value: "2"}} }},
		{name: "other tags", a: func(t *store.Turn) { t.Tags = []store.Pair{{Key: "k", Value: "3"}, {Key: "l"}} }},
		{name: "an item of a turn before, by the run's ID", want: store.StillReady,
			a: func(t *store.Turn) { t.Sends = []store.Command{message(b.ID, "m2")} },
			b: func(t *store.Turn) { t.Update = &store.Update{Status: store.Suspended} }},
		{name: "another one, by the ID that is known now", want: store.StillReady,
			a: func(t *store.Turn) { t.Sends = []store.Command{message(b.ID, "m3")} },
			b: func(t *store.Turn) { t.Update = &store.Update{Status: store.Suspended} }},
		{name: "an item of a turn before", want: store.StillReady,
			a: func(t *store.Turn) { t.Sends = []store.Command{{RunNo: b.No, Item: message("", "m").Item}} },
			b: func(t *store.Turn) { t.Update = &store.Update{Status: store.Suspended} }},
		{name: "an item that is there", want: store.StillReady,
			b: func(t *store.Turn) { t.Update = &store.Update{Status: store.Suspended} }},
		{name: "several items, of which the first claims", commands: []store.Command{claim, message(b.ID, "one"),
			message(b.ID, "three")}},
		{name: "starts whose runs exist", answers: []store.Outcome{store.Exists, store.Applied, store.Exists, store.Applied,
			store.Applied},
			a:        func(t *store.Turn) { t.Sends = []store.Command{foreign} },
			commands: []store.Command{start("a"), foreign, start("over"), start("new")}},
		{name: "items that are there", answers: []store.Outcome{store.Applied, store.Applied, store.Duplicate, store.Applied},
			a:        func(t *store.Turn) { t.Sends = []store.Command{{RunNo: a.No, Item: message("", "there").Item}} },
			commands: []store.Command{message("a", "there"), another, message("a", "new")}},
		{name: "items for runs that have ended or do not exist", answers: []store.Outcome{store.Ended, store.NotFound,
			store.Ended, store.Applied, store.NotFound},
			a:        func(t *store.Turn) { t.Sends = []store.Command{message("over", "x"), message("nobody", "x")} },
			commands: []store.Command{message("over", "x"), message("a", "x"), message("nobody", "x")}},
		{name: "an item of a turn for a run that does not exist",
			answers: []store.Outcome{store.NotFound, store.Applied}, commands: []store.Command{message("b", "late")},
			a: func(t *store.Turn) { t.Sends = []store.Command{message("none", "x")} }},
		{name: "the first continue-as-new", a: func(t *store.Turn) {
			t.Update = &store.Update{Status: store.Running, Continue: &store.Continuation{Workflow: "w", Input: []byte("next"),
				Seed: store.Seed([]byte("another seed 16b"))}}
		}},
	} {
		turns := []*store.Turn{turn(&a, test.a), turn(&b, test.b)}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		result, err := s.Commit(ctx, n.batch(turns, test.commands...))
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if test.want == 0 {
			test.want = store.Committed
		}
		if result.Turns[0].Verdict != store.Committed || result.Turns[1].Verdict != test.want {
			t.Errorf("%s: got %+v", test.name, result.Turns)
		}
		for i, answer := range slices.Concat(result.Turns[0].Sends, result.Commands) {
			want := store.Applied
			if test.answers != nil {
				want = test.answers[i]
			}
			if answer.Outcome != want || want != store.NotFound && answer.Run.No == 0 {
				t.Errorf("%s: answer %d is %+v; want outcome %d", test.name, i, answer, want)
			}
		}
	}
	runs, _, err := s.Load(t.Context(), []store.RunNo{a.No})
	if err != nil || len(runs) != 1 || !slices.Equal(runs[0].Run.Tags, []store.Pair{{Key: "k", Value: "3"}}) ||
		runs[0].Run.Incarnation != 1 || runs[0].Run.First != a.Origin() {
		t.Errorf("found %+v: %v", runs, err)
	}
	page, err := s.List(t.Context(), store.Filter{Tags: []store.Pair{{Key: "k", Value: "3"}}})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].No != a.No {
		t.Errorf("listed %+v: %v", page.Runs, err)
	}
	feeds, err := s.Feeds(t.Context(), store.FeedQuery{Runs: []store.RunNo{b.No}})
	if err != nil || len(feeds) != 2 || feeds[0].Last+feeds[1].Last != 3 {
		t.Errorf("found %+v: %v", feeds, err)
	}
}

// turn returns a turn of a claimed run, which fill fills.
func turn(r *store.Run, fill func(*store.Turn)) *store.Turn {
	t := &store.Turn{Run: r.No, Shard: r.Shard}
	if fill != nil {
		fill(t)
	}
	return t
}

// update returns an update of a run.
func update(run, id string) store.Command {
	c := message(run, id)
	c.Item.Kind = store.ItemUpdate
	return c
}

// BenchmarkUnusualTurn writes batches of 100 plain turns, and the same beside one that is unusual or beside a command
// that writes nothing, with a server that is 1 ms away. One that is written turn by turn is also in a batch of its own
// after theirs, as an engine has it.
func BenchmarkUnusualTurn(b *testing.B) {
	act := func(t *store.Turn, _ int64) { t.Audit = []store.Audit{{Verb: "edit", Who: "ann"}} }
	for _, kind := range []struct {
		name     string
		unusual  func(t *store.Turn, n int64)
		apart    bool // the unusual turn is
		commands []store.Command
	}{
		{name: "plain"},
		{name: "value", unusual: func(t *store.Turn, _ int64) {
			t.Values = []store.Setting{{Name: "v", Value: []byte("1")}}
		}},
		{name: "tags", unusual: func(t *store.Turn, n int64) { t.Tags = []store.Pair{{Key: "k", Value: fmt.Sprint(n)}} }},
		{name: "a start that exists", commands: []store.Command{start("aa")}},
		{name: "a message to an ended run", commands: []store.Command{message("over", "m")}},
		{name: "a message of a turn to no run", unusual: func(t *store.Turn, n int64) {
			t.Sends = []store.Command{message("nobody", "m")}
		}},
		{name: "an act among the others", unusual: act},
		{name: "an act apart", unusual: act, apart: true},
	} {
		b.Run(kind.name, func(b *testing.B) {
			server := servers.NewPostgres(b)
			s := open(b, server.TCP(distant(b, server.Addr(), time.Millisecond)))
			n := takeAll(b, s, "n")
			list := make([]*store.Turn, 101)
			for i := range list {
				r := n.started(b, string(rune('a'+i/26))+string(rune('a'+i%26)))
				list[i] = &store.Turn{Run: r.No, Shard: r.Shard, Insert: true, Entries: []store.Entry{done("")}}
			}
			over := n.started(b, "over")
			n.commit(b, turn(&over, func(t *store.Turn) { t.Update = &store.Update{Status: store.Succeeded} }))
			for b.Loop() {
				for _, t := range list {
					t.Entries[0].Loc = string(rune(n.no + 1<<16))
				}
				if kind.unusual != nil {
					kind.unusual(list[100], n.no)
				}
				together := list
				if kind.apart {
					together = list[:100]
				}
				if _, err := s.Commit(b.Context(), n.batch(together, kind.commands...)); err != nil {
					b.Fatal(err)
				}
				if kind.apart {
					n.commit(b, list[100])
				}
			}
			b.ReportMetric(float64(b.N*len(list))/b.Elapsed().Seconds(), "steps/s")
		})
	}
}

// distant returns an address from which it takes so long to a server and back.
func distant(t testing.TB, target string, trip time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // ends the loop
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close() // it tries again
				continue
			}
			go late(server, client, trip/2)
			go late(client, server, trip/2)
		}
	}()
	return l.Addr().String()
}

// late copies what it reads so much later.
func late(to io.WriteCloser, from io.Reader, delay time.Duration) {
	type piece struct {
		data []byte
		at   time.Time
	}
	pieces := make(chan piece, 1000)
	go func() {
		defer close(pieces)
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if n > 0 {
				pieces <- piece{data[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	defer to.Close()
	for p := range pieces {
		time.Sleep(time.Until(p.at)) // the network's delay itself
		if _, err := to.Write(p.data); err != nil {
			return
		}
	}
}

// TestPrunedRowsThatSomebodyChanges: what is pruned is found though a transaction of somebody else,
// such as a TxStep, has changed it since the statement began.
func TestPrunedRowsThatSomebodyChanges(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t).DSN()
	s := open(t, dsn)
	n := takeAll(t, s, "n")
	a, b := n.started(t, "a"), n.started(t, "b")
	entries := func(run *store.Run) *store.Turn {
		return turn(run, func(t *store.Turn) {
			for _, loc := range []string{"a", "b", "c"} {
				t.Entries = append(t.Entries, store.Entry{Loc: loc, Kind: store.KindStep, State: store.Open, Value: []byte("1")})
			}
		})
	}
	n.commit(t, entries(&a))
	n.commit(t, entries(&b))
	other, watcher := application(t, dsn), application(t, dsn)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE stet.entries SET val='2' WHERE run_no=$1", int64(a.No)); err != nil {
		t.Fatal(err)
	}
	pruned := make(chan error, 1)
	go func() {
		prune := func(t *store.Turn) { t.Prune = []store.Span{{From: "a", To: "c"}} }
		turns := []*store.Turn{turn(&a, prune), turn(&b, prune)}
		var err error
		for err == nil && len(turns) > 0 {
			var result store.BatchResult
			result, err = s.Commit(t.Context(), n.batch(turns))
			var busy []*store.Turn // the transaction lasts longer than a commit waits; it is to be tried again
			for i := range result.Turns {
				switch result.Turns[i].Verdict {
				case store.Busy:
					busy = append(busy, turns[i])
				case store.Committed:
				default:
					err = fmt.Errorf("the verdicts are %+v", result.Turns)
				}
			}
			turns = busy
		}
		pruned <- err
	}()
	waits := func() (waiting bool) {
		select {
		case err := <-pruned:
			t.Fatalf("the commit has not waited for the transaction: %v", err)
		default:
		}
		err := watcher.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE wait_event_type='Lock' AND datname=current_database() AND query LIKE '%DELETE FROM%')`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		return waiting
	}
	servers.Until(t, "the commit waits for the transaction", waits)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-pruned; err != nil {
		t.Fatal(err)
	}
	for _, run := range []*store.Run{&a, &b} {
		left, err := s.History(t.Context(), store.HistoryQuery{Run: run.No})
		if err != nil || len(left) != 1 || left[0].Loc != "c" {
			t.Errorf("of %s %+v is left: %v", run.ID, left, err)
		}
	}
}

// TestWhatIsSeparated: a turn that is not written in one statement is said to be, and no other one.
func TestWhatIsSeparated(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t).DSN()
	s := open(t, dsn)
	n := takeAll(t, s, "n")
	app := application(t, dsn)
	audit := []store.Audit{{Verb: "pause", Who: "ann"}}
	for name, c := range map[string]struct {
		does func(*store.Turn, []store.Item) // the run's inbox
		want bool
	}{
		"an entry": {func(t *store.Turn, _ []store.Item) { t.Entries = []store.Entry{done("a")} }, false},
		"a value": {func(t *store.Turn, _ []store.Item) {
			t.Values = []store.Setting{{Name: "v", Value: []byte("1")}}
		}, false},
		"an end": {func(t *store.Turn, _ []store.Item) {
			t.Update = &store.Update{Status: store.Succeeded}
		}, false},
		"a mark of the streams":  {func(t *store.Turn, _ []store.Item) { t.Rewound = true }, true},
		"another entry in place": {func(t *store.Turn, _ []store.Item) { t.Rewrites = []store.Entry{done("there")} }, true},
		"an act":                 {func(t *store.Turn, _ []store.Item) { t.Audit = audit }, true},
		"an act with an update": {func(t *store.Turn, _ []store.Item) {
			t.Update = &store.Update{Status: store.Suspended, Audit: audit}
		}, true},
		"a place in a queue": {func(t *store.Turn, _ []store.Item) {
			t.Update = &store.Update{Status: store.Suspended, Queue: []byte("q")}
		}, true},
		"a generation": {func(t *store.Turn, _ []store.Item) {
			t.Update = &store.Update{Status: store.Running, Generation: 1}
		}, true},
		"any build": {func(t *store.Turn, _ []store.Item) {
			t.Update = &store.Update{Status: store.Suspended, AnyBuild: true}
		}, true},
		"a wait for a queue": {func(t *store.Turn, _ []store.Item) {
			t.Update = &store.Update{Status: store.Queued, Marks: store.Held}
		}, true},
		"an item that was received": {func(t *store.Turn, inbox []store.Item) {
			t.Consumed = []store.Consumption{{Item: inbox[0].No}}
		}, false},
		"a dead letter": {func(t *store.Turn, inbox []store.Item) { t.Dead = []store.ItemNo{inbox[0].No} }, true},
		"an item that was refused": {func(t *store.Turn, inbox []store.Item) {
			t.Refused = []store.Refusal{{Item: inbox[0].No, Reason: []byte("why")}}
		}, true},
		"an item that came back": {func(t *store.Turn, inbox []store.Item) {
			inbox[0].Value, t.Returned = []byte("v"), inbox[:1]
		}, true},
	} {
		run := n.started(t, name)
		if _, err := s.Commit(t.Context(), n.batch(nil, message(run.ID, name))); err != nil {
			t.Fatal(err)
		}
		inbox, err := s.Inbox(t.Context(), run.No, name)
		if err != nil || len(inbox) != 1 {
			t.Fatalf("found %+v: %v", inbox, err)
		}
		n.commit(t, turn(&run, func(t *store.Turn) {
			t.Entries = []store.Entry{done("there")}
			if name == "an item that came back" {
				t.Consumed = []store.Consumption{{Item: inbox[0].No}}
			}
		}))
		made := turn(&run, func(t *store.Turn) { c.does(t, inbox) })
		if got := s.Separate(made); got != c.want {
			t.Errorf("%s is written apart: %t; want %t", name, got, c.want)
		}
		// What goes turn by turn waits for the row of the boot.
		tx, err := app.Begin(t.Context())
		if err == nil {
			_, err = tx.Exec(t.Context(), "SELECT FROM stet.boots FOR KEY SHARE")
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Commit(t.Context(), n.batch([]*store.Turn{made}))
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := err != nil; got != c.want {
			t.Errorf("%s waits for the boot's row: %t (%v); want %t", name, got, err, c.want)
		}
		if err != nil {
			n.commit(t, made)
		}
	}
}
