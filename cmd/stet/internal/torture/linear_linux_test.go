package torture_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/anishathalye/porcupine"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// Linearizability of leases and commits of real processes. Three processes take, renew and give back the lease of one
// shard, and commit with the lease that they believe to have. Meanwhile they are killed with SIGKILL and stopped with
// SIGSTOP beyond their lease. Each logs every call before it makes it, and then the answer. An order of all calls must
// explain the answers: a register that only the present epoch may write. The search for it is porcupine's.
//
// A call whose answer is not known (its process was killed, or the store gave an error)
// has no end: it may have taken effect, at any time after its begin, or never.

// sharedNow is CLOCK_MONOTONIC, which counts from the same moment in all processes of a
// machine; Go's own readings of it count from the begin of each process.
func sharedNow() int64 {
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		panic(errno) // it cannot fail for a good pointer
	}
	return t.Nano()
}

// contend is a line of the log of a process: a call, or, if Answered, its answer.
type contend struct {
	No       int   `json:"no"` // of the call, in its process
	At       int64 `json:"at"`
	Answered bool  `json:"answered,omitempty"`

	Kind  string `json:"kind,omitempty"`
	Node  string `json:"node,omitempty"`  // the caller; the holder of the shard
	Epoch int64  `json:"epoch,omitempty"` // of the caller's lease; of the holder
	Value string `json:"value,omitempty"` // to commit; that was read
	OK    bool   `json:"ok,omitempty"`
	// Refused: a commit was refused for another reason than its epoch.
	Refused bool `json:"refused,omitempty"`
}

const (
	acquires = "acquire"
	renews   = "renew"
	releases = "release"
	commits  = "commit"
	reads    = "read"
)

// contended is the shard, and contendedTTL how long its leases last.
var contended = store.Shard{Group: store.DefaultGroup}

const contendedTTL = store.Delay(250_000)

// contender is a process that wants the shard.
type contender struct {
	s     store.Store
	log   *os.File
	node  store.Node
	lease store.Lease
	batch int64
	calls int
	run   store.RunNo
}

func init() {
	contendAs = func(name string) error {
		ctx := context.Background()
		s, err := opener(os.Getenv("STET_TORTURE_DB"))(ctx)
		if err != nil {
			return err
		}
		return errors.Join(contendOn(ctx, s, name, os.Getenv("STET_TORTURE_LOG")), s.Close())
	}
}

// contendOn is the whole life of such a process, which ends when it is killed.
func contendOn(ctx context.Context, s store.Store, name, log string) error {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	c := &contender{s: s, log: f, node: store.Node{ID: name, Boot: "b"}}
	if _, err := s.Register(ctx, c.node); err != nil {
		return err
	}
	page, err := s.List(ctx, store.Filter{IDs: []string{"r"}, Limit: 1})
	if err != nil || len(page.Runs) == 0 {
		return fmt.Errorf("expected a run r, found none: %w", err)
	}
	for c.run = page.Runs[0].No; ; {
		if err := c.act(ctx); err != nil {
			return err
		}
		if err := rest(ctx, rand.N(12*time.Millisecond)); err != nil {
			return err
		}
	}
}

// called logs a call and makes it. An error of the store leaves its effect open.
func (c *contender) called(call contend, do func() (contend, error)) (contend, bool, error) {
	c.calls++
	call.No, call.Node, call.Epoch, call.At = c.calls, c.node.ID, c.lease.Epoch, sharedNow()
	if err := c.write(call); err != nil {
		return contend{}, false, err
	}
	answer, err := do()
	if err != nil {
		return contend{}, false, nil
	}
	answer.No, answer.Answered, answer.At = c.calls, true, sharedNow()
	return answer, true, c.write(answer)
}

func (c *contender) write(l contend) error {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = c.log.Write(append(append([]byte{'\n'}, data...), '\n'))
	}
	return err
}

