package sqlite

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stet-run/stet/store"
)

func TestRepeatedBatchGivesTheSameResults(t *testing.T) {
	s, run, b := one(t)
	batch := b.next(done(run, 1, []byte("x")), &store.Turn{Run: 99, Shard: testShard})
	batch.Commands = []store.Command{send("run-1", "m-1", []byte("hello")), {Claim: true, Start: start("run-2").Start}}
	first, err := s.Commit(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Commands[1].Claimed {
		t.Error("expected the started run to be claimed")
	}
	if first.Commands[0].Repeated {
		t.Error("expected the item to be new")
	}
	first.Commands[0].Repeated = true // in a repeat
	for range 2 {                     // once as remembered, once as read again
		again, err := s.Commit(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		again.Now = first.Now
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("the repeat differs (-first +again):\n%s", diff)
		}
		s.write.cache.forget()
	}
	batch.No = 0
	b.commit(t, s)
	batch.No = b.no - 1
	_, err = s.Commit(t.Context(), batch)
	wantErr(t, err, store.ErrInvalid)
}

func TestLargeValuesStandElsewhere(t *testing.T) {
	s, run, b := one(t)
	small, large := bytes.Repeat([]byte{1}, store.LargeValue-1), bytes.Repeat([]byte{2}, store.LargeValue)
	open := doneEntry(1, large)
	open.State, open.Seq, open.At = store.Open, 0, 0
	b.commit(t, s, &store.Turn{Run: run, Shard: testShard,
		Entries: []store.Entry{open, doneEntry(2, small), doneEntry(3, []byte{}), doneEntry(4, nil)}})
	got, _, err := s.Load(t.Context(), []store.RunNo{run})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		value []byte
		size  int
	}{{nil, len(large)}, {small, len(small)}, {[]byte{}, 0}, {nil, 0}} {
		if e := got[0].Entries[i]; !bytes.Equal(e.Value, want.value) || (e.Value == nil) != (want.value == nil) ||
			e.Size != want.size {
			t.Errorf("entry %d: expected %d bytes of %d, got %d of %d (nil: %v)", i, len(want.value), want.size, len(e.Value),
				e.Size, e.Value == nil)
		}
	}
	if all := history(t, s, run); !bytes.Equal(all[0].Value, large) {
		t.Errorf("expected the large value in the history, got %d bytes", len(all[0].Value))
	}
	b.commit(t, s, done(run, 1, small)) // and the long one is gone, which the doctor looks for
	if all := history(t, s, run); !bytes.Equal(all[0].Value, small) || all[0].Size != len(small) {
		t.Errorf("expected the short value, got %d bytes of %d", len(all[0].Value), all[0].Size)
	}
}

func TestLongInputAndOutput(t *testing.T) {
	s := open(t, testPath(t))
	held := acquire(t, s, testNode)
	b := &batches{lease: held.Lease}
	long := bytes.Repeat([]byte("i"), smallPayload+1)
	c := start("a")
	c.Start.Input = long
	answers := apply(t, s, c)
	if !bytes.Equal(answers[0].Run.Input, long) {
		t.Error("expected the input in the answer")
	}
	claim(t, s, held.Lease)
	run := answers[0].Run.No
	end := func(status store.Status, output []byte) {
		got := b.commit(t, s, &store.Turn{Run: run, Shard: testShard, Update: &store.Update{Status: status, Output: output}})
		if got[0].Verdict != store.Committed {
			t.Fatalf("got %+v", got)
		}
	}
	for i, output := range [][]byte{long, []byte("short"), append(long, long...)} {
		end(store.Failed, output)
		page, err := s.List(t.Context(), store.Filter{Values: true})
		if err != nil || !bytes.Equal(page.Runs[0].Output, output) || !bytes.Equal(page.Runs[0].Input, long) {
			t.Errorf("expected the output of %d bytes, got %d, %v", len(output), len(page.Runs[0].Output), err)
		}
		page, err = s.List(t.Context(), store.Filter{})
		if err != nil || page.Runs[0].Output != nil || page.Runs[0].OutputSize != len(output) ||
			page.Runs[0].InputSize != len(long) {
			t.Errorf("expected sizes only, got %+v, %v", page.Runs[0], err)
		}
		checkInvariants(t, s)
		apply(t, s, store.Command{RunID: "a", Item: &store.Item{Kind: store.ItemResume, ID: fmt.Sprint("resume-", i),
			Origin: "x"}})
		claims := claim(t, s, held.Lease)
		b.commit(t, s, &store.Turn{Run: run, Shard: testShard,
			Consumed: []store.Consumption{{Item: claims.Runs[0].Items[0].No}},
			Update:   &store.Update{Status: store.Running}})
	}
}

func TestWhatIsRememberedOfARunEndsWithAStrangersWrite(t *testing.T) {
	s, run, b := one(t)
	b.commit(t, s, done(run, 1, nil))
	stranger := open(t, s.Path())
	// The stranger uses the same lease, as no honest process would: the store must
	// refuse what the row refuses all the same.
	theirs := &batches{lease: b.lease, no: 100}
	theirs.commit(t, stranger, &store.Turn{Run: run, Shard: testShard, Update: &store.Update{Status: store.Suspended}})
	b.no = 200
	if got := b.commit(t, s, done(run, 2, nil)); got[0].Verdict != store.Refused ||
		got[0].Reason != "the run is not claimed" {
		t.Errorf("expected a refusal, got %+v", got)
	}
}

func TestRefusedTurnDoesNotStopTheOthers(t *testing.T) {
	s, run, b := one(t)
	apply(t, s, start("run-2"), start("run-3"))
	claims := claim(t, s, b.lease)
	second, third := claims.Runs[0].Run.No, claims.Runs[1].Run.No
	b.commit(t, s, done(run, 1, []byte("a")))
	conflict := done(run, 1, []byte("b"))
	conflict.Entries = append([]store.Entry{doneEntry(7, nil)}, conflict.Entries...)
	got := b.commit(t, s, conflict, done(second, 1, nil), &store.Turn{Run: third, Shard: testShard,
		Seen: []store.ItemNo{77}})
	want := []store.TurnResult{
		{Verdict: store.Refused, Reason: `the entry at "\x02s\x0000000001" is final and different`},
		{Verdict: store.Committed},
		{Verdict: store.Refused, Reason: "the run has no item number 77"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(history(t, s, run)); n != 1 {
		t.Errorf("expected nothing of the refused turn, got %d entries", n)
	}
}
