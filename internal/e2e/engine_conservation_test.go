package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// continued is added to the input of a run that continues as new.
const continued = 1000

// losing races receives against each other, a deadline and a step, and ends with
// messages in its inbox. Some runs continue as new before.
var losing = stet.Define("losing", func(ctx stet.Context, seed int) (string, error) {
	rounds := 1 + seed%3
	for i := range rounds {
		key := stet.Key(fmt.Sprint(i))
		switch (seed + i) % 3 {
		case 0:
			if _, err := word.Receive(ctx, stet.Within(2*time.Millisecond), key); err != nil &&
				!errors.Is(err, stet.ErrTimeout) {
				return "", err
			}
		case 1:
			_, _, err := stet.Race(ctx,
				stet.Go(ctx, fmt.Sprint("word-", i), func(ctx stet.Context) (string, error) { return word.Receive(ctx) }),
				stet.Go(ctx, fmt.Sprint("other-", i), func(ctx stet.Context) (string, error) { return other.Receive(ctx) }),
				stet.Go(ctx, fmt.Sprint("late-", i), func(ctx stet.Context) (string, error) {
					return "late", stet.Sleep(ctx, "short", 3*time.Millisecond)
				}),
			)
			if err != nil {
				return "", err
			}
		default:
			if _, err := other.ReceiveBatch(ctx, 2, stet.Within(time.Millisecond), key); err != nil &&
				!errors.Is(err, stet.ErrTimeout) {
				return "", err
			}
		}
		if seed%5 == 4 && i == 1 {
			return "", errors.New("gives up")
		}
	}
	if seed%6 == 5 && seed < continued {
		return "", stet.ContinueAsNew(seed + continued)
	}
	return "", nil
})

var other = stet.Message[string]("other")

// TestConservation: whatever is sent while runs race, are cancelled, paused, rewound,
// retried, fail, end, continue as new and are crashed, each accepted message is
// received, pending, or a dead letter, and exactly one of these.
func TestConservation(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for seed := range crashSeeds(t, s.name, 4) {
			t.Run(fmt.Sprint(s.name, "/", seed), func(t *testing.T) {
				t.Parallel()
				conserve(t, s.open(t), seed)
			})
		}
	}
}

// dying is a store whose process dies at a commit of turns, before it is written
// or after.
type dying struct {
	store.Store
	before bool
	die    func()

	mu   sync.Mutex
	left int64 // commits until then
}

func (d *dying) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	d.mu.Lock()
	if len(b.Turns) > 0 {
		d.left--
	}
	now := d.left == 0
	d.mu.Unlock()
	if now && d.before {
		d.die()
		return store.BatchResult{}, errDead
	}
	result, err := d.Store.Commit(ctx, b)
	if now {
		d.die()
		return store.BatchResult{}, fmt.Errorf("%w: %w", errDead, store.ErrUnknown)
	}
	return result, err
}

func conserve(t *testing.T, open func() store.Store, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	cfg := stet.Config{PoisonLimit: stet.None, Workflows: []stet.Definition{losing}, Poll: 5 * time.Millisecond,
		MaxParkedBytes: []int{stet.None, 0}[seed%2]}
	outside := open()
	sender := client(t, outside, losing)
	ctx := testContext(t)
	accepted := map[string]string{} // by itemKey, to the run
	verbs := map[int]int{}          // carried out, by when
	const runs = 24
	ids := make([]string, runs)
	for life := range 6 {
		d := &dying{Store: open(), left: int64(3 + rng.IntN(25)), before: rng.IntN(2) == 0}
		p := newProcess(t, d, cfg)
		d.die = p.handle.die
		p.start()
		t.Cleanup(func() { p.bury(t) })
		for i := life * runs / 6; i < (life+1)*runs/6; i++ {
			ids[i] = fmt.Sprintf("run-%d", i)
			key := fmt.Sprintf("first-%d", i)
			if _, err := losing.Start(ctx, sender, i, stet.ID(ids[i])); err != nil {
				t.Fatal(err)
			}
			if err := word.Send(ctx, sender, ids[i], key, stet.SendKey(key)); err == nil {
				accepted[itemKey(word, key)] = ids[i]
			} else if !errors.Is(err, stet.ErrTerminal) {
				t.Fatal(err)
			}
		}
		for n := range 30 {
			to := ids[rng.IntN((life+1)*runs/6)]
			key := fmt.Sprintf("m-%d-%d", life, n)
			m := []stet.Message[string]{word, other}[rng.IntN(2)]
			err := m.Send(ctx, sender, to, key, stet.SendKey(key))
			switch {
			case err == nil:
				accepted[itemKey(m, key)] = to
			case !errors.Is(err, stet.ErrTerminal):
				t.Fatal(err)
			}
			var verb func(ctx context.Context) (bool, error)
			switch n % 10 {
			case 9:
				verb = func(ctx context.Context) (bool, error) { return sender.Runs().Cancel(ctx, to, stet.Act{}) }
			case 3, 6:
				verb = func(ctx context.Context) (bool, error) {
					return sender.Runs().Rewind(ctx, to, anyPlace(ctx, rng, sender, to), stet.Act{})
				}
			case 4:
				verb = func(ctx context.Context) (bool, error) { return sender.Runs().Retry(ctx, to, stet.Act{}) }
			case 7:
				verb = func(ctx context.Context) (bool, error) { return sender.Runs().Pause(ctx, to, stet.Act{}) }
			case 8:
				verb = func(ctx context.Context) (bool, error) { return sender.Runs().Resume(ctx, to, stet.Act{}) }
			}
			if verb != nil {
				wait, cancel := context.WithTimeout(ctx, time.Millisecond<<(2*rng.IntN(3)))
				ok, err := verb(wait)
				if err != nil && !errors.Is(err, stet.ErrTerminal) && !errors.Is(err, stet.ErrRefused) && wait.Err() == nil {
					t.Fatal(err)
				}
				if ok {
					verbs[n%10]++
				}
				cancel()
			}
		}
		check(t, outside, accepted, false)
		if life == 5 {
			break
		}
		select {
		case <-p.handle.died:
		case <-time.After(50 * time.Millisecond): // it had fewer commits
			p.handle.die()
		}
		p.bury(t)
	}
	last := open()
	final := serve(t, stet.Config{Store: last, Workflows: cfg.Workflows, Poll: cfg.Poll})
	for _, id := range ids {
		err := resumePaused(ctx, final, id)
		if checkSpent(t, final, id); err != nil {
			t.Fatal(id, err)
		}
	}
	for _, id := range ids { // now that all have ended, every reverted message has been received
		if ok, err := final.Runs().Rewind(ctx, id, anyPlace(ctx, rng, final, id), stet.Act{}); ok {
			verbs[3]++
		} else if !errors.Is(err, stet.ErrRefused) {
			t.Fatal(id, err)
		}
	}
	for _, id := range ids {
		if _, err := final.Runs().Wait(ctx, id); err != nil {
			t.Fatal(id, err)
		}
	}
	check(t, outside, accepted, true)
	t.Logf("verbs that were carried out: %v", verbs)
	if verbs[3] == 0 {
		t.Error("nothing was rewound: this proves nothing")
	}
}

