package postgres_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestLeaseFromATimeAhead: the server's clock was ahead for a while and is set back. A process
// that starts then takes the leases of one that died, after their length, and not those that are
// renewed.
func TestLeaseFromATimeAhead(t *testing.T) {
	t.Parallel()
	dsn, schema := servers.SharedPostgres(t)
	const length = store.Delay(time.Second / time.Microsecond)
	member := func(id string, ahead time.Duration) *node {
		clock := postgres.Clock(func() time.Time { return time.Now().Add(ahead) })
		n := &node{s: open(t, dsn, postgres.Schema(schema), postgres.AllowLoss(), clock),
			node: store.Node{ID: id, Boot: id + "-1", TTL: length}}
		if _, err := n.s.Register(t.Context(), n.node); err != nil {
			t.Fatal(err)
		}
		return n
	}
	take := func(n *node) store.Acquired {
		got, _, err := n.s.Acquire(t.Context(), n.node, []store.Shard{shard}, length)
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	look := func(n *node) (ended bool) {
		d, err := n.s.Describe(t.Context())
		if err != nil || len(d.Leases) != 1 {
			t.Fatalf("%+v: %v", d.Leases, err)
		}
		return d.Leases[0].Until <= d.Now
	}
	a := member("a", time.Hour) // its time goes on when the server's clock is set back
	lease := take(a).Lease
	b := member("b", 0)
	for begun := time.Now(); time.Since(begun) < 2*time.Duration(length)*time.Microsecond; {
		renewed, _, err := a.s.Renew(t.Context(), []store.Lease{lease}, length)
		if err != nil || !renewed[0].Held {
			t.Fatalf("renewed: %+v, %v", renewed, err)
		}
		if look(b) || take(b).Held {
			t.Fatal("a lease that is renewed was taken")
		}
	}
	begun := time.Now() // a is dead
	servers.Until(t, "the lease of the dead process has ended", func() bool {
		ended, got := look(b), take(b)
		if got.Held && got.Clean {
			t.Error("the lease was given back, it seems")
		}
		if ended && !got.Held {
			t.Error("a lease that has ended was not to be had")
		}
		return got.Held
	})
	t.Logf("taken after %s", time.Since(begun))
	if r, _, err := a.s.Renew(t.Context(), []store.Lease{lease}, length); err != nil || r[0].Held {
		t.Errorf("the former holder still has it: %+v, %v", r, err)
	}
}

// TestTimeGoesOn: a process that has read a time from the server whose clock is then set back by an hour finds a run
// due after its delay, however often it asks.
func TestTimeGoesOn(t *testing.T) {
	t.Parallel()
	dsn, schema := servers.SharedPostgres(t)
	s := open(t, dsn, postgres.Schema(schema), postgres.AllowLoss())
	node := store.Node{ID: "a", Boot: "a-1", Workflows: []string{"w"}}
	before, err := s.Register(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	postgres.ReadTime(s, before.Add(time.Hour))
	shard := store.Shard{Group: store.DefaultGroup}
	const hour = store.Delay(time.Hour / time.Microsecond)
	held, _, err := s.Acquire(t.Context(), node, []store.Shard{shard}, hour)
	if err != nil {
		t.Fatal(err)
	}
	const delay = 300 * time.Millisecond
	start := &store.Start{ID: "r", Shard: shard, Workflow: "w", After: store.Delay(delay / time.Microsecond)}
	answers, began, err := s.Apply(t.Context(), []store.Command{{Start: start}})
	if err != nil {
		t.Fatal(err)
	}
	created := answers[0].Run.Created // the delay counts from it: the answer's time is read later
	if began < before.Add(time.Hour) {
		t.Errorf("the store's time went back by %v", before.Add(time.Hour).Sub(began))
	}
	read := time.Now()
	for found := false; !found; {
		sent := time.Since(read)
		claims, err := s.Claim(t.Context(), store.ClaimRequest{Node: node.ID, Boot: node.Boot,
			Leases: []store.Lease{held[0].Lease}, Workflows: node.Workflows, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(claims.Runs) > 0 && claims.Now.Sub(created) < delay {
			t.Errorf("the run was due after %v, expected %v", claims.Now.Sub(created), delay)
		}
		found = len(claims.Runs) > 0
		if passed := claims.Now.Sub(began); passed < sent-sent/100 {
			t.Fatalf("%v after an answer %v have passed in the store", sent, passed)
		}
	}
}
