package redis_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

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
	os.Exit(m.Run())
}

// hold takes the shard, as node a, and keeps it until the input ends.
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
	fmt.Println("holds")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
