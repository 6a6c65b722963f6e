package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// eventsCase publishes, waits, waits in vain and leaves a wait behind, and is killed
// at every commit, also at those of its topics.
var eventsCase = crashCase{
	name: "events", want: "own job timeout word",
	drive: func(ctx context.Context, e *stet.Engine, id string) error {
		if _, err := jobs.Publish(ctx, e, "job", stet.SendKey("job")); err != nil {
			return err
		}
		err := word.Send(ctx, e, id, "word", stet.SendKey("word"))
		if errors.Is(err, stet.ErrTerminal) {
			return nil
		}
		return err
	},
	workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
		return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
			if _, err := stet.Publish(ctx, news, "own"); err != nil {
				return "", err
			}
			own, err := news.Receive(ctx)
			if err != nil {
				return "", err
			}
			job, err := jobs.Receive(ctx)
			if err != nil {
				return "", err
			}
			stet.Go(ctx, "left behind", func(ctx stet.Context) (string, error) { return jobs.Receive(ctx) })
			_, late := jobs.Receive(ctx, stet.Named("in vain"), stet.Within(time.Millisecond))
			var said, none string
			_, err = stet.Select(ctx, jobs.Case(&none, stet.Named("loses")), word.Case(&said))
			if errors.Is(late, stet.ErrTimeout) {
				job += " timeout"
			}
			return own + " " + job + " " + said + none, err
		})
	},
	check: func(ctx context.Context, e *stet.Engine, _ string) error {
		for name, want := range map[string]stet.TopicInfo{
			"news": {Accepted: 1, Pending: 1}, "jobs": {Accepted: 1, Received: 1},
		} {
			var last any
			begun := time.Now()
			for pause := 50 * time.Millisecond; ; pause *= 2 {
				info, err := e.Topics().Info(ctx, name)
				if err != nil {
					return fmt.Errorf("%w; it was %+v", err, last)
				}
				last = info
				if info.Accepted > want.Accepted || info.Received > want.Received {
					return fmt.Errorf("topic %s: %+v", name, info)
				}
				if info.Accepted == want.Accepted && info.Received == want.Received && info.Pending+info.Expired == want.Pending &&
					info.InFlight == 0 && info.Waiting == 0 {
					break
				}
				if ctx.Err() != nil {
					return fmt.Errorf("topic %s stays %+v", name, info)
				}
				time.Sleep(pause)
			}
			if waited := time.Since(begun); waited > time.Hour {
				return fmt.Errorf("topic %s has come to rest after %v: a hint was lost", name, waited)
			}
		}
		return nil
	},
}

// roams waits for jobs and news in every way, loses, gives up, publishes and
// continues as new. What it takes it says in its stream, in the same commit.
var (
	took = stet.Stream[string]("took")

	roams = stet.Define("roams", func(ctx stet.Context, in roaming) (string, error) {
		rng := rand.New(rand.NewPCG(uint64(in.Seed), uint64(in.Round)))
		takes := func(ctx stet.Context, v string, err error) error {
			if err == nil {
				err = took.Append(ctx, v)
			}
			if errors.Is(err, stet.ErrTimeout) {
				return nil
			}
			return err
		}
		short := stet.Within(time.Duration(rng.IntN(60)) * time.Millisecond)
		for i := range 3 {
			key := stet.Key(fmt.Sprint(i))
			var err error
			switch rng.IntN(7) {
			case 0:
				v, failed := jobs.Receive(ctx, key, short)
				err = takes(ctx, v, failed)
			case 1:
				v, failed := news.Receive(ctx, key, short)
				err = takes(ctx, v, failed)
			case 2:
				var said, job, paper string
				won, failed := stet.Select(ctx, jobs.Case(&job, stet.Named("j"), key), word.Case(&said, key),
					news.Case(&paper, stet.Named("n"), key), stet.AfterDelay(fmt.Sprint("timer-", i), time.Duration(short)))
				if err = failed; err == nil && won != 1 && won != 3 {
					err = takes(ctx, job+paper, nil)
				}
			case 3: // the loser of a race has consumed what it received
				_, _, err = stet.Race(ctx,
					stet.Go(ctx, fmt.Sprint("a-", i), func(ctx stet.Context) (int, error) {
						v, err := jobs.Receive(ctx)
						return 0, takes(ctx, v, err)
					}),
					stet.Go(ctx, fmt.Sprint("b-", i), func(ctx stet.Context) (int, error) {
						v, err := news.Receive(ctx)
						return 0, takes(ctx, v, err)
					}),
					stet.Go(ctx, fmt.Sprint("c-", i), func(ctx stet.Context) (int, error) {
						return 0, stet.Sleep(ctx, "short", time.Duration(short))
					}),
				)
			case 4:
				_, err = stet.Publish(ctx, jobs, fmt.Sprintf("own-%d-%d-%d", in.Seed, in.Round, i), key)
			case 5:
				_, err = stet.Loop(ctx, fmt.Sprint("loop-", i), 0,
					func(ctx stet.Context, n int) (next stet.Next[int, int], err error) {
						v, err := jobs.Receive(ctx, short)
						if err = takes(ctx, v, err); n == 4 {
							return next.Break(n), err
						}
						return next.Continue(n + 1), err
					}, stet.LoopOptions{Every: 2, Keep: 1})
			default:
				err = stet.Do(ctx, "step", func(context.Context) error { return nil }, key)
			}
			if err != nil {
				return "", err
			}
			if rng.IntN(40) == 0 {
				return "", errors.New("gives up")
			}
		}
		if in.Round < in.Seed%4 {
			return "", stet.ContinueAsNew(roaming{in.Seed, in.Round + 1})
		}
		return "", nil
	})
)

