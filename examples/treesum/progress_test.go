package main

import (
	"path/filepath"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

func TestProgressIsWhatIsRecorded(t *testing.T) {
	const files = pageFiles + batchFiles/2
	dir, db := writeTree(t, manyFiles(files)), filepath.Join(t.TempDir(), "x.db")
	sumOf(t, "--db", db, "--id", "r", dir)
	p := progress{engine: inspect(t, db), id: "r"}
	if got := p.bar(); got != "listing" {
		t.Errorf("before the listing is known: got %q", got)
	}
	for range 2 { // the second time without values
		if err := p.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		const want = "[========================================] 21 of 21 batches"
		if got := p.bar(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	p.done = 10
	if got, want := p.bar(), "[===================                     ] 10 of 21 batches"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgressOfNoRunIsAnError(t *testing.T) {
	engine, err := stet.New(t.Context(), stet.Config{Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	p := progress{engine: engine, id: "none"}
	if err := p.read(t.Context()); err == nil {
		t.Error("a run that does not exist has progress")
	}
}
