package box

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero/experimental/sys"
)

// TestACutLosesWhatWasNotSynced: what was synced is there after each cut; of what was written since
// whole writes are lost, or the end of one from a sector on.
func TestACutLosesWhatWasNotSynced(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		d := NewDisk()
		d.call = func() {}
		f, err := d.OpenFile("store.db", sys.O_CREAT|sys.O_RDWR, 0o644)
		if err != 0 {
			t.Fatal(err)
		}
		old, later := bytes.Repeat([]byte("o"), 2*sector), bytes.Repeat([]byte("n"), 2*sector)
		if n, err := f.Pwrite(old, 0); n != len(old) || err != 0 {
			t.Fatal(n, err)
		}
		if err := f.Sync(); err != 0 {
			t.Fatal(err)
		}
		if n, err := f.Pwrite(later, sector); n != len(later) || err != 0 {
			t.Fatal(n, err)
		}
		if err := d.Mkdir("store.db-shm", 0o755); err != 0 {
			t.Fatal(err)
		}
		d.Cut(rand.New(rand.NewPCG(seed, 1)))
		if d.find("store.db-shm") != nil {
			t.Error("expected that a lock is gone after a cut")
		}
		got := make([]byte, 4*sector)
		n, err := f.Pread(got, 0)
		if err != 0 || n < 2*sector || !bytes.Equal(got[:sector], old[:sector]) {
			t.Fatalf("seed %d: expected what was synced, found %d bytes, %q, %v", seed, n, got[:8], err)
		}
		switch {
		case bytes.Equal(got[:n], old):
			seen["lost"] = true
		case bytes.Equal(got[:n], append(bytes.Clone(old[:sector]), later...)):
			seen["kept"] = true
		case bytes.Equal(got[:n], append(bytes.Clone(old[:sector]), later[:sector]...)):
			seen["torn"] = true
		default:
			t.Fatalf("seed %d: %d bytes that are neither: %q", seed, n, got[:n])
		}
	}
	if len(seen) != 3 {
		t.Errorf("expected that a write is lost, kept and torn, found %v", seen)
	}
}

// TestAFullDiskTakesNothing: a write that finds no room changes nothing.
func TestAFullDiskTakesNothing(t *testing.T) {
	d := NewDisk()
	d.call = func() {}
	f, _ := d.OpenFile("store.db", sys.O_CREAT|sys.O_RDWR, 0o644)
	d.Room = 10
	if n, err := f.Pwrite(make([]byte, 10), 0); n != 10 || err != 0 {
		t.Errorf("expected that 10 bytes have room, found %d, %v", n, err)
	}
	if n, err := f.Pwrite(make([]byte, 1), 10); n != 0 || err == 0 || d.Refused != 1 {
		t.Errorf("expected that one more has none, found %d, %v, %d refused", n, err, d.Refused)
	}
}
