package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// atATime is how many tests run at a time, at least.
const atATime = 3

// TestMain is also the process that TestTxStepKilled kills, those that hold a shard, and those
// of TestKilledProcesses.
func TestMain(m *testing.M) {
	enginetest.Main(func(ctx context.Context, address string) (store.Store, error) {
		schema, dsn, _ := strings.Cut(address, " ")
		return postgres.Open(ctx, dsn, postgres.Schema(schema), postgres.AllowLoss(), postgres.Patient())
	})
	if dsn := os.Getenv("STET_CHILD_HOLDS"); dsn != "" {
		if err := hold(dsn); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dsn := os.Getenv("STET_CHILD_STORE"); dsn != "" {
		if err := work(dsn, os.Getenv("STET_CHILD_POOL")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Most tests wait most of the time: for servers, for locks, for the ends of leases.
	if runtime.GOMAXPROCS(0) < atATime {
		_ = flag.Set("test.parallel", strconv.Itoa(atATime)) // a flag of the command line comes later
	}
	code := m.Run()
	dropRooms()
	os.Exit(code)
}

// hold takes the shard, starts a run and keeps both until the input ends. For each line it commits a turn of the run,
// and says the verdict.
func hold(dsn string) error {
	ctx := context.Background()
	s, err := postgres.Open(ctx, dsn)
	if err != nil {
		return err
	}
	n := store.Node{ID: "a", Boot: "a-1", Workflows: []string{"w"}}
	if _, err := s.Register(ctx, n); err != nil {
		return err
	}
	got, _, err := s.Acquire(ctx, n, []store.Shard{shard}, ttl)
	if err != nil || !got[0].Held {
		return fmt.Errorf("acquire: %+v, %w", got, err)
	}
	b := store.Batch{Node: n.ID, Boot: n.Boot, No: 1, Leases: []store.Lease{got[0].Lease},
		Commands: []store.Command{claimedStart("held")}}
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
