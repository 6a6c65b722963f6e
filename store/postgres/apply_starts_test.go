package postgres_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/postgres"
)

// TestStartsTogether: starts of one call, with all that belongs to them, are written by sets, and leave what they leave
// in memory, where each is carried out after the other.
func TestStartsTogether(t *testing.T) {
	t.Parallel()
	s, _, _ := fresh(t)
	oracle := memory.New()
	both := func(what string, commands ...store.Command) {
		t.Helper()
		var got [2][]store.Answer
		for i, db := range []store.Store{oracle, s} {
			answers, _, err := db.Apply(t.Context(), commands)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			got[i] = answers
		}
		ignored := cmpopts.IgnoreFields(store.Run{}, "No", "Created", "WakeAt")
		if d := cmp.Diff(got[0], got[1], ignored, cmpopts.IgnoreFields(store.Answer{}, "Item")); d != "" {
			t.Errorf("%s: the answers (-memory +postgres):\n%s", what, d)
		}
		var lists [2][]string
		for i, db := range []store.Store{oracle, s} {
			page, err := db.List(t.Context(), store.Filter{Limit: 100, Values: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range page.Runs {
				lists[i] = append(lists[i], fmt.Sprintf("%s %s %x %v %q %q %q %d", run.ID, run.Status, run.Seed, run.Tags,
					run.Input, run.Headers, run.Queue, run.Marks))
				items, err := db.Inbox(t.Context(), run.No)
				if err != nil {
					t.Fatal(err)
				}
				for _, it := range items {
					lists[i] = append(lists[i], fmt.Sprintf("  %s %s %q %q %s", it.Kind, it.ID, it.Value, it.Name, it.Origin))
				}
			}
			tagged, err := db.List(t.Context(), store.Filter{Tags: []store.Pair{{Key: "k", Value: "v"}}, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range tagged.Runs {
				lists[i] = append(lists[i], "tagged "+run.ID)
			}
		}
		if d := cmp.Diff(lists[0], lists[1]); d != "" {
			t.Errorf("%s: what is stored (-memory +postgres):\n%s", what, d)
		}
	}
	with := func(id string, change func(*store.Start)) store.Command {
		c := start(id)
		c.Start.Seed[0] = id[0]
		change(c.Start)
		return c
	}
	plain := func(id string) store.Command { return with(id, func(*store.Start) {}) }
	queued := func(id, queue string) store.Command {
		return with(id, func(st *store.Start) {
			st.Queue = &store.QueueEntry{Data: []byte("queue " + id), Ask: message(queue, "ask "+id)}
		})
	}
	both("the record of a queue", plain("queue"))
	both("plain ones", plain("a"), plain("b"), with("c", func(st *store.Start) { st.After = 3_600_000_000 }))
	both("with tags, headers and first messages", plain("d"), with("e", func(st *store.Start) {
		st.Tags = []store.Pair{{Key: "k", Value: "v"}, {Key: "l", Value: "w"}}
		st.Headers, st.Input = []byte("h"), []byte("in")
		first := message("", "1")
		st.Items = []store.Item{*first.Item, *first.Item} // the second one is a repeat
		st.Items[1].ID = "2"
	}))
	both("alone, with a tag", with("f", func(st *store.Start) { st.Tags = []store.Pair{{Key: "k", Value: "v"}} }))
	both("on a queue", queued("g", "queue"), queued("h", "queue"), plain("i"))
	both("alone on a queue", queued("j", "queue"))
	both("on a queue that is not there", queued("k", "nowhere"), queued("l", "queue"))
	both("again", queued("g", "queue"), queued("m", "queue"), plain("a"))
	other := queued("n", "queue")
	other.Start.Queue.Ask.Item.ID = "ask m" // was sent before
	both("an item that is there", other, plain("o"))
	taken := with("a", func(st *store.Start) { st.Seed[1] = 1 })
	both("an ID of another run", plain("p"), taken, queued("q", "queue"))
	both("twice the same", plain("r"), plain("r"))
	both("one asks another", plain("s"), queued("t", "s"))
	many := make([]store.Command, 300)
	for i := range many {
		many[i] = queued(fmt.Sprint("many ", i), "queue")
		many[i].Start.Seed[1], many[i].Start.Seed[2] = byte(i), byte(i>>8)
	}
	sets := []store.Command{plain("u"), queued("v", "queue")}
	if err := postgres.StartTogether(t.Context(), s, sets); err != nil {
		t.Errorf("starts, one of them on a queue, are not written by sets: %v", err)
	}
	if err := postgres.StartTogether(t.Context(), s, []store.Command{plain("w"), taken}); err == nil {
		t.Error("a set has the ID of another run")
	}
	answers, _, err := s.Apply(t.Context(), many)
	if err != nil {
		t.Fatal(err)
	}
	for i := range answers {
		if a := &answers[i]; a.Outcome != store.Applied || a.Run.ID != many[i].Start.ID ||
			i > 0 && a.Run.No <= answers[i-1].Run.No {
			t.Fatalf("start %d: %+v", i, a)
		}
	}
}