// act makes one call.
func (c *contender) act(ctx context.Context) error {
	choice := rand.IntN(12)
	if c.lease.Epoch == 0 {
		choice = min(choice, 1) // an epoch is known from an Acquire alone
	}
	var err error
	switch choice {
	case 0, 1:
		got, known, logErr := c.called(contend{Kind: acquires}, func() (contend, error) {
			got, _, err := c.s.Acquire(ctx, c.node, []store.Shard{contended}, contendedTTL)
			if err != nil {
				return contend{}, err
			}
			return contend{OK: got[0].Held, Node: got[0].Lease.Node, Epoch: got[0].Lease.Epoch}, nil
		})
		if err = logErr; err == nil && known && got.OK {
			c.lease = store.Lease{Shard: contended, Node: c.node.ID, Boot: c.node.Boot, Epoch: got.Epoch}
			// So that the run is claimed; one that is not refuses the commits.
			_, _ = c.s.Claim(ctx, store.ClaimRequest{Node: c.node.ID, Boot: c.node.Boot, Leases: []store.Lease{c.lease},
				Workflows: []string{"w"}, Limit: 1})
		}
	case 2:
		_, _, err = c.called(contend{Kind: renews}, func() (contend, error) {
			got, _, err := c.s.Renew(ctx, []store.Lease{c.lease}, contendedTTL)
			return contend{OK: err == nil && got[0].Held}, err
		})
	case 3:
		_, _, err = c.called(contend{Kind: releases}, func() (contend, error) {
			return contend{}, c.s.Release(ctx, []store.Lease{c.lease})
		})
	case 4, 5, 6, 7, 8:
		c.batch++
		value := fmt.Sprintf("%d of %s", c.batch, c.node.ID)
		_, _, err = c.called(contend{Kind: commits, Value: value}, func() (contend, error) {
			result, err := c.s.Commit(ctx, store.Batch{Node: c.node.ID, Boot: c.node.Boot, No: c.batch,
				Leases: []store.Lease{c.lease}, Turns: []*store.Turn{{
					Run: c.run, Shard: contended, Entries: []store.Entry{
						{Loc: "x", Kind: store.KindStep, State: store.Open, Value: []byte(value)},
					},
				}}})
			if err != nil {
				return contend{}, err
			}
			v := result.Turns[0].Verdict
			return contend{OK: v == store.Committed, Refused: v == store.Refused}, nil
		})
	default:
		_, _, err = c.called(contend{Kind: reads}, func() (contend, error) {
			value, err := contendedValue(ctx, c.s, c.run)
			return contend{Value: value}, err
		})
	}
	return err
}

func contendedValue(ctx context.Context, s store.Store, run store.RunNo) (string, error) {
	entries, err := s.History(ctx, store.HistoryQuery{Run: run, Values: true})
	if err != nil || len(entries) == 0 {
		return "", err
	}
	return string(entries[0].Value), nil
}

// ownership is the state that the calls are about.
type ownership struct {
	epoch  int64
	holder string // ""; nobody
	value  string
}

// ownershipModel decides which answers are right. seen are the epochs that were seen in answers, by the holder of the
// shard: those that an Acquire without a known answer may have got.
func ownershipModel(seen map[string][]int64) porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{ownership{}} },
		Step: func(state, in, out any) []any {
			s, c, a := state.(ownership), in.(contend), out.(contend)
			mine := s.holder == c.Node && s.epoch == c.Epoch
			then := s
			switch c.Kind {
			case acquires:
				switch {
				case !a.Answered:
					next := []any{s, ownership{s.epoch + 1, c.Node, s.value}} // not seen: as low as can be
					for _, epoch := range seen[c.Node] {
						if epoch > s.epoch+1 {
							next = append(next, ownership{epoch, c.Node, s.value})
						}
					}
					return next
				case a.OK && a.Epoch > s.epoch: // whether it had expired is not modelled: only safety is
					return []any{ownership{a.Epoch, c.Node, s.value}}
				case !a.OK && s.holder != "" && a.Node == s.holder && a.Epoch == s.epoch:
					return []any{s}
				}
				return nil
			case renews:
				if a.Answered && a.OK != mine {
					return nil
				}
				return []any{s}
			case releases:
				if mine {
					then.holder = ""
				}
			case commits:
				switch {
				case a.Answered && a.OK != mine && !a.Refused:
					return nil
				case a.Answered && !a.OK || !mine:
					return []any{s}
				}
				then.value = c.Value
			default:
				if a.Answered && a.Value != s.value {
					return nil
				}
				return []any{s}
			}
			if !a.Answered && then != s {
				return []any{s, then}
			}
			return []any{then}
		},
	}).ToModel()
}

// contention is the calls of all processes.
type contention struct {
	t    *testing.T
	ops  []porcupine.Operation
	seen map[string][]int64
	open int // calls whose answers are not known
}

