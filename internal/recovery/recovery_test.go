package recovery_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/recovery"
	"github.com/stet-run/stet/store"
)

func shard(slot int) store.Shard { return store.Shard{Group: "g", Slot: slot} }

// claims returns an answer with n newly claimed runs of a shard.
func claims(n int, s store.Shard, more bool) *store.Claims {
	c := &store.Claims{More: more}
	for range n {
		c.Runs = append(c.Runs, store.Claimed{New: true, Run: store.Run{Workflow: "w", Shard: s}})
	}
	return c
}

// bench is a recorder, what it logs, and what the store counts.
type bench struct {
	recovery.Recorder
	log     bytes.Buffer
	tallies []store.Tally
	err     error
	counts  int
}

func newBench() *bench {
	b := &bench{}
	b.Go = func(f func()) { f() }
	b.Now = func() store.Time { return 7 }
	b.Log = slog.New(slog.NewTextHandler(&b.log, nil))
	b.Count = func(_ context.Context, f store.Filter) ([]store.Tally, error) {
		b.counts++
		if f.Most != recovery.Most {
			return nil, errors.New("the count has no bound")
		}
		return b.tallies, b.err
	}
	return b
}

func held(t *testing.T, slots ...int) *ownership.Shards {
	var set ownership.Set
	for _, slot := range slots {
		set.Take(t.Context(), []store.Lease{{Shard: shard(slot)}})
	}
	return set.Now()
}

// TestDueIsWhatTheFirstClaimsFind: claims of before the takeover, of other shards, of entities and of
// runs that were claimed before say nothing of what was due.
func TestDueIsWhatTheFirstClaimsFind(t *testing.T) {
	b := newBench()
	b.tallies = []store.Tally{
		{Workflow: "v", Status: store.Running, Runs: 4}, {Workflow: "w", Status: store.Running, Runs: 5},
		{Workflow: "w", Status: store.Stalled, Runs: recovery.Most + 1},
	}
	b.Found(recovery.Found{Clean: true, Shards: []store.Shard{shard(1), shard(2)}})
	b.Found(recovery.Found{Suspects: 3, Shards: []store.Shard{shard(3)}})
	b.Claimed(t.Context(), held(t, 1, 2), claims(2, shard(1), false)) // requested before 3 was taken, or of another server
	if b.Last() != nil {
		t.Fatal("a claim of before the takeover has ended the report")
	}
	all := held(t, 1, 2, 3, 9)
	b.Claimed(t.Context(), all, claims(2, shard(3), true))
	b.Claimed(t.Context(), all, claims(5, shard(9), true))
	last := claims(1, shard(2), false)
	last.Runs = append(last.Runs,
		store.Claimed{Run: store.Run{Workflow: "w", Shard: shard(1)}},
		store.Claimed{New: true, Run: store.Run{Workflow: store.EntityPrefix + "queue", Shard: shard(1)}})
	b.Claimed(t.Context(), all, last)
	r := b.Last()
	if r == nil || r.Due != 5 || r.Suspects != 3 || r.Clean || len(r.Shards) != 3 || r.At != 7 {
		t.Fatalf("the report is %+v", r)
	}
	if r.Live[store.Running] != 9 || r.Live[store.Stalled] != recovery.Most+1 {
		t.Errorf("it counts %v", r.Live)
	}
	const want = `msg=recovered clean=false shards=3 suspects=3 due=5 queued=0 running=9 suspended=0 stalled="over 10000"`
	if got := b.log.String(); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
		t.Errorf("the log has %s", got)
	}
	b.Claimed(t.Context(), all, claims(1, shard(1), false))
	if b.counts != 1 {
		t.Errorf("the runs were counted %d times", b.counts)
	}
}

// TestAReportEndsInTime: while memory is full the rest of what is due is not waited for, nor are
// shards that were lost at once.
func TestAReportEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.err = errors.New("the store is away")
		b.Found(recovery.Found{Clean: true, Shards: []store.Shard{shard(1)}})
		for range 10 {
			b.Claimed(t.Context(), held(t, 1), claims(2, shard(1), true))
		}
		time.Sleep(time.Minute)
		b.Claimed(t.Context(), held(t, 1), claims(2, shard(1), true))
		r := b.Last()
		if r == nil || r.Due != recovery.Most+1 || r.Live != nil {
			t.Fatalf("with more that is due: %+v", r)
		}
		if got := b.log.String(); !strings.Contains(got, `due="over 10000" error="the store is away"`) {
			t.Errorf("the log has %s", got)
		}
		b.Found(recovery.Found{Clean: true, Shards: []store.Shard{shard(2)}})
		time.Sleep(time.Minute)
		b.Claimed(t.Context(), held(t, 1), claims(0, shard(1), false))
		if again := b.Last(); again == r || again.Due != 0 {
			t.Errorf("with shards that were lost again: %+v", again)
		}
	})
}

// TestDueIsBounded: counts end.
func TestDueIsBounded(t *testing.T) {
	b := newBench()
	b.Found(recovery.Found{Clean: true, Shards: []store.Shard{shard(1)}})
	in := held(t, 1)
	for range 3 {
		b.Claimed(t.Context(), in, claims(recovery.Most/2, shard(1), true))
	}
	b.Claimed(t.Context(), in, claims(0, shard(1), false))
	if r := b.Last(); r == nil || r.Due != recovery.Most+1 {
		t.Errorf("the report is %+v", r)
	}
}

// TestAProcessThatStopsReportsNothing: what it has counted is not complete.
func TestAProcessThatStopsReportsNothing(t *testing.T) {
	b := newBench()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Found(recovery.Found{Clean: true, Shards: []store.Shard{shard(1)}})
	b.Claimed(ctx, held(t, 1), claims(0, shard(1), false))
	if b.Last() != nil || b.log.Len() > 0 {
		t.Errorf("it reports %+v and logs %s", b.Last(), b.log.String())
	}
}
