package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// trace notes the first words of the statements that a connection executes.
func trace(t *testing.T, c *conn) (statements func() []string) {
	t.Helper()
	var all []string
	err := c.Trace(sqlite3.TRACE_STMT, func(_ sqlite3.TraceEvent, _, text any) error {
		words := strings.Fields(text.(string))
		all = append(all, strings.Join(words[:min(3, len(words))], " "))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() []string {
		got := all
		all = nil
		return got
	}
}

func TestStatementsOfATurnThatOnlyCompletesSteps(t *testing.T) {
	s, run, b := one(t)
	b.commit(t, s, done(run, 1, nil)) // reads the run, the lease and the node
	statements := trace(t, s.write.c)
	b.commit(t, s, &store.Turn{Run: run, Shard: testShard, Entries: []store.Entry{doneEntry(2, nil), doneEntry(3, nil)}})
	want := []string{"BEGIN IMMEDIATE", "INSERT INTO stet_entries", "INSERT INTO stet_entries", "COMMIT"}
	if diff := cmp.Diff(want, statements()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatementsArePlannedOnce pins that no statement is planned again because
// another value is bound to it.
func TestStatementsArePlannedOnce(t *testing.T) {
	s, run, b := one(t)
	for _, stmt := range s.write.c.stmts { // since then there are tables
		stmt.Status(sqlite3.STMTSTATUS_REPREPARE, true)
	}
	for i := range 3 {
		apply(t, s, start(fmt.Sprint("other ", i)), send("run-1", fmt.Sprint(i), nil))
		b.commit(t, s, &store.Turn{Run: run, Shard: testShard, Entries: []store.Entry{doneEntry(int64(i)+1, nil)}})
		if claims := claim(t, s, b.lease); len(claims.Runs) == 0 {
			t.Fatal("expected the new run and the item, found nothing")
		}
		f := store.Filter{Statuses: []store.Status{store.Status(1 + i)}, Parent: run + store.RunNo(i)}
		if _, err := s.List(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Count(t.Context(), store.Filter{Statuses: f.Statuses}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range append(s.read.free, s.write.c) {
		if len(c.stmts) == 0 {
			t.Error("expected statements, found none")
		}
		for text, stmt := range c.stmts {
			if n := stmt.Status(sqlite3.STMTSTATUS_REPREPARE, false); n > 0 {
				t.Errorf("planned anew %d times: %s", n, text)
			}
		}
	}
}

func TestStatementsOfAnIdleProcess(t *testing.T) {
	s, run, b := one(t)
	b.commit(t, s, &store.Turn{Run: run, Shard: testShard, Update: &store.Update{Status: store.Suspended}})
	claim(t, s, b.lease)
	written, read := trace(t, s.write.c), trace(t, s.read.free[0])
	if claims := claim(t, s, b.lease); len(claims.Runs) != 0 {
		t.Fatalf("expected nothing, got %+v", claims)
	}
	if diff := cmp.Diff([]string{"BEGIN", "WITH RECURSIVE shards(at,", "COMMIT"}, read()); diff != "" {
		t.Errorf("a claim (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := s.Changed(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected nothing to change, got %v", err)
	}
	if len(read()) != 0 {
		t.Error("expected no query while waiting for changes")
	}
	for _, statement := range written() {
		if statement != "PRAGMA data_version" {
			t.Errorf("expected only the data version to be read, got %q", statement)
		}
	}
}

func TestStoreWorksInABubble(t *testing.T) {
	path := testPath(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		other, err := Open(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		looks := trace(t, s.write.c)
		begun := time.Now()
		var told sync.WaitGroup
		told.Go(func() {
			if _, err := s.Changed(t.Context()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Minute) // of the bubble
		apply(t, other, start("a"))
		told.Wait()
		if took := time.Since(begun); took > time.Minute+watchNoticed {
			t.Errorf("expected to be told within %v, got %v", watchNoticed, took-time.Minute)
		}
		if n := len(looks()); n > 100 {
			t.Errorf("expected about a look each second of the bubble, got %d in a minute", n)
		}
		held := acquire(t, s, testNode)
		if claims := claim(t, s, held.Lease); claims.Now < store.TimeOf(begun.Add(time.Minute)) {
			t.Errorf("expected the bubble's time, got %v", claims.Now)
		}
		if err := errors.Join(s.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	})
}
