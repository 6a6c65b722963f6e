package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// TestMain is also the main function of the other processes of tests.
func TestMain(m *testing.M) {
	role := os.Getenv("STET_SQLITE_ROLE")
	if role == "" {
		os.Exit(m.Run())
	}
	if err := roles[role](os.Getenv("STET_SQLITE_FILE")); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// roles are what another process does with the file.
var roles = map[string]func(path string) error{
	"owner":     ownerProcess,
	"sender":    senderProcess,
	"committer": committerProcess,
}

// process is another process on the file.
type process struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

// begin starts a process in a role and reads its first line.
func begin(t *testing.T, role, path string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STET_SQLITE_ROLE="+role, "STET_SQLITE_FILE="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	return p
}

// line returns the next line that the process prints.
func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatal("the process has ended:", p.out.Err())
	}
	if text, bad := strings.CutPrefix(p.out.Text(), "error: "); bad {
		t.Fatal("the process says:", text)
	}
	return p.out.Text()
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // with the signal's error
}

// ownerProcess takes the shard for a minute, claims what is ready, prints the
// epoch, and waits to be killed.
func ownerProcess(path string) error {
	s, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	ctx := context.Background()
	held, _, err := s.Acquire(ctx, otherNode, []store.Shard{testShard}, store.Delay(time.Minute/time.Microsecond))
	if err != nil {
		return err
	}
	if !held[0].Held {
		return fmt.Errorf("not held: %+v", held[0])
	}
	_, err = s.Claim(ctx, store.ClaimRequest{Node: otherNode.ID, Boot: otherNode.Boot,
		Leases: []store.Lease{held[0].Lease}, Workflows: []string{"w"}, Limit: 10})
	if err != nil {
		return err
	}
	fmt.Println(held[0].Lease.Epoch)
	select {}
}

