package cluster

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// die lets a node take a shard and say nothing more.
func die(t *testing.T, s store.Store, shard store.Shard) {
	t.Helper()
	n := store.Node{ID: "a", Boot: "a1", PID: 77, Host: "h"}
	if _, err := s.Register(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Acquire(t.Context(), n, []store.Shard{shard}, delay(30*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// TestTheLostNodeIsLogged by the one that takes its shards, and not one that has given them
// back.
func TestTheLostNodeIsLogged(t *testing.T) {
	const want = "level=WARN msg=\"a node was lost; its shards were taken\" node=b lost=a shards=1 process=77 host=h " +
		"heard_of="
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		k := keeper(t, s.Join(), "b")
		die(t, s, k.Shards[0])
		var text bytes.Buffer
		k.Log = slog.New(slog.NewTextHandler(&text, nil))
		for life, lost := range []int{1, 1} { // the second time it is its own, and was given back
			ctx, cancel := context.WithCancel(t.Context())
			terms, ended := make(chan string, 8), make(chan error, 1)
			go func() { ended <- k.Run(ctx, hold(terms)) }()
			<-terms
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(text.String(), want); n != lost {
				t.Errorf("life %d: %d nodes are lost, expected %d, in\n%s", life, n, lost, &text)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		shard := store.Shard{Group: store.DefaultGroup}
		die(t, s, shard)
		time.Sleep(time.Minute)
		var text bytes.Buffer
		m := &Member{
			Store: s.Join(), Node: store.Node{ID: "b", Boot: "b1"}, TTL: 30 * time.Second, Renew: 10 * time.Second,
			Log: slog.New(slog.NewTextHandler(&text, nil)), Observe: func(time.Time, store.Time) {}, Work: idle{},
		}
		m.Init()
		before, err := s.Describe(t.Context())
		if err != nil || !m.take([]store.Shard{shard}, &before) || strings.Count(text.String(), want) != 1 {
			t.Errorf("expected the loss of the node in\n%s\n%v", &text, err)
		}
	})
}

// TestOthersKnowTheLostNode: the node that has taken the shards says so, and nobody has to wait until the lost one has
// been silent for long. If it is heard of again it lives.
func TestOthersKnowTheLostNode(t *testing.T) {
	for _, slots := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Slots(slots))
			shard := store.Shard{Group: store.DefaultGroup}
			die(t, s, shard)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if slots == 1 {
					_ = keeper(t, s.Join(), "b").Run(ctx, hold(make(chan string, 8)))
					return
				}
				m := member(t, s.Join())
				m.Node.ID, m.Node.Boot = "b", "b1"
				_ = m.Run(ctx)
			}()
			alive := func() bool {
				t.Helper()
				d, err := s.Describe(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				i := slices.IndexFunc(d.Nodes, func(n store.Node) bool { return n.ID == "a" })
				return i >= 0 && d.Alive(&d.Nodes[i])
			}
			if !alive() {
				t.Error("it lives, as far as others know")
			}
			time.Sleep(10 * time.Second)
			if _, err := s.Register(t.Context(), store.Node{ID: "a", Boot: "a1", TTL: delay(time.Hour)}); err != nil {
				t.Fatal(err) // it is heard of once more
			}
			time.Sleep(25 * time.Second) // its lease has ended
			if alive() {
				t.Error("its shards are taken, and it counts as alive")
			}
			if _, err := s.Register(t.Context(), store.Node{ID: "a", Boot: "a1", TTL: delay(time.Hour)}); err != nil {
				t.Fatal(err)
			}
			if !alive() {
				t.Error("it was heard of again, and does not count as alive")
			}
			stop()
			<-ended
		})
	}
}

// idle is work that is none.
type idle struct{ Work }

func (idle) Begin([]store.Acquired) {}
