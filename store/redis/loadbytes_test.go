package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestLoadOfLongHistories: a script answers with some of the runs, so that it keeps the server busy
// for a bounded time; the next one goes on behind them.
func TestLoadOfLongHistories(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Forgetful...)
	s := openAt(t, server.URL(), redis.Slots(1))
	leases := acquire(t, s, shard)
	b := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases}
	const runs, entries = 12, 300
	for i := range runs {
		b.Commands = append(b.Commands, start(fmt.Sprint("run-", i)))
	}
	result, err := s.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	var nos []store.RunNo
	value := []byte(strings.Repeat("v", 1000))
	for i, answer := range result.Commands {
		nos = append(nos, answer.Run.No)
		turn := &store.Turn{Run: answer.Run.No, Shard: shard}
		for k := range entries + i {
			turn.Entries = append(turn.Entries,
				store.Entry{Loc: fmt.Sprintf("e%04d", k), Kind: store.KindStep, State: store.Done, Value: value})
		}
		if _, err := s.Commit(t.Context(), store.Batch{Node: node.ID, Boot: node.Boot, No: int64(i + 2), Leases: leases,
			Turns: []*store.Turn{turn}}); err != nil {
			t.Fatal(err)
		}
	}
	scripts := func() int { return scripts(t, server) }
	before := scripts()
	nos = append(nos, 1<<40) // which is none
	snapshots, left, err := s.Load(t.Context(), nos)
	if err != nil || len(snapshots) != runs || len(left) != 0 {
		t.Fatalf("loaded %d of %d runs, %d are left: %v", len(snapshots), runs, len(left), err)
	}
	for i, snap := range snapshots {
		if snap.Run.No != nos[i] || len(snap.Entries) != entries+i || len(snap.Entries[0].Value) != len(value) {
			t.Errorf("run %d has number %d and %d entries", i, snap.Run.No, len(snap.Entries))
		}
	}
	if n := scripts() - before; n < 3 || n > runs {
		t.Errorf("about 4 MB were loaded with %d scripts; want several, with some runs each", n)
	}
}

// scripts returns how many scripts a server has executed.
func scripts(t *testing.T, server *servers.Redis) (n int) {
	t.Helper()
	text, err := ask(t, server.Addr(), "info", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		_, _ = fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &n)
	}
	return n
}

// TestLargeReadsArePaged: the history and the inbox of one run come in several answers, each about as large as a script
// may make it, with all that they have.
func TestLargeReadsArePaged(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Forgetful...)
	s := openAt(t, server.URL(), redis.Slots(1))
	leases := acquire(t, s, shard)
	result, err := s.Commit(t.Context(), store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases,
		Commands: []store.Command{start("r")}})
	if err != nil {
		t.Fatal(err)
	}
	run := result.Commands[0].Run.No
	const entries, items, few = 20, 1000, 4
	var ids []string
	turn := &store.Turn{Run: run, Shard: shard}
	for i := range entries {
		turn.Entries = append(turn.Entries, store.Entry{Loc: fmt.Sprintf("e%04d", i), Kind: store.KindStep, State: store.Done,
			Value: []byte(strings.Repeat("v", 300_000+i))})
	}
	if _, err := s.Commit(t.Context(), store.Batch{Node: node.ID, Boot: node.Boot, No: 2, Leases: leases,
		Turns: []*store.Turn{turn}}); err != nil {
		t.Fatal(err)
	}
	var sends []store.Command
	for i := range items {
		m := message("r", fmt.Sprint("m", i))
		m.Item.Value = []byte(strings.Repeat("m", 3900))
		if ids = append(ids, m.Item.ID); i < few { // of which an inbox leaves the values out
			m.Item.Value = []byte(strings.Repeat("m", 600_000))
		}
		if sends = append(sends, m); len(sends) == 100 {
			if _, _, err := s.Apply(t.Context(), sends); err != nil {
				t.Fatal(err)
			}
			sends = nil
		}
	}
	paged := func(what string, least int, read func() error) {
		t.Helper()
		before := scripts(t, server)
		if err := read(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if n := scripts(t, server) - before; n < least {
			t.Errorf("%s was read with %d scripts, expected at least %d", what, n, least)
		}
	}
	paged("the history", 6, func() error {
		all, err := s.History(t.Context(), store.HistoryQuery{Run: run, Values: true})
		if len(all) != entries {
			return fmt.Errorf("%d entries, %w", len(all), err)
		}
		for i, e := range all {
			if len(e.Value) != 300_000+i {
				t.Errorf("entry %d has %d bytes", i, len(e.Value))
			}
		}
		return err
	})
	check := func(got []store.Item, err error) error {
		if err != nil || len(got) != items {
			return fmt.Errorf("%d items, %w", len(got), err)
		}
		for i, it := range got {
			if it.ID != ids[i] {
				return fmt.Errorf("item %d is %s", i, it.ID)
			}
		}
		return nil
	}
	paged("the inbox", 3, func() error { return check(s.Inbox(t.Context(), run)) })
	paged("the inbox by IDs", 5, func() error {
		asked := append(slices.Clone(ids), ids[0], "none", ids[1])
		slices.Reverse(asked)
		return check(s.Inbox(t.Context(), run, asked...))
	})
}