// read adds the calls of a process.
func (h *contention) read(process int, log string) {
	h.t.Helper()
	f, err := os.Open(log)
	if os.IsNotExist(err) {
		return // it was killed before its first call
	}
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	first := len(h.ops)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l contend
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue // an empty line, or one that was cut by a kill
		}
		if !l.Answered {
			h.ops = append(h.ops, porcupine.Operation{ClientId: process, Input: l, Call: l.At, Output: contend{},
				Return: math.MaxInt64})
			h.open++
			continue
		}
		op := &h.ops[len(h.ops)-1]
		if len(h.ops) == first || op.Input.(contend).No != l.No {
			h.t.Fatalf("%s: an answer to call %d, which is not the last one", log, l.No)
		}
		op.Output, op.Return = l, l.At
		h.open--
		if op.Input.(contend).Kind == acquires {
			h.seen[l.Node] = append(h.seen[l.Node], l.Epoch)
		}
	}
}

// explained reports whether an order explains the calls, and one more.
func (h *contention) explained(more ...porcupine.Operation) porcupine.CheckResult {
	result, _ := porcupine.CheckOperationsVerbose(ownershipModel(h.seen), append(h.ops[:len(h.ops):len(h.ops)], more...),
		30*time.Second)
	return result
}

// TestOwnershipOfProcessesIsLinear, on each store that processes share.
func TestOwnershipOfProcessesIsLinear(t *testing.T) {
	soak.Faults(t)
	for name, db := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "linear.db") },
		"postgres": func(t *testing.T) string { return servers.NewPostgres(t).DSN() },
		"redis":    func(t *testing.T) string { return servers.NewRedis(t, servers.Durable...).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contendFor(t, db(t), 2*time.Second*time.Duration(soak.Times(t)))
		})
	}
}

func contendFor(t *testing.T, db string, lasts time.Duration) {
	s, err := opener(db)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	answers, _, err := s.Apply(t.Context(),
		[]store.Command{{Start: &store.Start{ID: "r", Shard: contended, Workflow: "w", Seed: store.Seed{1}}}})
	if err != nil || answers[0].Outcome != store.Applied {
		t.Fatalf("start the run: %v, %+v", err, answers)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	var processes []*exec.Cmd // all that ever were
	begin := func() *exec.Cmd {
		n := len(processes)
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "STET_TORTURE_CONTENDER=p"+strconv.Itoa(n), "STET_TORTURE_DB="+db,
			"STET_TORTURE_LOG="+filepath.Join(dir, strconv.Itoa(n)))
		c.Stderr = t.Output()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		processes = append(processes, c)
		return c
	}
	kill := func(c *exec.Cmd) {
		_ = c.Process.Kill() // it may have ended, which the log shows
		_ = c.Wait()         // with the signal's error
	}
	var live [3]*exec.Cmd
	begun := time.Now()
	for i := range live {
		live[i] = begin()
		defer func() { kill(live[i]) }()
	}
	for i := range live { // on a busy machine a process needs longer until it does anything
		log := filepath.Join(dir, strconv.Itoa(i))
		for info, err := os.Stat(log); err != nil || info.Size() == 0; info, err = os.Stat(log) {
			if err := rest(t.Context(), 10*time.Millisecond); err != nil || time.Since(begun) > time.Minute {
				t.Fatalf("process %d has done nothing in %s, %v", i, time.Since(begun), err)
			}
		}
	}
	between := max(300*time.Millisecond, time.Since(begun))
	kills, stops := 0, 0
	for end := time.Now().Add(max(lasts, 7*between)); time.Now().Before(end); {
		if err := rest(t.Context(), time.Duration(random.Int64N(int64(between)))); err != nil {
			t.Fatal(err)
		}
		i := random.IntN(len(live))
		if random.IntN(3) == 0 {
			kill(live[i])
			live[i] = begin()
			kills++
			continue
		}
		if err := live[i].Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatalf("a process has ended by itself: %v", err)
		}
		err := rest(t.Context(), time.Duration(200+random.IntN(300))*time.Millisecond)
		if err := live[i].Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		stops++
	}
	for _, c := range live {
		kill(c)
	}
	h := &contention{t: t, seen: map[string][]int64{}}
	for n := range processes {
		h.read(n, filepath.Join(dir, strconv.Itoa(n)))
	}
	last := contend{Kind: reads, At: sharedNow()}
	value, err := contendedValue(t.Context(), s, answers[0].Run.No)
	if err != nil {
		t.Fatal(err)
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: len(processes), Input: last, Call: last.At,
		Output: contend{Answered: true, Value: value}, Return: sharedNow()})
	counts := map[string]int{}
	var stale porcupine.Operation
	for _, op := range h.ops {
		in, out := op.Input.(contend), op.Output.(contend)
		if out.OK {
			counts[in.Kind]++
		}
		if in.Kind == commits && out.Answered && !out.OK && !out.Refused {
			counts["fenced"]++
			stale = op
		}
	}
	t.Logf("%d calls, %d of them open, %d kills, %d stops; done: %v", len(h.ops), h.open, kills, stops, counts)
	if counts[acquires] < 2 || counts[commits] == 0 || counts["fenced"] == 0 {
		t.Errorf("too little was done to tell: %v", counts)
	}
	switch h.explained() {
	case porcupine.Illegal:
		for _, op := range h.ops {
			t.Logf("%d %d %+v %+v", op.Call, op.Return, op.Input, op.Output)
		}
		t.Fatal("no order of these calls explains their answers")
	case porcupine.Unknown:
		t.Fatal("no verdict within 30 s")
	}
	// The test of the test: had the store taken the stale commit, it would show.
	if counts["fenced"] > 0 {
		now := sharedNow()
		stale.ClientId, stale.Call, stale.Return = len(processes)+1, now, now+1
		stale.Output = contend{Answered: true, OK: true}
		if got := h.explained(stale); got != porcupine.Illegal {
			t.Errorf("with a commit by an epoch that is over, the verdict is %v", got)
		}
	}
}

