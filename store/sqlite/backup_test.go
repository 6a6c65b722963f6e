package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

func TestBackupWhileOthersWrite(t *testing.T) {
	s, run, b := one(t)
	stranger := open(t, s.Path())
	value := make([]byte, 2000)
	turn := &store.Turn{Run: run, Shard: testShard}
	for seq := range int64(2000) {
		turn.Entries = append(turn.Entries, doneEntry(seq+1, value))
	}
	b.commit(t, s, turn)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	writers.Go(func() {
		for seq := int64(3000); ctx.Err() == nil; seq++ {
			if _, err := s.Commit(ctx, b.next(done(run, seq, value))); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	writers.Go(func() {
		for ctx.Err() == nil {
			if _, _, err := stranger.Apply(ctx, []store.Command{send("run-1", "m", nil)}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	copied := filepath.Join(t.TempDir(), "copy.db")
	begun := time.Now()
	err := s.Backup(t.Context(), copied)
	cancel()
	writers.Wait()
	t.Logf("copied in %v", time.Since(begun))
	if err != nil {
		t.Fatal(err)
	}
	restored := open(t, copied)
	entries := history(t, restored, run)
	if len(entries) < 2000 {
		t.Fatalf("expected at least what was there before the backup, got %d entries", len(entries))
	}
	if !reflect.DeepEqual(entries, history(t, s, run)[:len(entries)]) {
		t.Error("expected the copy to be a beginning of the original")
	}
	if names, err := filepath.Glob(copied + ".*"); err != nil || len(names) > 0 {
		t.Errorf("expected nothing beside the copy, got %v, %v", names, err)
	}
}

func TestBackupOverwritesNothing(t *testing.T) {
	s := open(t, testPath(t))
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantErr(t, s.Backup(t.Context(), path), store.ErrInvalid)
	if content, err := os.ReadFile(path); err != nil || string(content) != "mine" {
		t.Errorf("expected the file as it was, got %q, %v", content, err)
	}
	wantErr(t, s.Backup(t.Context(), filepath.Join(path, "no", "folder.db")), store.ErrUnavailable)
}

func TestBackupEndsWithTheContextAndTheStore(t *testing.T) {
	s, run, b := one(t)
	b.commit(t, s, done(run, 1, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, s.Backup(ctx, testPath(t)), context.Canceled)
	if s.write.c.copying != nil {
		t.Error("expected no backup under way")
	}
	// The connection is lost in the middle.
	k := &copying{to: testPath(t)}
	if _, err := k.piece(t.Context(), &s.write); err != nil {
		t.Fatal(err)
	}
	if k.backup == nil {
		t.Fatal("expected the copy to be under way")
	}
	s.write.discard()
	_, err := k.piece(t.Context(), &s.write)
	wantErr(t, errors.Join(err, k.close()), store.ErrUnavailable)
}

func TestDoctorFindsWhatIsBroken(t *testing.T) {
	for what, sql := range map[string]string{
		"entries belong to a run":                "UPDATE stet_entries SET run_no=99",
		"items belong to a run":                  "UPDATE stet_inbox SET run_no=99",
		"large values belong to an entry":        "UPDATE stet_blobs SET run_no=99",
		"large values of entries are there":      "DELETE FROM stet_blobs",
		"inputs and outputs are there":           "DELETE FROM stet_payloads",
		"completion numbers are unique in a run": "UPDATE stet_entries SET seq=1",
		"ended runs have an end":                 "UPDATE stet_runs SET ended=1",
		"claimed runs have an owner":             "UPDATE stet_leases SET node=''",
		"live runs can be reached":               "UPDATE stet_runs SET ready=0; DELETE FROM stet_inbox",
		"only runs that rest have a wake time":   "UPDATE stet_runs SET wake_at=1",
		"tags are those of the runs":             "UPDATE stet_tags SET value='other'",
		"values and streams belong to a run":     "UPDATE stet_feeds SET run_no=99",
		"streams have no gap":                    "DELETE FROM stet_streams WHERE pos=1",
		"ended runs owe no answer":               "UPDATE stet_inbox SET kind=8; UPDATE stet_runs SET status=4, ended=1",
		"acts of operators belong to a run":      "INSERT INTO stet_audit VALUES (99, 1, 1, '', 'pause', '', '')",
	} {
		t.Run(what, func(t *testing.T) {
			path := testPath(t)
			s := open(t, path)
			held := acquire(t, s, testNode)
			c := start("run-1")
			c.Start.Input = make([]byte, smallPayload+1)
			c.Start.Tags = []store.Pair{{Key: "tenant", Value: "acme"}, {Key: "area", Value: "tenant"}}
			apply(t, s, c, send("run-1", "m", nil))
			run := claim(t, s, held.Lease).Runs[0].Run.No
			b := &batches{lease: held.Lease}
			b.commit(t, s, done(run, 1, make([]byte, store.LargeValue)), &store.Turn{Run: 0, Shard: testShard})
			b.commit(t, s, done(run, 2, nil))
			b.commit(t, s, &store.Turn{Run: run, Shard: testShard, Values: []store.Setting{{Name: "v"}},
				Appends: []store.Append{{Name: "s"}, {Name: "s"}}})
			checkInvariants(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			tamper(t, path, sql)
			s, err := Open(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			findings, err := s.Doctor(t.Context())
			if err = errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if f.What == what && !f.OK {
					return
				}
			}
			t.Errorf("expected a finding, got %+v", findings)
		})
	}
}