type roaming struct{ Seed, Round int }

// TestConservationOfEvents: whatever is published while runs wait, race, lose, are
// cancelled, fail, continue as new, are rewound and crash, each event that was
// accepted is received, pending or expired in the end, and at every moment also in
// flight, and exactly one of these; a consumed one is taken once, and a broadcast one
// once by each run, in order.
func TestConservationOfEvents(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for seed := range crashSeeds(t, s.name, 6) {
			t.Run(fmt.Sprint(s.name, "/", seed), func(t *testing.T) {
				t.Parallel()
				conserveEvents(t, s.open(t), seed)
			})
		}
	}
}

func conserveEvents(t *testing.T, open func() store.Store, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 8))
	rewinds := seed%3 == 2
	cfg := stet.Config{PoisonLimit: stet.None, Workflows: []stet.Definition{roams}, Poll: 5 * time.Millisecond,
		MaxParkedBytes: []int{stet.None, 0}[seed%2]}
	outside := open()
	sender := client(t, outside, roams)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	topics := []stet.Topic[string]{jobs, news}
	if seed%2 == 1 {
		topics[0].Expiry, topics[1].Expiry = 20*time.Millisecond, 30*time.Millisecond
	}
	const runs, lives = 24, 6
	accepted := map[string][]string{}
	ids := make([]string, runs)
	for life := range lives {
		d := &dying{Store: open(), left: int64(3 + rng.IntN(30)), before: rng.IntN(2) == 0}
		p := newProcess(t, d, cfg)
		d.die = p.handle.die
		p.start()
		t.Cleanup(func() { p.bury(t) })
		for i := life * runs / lives; i < (life+1)*runs/lives; i++ {
			ids[i] = fmt.Sprintf("run-%d", i)
			if _, err := roams.Start(ctx, sender, roaming{Seed: i}, stet.ID(ids[i])); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 30 {
			topic := topics[rng.IntN(2)]
			v := fmt.Sprintf("%s-%d-%02d", topic.Name, life, n)
			if _, err := topic.Publish(ctx, sender, v, stet.SendKey(v)); err != nil {
				t.Fatal(err)
			}
			accepted[topic.Name] = append(accepted[topic.Name], v)
			to := ids[rng.IntN((life+1)*runs/lives)]
			if n%3 == 0 {
				if err := word.Send(ctx, sender, to, v); err != nil && !errors.Is(err, stet.ErrTerminal) {
					t.Fatal(err)
				}
			}
			if n%6 == 5 {
				disturbRun(t, sender, to, rng, rewinds)
			}
		}
		conservedTopics(t, sender)
		if life == lives-1 {
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
	for i := range 40 {
		topic := topics[i%2]
		v := fmt.Sprintf("%s-%d-%02d", topic.Name, lives, i)
		publishNow(t, sender, topic, v)
		accepted[topic.Name] = append(accepted[topic.Name], v)
	}
	for i, id := range ids { // those that are paused, or wait for an event that never comes
		wait, stop := context.WithTimeout(ctx, time.Duration(2*i)*time.Millisecond)
		_, _ = final.Runs().Wait(wait, id) // some have time to end
		stop()
		info, err := final.Runs().Info(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if !info.Status.Terminal() {
			if _, err := final.Runs().Cancel(ctx, id, stet.Act{Why: "the end"}); err != nil &&
				!errors.Is(err, stet.ErrTerminal) && !errors.Is(err, stet.ErrRefused) {
				t.Fatal(err)
			}
		}
		if _, err := final.Runs().Wait(ctx, id); err != nil {
			t.Fatal(id, err)
		}
	}
	wholeTopics(t, final, ids, accepted, rewinds)
}

// disturbRun cancels, pauses, resumes, retries or rewinds a run, or tries to.
func disturbRun(t *testing.T, e *stet.Engine, id string, rng *rand.Rand, rewinds bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(testContext(t), 5*time.Millisecond)
	defer cancel()
	var err error
	act := rng.IntN(3)
	if rewinds {
		act = rng.IntN(6)
	}
	switch act {
	case 0:
		_, err = e.Runs().Cancel(ctx, id, stet.Act{})
	case 1:
		_, err = e.Runs().Pause(ctx, id, stet.Act{})
	case 2:
		_, err = e.Runs().Resume(ctx, id, stet.Act{})
	case 3:
		_, err = e.Runs().Retry(ctx, id, stet.Act{})
	case 4:
		_, err = e.Runs().Rewind(ctx, id, "/", stet.Act{})
	default:
		var entries []stet.HistoryEntry
		if entries, err = e.Runs().History(ctx, id, stet.HistoryQuery{}); err == nil && len(entries) > 0 {
			_, err = e.Runs().Rewind(ctx, id, entries[rng.IntN(len(entries))].Location, stet.Act{})
		}
	}
	if err != nil && !errors.Is(err, stet.ErrTerminal) && !errors.Is(err, stet.ErrRefused) && ctx.Err() == nil {
		t.Fatal(err)
	}
}

func conservedTopics(t *testing.T, e *stet.Engine) {
	t.Helper()
	list, err := e.Topics().List(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if i.Accepted != i.Received+i.Pending+i.InFlight+i.Expired {
			t.Errorf("topic %s: %+v", i.Name, i)
		}
	}
}

// wholeTopics looks at everything when all runs have ended.
func wholeTopics(t *testing.T, e *stet.Engine, ids []string, accepted map[string][]string, rewinds bool) {
	t.Helper()
	ctx := testContext(t)
	taken := map[string]int{}
	for _, id := range ids {
		items, err := took.Items(ctx, e, id, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		var papers []string
		for _, it := range items {
			if it.Rewound {
				papers = nil
				continue
			}
			taken[it.Value]++
			if it.Value[:4] == "news" {
				papers = append(papers, it.Value)
			}
		}
		for i := 1; i < len(papers) && !rewinds; i++ {
			if papers[i-1] >= papers[i] {
				t.Errorf("run %s got %s and then %s", id, papers[i-1], papers[i])
			}
		}
	}
	for _, name := range []string{"jobs", "news"} {
		info := untilTopic(t, e, name, func(i *stet.TopicInfo) bool {
			return i.InFlight == 0 && i.Waiting == 0 && i.Accepted >= int64(len(accepted[name]))
		})
		conservedTopics(t, e)
		events, err := e.Topics().Events(ctx, name)
		if err != nil || int64(len(events)) != info.Pending {
			t.Errorf("topic %s has %d events, %v; it says %+v", name, len(events), err, info)
		}
		pending := map[string]bool{}
		for i := range events {
			var v string
			if err := events[i].Decode(&v); err != nil {
				t.Fatal(err)
			}
			pending[v] = true
		}
		t.Logf("topic %s: %+v; %d values taken", name, *info, len(taken))
		if name == "news" {
			if info.Accepted != int64(len(accepted[name])) {
				t.Errorf("%d news were published, %d accepted", len(accepted[name]), info.Accepted)
			}
			continue
		}
		lost := int64(0)
		for _, id := range accepted[name] {
			switch n := taken[id]; {
			case n > 1 && !rewinds:
				t.Errorf("%s was taken %d times", id, n)
			case n > 0 && pending[id] && !rewinds:
				t.Errorf("%s was taken, and is pending", id)
			case n == 0 && !pending[id]:
				lost++
			}
		}
		if lost > info.Expired && !rewinds {
			t.Errorf("%d jobs were neither taken nor are they pending, and %d have expired", lost, info.Expired)
		}
		if info.Received == 0 && info.Expired == 0 {
			t.Error("no job was taken: this proves nothing")
		}
	}
}