// TestStaleCommitsAreNotExplained by any order: the answers of a store without fencing.
func TestStaleCommitsAreNotExplained(t *testing.T) {
	op := func(process int, from, to int64, in, out contend) porcupine.Operation {
		in.Node, out.Answered = fmt.Sprint("p", process), to != math.MaxInt64
		return porcupine.Operation{ClientId: process, Input: in, Call: from, Output: out, Return: to}
	}
	took := func(process int, at, epoch int64) porcupine.Operation {
		return op(process, at, at+1, contend{Kind: acquires}, contend{OK: true, Node: fmt.Sprint("p", process), Epoch: epoch})
	}
	lost := func(process int, at int64) porcupine.Operation {
		return op(process, at, math.MaxInt64, contend{Kind: acquires}, contend{})
	}
	commit := func(process int, from, to, epoch int64, ok bool) porcupine.Operation {
		return op(process, from, to, contend{Kind: commits, Epoch: epoch, Value: "v"}, contend{OK: ok})
	}
	read := func(at int64, value string) porcupine.Operation {
		return op(9, at, at+1, contend{Kind: reads}, contend{Value: value})
	}
	for _, row := range []struct {
		name string
		ops  []porcupine.Operation
		want porcupine.CheckResult
	}{
		{"the present epoch", []porcupine.Operation{took(1, 1, 1), commit(1, 3, 4, 1, true), read(5, "v")}, porcupine.Ok},
		{"an epoch that is over", []porcupine.Operation{took(1, 1, 1), took(2, 3, 2), commit(1, 5, 6, 1, true)}, porcupine.Illegal},
		{"at the same time as the takeover", []porcupine.Operation{took(1, 1, 1), took(2, 3, 2), commit(1, 2, 6, 1, true)}, porcupine.Ok},
		{"fenced, and it stands", []porcupine.Operation{took(1, 1, 1), took(2, 3, 2), commit(1, 5, 6, 1, false),
			read(7, "v")}, porcupine.Illegal},
		{"open, by an epoch that was over before",
			[]porcupine.Operation{took(1, 1, 1), took(2, 3, 2), commit(1, 5, math.MaxInt64, 1, true), read(7, "v")},
			porcupine.Illegal},
		{"open, and it stands", []porcupine.Operation{took(1, 1, 1), commit(1, 5, math.MaxInt64, 1, true), read(7, "v")}, porcupine.Ok},
		{"open, and it does not", []porcupine.Operation{took(1, 1, 1), commit(1, 5, math.MaxInt64, 1, true), read(7, "")}, porcupine.Ok},
		{"an open takeover explains a fence", []porcupine.Operation{took(1, 1, 1), lost(2, 3), commit(1, 5, 6, 1, false)}, porcupine.Ok},
		{"nothing explains a fence", []porcupine.Operation{took(1, 1, 1), commit(1, 5, 6, 1, false)}, porcupine.Illegal},
		{"an epoch twice", []porcupine.Operation{took(1, 1, 1), took(2, 3, 1)}, porcupine.Illegal},
	} {
		h := &contention{t: t, ops: row.ops, seen: map[string][]int64{}}
		if got := h.explained(); got != row.want {
			t.Errorf("%s: expected %v, found %v", row.name, row.want, got)
		}
	}
}