// anyPlace returns a location of a run's history, or "/".
func anyPlace(ctx context.Context, rng *rand.Rand, e *stet.Engine, id string) string {
	entries, err := e.Runs().History(ctx, id, stet.HistoryQuery{})
	if err != nil || len(entries) == 0 || rng.IntN(3) == 0 {
		return "/"
	}
	return entries[rng.IntN(len(entries))].Location
}

// check looks for each message in the histories, the inboxes and among the dead
// letters. At the end of all runs nothing is pending.
func check(t *testing.T, s store.Store, accepted map[string]string, over bool) {
	t.Helper()
	ctx := testContext(t)
	found := map[string][]string{}
	goneOn := map[string]store.RunNo{} // runs that have continued as new
	dead := map[store.ItemNo]bool{}
	page, err := s.DeadLetters(ctx, store.DeadFilter{Limit: store.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range page.Letters {
		dead[l.Item.No] = true
	}
	list, err := s.List(ctx, store.Filter{Limit: store.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Runs {
		snaps, _, err := s.Load(ctx, []store.RunNo{r.No}) // entries and items of one moment
		if err != nil || len(snaps) != 1 {
			t.Fatal(err)
		}
		if snaps[0].Run.Incarnation > 0 {
			goneOn[r.ID] = r.No
		}
		for _, e := range snaps[0].Entries {
			if e.Kind != store.KindReceive || e.State != store.Done {
				continue
			}
			got, err := stored.DecodeReceipt(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range got {
				found[m.ID] = append(found[m.ID], "received")
			}
		}
		for _, it := range snaps[0].Items {
			if over && !it.Kind.Verb() {
				t.Errorf("item %s of run %s is pending though the run is %s", it.ID, r.ID, snaps[0].Run.Status)
			}
			found[it.ID] = append(found[it.ID], "pending")
		}
	}
	if !over {
		for id, places := range found {
			if len(places) > 1 {
				t.Errorf("%s is %v", id, places)
			}
		}
		return // dead letters were read at another moment
	}
	for _, l := range page.Letters {
		found[l.Item.ID] = append(found[l.Item.ID], "dead")
	}
	counts := map[string]int{}
	for key := range accepted {
		places := found["m:"+key]
		if no := goneOn[accepted[key]]; no != 0 && len(places) == 0 {
			// What a former incarnation has received is not in the history any more.
			items, err := s.Inbox(ctx, no, "m:"+key)
			if err != nil {
				t.Fatal(err)
			}
			if len(items) == 1 && items[0].State == store.Consumed {
				places = []string{"received before"}
			}
		}
		if len(places) != 1 {
			t.Errorf("message %s to %s is %v; want one of these", key, accepted[key], places)
			continue
		}
		counts[places[0]]++
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if len(found[key]) > 1 {
			t.Errorf("%s is %v", key, found[key])
		}
	}
	t.Logf("%d messages: %v", len(accepted), counts)
	if counts["received"] == 0 || counts["dead"] == 0 {
		t.Error("no message was received, or none became a dead letter: this proves nothing")
	}
}

// itemKey returns the part after "m:" of the ID of a message's item.
func itemKey(m stet.Message[string], key string) string {
	return fmt.Sprintf("%d:%s:%s", len(m), m, key)
}
