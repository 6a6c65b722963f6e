package redis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestMain is also a process that holds the shard, and one of those of
// TestKilledProcesses.
func TestMain(m *testing.M) {
	enginetest.Main(func(ctx context.Context, address string) (store.Store, error) {
		prefix, url, _ := strings.Cut(address, " ")
		return redis.Open(ctx, url, redis.Prefix(prefix))
	})
	if url := os.Getenv("STET_CHILD_HOLDS"); url != "" {
		if err := hold(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	debug.SetGCPercent(400) // a test process has little to keep, and much to allocate
	os.Exit(m.Run())
}

// hold takes the shard, as node a, starts a run and keeps both until the input ends. For each line it commits a turn of
// the run, and says the verdict.
func hold(url string) error {
	ctx := context.Background()
	s, err := redis.Open(ctx, url, redis.Slots(1))
	if err != nil {
		return err
	}
	n := store.Node{ID: "a", Boot: "a-1", Workflows: []string{"w"}}
	if _, err := s.Register(ctx, n); err != nil {
		return err
	}
	got, _, err := s.Acquire(ctx, n, []store.Shard{shard}, anHour)
	if err != nil || !got[0].Held {
		return fmt.Errorf("acquire: %+v, %w", got, err)
	}
	held := start("held")
	held.Claim = true
	b := store.Batch{Node: n.ID, Boot: n.Boot, No: 1, Leases: []store.Lease{got[0].Lease},
		Commands: []store.Command{held}}
	started, err := s.Commit(ctx, b)
	if err != nil {
		return err
	}
	fmt.Println("holds")
	b.Commands, b.Turns = nil, []*store.Turn{{Run: started.Commands[0].Run.No, Shard: shard}}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		b.No++
		result, err := s.Commit(ctx, b)
		for errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
			time.Sleep(10 * time.Millisecond) // nothing tells when the server can be reached
			result, err = s.Commit(ctx, b)
		}
		if err != nil {
			return err
		}
		fmt.Println(result.Turns[0].Verdict)
	}
	return nil
}
