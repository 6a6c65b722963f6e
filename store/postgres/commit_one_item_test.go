package postgres_test

import (
	"reflect"
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestCommitOneItem sends runs in all conditions items one by one, in batches of their own, and has turns consume
// them: a store that writes every batch turn by turn gives the same answers, and has the same runs, entries and
// inboxes afterwards.
func TestCommitOneItem(t *testing.T) {
	t.Parallel()
	become := func(u store.Update) func(*store.Turn) { return func(turn *store.Turn) { turn.Update = &u } }
	suspend, over := become(store.Update{Status: store.Suspended, Waits: []byte("w")}),
		become(store.Update{Status: store.Succeeded, Output: []byte("out")})
	step := func(turn *store.Turn) { turn.Insert, turn.Entries = true, []store.Entry{done("received")} }
	consume := func(no store.ItemNo) func(*store.Turn) {
		return func(turn *store.Turn) {
			turn.Consumed = []store.Consumption{{Item: no, Verdict: []byte("v")}}
		}
	}
	send := func(id string) store.Command { return message("run", id) }
	claiming := func(id string) store.Command { c := send(id); c.Claim = true; return c }
	of := func(kind store.ItemKind, c store.Command) store.Command { c.Item.Kind = kind; return c }
	full := claiming("full")
	full.Item.Loc, full.Item.Incarnation, full.Item.Generation, full.Item.Failed = "loc", 3, 4, true
	full.Item.Headers, full.Item.Value = []byte("h"), []byte{}
	byNumber := claiming("m")
	byNumber.RunID, byNumber.RunNo = "", 1
	elsewhere := start("elsewhere")
	elsewhere.Start.Shard.Slot = 200
	toElsewhere := claiming("m")
	toElsewhere.RunID = "elsewhere"
	waiting := start("waiting")
	waiting.Start.At = 4e15
	toWaiting := claiming("m")
	toWaiting.RunID = "waiting"
	nobody := claiming("m")
	nobody.RunID = "nobody"

	// An act is a command, or what a turn of the run is to have.
	type acts []any
	for _, c := range []struct {
		name string
		acts acts
	}{
		{"to one at work", acts{send("m")}},
		{"to one at work, to claim it", acts{claiming("m")}},
		{"to one that waits", acts{suspend, send("m")}},
		{"to one that waits, to claim it", acts{suspend, claiming("m"), claiming("n")}},
		{"to one by its number", acts{suspend, byNumber}},
		{"with all that an item has", acts{suspend, full}},
		{"twice", acts{suspend, send("m"), claiming("m"), send("m")}},
		{"to nobody", acts{nobody}},
		{"to one that has ended", acts{over, send("m"), claiming("n")}},
		{"to one that is paused", acts{become(store.Update{Status: store.Suspended, Marks: store.Paused}), claiming("m")}},
		{"a pause", acts{suspend, of(store.ItemPause, claiming("p"))}},
		{"a cancellation", acts{suspend, of(store.ItemCancel, claiming("c"))}},
		{"to one of another's shard", acts{elsewhere, toElsewhere}},
		{"to one that begins later", acts{waiting, toWaiting}},
		{"received, and goes on", acts{suspend, claiming("m"), acts{step, consume(1)}}},
		{"received, and ends", acts{suspend, claiming("m"), acts{step, consume(1), over}}},
		{"consumed without an entry", acts{suspend, claiming("m"), acts{consume(1)}, acts{consume(1)}}},
		{"received, and waits again", acts{suspend, claiming("m"), acts{step, consume(1), suspend}}},
		{"consumed, while another one is new", acts{suspend, claiming("m"), send("n"), acts{step, consume(1), suspend},
			acts{consume(2), suspend}}},
		{"consumed, while another one becomes a letter", acts{send("m"), send("n"), acts{consume(2), over}}},
		{"consumed a second time", acts{send("m"), acts{step, consume(1)}, acts{consume(1), over}}},
		{"consumed a second time by a step", acts{send("m"), acts{consume(1)}, acts{step, consume(1)}}},
		{"consumed by another run", acts{waiting, toWaiting, acts{step, consume(1)}, acts{consume(1), suspend}}},
		{"an update that is not answered", acts{of(store.ItemUpdate, send("u")), acts{consume(1), over}}},
		{"there is none", acts{acts{step, consume(7)}, acts{consume(7), over}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			type outcome struct {
				Answers  []store.Answer
				Verdicts []store.Verdict
				Runs     []store.Run
				Entries  []store.Entry
				Inbox    []store.Item
			}
			do := func(opts ...postgres.Option) (o outcome) {
				t.Helper()
				n := atRest(t, opts...)
				run := n.started(t, "run")
				for _, act := range c.acts {
					turn := &store.Turn{Run: run.No, Shard: run.Shard}
					switch act := act.(type) {
					case store.Command:
						result, err := n.s.Commit(t.Context(), n.batch(nil, act))
						if err != nil {
							t.Fatal(err)
						}
						o.Answers = append(o.Answers, result.Commands...)
						continue
					case func(*store.Turn):
						act(turn)
					case acts:
						for _, part := range act {
							part.(func(*store.Turn))(turn)
						}
					}
					o.Verdicts = append(o.Verdicts, n.commit(t, turn).Turns[0].Verdict)
				}
				page, err := n.s.List(t.Context(), store.Filter{Values: true, Limit: 9})
				if err != nil {
					t.Fatal(err)
				}
				o.Runs = page.Runs
				if o.Entries, err = n.s.History(t.Context(), store.HistoryQuery{Run: run.No, Values: true}); err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Runs {
					items, err := n.s.Inbox(t.Context(), r.No)
					if err != nil {
						t.Fatal(err)
					}
					o.Inbox = append(o.Inbox, items...)
				}
				return o
			}
			if got, want := do(), do(postgres.TurnByTurn()); !reflect.DeepEqual(got, want) {
				t.Errorf("expected what a store has that writes turn by turn:\n%+v\nfound\n%+v", want, got)
			}
		})
	}
}
