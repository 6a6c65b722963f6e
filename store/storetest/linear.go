package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stet-run/stet/store"
)

// Linearizability of leases and commits: several processes take, renew and give back the lease of one shard and commit
// under the lease that they believe to have, all at once, while time passes in leaps. Some order of the calls, in which
// each takes effect between its begin and its end, must explain the answers: a register that only the present epoch may
// write.
//
// The search for that order is porcupine's, by the algorithm of Lowe, "Testing
// for linearizability", 2017.

// call is one call of a process.
type call struct {
	kind  callKind
	node  string
	epoch int64 // of the lease that it was made with
	value string
}

type callKind uint8

const (
	acquires callKind = iota
	renews
	releases
	commits
	reads
)

var callNames = [...]string{"acquire", "renew", "release", "commit", "read"}

// reply is the answer to it.
type reply struct {
	ok     bool
	lease  store.Lease // of acquires: the caller's, or that of the shard's holder
	value  string
	denied bool // of commits: refused for another reason than the epoch
	void   bool // nothing has happened: the call counts as not made
}

// shardState is the state that the calls read and write.
type shardState struct {
	epoch  int64
	holder string // ""; nobody
	value  string
}

// shardModel decides which replies are right.
var shardModel = porcupine.Model{
	Init: func() any { return shardState{} },
	Step: func(state, in, out any) (bool, any) {
		s, c, r := state.(shardState), in.(call), out.(reply)
		mine := s.holder == c.node && s.epoch == c.epoch
		switch c.kind {
		case acquires:
			if r.ok { // whether it had expired is not modelled: only safety is
				return r.lease.Epoch > s.epoch, shardState{r.lease.Epoch, c.node, s.value}
			}
			return s.holder != "" && r.lease.Node == s.holder && r.lease.Epoch == s.epoch, s
		case renews:
			return r.ok == mine, s
		case releases:
			if mine {
				s.holder = ""
			}
			return true, s
		case commits:
			if r.ok {
				s.value = c.value
			}
			return r.ok == mine || r.denied, s
		}
		return r.value == s.value, s
	},
	DescribeOperation: func(in, out any) string {
		c, r := in.(call), out.(reply)
		return fmt.Sprintf("%s %s epoch %d value %q: %v lease %s/%d value %q",
			c.node, callNames[c.kind], c.epoch, c.value, r.ok, r.lease.Node, r.lease.Epoch, r.value)
	},
}

// history records calls as they are made.
type history struct {
	at    atomic.Int64 // counts the begins and ends of calls, which a clock may give the same time
	mu    sync.Mutex
	calls []porcupine.Operation
}

func (h *history) record(process int, in call, do func() reply) reply {
	from := h.at.Add(1)
	out := do()
	to := h.at.Add(1)
	if out.void {
		return out
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, porcupine.Operation{ClientId: process, Input: in, Call: from, Output: out, Return: to})
	return out
}

// process is one of those that want the shard.
type process struct {
	*kit
	h      *history
	number int
	s      store.Store
	node   store.Node
	lease  store.Lease
	batch  int64
	run    store.RunNo
	random *rand.Rand
}

// act makes one call. An error ends the test: the store is well.
func (p *process) act(n int) error {
	in := call{node: p.node.ID, epoch: p.lease.Epoch}
	var failed error
	choice := p.random.IntN(10)
	if p.lease.Epoch == 0 {
		choice = min(choice, 1) // an epoch is known from an Acquire alone
	}
	switch choice {
	case 0, 1:
		in.kind = acquires
		got := p.h.record(p.number, in, func() reply {
			got, _, err := p.s.Acquire(p.ctx, p.node, []store.Shard{shardA}, ttl)
			if failed = err; err != nil {
				return reply{}
			}
			return reply{ok: got[0].Held, lease: got[0].Lease}
		})
		if failed != nil || !got.ok {
			return failed
		}
		p.lease = got.lease
		_, failed = p.s.Claim(p.ctx, store.ClaimRequest{Node: p.node.ID, Boot: p.node.Boot, Leases: []store.Lease{p.lease},
			Workflows: []string{"w"}, Limit: 1})
	case 2:
		in.kind = renews
		p.h.record(p.number, in, func() reply {
			got, _, err := p.s.Renew(p.ctx, []store.Lease{p.lease}, ttl)
			if failed = err; err != nil {
				return reply{}
			}
			return reply{ok: got[0].Held}
		})
	case 3:
		in.kind = releases
		p.h.record(p.number, in, func() reply {
			failed = p.s.Release(p.ctx, []store.Lease{p.lease})
			return reply{}
		})
	case 4, 5, 6, 7:
		in.kind, in.value = commits, fmt.Sprintf("%d of %s", n, p.node.ID)
		p.batch++
		p.h.record(p.number, in, func() reply {
			result, err := p.s.Commit(p.ctx, store.Batch{Node: p.node.ID, Boot: p.node.Boot, No: p.batch,
				Leases: []store.Lease{p.lease}, Turns: []*store.Turn{{
					Run: p.run, Shard: shardA, Entries: []store.Entry{entry("x", store.Open,
						func(e *store.Entry) { e.Value = []byte(in.value) })},
				}}})
			if errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
				return reply{void: true} // another process was in the way for too long
			}
			if failed = err; err != nil {
				return reply{}
			}
			v := result.Turns[0].Verdict
			return reply{ok: v == store.Committed, denied: v == store.Refused}
		})
	default:
		in.kind = reads
		p.h.record(p.number, in, func() reply {
			entries, err := p.s.History(p.ctx, store.HistoryQuery{Run: p.run, Values: true})
			if failed = err; err != nil || len(entries) == 0 {
				return reply{}
			}
			return reply{value: string(entries[0].Value)}
		})
	}
	return failed
}

// linearCases are histories of processes on one shard.
var linearCases = []testCase{{"LeasesAndCommits", func(k *kit) {
	if h, ok := k.harness.(interface{ apart() bool }); ok && h.apart() {
		k.Skip("calls on a shard that is spread over slots are calls on several")
	}
	const processes, calls = 4, 40
	seed := uint64(time.Now().UnixNano())
	k.Logf("seed %d", seed)
	h := &history{}
	r := k.start("r")
	var all sync.WaitGroup
	failed := make(chan error, processes)
	for n := range processes {
		p := &process{
			kit: k, h: h, number: n, s: k.harness.Join(k), run: r.No, random: rand.New(rand.NewPCG(seed, uint64(n))),
			node: store.Node{ID: "node-" + strconv.Itoa(n), Boot: "b"},
		}
		all.Go(func() {
			for i := range calls {
				if err := p.act(i); err != nil {
					failed <- err
					return
				}
				if p.random.IntN(4) == 0 {
					p.pass(ttl / 3)
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		k.Fatal(err)
	default:
	}
	checkLinear(k, h.calls)
}}}

// checkLinear fails the test if no order explains the calls.
func checkLinear(t testing.TB, calls []porcupine.Operation) {
	t.Helper()
	switch result, _ := porcupine.CheckOperationsVerbose(shardModel, calls, time.Minute); result {
	case porcupine.Illegal:
		for _, c := range calls {
			t.Log(c.Call, c.Return, shardModel.DescribeOperation(c.Input, c.Output))
		}
		t.Error("no order of these calls explains their answers")
	case porcupine.Unknown:
		t.Log("no verdict on the history within a minute")
	}
}
