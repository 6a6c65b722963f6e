package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// recorded is a life of a store as its file system saw it: what changed, and how
// many changes there had been when each act was acknowledged.
type recorded struct {
	changes []change
	acks    []ack
}

// ack is an acknowledged act.
type ack struct {
	changes int
	entries int // of the run, from then on at least
	runs    int // started by then
}

// record lets a store live: runs are started, turns committed in batches of
// different size, some with large values; the WAL is checkpointed often.
func record(t *testing.T, rng *rand.Rand, opts ...Option) recorded {
	t.Helper()
	fs, opt := newTestFS(t)
	fs.keep = true
	var r recorded
	s := open(t, testPath(t), append(opts, opt)...)
	s.cfg.wal.owner = 20 + rng.IntN(100)
	held := acquire(t, s, testNode)
	b := &batches{lease: held.Lease}
	apply(t, s, start("run-1"))
	run := claim(t, s, held.Lease).Runs[0].Run.No
	entries, runs := 0, 1
	for range 40 {
		switch rng.IntN(4) { // what may be lost with the power lies before, between and after what may not
		case 0:
			if _, _, err := s.Renew(t.Context(), []store.Lease{held.Lease}, testTTL); err != nil {
				t.Fatal(err)
			}
		case 1:
			if _, err := s.Register(t.Context(), testNode); err != nil {
				t.Fatal(err)
			}
		}
		if rng.IntN(3) == 0 {
			apply(t, s, start(fmt.Sprint("more-", runs)))
			runs++
		} else {
			turn := &store.Turn{Run: run, Shard: testShard}
			for range 1 + rng.IntN(30) {
				entries++
				size := rng.IntN(200)
				if rng.IntN(20) == 0 {
					size = rng.IntN(3 * store.LargeValue)
				}
				turn.Entries = append(turn.Entries, doneEntry(int64(entries), make([]byte, size)))
			}
			if got := b.commit(t, s, turn); got[0].Verdict != store.Committed {
				t.Fatalf("got %+v", got)
			}
		}
		r.acks = append(r.acks, ack{fs.count(), entries, runs})
	}
	r.changes = fs.changes[:fs.count()]
	return r
}

const sector = 512

// cut writes the files as the power's end after some changes may leave them: of
// what no sync has covered any sector may be there or not.
func (r *recorded) cut(t *testing.T, rng *rand.Rand, changes int, dir string) {
	t.Helper()
	synced := map[string]int{}
	for i, c := range r.changes[:changes] {
		if c.kind == "sync" {
			synced[c.file] = i
		}
	}
	files := map[string][]byte{}
	for i, c := range r.changes[:changes] {
		durable := i < synced[c.file]
		switch c.kind {
		case "delete":
			delete(files, c.file)
		case "truncate":
			if durable || rng.IntN(2) == 0 {
				files[c.file] = resized(files[c.file], int(c.at))
			}
		case "write":
			for from := 0; from < len(c.data); {
				at := int(c.at) + from
				n := min(sector-at%sector, len(c.data)-from)
				if durable || rng.IntN(2) == 0 {
					if f := files[c.file]; len(f) < at+n {
						files[c.file] = resized(f, at+n)
					}
					copy(files[c.file][at:], c.data[from:from+n])
				}
				from += n
			}
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func resized(b []byte, n int) []byte {
	if n <= len(b) {
		return b[:n:n]
	}
	return append(b, make([]byte, n-len(b))...)
}

// lost opens what a power cut has left and returns what is wrong, or "".
func (r *recorded) lost(t *testing.T, rng *rand.Rand, changes int) string {
	t.Helper()
	dir := t.TempDir()
	r.cut(t, rng, changes, dir)
	want := ack{}
	for _, a := range r.acks {
		if a.changes <= changes {
			want = a
		}
	}
	if want.runs == 0 {
		return "" // before the store was made
	}
	s, err := Open(context.Background(), filepath.Join(dir, "stet.db"))
	if err != nil {
		return fmt.Sprintf("it does not open: %v", err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	findings, err := s.Doctor(t.Context())
	if err != nil {
		return fmt.Sprintf("the doctor cannot look: %v", err)
	}
	for _, f := range findings {
		if !f.OK {
			return fmt.Sprintf("doctor: %s: %s", f.What, f.Detail)
		}
	}
	page, err := s.List(t.Context(), store.Filter{})
	if err != nil {
		return err.Error()
	}
	if len(page.Runs) < want.runs {
		return fmt.Sprintf("of %d acknowledged runs %d are there", want.runs, len(page.Runs))
	}
	entries, err := s.History(t.Context(), store.HistoryQuery{Run: page.Runs[len(page.Runs)-1].No, Values: true})
	if err != nil {
		return err.Error()
	}
	if len(entries) < want.entries {
		return fmt.Sprintf("of %d acknowledged entries %d are there", want.entries, len(entries))
	}
	return ""
}

// powerCuts cuts the power of some stores at random changes and returns what went
// wrong first, or "".
func powerCuts(t *testing.T, lives, cuts int, opts ...Option) string {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range lives {
		r := record(t, rng, opts...)
		for range cuts {
			changes := r.acks[0].changes + rng.IntN(len(r.changes)-r.acks[0].changes+1)
			if lost := r.lost(t, rng, changes); lost != "" {
				return fmt.Sprintf("power cut after %d of %d changes: %s", changes, len(r.changes), lost)
			}
		}
	}
	return ""
}

func TestPowerCutLosesNothingAcknowledged(t *testing.T) {
	if lost := powerCuts(t, 4*soak.Times(t), 25); lost != "" {
		t.Error(lost)
	}
}

// TestPowerCutWithNormalLosesAcknowledgements is the proof that the test above
// can fail, and that the words at AllowLoss are true.
func TestPowerCutWithNormalLosesAcknowledgements(t *testing.T) {
	lost := powerCuts(t, 20, 25, AllowLoss())
	if lost == "" {
		t.Error("expected synchronous=NORMAL to lose something")
	}
	t.Log(lost)
}

// TestHeartbeatsDoNotWaitForTheDisk: what says that a process lives is not synced, and all else is.
func TestHeartbeatsDoNotWaitForTheDisk(t *testing.T) {
	fs, opt := newTestFS(t)
	fs.keep = true
	s := open(t, testPath(t), opt)
	held := acquire(t, s, testNode)
	apply(t, s, start("run-1"))
	syncs := func(act func()) (n int) {
		before := fs.count()
		act()
		for _, c := range fs.changes[before:fs.count()] {
			if c.kind == "sync" {
				n++
			}
		}
		return n
	}
	beat := func() {
		if _, _, err := s.Renew(t.Context(), []store.Lease{held.Lease}, testTTL); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Register(t.Context(), testNode); err != nil {
			t.Fatal(err)
		}
	}
	if got := syncs(beat); got != 0 {
		t.Errorf("expected that a renewal and a heartbeat sync nothing, got %d syncs", got)
	}
	if got := syncs(func() { apply(t, s, start("run-2")) }); got == 0 {
		t.Error("expected that a start after a heartbeat is synced")
	}
}