// senderProcess starts runs as fast as it can for a second and prints how many,
// and how long the median, the 99th percentile and the slowest took.
func senderProcess(path string) error {
	s, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	ctx := context.Background()
	var took []time.Duration
	for begun := time.Now(); time.Since(begun) < time.Second; {
		before := time.Now()
		if _, _, err := s.Apply(ctx, []store.Command{start(fmt.Sprintf("from-%d-%d", os.Getpid(), len(took)))}); err != nil {
			return err
		}
		took = append(took, time.Since(before))
	}
	slices.Sort(took)
	fmt.Println(len(took))
	fmt.Println(took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	return s.Close()
}

// committerProcess takes the shard and commits entries of the one run without end.
// It prints how many there are after each acknowledgement.
func committerProcess(path string) error {
	s, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	ctx := context.Background()
	node := store.Node{ID: "committer", Boot: strconv.Itoa(os.Getpid())}
	held, _, err := s.Acquire(ctx, node, []store.Shard{testShard}, testTTL)
	if err != nil {
		return err
	}
	claims, err := s.Claim(ctx, store.ClaimRequest{Node: node.ID, Boot: node.Boot, Leases: []store.Lease{held[0].Lease},
		Workflows: []string{"w"}, Limit: 1})
	if err != nil {
		return err
	}
	if len(claims.Runs) != 1 {
		return fmt.Errorf("expected the run, got %+v, with the lease %+v", claims, held)
	}
	run := claims.Runs[0].Run.No
	entries, err := s.History(ctx, store.HistoryQuery{Run: run})
	if err != nil {
		return err
	}
	b := &batches{lease: held[0].Lease}
	for seq := int64(len(entries)); ; {
		turn := &store.Turn{Run: run, Shard: testShard}
		for range 1 + seq%7 {
			seq++
			turn.Entries = append(turn.Entries, doneEntry(seq, make([]byte, seq%3000)))
		}
		if _, err := s.Commit(ctx, b.next(turn)); err != nil {
			return err
		}
		fmt.Println(seq)
	}
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	soak.Faults(t)
	s := open(t, testPath(t))
	apply(t, s, start("run-1"))
	for life := range 5 * soak.Times(t) {
		p := begin(t, "committer", s.Path())
		acked := 0
		for range 1 + life*37%100 {
			var err error
			if acked, err = strconv.Atoi(p.line(t)); err != nil {
				t.Fatal(err)
			}
		}
		p.kill()
		if n := len(history(t, s, 1)); n < acked {
			t.Fatalf("life %d: of %d acknowledged entries %d are there", life, acked, n)
		}
		checkInvariants(t, s)
	}
}

func TestKilledOwnerIsReplacedAtOnce(t *testing.T) {
	soak.Faults(t)
	s := open(t, testPath(t))
	apply(t, s, start("run-1"))
	p := begin(t, "owner", s.Path())
	epoch, err := strconv.ParseInt(p.line(t), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if got := acquire(t, s, testNode); got.Held || got.Lease.Node != otherNode.ID || got.Lease.Epoch != epoch {
		t.Fatalf("expected the other process to hold the lease, got %+v", got)
	}
	p.kill()
	got := acquire(t, s, testNode)
	if !got.Held || got.Clean || got.Suspects != 1 || got.Lease.Epoch != epoch+1 {
		t.Errorf("expected to take the lease of a dead process with epoch %d and one suspect, got %+v", epoch+1, got)
	}
}

// TestClosedOwnerIsReplacedAtOnce is TestKilledOwnerIsReplacedAtOnce within one process: a handle that is closed gives
// up the system's lock as a process does that dies, and its leases stay.
func TestClosedOwnerIsReplacedAtOnce(t *testing.T) {
	s := open(t, testPath(t))
	apply(t, s, start("run-1"))
	owner := open(t, s.Path())
	held := acquire(t, owner, otherNode)
	claim(t, owner, held.Lease)
	if got := acquire(t, s, testNode); got.Held || got.Lease != held.Lease {
		t.Fatalf("expected the other handle to hold the lease, got %+v", got)
	}
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	got := acquire(t, s, testNode)
	if !got.Held || got.Clean || got.Suspects != 1 || got.Lease.Epoch != held.Lease.Epoch+1 {
		t.Errorf("expected to take the lease of a dead owner with epoch %d and one suspect, got %+v",
			held.Lease.Epoch+1, got)
	}
}

func TestOwnerThatOnlyPausesIsWaitedForAndThenFenced(t *testing.T) {
	clock := newTestClock()
	path := testPath(t)
	paused, next, third := open(t, path, Clock(clock.now)), open(t, path, Clock(clock.now)),
		open(t, path, Clock(clock.now))
	first := acquire(t, paused, testNode)
	apply(t, paused, start("run-1"))
	claims := claim(t, paused, first.Lease)
	if got := acquire(t, next, otherNode); got.Held {
		t.Fatalf("expected to wait for an owner that lives, got %+v", got)
	}
	clock.advance(time.Duration(testTTL) * time.Microsecond)
	second := acquire(t, next, otherNode) // without the lock of the operating system
	if !second.Held || second.Clean || second.Lease.Epoch != first.Lease.Epoch+1 {
		t.Fatalf("expected the expired lease, got %+v", second)
	}
	if !paused.owner.held() || next.owner.held() {
		t.Error("expected the paused owner to have the lock still")
	}
	b := &batches{lease: first.Lease}
	if got := b.commit(t, paused, done(claims.Runs[0].Run.No, 1, nil)); got[0].Verdict != store.Fenced {
		t.Errorf("expected the paused owner's turn to be fenced, got %+v", got)
	}
	renewed, _, err := paused.Renew(t.Context(), []store.Lease{first.Lease}, testTTL)
	if err != nil || renewed[0].Held {
		t.Fatalf("expected the lease to be lost, got %+v, %v", renewed, err)
	}
	// The lock is free now. That does not make the second owner a dead one.
	if got := acquire(t, third, store.Node{ID: "node-3", Boot: "boot-3"}); got.Held {
		t.Errorf("expected the lease of an owner without the lock to stand, got %+v", got)
	}
	if _, _, err := next.Renew(t.Context(), []store.Lease{second.Lease}, testTTL); err != nil {
		t.Fatal(err)
	}
	if !next.owner.held() {
		t.Error("expected the renewal to get the lock")
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	if got := acquire(t, third, store.Node{ID: "node-3", Boot: "boot-3"}); !got.Held || got.Clean {
		t.Errorf("expected to take the lease of a closed store at once, got %+v", got)
	}
}

func TestGivingOneShardBackKeepsTheLockForTheOthers(t *testing.T) {
	path := testPath(t)
	s, other := open(t, path), open(t, path)
	shards := []store.Shard{testShard, {Group: "second"}}
	held, _, err := s.Acquire(t.Context(), testNode, shards[:1], testTTL)
	if err != nil {
		t.Fatal(err)
	}
	more, _, err := s.Acquire(t.Context(), testNode, shards[1:], testTTL)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), []store.Lease{more[0].Lease}); err != nil {
		t.Fatal(err)
	}
	got, _, err := other.Acquire(t.Context(), otherNode, shards, testTTL)
	if err != nil || got[0].Held || !got[1].Held || !got[1].Clean {
		t.Errorf("expected only the second shard, got %+v, %v", got, err)
	}
	if err := s.Release(t.Context(), []store.Lease{held[0].Lease}); err != nil {
		t.Fatal(err)
	}
	if s.owner.held() {
		t.Error("expected the lock to be given up with the last lease")
	}
}

func TestShardsOfADeadOwnerAreTakenOneByOne(t *testing.T) {
	path := testPath(t)
	s, dead := open(t, path), open(t, path)
	shards := []store.Shard{testShard, {Group: "second"}}
	if _, _, err := dead.Acquire(t.Context(), otherNode, shards, testTTL); err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range shards {
		got, _, err := s.Acquire(t.Context(), testNode, shards[i:i+1], testTTL)
		if err != nil || !got[0].Held || got[0].Clean {
			t.Errorf("expected shard %d of the dead owner, got %+v, %v", i, got, err)
		}
	}
}

// TestProcessesShareTheFile lets a process that commits without a break meet
// others that start runs: nobody fails, and nobody starves.
func TestProcessesShareTheFile(t *testing.T) {
	soak.Faults(t)
	s, run, b := one(t)
	senders := []*process{begin(t, "sender", s.Path()), begin(t, "sender", s.Path())}
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		for seq := int64(1); ctx.Err() == nil; {
			turn := &store.Turn{Run: run, Shard: testShard}
			for range 50 {
				turn.Entries = append(turn.Entries, doneEntry(seq, []byte("value")))
				seq++
			}
			if _, err := s.Commit(ctx, b.next(turn)); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	total := int64(0)
	for _, p := range senders {
		n, err := strconv.ParseInt(p.line(t), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d runs started beside a busy writer; median, 99th percentile and slowest: %s", n, p.line(t))
		if n == 0 {
			t.Error("a process was starved")
		}
		total += n
	}
	cancel()
	busy.Wait()
	tallies, err := s.Count(t.Context(), store.Filter{Statuses: []store.Status{store.Queued}})
	if err != nil || len(tallies) != 1 || tallies[0].Runs != total {
		t.Errorf("expected %d runs that wait, got %+v, %v", total, tallies, err)
	}
}

// TestHandlesShareTheFile is TestProcessesShareTheFile within one process: handles that start runs meet one that
// commits until all are started.
func TestHandlesShareTheFile(t *testing.T) {
	s, run, b := one(t)
	const each = 20
	var starting, busy sync.WaitGroup
	done := make(chan struct{})
	for h := range 2 {
		other := open(t, s.Path())
		starting.Go(func() {
			for n := range each {
				if _, _, err := other.Apply(t.Context(), []store.Command{start(fmt.Sprintf("from-%d-%d", h, n))}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	busy.Go(func() {
		for seq := int64(1); ; {
			select {
			case <-done:
				return
			default:
			}
			turn := &store.Turn{Run: run, Shard: testShard}
			for range 50 {
				turn.Entries = append(turn.Entries, doneEntry(seq, []byte("value")))
				seq++
			}
			if _, err := s.Commit(t.Context(), b.next(turn)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	starting.Wait()
	close(done)
	busy.Wait()
	tallies, err := s.Count(t.Context(), store.Filter{Statuses: []store.Status{store.Queued}})
	if err != nil || len(tallies) != 1 || tallies[0].Runs != 2*each {
		t.Errorf("expected %d runs that wait, got %+v, %v", 2*each, tallies, err)
	}
}

func TestStoresOpenANewFileAtOnce(t *testing.T) {
	for range 5 {
		path := testPath(t)
		var stores [6]*Store
		var errs [len(stores)]error
		var all sync.WaitGroup
		for i := range stores {
			all.Go(func() { stores[i], errs[i] = Open(context.Background(), path) })
		}
		all.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		for _, s := range stores {
			if s.id != stores[0].id {
				t.Errorf("expected one store, got %s and %s", s.id, stores[0].id)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestWaitingForTheWriteLockEndsWithTheContext(t *testing.T) {
	s := open(t, testPath(t))
	other := open(t, s.Path())
	if _, err := other.write.c.exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 3 { // one waits for the file, the others for the connection
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, _, err := s.Apply(ctx, []store.Command{start("a")})
			wantErr(t, err, context.DeadlineExceeded)
		})
	}
	all.Wait()
	if _, err := other.write.c.exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	apply(t, s, start("a"))
}

func TestLockThatIsNeverGivenUpIsUnavailable(t *testing.T) {
	s := open(t, testPath(t))
	other := open(t, s.Path())
	if _, err := other.write.c.exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	s.write.c.patience = 10 * time.Millisecond
	_, _, err := s.Apply(t.Context(), []store.Command{start("a")})
	wantErr(t, err, store.ErrUnavailable)
	if errors.Is(err, store.ErrUnknown) {
		t.Errorf("expected a known outcome, got %v", err)
	}
	if _, err := other.write.c.exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	apply(t, s, start("a"))
}

func TestChangedSeesOnlyOthers(t *testing.T) {
	s := open(t, testPath(t))
	other := open(t, s.Path())
	apply(t, s, start("a"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Changed(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected own writes not to be told, got %v", err)
	}
	apply(t, other, start("b")) // before the call
	if _, err := s.Changed(t.Context()); err != nil {
		t.Error(err)
	}
	told := make(chan error)
	go func() {
		_, err := s.Changed(t.Context())
		told <- err
	}()
	before := time.Now()
	apply(t, other, start("c"))
	if err := <-told; err != nil {
		t.Error(err)
	}
	t.Logf("told after %v", time.Since(before))
}
