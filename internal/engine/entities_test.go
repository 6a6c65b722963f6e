package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// tally adds up what it is sent, passes "pass" on to another tally, and wakes
// after a minute to say that it has rested.
type tally struct {
	sum, rested int
	wake        store.Time
}

func (r *tally) Load(entries []store.Entry) (err error) {
	for i := range entries {
		n, failed := strconv.Atoi(string(entries[i].Value))
		switch entries[i].Loc {
		case "sum":
			r.sum = n
		case "rested":
			r.rested = n
		case "wake":
			r.wake = store.Time(n)
		}
		if failed != nil {
			err = failed
		}
	}
	return err
}

func (r *tally) put(w *entity.Writer, loc string, n int) { w.Put(loc, []byte(strconv.Itoa(n))) }

func (r *tally) Take(it *store.Item, now store.Time, w *entity.Writer) {
	switch it.Name {
	case "add":
		n, _ := strconv.Atoi(string(it.Value))
		r.sum += n
		r.put(w, "sum", r.sum)
		w.Value("sum", []byte(strconv.Itoa(r.sum)))
	case "pass":
		add := &store.Item{Kind: store.ItemMessage, Name: "add", ID: it.ID, Value: []byte("1")}
		w.Send(store.Command{RunID: string(it.Value), Item: add})
	case "rest":
		r.wake = now.Add(time.Minute)
		r.put(w, "wake", int(r.wake))
	}
	var verdict []byte
	if it.Kind == store.ItemUpdate {
		verdict = []byte(strconv.Itoa(r.sum))
	}
	w.Consume(it.No, verdict)
}

func (r *tally) Tick(now store.Time, w *entity.Writer) {
	if r.wake != 0 && r.wake <= now {
		r.wake = 0
		r.rested++
		w.Delete("wake")
		r.put(w, "rested", r.rested)
	}
}

func (r *tally) Wake() store.Time { return r.wake }

const tallies = "stet.tally"

func item(name, id, value string) store.Item {
	return store.Item{Kind: store.ItemMessage, Name: name, ID: id, Origin: id, Value: []byte(value)}
}

// standing returns the entries of an entity.
func standing(t *testing.T, s store.Store, id string) map[string]string {
	t.Helper()
	page, err := s.List(t.Context(), store.Filter{IDs: []string{id}})
	if err != nil || len(page.Runs) != 1 {
		t.Fatalf("expected the entity %s, got %v (%v)", id, page.Runs, err)
	}
	if run := page.Runs[0]; run.Shard.Group != store.SystemGroup || run.Build != "" {
		t.Errorf("expected an entity of the group system and of no build, got %+v", run)
	}
	entries, err := s.History(t.Context(), store.HistoryQuery{Run: page.Runs[0].No, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for i := range entries {
		found[entries[i].Loc] = string(entries[i].Value)
	}
	return found
}

// TestEntityIsMadeByItsFirstUse: whoever is first, from outside or in a turn, and
// from several processes at once; each item counts once.
func TestEntityIsMadeByItsFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		owner, front := newEngine(t, s, "owner"), newEngine(t, s, "front")
		stop := serve(t, owner)
		synctest.Wait()
		id, other := entity.ID(tallies, "a"), entity.ID(tallies, "b")
		for i := range 300 {
			e := []*engine.Engine{owner, front}[i%2]
			for _, it := range []store.Item{
				item("add", fmt.Sprint(i), "2"), item("pass", fmt.Sprint("pass", i), other), item("add", fmt.Sprint(i), "2"),
			} {
				if _, err := e.Tell(t.Context(), id, it); err != nil {
					t.Fatal(err)
				}
			}
			if i%50 == 0 {
				time.Sleep(3 * time.Second) // it is evicted
			}
		}
		time.Sleep(3 * time.Second)
		if got := standing(t, s, id)["sum"]; got != "600" {
			t.Errorf("expected 300 items to count once, got %s", got)
		}
		if got := standing(t, s, other)["sum"]; got != "300" {
			t.Errorf("expected 300 items from a turn, got %s", got)
		}
		page, err := s.List(t.Context(), store.Filter{})
		if err != nil || len(page.Runs) != 0 {
			t.Errorf("expected entities not to be listed, got %v (%v)", page.Runs, err)
		}
		stop()
	})
}

func TestEntityAnswersAndWakesUnderAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		first := newEngine(t, s, "first")
		stop := serve(t, first)
		synctest.Wait()
		id := entity.ID(tallies, "a")
		if _, err := first.Tell(t.Context(), id, item("rest", "rest", "")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		second := newEngine(t, s, "second")
		defer serve(t, second)()
		time.Sleep(59 * time.Second)
		if got := standing(t, s, id)["rested"]; got != "" {
			t.Error("expected it to rest for a minute")
		}
		time.Sleep(2 * time.Second)
		if got := standing(t, s, id); got["rested"] != "1" || got["wake"] != "" {
			t.Errorf("expected it to have rested once, got %v", got)
		}
		ask := item("add", "ask", "5")
		ask.Kind = store.ItemUpdate
		answer, err := second.Tell(t.Context(), id, ask)
		if err != nil {
			t.Fatal(err)
		}
		verdict, err := second.Verdict(t.Context(), answer.Run.No, answer.Item, "ask")
		if err != nil || string(verdict) != "5" {
			t.Errorf("expected the answer 5, got %q (%v)", verdict, err)
		}
	})
}

func TestEntityRefusesVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		e := newEngine(t, s, "n")
		defer serve(t, e)()
		synctest.Wait()
		id := entity.ID(tallies, "a")
		if _, err := e.Tell(t.Context(), id, item("add", "1", "1")); err != nil {
			t.Fatal(err)
		}
		for i, kind := range []store.ItemKind{
			store.ItemCancel, store.ItemTerminate, store.ItemPause, store.ItemRetry, store.ItemRewind,
			store.ItemEdit, store.ItemResume,
		} {
			for _, wait := range []time.Duration{0, 3 * time.Second} { // parked, evicted
				time.Sleep(wait)
				it := store.Item{Kind: kind, Name: "who", ID: fmt.Sprint("verb", i, wait)}
				answer, err := e.Tell(t.Context(), id, it)
				if err != nil {
					t.Fatal(err)
				}
				verdict, err := e.Verdict(t.Context(), answer.Run.No, answer.Item, it.ID)
				if err != nil || len(verdict) == 0 || verdict[0] != 'n' {
					t.Errorf("%s: expected it to be refused, got %q (%v)", kind, verdict, err)
				}
			}
		}
		if _, err := e.Tell(t.Context(), id, item("add", "2", "1")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := standing(t, s, id)["sum"]; got != "2" {
			t.Errorf("expected the entity to go on, got %s", got)
		}
		page, err := s.List(t.Context(), store.Filter{IDs: []string{id}})
		if err != nil || !slices.Contains([]store.Status{store.Suspended}, page.Runs[0].Status) || page.Runs[0].Marks != 0 {
			t.Errorf("expected it to be suspended and not marked, got %+v (%v)", page.Runs, err)
		}
	})
}

// TestAnEntityGoesToAProcessThatLacksNothing: a process that lacks what a record needs, such as a time zone, writes
// nothing of that. Another process gets the shard. Without one the record waits.
func TestAnEntityGoesToAProcessThatLacksNothing(t *testing.T) {
	for _, slots := range []int{1, 8} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Slots(slots))
			var log logs
			bare := newEngine(t, s, "bare", logging(&log), with("w", hears(0)), func(cfg *engine.Config) {
				cfg.Entities = map[string]engine.MakeRules{tallies: func(*store.Run) entity.Rules { return &bareTally{} }}
			})
			stop := serve(t, bare)
			synctest.Wait()
			ids := []string{tallies + "/a", tallies + "/b", tallies + "/c", tallies + "/d"}
			for _, id := range ids {
				if _, err := bare.Tell(t.Context(), id, item("add", "1", "5")); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(5 * time.Minute)
			for _, id := range ids {
				if got := standing(t, s, id); len(got) > 0 {
					t.Errorf("%s has %v", id, got)
				}
				expectStatus(t, bare, id, store.Running)
			}
			if d, err := s.Describe(t.Context()); err != nil || len(d.Nodes) != 1 || len(d.Nodes[0].Lacks) != len(ids) ||
				!strings.Contains(d.Nodes[0].Lacks[0], ids[0]+": no such zone") {
				t.Errorf("the row of the node does not say what it lacks: %+v, %v", d.Nodes, err)
			}
			if n := len(log.lines("lacks")); n < 4 || n > 60 {
				t.Errorf("%d lines in five minutes say that something is lacking", n)
			}
			whole := newEngine(t, s.Join(), "whole", with("w", hears(0)))
			defer serve(t, whole)()
			if slots == 1 { // it stands by
				stop()
			} else {
				defer stop()
			}
			time.Sleep(2 * time.Minute)
			for _, id := range ids {
				if got := standing(t, s, id)["sum"]; got != "5" {
					t.Errorf("with %d slots %s has the sum %q; want 5", slots, id, got)
				}
			}
		})
	}
}

// bareTally is a tally in a process that lacks what it needs.
type bareTally struct{ tally }

func (*bareTally) Load([]store.Entry) error { return fmt.Errorf("no such zone: %w", entity.ErrLacks) }
