package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Each test of this file shows one promise about topics and events.

var (
	news = stet.Topic[string]{Name: "news"}
	jobs = stet.Topic[string]{Name: "jobs", Mode: stet.Consumed}
	stop = stet.Message[string]("stop")
)

// takesTwo receives two events of a topic and returns them.
func takesTwo(name string, topic stet.Topic[string]) *stet.Workflow[int, string] {
	return stet.Define(name, func(ctx stet.Context, _ int) (string, error) {
		a, err := topic.Receive(ctx)
		if err != nil {
			return "", err
		}
		b, err := topic.Receive(ctx, stet.Named("again"))
		return a + " " + b, err
	})
}

func takesOne(name string, topic stet.Topic[string]) *stet.Workflow[int, string] {
	return stet.Define(name, func(ctx stet.Context, _ int) (string, error) { return topic.Receive(ctx) })
}

// untilBegun blocks until no run is queued. A run gets events from its start on, before it waits too; tests whose runs
// must all wait, or read SinceWait, publish later.
func untilBegun(t testing.TB, e *stet.Engine) {
	t.Helper()
	until(t, "queued runs", func(ctx context.Context) ([]store.Tally, error) {
		return e.Runs().Count(ctx, store.Filter{Statuses: []store.Status{store.Queued}})
	}, func(queued []store.Tally) bool { return len(queued) == 0 })
}

// publish publishes what all runs see that are there.
func publish(t testing.TB, e *stet.Engine, topic stet.Topic[string], values ...string) {
	t.Helper()
	untilBegun(t, e)
	publishNow(t, e, topic, values...)
}

func publishNow(t testing.TB, e *stet.Engine, topic stet.Topic[string], values ...string) {
	t.Helper()
	for _, v := range values {
		if _, err := topic.Publish(testContext(t), e, v); err != nil {
			t.Fatal(err)
		}
	}
}

// untilTopic blocks until the topic stands as wanted.
func untilTopic(t testing.TB, e *stet.Engine, name string, wanted func(*stet.TopicInfo) bool) *stet.TopicInfo {
	t.Helper()
	return until(t, "topic "+name, func(ctx context.Context) (*stet.TopicInfo, error) {
		info, err := e.Topics().Info(ctx, name)
		if errors.Is(err, stet.ErrNotFound) {
			return nil, nil
		}
		return info, err
	}, func(info *stet.TopicInfo) bool { return info != nil && wanted(info) })
}

func waits(n int64) func(*stet.TopicInfo) bool {
	return func(i *stet.TopicInfo) bool { return i.Waiting == n }
}

func TestBroadcastEventGoesToEveryRunOnce(t *testing.T) {
	t.Parallel()
	for _, parked := range []int{stet.None, 0} {
		w := takesTwo("w", news)
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked})
		runs := make([]*stet.Run[string], 5)
		for i := range runs {
			runs[i] = begin(t, e, w, 0)
		}
		publish(t, e, news, "a", "b", "c")
		for _, r := range runs {
			if got := outcome(t, r); got != "a b" {
				t.Errorf("a run got %q", got)
			}
		}
		info := untilTopic(t, e, "news", func(i *stet.TopicInfo) bool { return i.Accepted == 3 })
		if info.Pending != 3 || info.Waiting != 0 || info.InFlight != 0 || info.Mode != stet.Broadcast {
			t.Errorf("%+v", info)
		}
		events, err := e.Topics().Events(testContext(t), "news")
		if err != nil || len(events) != 3 || events[0].Received != 5 || events[2].Received != 0 {
			t.Errorf("%+v, %v", events, err)
		}
		var value string
		if err := events[1].Decode(&value); err != nil || value != "b" {
			t.Errorf("the second event is %q, %v", value, err)
		}
	}
}

func TestConsumedEventGoesToOneRun(t *testing.T) {
	t.Parallel()
	w := takesOne("w", jobs)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None})
	first := begin(t, e, w, 0)
	untilTopic(t, e, "jobs", waits(1))
	second := begin(t, e, w, 0)
	untilTopic(t, e, "jobs", waits(2))
	publish(t, e, jobs, "a")
	if got := outcome(t, first); got != "a" {
		t.Errorf("the longest waiting run got %q", got)
	}
	publish(t, e, jobs, "b", "c")
	if got := outcome(t, second); got != "b" {
		t.Errorf("the next one got %q", got)
	}
	untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool {
		return i.Accepted == 3 && i.Received == 2 && i.Pending == 1 && i.InFlight == 0
	})
}

func TestVisibilityOfEvents(t *testing.T) {
	t.Parallel()
	first := stet.Topic[string]{Name: "first"}
	receives := func(name string, v stet.Visibility) *stet.Workflow[int, string] {
		topic := stet.Topic[string]{Name: "news", Visible: v}
		return stet.Define(name, func(ctx stet.Context, _ int) (string, error) {
			if _, err := first.Receive(ctx); err != nil {
				return "", err
			}
			if err := stet.Sleep(ctx, "later", time.Millisecond); err != nil {
				return "", err
			}
			return topic.Receive(ctx)
		})
	}
	run, wait, any := receives("run", stet.SinceRun), receives("wait", stet.SinceWait), receives("any", stet.Retained)
	e := serve(t, stet.Config{Workflows: []stet.Definition{run, wait, any}})
	publish(t, e, news, "before the run")
	untilTopic(t, e, "news", func(i *stet.TopicInfo) bool { return i.Accepted == 1 })
	runs := []*stet.Run[string]{begin(t, e, run, 0), begin(t, e, wait, 0), begin(t, e, any, 0)}
	untilTopic(t, e, "first", waits(3))
	publish(t, e, news, "before the wait")
	publish(t, e, first, "go")
	untilTopic(t, e, "news", func(i *stet.TopicInfo) bool { return i.Accepted == 2 && i.Waiting == 1 })
	publish(t, e, news, "after")
	for i, want := range []string{"before the wait", "after", "before the run"} {
		if got := outcome(t, runs[i]); got != want {
			t.Errorf("visibility %d: got %q, want %q", i, got, want)
		}
	}
}

func TestExpiredEventsAreNotReceived(t *testing.T) {
	t.Parallel()
	short := stet.Topic[string]{Name: "jobs", Mode: stet.Consumed, Expiry: time.Millisecond, Visible: stet.Retained}
	w := takesOne("w", short)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	publish(t, e, short, "late")
	untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool { return i.Expired == 1 })
	r := begin(t, e, w, 0)
	untilTopic(t, e, "jobs", waits(1))
	publish(t, e, jobs, "in time") // expiry is that of the publication
	if got := outcome(t, r); got != "in time" {
		t.Errorf("got %q", got)
	}
}

func TestRetentionDropsEvents(t *testing.T) {
	t.Parallel()
	kept := stet.Topic[string]{Name: "news", Retention: time.Millisecond}
	e := serve(t, stet.Config{Workflows: []stet.Definition{takesOne("w", kept)}})
	publish(t, e, kept, "a")
	untilTopic(t, e, "news", func(i *stet.TopicInfo) bool { return i.Expired == 1 && i.Pending == 0 })
}

func TestPublishBeyondTheCapIsRefusedAndCounted(t *testing.T) {
	t.Parallel()
	small := stet.Topic[string]{Name: "jobs", Mode: stet.Consumed, Cap: 2}
	w := takesOne("w", small)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	publish(t, e, small, "a", "b")
	untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool { return i.Pending == 2 })
	for range 3 {
		if _, err := small.Publish(testContext(t), e, "c"); !errors.Is(err, stet.ErrTopicFull) {
			t.Fatalf("a publication beyond the cap: %v", err)
		}
	}
	untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool { return i.Refused == 3 && i.Accepted == 2 })
	publish(t, e, stet.Topic[string]{Name: "jobs", Cap: stet.None}, "over it")
	untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool { return i.Accepted == 3 })
}

// TestPublishBeyondTheCapInBytes is refused: what nobody has received is held in memory.
func TestPublishBeyondTheCapInBytes(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, _ store.Store) {
		small := stet.Topic[string]{Name: "jobs", Mode: stet.Consumed, CapBytes: 1 << 20, Visible: stet.Retained}
		w := takesOne("w", small)
		cfg.Workflows = []stet.Definition{w}
		e := serve(t, cfg)
		large := strings.Repeat("x", 400<<10)
		publish(t, e, small, large, large, large) // the last one exceeds it
		untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool { return i.Pending == 3 })
		ctx := testContext(t)
		_, err := small.Publish(ctx, e, "c")
		for err == nil { // a publisher's reading counts for a second
			_, err = small.Publish(ctx, e, "c")
		}
		if !errors.Is(err, stet.ErrTopicFull) || !strings.Contains(err.Error(), "bytes are pending, of 1048576 at most") {
			t.Fatalf("a publication beyond the cap: %v", err)
		}
		info, err := e.Topics().Info(testContext(t), "jobs")
		if err != nil || info.CapBytes != 1<<20 || info.Bytes < 3*400<<10 || info.HadBytes != 0 {
			t.Fatalf("the topic stands as %+v, %v", info, err)
		}
		if got := outcome(t, begin(t, e, w, 0)); got != large {
			t.Fatalf("the run got %.20q", got)
		}
		untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool { return i.Bytes < 1<<20 && i.Refused == 1 })
		publish(t, e, small, "c")
		publish(t, e, stet.Topic[string]{Name: "jobs", CapBytes: stet.None}, large, large)
		untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool { return i.CapBytes == stet.None && i.Bytes > 4*400<<10 })
	})
}

// reads receives n events of a topic, and returns the last.
func reads(name string, topic stet.Topic[string], n int) *stet.Workflow[int, string] {
	return stet.Define(name, func(ctx stet.Context, _ int) (last string, err error) {
		for range n {
			if last, err = topic.Receive(ctx); err != nil {
				return "", err
			}
		}
		return last, nil
	})
}

func TestBroadcastThatAllHaveHadFillsNoTopic(t *testing.T) {
	t.Parallel()
	small := stet.Topic[string]{Name: "news", Cap: 3}
	w := reads("w", small, 8)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	r := begin(t, e, w, 0)
	for i := range 8 {
		untilTopic(t, e, "news", waits(1))
		publish(t, e, small, fmt.Sprint(i))
	}
	if got := outcome(t, r); got != "7" {
		t.Fatalf("the run got %q last", got)
	}
	// Nobody has had these, so they count, and what the run has had goes. Its last event may be on its way still.
	publish(t, e, small, "later", "later still")
	untilTopic(t, e, "news", func(i *stet.TopicInfo) bool { return i.Accepted == 10 && i.Pending == 3 && i.Had == 1 })
}

func TestSlowRunHoldsTheCapUntilItEnds(t *testing.T) {
	t.Parallel()
	small := stet.Topic[string]{Name: "news", Cap: 2}
	fast := reads("fast", small, 5)
	slow := stet.Define("slow", func(ctx stet.Context, _ int) (string, error) {
		first, err := small.Receive(ctx)
		if err == nil {
			_, err = stop.Receive(ctx)
		}
		return first, err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{fast, slow}})
	f := begin(t, e, fast, 0)
	s := begin(t, e, slow, 0)
	for i := range 3 {
		untilTopic(t, e, "news", func(i *stet.TopicInfo) bool { return i.Waiting >= 1 })
		publish(t, e, small, fmt.Sprint(i))
		want := int64(i + 1)
		untilTopic(t, e, "news", func(i *stet.TopicInfo) bool { return i.Accepted == want && i.Waiting >= 1 })
	}
	_, err := small.Publish(testContext(t), e, "refused")
	if !errors.Is(err, stet.ErrTopicFull) || !strings.Contains(err.Error(), s.ID()) {
		t.Fatalf("with a run that has had one of three: %v; want one that names %s", err, s.ID())
	}
	if err := stop.Send(testContext(t), e, s.ID(), ""); err != nil {
		t.Fatal(err)
	}
	outcome(t, s)
	for i := range 2 { // a publisher looks once a second
		for {
			_, err := small.Publish(testContext(t), e, fmt.Sprint("on ", i))
			if err == nil {
				break
			}
			if !errors.Is(err, stet.ErrTopicFull) {
				t.Fatal(err)
			}
			if err := takes(testContext(t), 10*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := outcome(t, f); got != "on 1" {
		t.Errorf("the fast run got %q last", got)
	}
}

func TestPublicationsOfOneKeyAreOneEvent(t *testing.T) {
	t.Parallel()
	w := takesTwo("w", jobs)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	r := begin(t, e, w, 0)
	untilBegun(t, e)
	for range 2 {
		id, err := jobs.Publish(testContext(t), e, "a", stet.SendKey("key-1"))
		if err != nil || id != "key-1" {
			t.Fatal(id, err)
		}
	}
	if _, err := jobs.Publish(testContext(t), e, "other", stet.SendKey("key-1")); !errors.Is(err, stet.ErrKeyUsed) {
		t.Errorf("another event with the key: expected ErrKeyUsed, found %v", err)
	}
	publish(t, e, jobs, "b")
	if got := outcome(t, r); got != "a b" {
		t.Errorf("got %q", got)
	}
}

func TestEventAgainstADeadline(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		_, err := jobs.Receive(ctx, stet.Within(time.Millisecond))
		if !errors.Is(err, stet.ErrTimeout) {
			return "", fmt.Errorf("expected a timeout, found %w", err)
		}
		return jobs.Receive(ctx, stet.Named("again"))
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None})
	r := begin(t, e, w, 0)
	untilWaits(t, e, r.ID(), "again")
	publish(t, e, jobs, "a")
	if got := outcome(t, r); got != "a" {
		t.Errorf("got %q", got)
	}
}

// TestEventThatLostGoesBack: of a combined wait exactly one wins, and a consumed
// event that lost goes back to the topic's head.
func TestEventThatLostGoesBack(t *testing.T) {
	t.Parallel()
	races := stet.Define("races", func(ctx stet.Context, _ int) (string, error) {
		var word, job string
		if _, err := stet.Select(ctx, stop.Case(&word), jobs.Case(&job)); err != nil {
			return "", err
		}
		return word + job, nil
	})
	one := takesOne("one", jobs)
	e := serve(t, stet.Config{Workflows: []stet.Definition{races, one}})
	ctx := testContext(t)
	for range 20 {
		r := begin(t, e, races, 0)
		if err := stop.Send(ctx, e, r.ID(), "stopped"); err != nil {
			t.Fatal(err)
		}
		next := begin(t, e, one, 0)
		publish(t, e, jobs, "job")
		switch got := outcome(t, r); got {
		case "stopped":
			if got := outcome(t, next); got != "job" {
				t.Fatalf("the event lost, and the next run got %q", got)
			}
		case "job": // its message is a dead letter
			publish(t, e, jobs, "another")
			if got := outcome(t, next); got != "another" {
				t.Fatalf("the next run got %q", got)
			}
		default:
			t.Fatal(got)
		}
	}
	untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool {
		return i.Received == i.Accepted && i.InFlight == 0 && i.Waiting == 0
	})
}

// TestWaitsOfEndedRunsAreWithdrawn, however the run ends, in memory or not.
func TestWaitsOfEndedRunsAreWithdrawn(t *testing.T) {
	t.Parallel()
	w := takesOne("w", jobs)
	branches := stet.Define("branches", func(ctx stet.Context, _ int) (string, error) {
		stet.Go(ctx, "waits", func(ctx stet.Context) (string, error) { return jobs.Receive(ctx) })
		return "", stet.Sleep(ctx, "short", 2*time.Millisecond)
	})
	fails := stet.Define("fails", func(ctx stet.Context, _ int) (string, error) {
		stet.Go(ctx, "waits", func(ctx stet.Context) (string, error) { return jobs.Receive(ctx) })
		if err := stet.Sleep(ctx, "short", 2*time.Millisecond); err != nil {
			return "", err
		}
		panic("gives up")
	}, stet.FailOnBug)
	for _, parked := range []int{stet.None, 0} {
		for _, how := range []string{"cancel", "terminate", "pause and terminate", "return", "fail"} {
			t.Run(fmt.Sprint(how, " parked ", parked), func(t *testing.T) {
				t.Parallel()
				// In virtual time the branch waits before the short sleep is over.
				synctest.Test(t, func(t *testing.T) {
					e := serve(t, stet.Config{Workflows: []stet.Definition{w, branches, fails}, MaxParkedBytes: parked})
					ctx := testContext(t)
					var r *stet.Run[string]
					switch how {
					case "return":
						r = begin(t, e, branches, 0)
					case "fail":
						r = begin(t, e, fails, 0)
					default:
						r = begin(t, e, w, 0)
						untilTopic(t, e, "jobs", waits(1))
					}
					switch how {
					case "cancel":
						ok, err := e.Runs().Cancel(ctx, r.ID(), stet.Act{})
						done(t, ok, err)
					case "pause and terminate":
						ok, err := e.Runs().Pause(ctx, r.ID(), stet.Act{})
						done(t, ok, err)
						fallthrough
					case "terminate":
						ok, err := e.Runs().Terminate(ctx, r.ID(), stet.Act{})
						done(t, ok, err)
					}
					outcome(t, r)
					untilTopic(t, e, "jobs", waits(0))
					publish(t, e, jobs, "a")
					untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool { return i.Accepted == 1 })
					if info := untilTopic(t, e, "jobs", waits(0)); info.Pending != 1 || info.InFlight != 0 {
						t.Errorf("an event that nobody waits for: %+v", info)
					}
				})
			})
		}
	}
}

// TestPositionSurvivesContinueAsNew: a run sees each broadcast event once, across
// its incarnations, and "since the run began" is its first.
func TestPositionSurvivesContinueAsNew(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, seen string) (string, error) {
		v, err := news.Receive(ctx)
		if err != nil {
			return "", err
		}
		if seen += v; len(seen) < 4 {
			return "", stet.ContinueAsNew(seen)
		}
		return seen, nil
	})
	for _, parked := range []int{stet.None, 0} {
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked})
		r := begin(t, e, w, "")
		publish(t, e, news, "a", "b", "c", "d", "e")
		if got := outcome(t, r); got != "abcd" {
			t.Errorf("the incarnations saw %q", got)
		}
	}
}

func TestEventsInALoop(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, n int) (string, error) {
		return stet.Loop(ctx, "loop", "", func(ctx stet.Context, seen string) (next stet.Next[string, string], err error) {
			v, err := news.Receive(ctx)
			if seen += v; len(seen) == n {
				return next.Break(seen), err
			}
			return next.Continue(seen), err
		}, stet.LoopOptions{Every: 3, Keep: 2})
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None})
	r := begin(t, e, w, 26)
	for c := 'a'; c <= 'z'; c++ {
		publish(t, e, news, string(c))
	}
	if got := outcome(t, r); got != "abcdefghijklmnopqrstuvwxyz" {
		t.Errorf("the iterations saw %q", got)
	}
}

// TestRewindReturnsEvents: events that were consumed by reverted operations return to their old place.
func TestRewindReturnsEvents(t *testing.T) {
	t.Parallel()
	for _, topic := range []stet.Topic[string]{jobs, news} {
		t.Run(topic.Mode.String(), func(t *testing.T) {
			w := takesTwo("w", topic)
			e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
			ctx := testContext(t)
			r := begin(t, e, w, 0)
			publish(t, e, topic, "a", "b", "c")
			if got := outcome(t, r); got != "a b" {
				t.Fatal(got)
			}
			ok, err := e.Runs().Rewind(ctx, r.ID(), "again", stet.Act{})
			done(t, ok, err)
			if got := outcome(t, r); got != "a b" {
				t.Errorf("rewound to the second wait the run got %q", got)
			}
			ok, err = e.Runs().Rewind(ctx, r.ID(), "/", stet.Act{})
			done(t, ok, err)
			if got := outcome(t, r); got != "a b" {
				t.Errorf("rewound to its begin the run got %q", got)
			}
			info := untilTopic(t, e, topic.Name, func(i *stet.TopicInfo) bool { return i.InFlight == 0 && i.Waiting == 0 })
			if info.Accepted != 3 || info.Accepted != info.Received+info.Pending+info.Expired {
				t.Errorf("%+v", info)
			}
		})
	}
}

// TestForkHasItsOwnPlaceAtTopics: what the other run has taken stays taken. A fork
// sees the broadcast events behind those of its history, and waits for consumed ones
// like a run of its own.
func TestForkHasItsOwnPlaceAtTopics(t *testing.T) {
	t.Parallel()
	for _, topic := range []stet.Topic[string]{jobs, news} {
		t.Run(topic.Mode.String(), func(t *testing.T) {
			w := takesTwo("w", topic)
			e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
			ctx := testContext(t)
			r := begin(t, e, w, 0)
			untilTopic(t, e, topic.Name, waits(1)) // it has run
			publish(t, e, topic, "a", "b", "c")
			if got := outcome(t, r); got != "a b" {
				t.Fatal(got)
			}
			id, err := e.Runs().Fork(ctx, r.ID(), "again", stet.Act{})
			if err != nil {
				t.Fatal(err)
			}
			want := map[stet.TopicMode]string{stet.Consumed: "a c", stet.Broadcast: "a b"}[topic.Mode]
			fork := w.Handle(e, id)
			if got := outcome(t, fork); got != want {
				t.Errorf("the fork got %q; want %q", got, want)
			}
			ok, err := e.Runs().Rewind(ctx, id, "/", stet.Act{})
			done(t, ok, err)
			if topic.Mode == stet.Consumed {
				publish(t, e, topic, "d")
				want = "c d" // a is the other run's
			}
			if got := outcome(t, fork); got != want {
				t.Errorf("the fork, rewound, got %q; want %q", got, want)
			}
			untilTopic(t, e, topic.Name, func(i *stet.TopicInfo) bool {
				return i.Accepted == i.Received+i.Pending+i.InFlight+i.Expired && i.InFlight == 0
			})
		})
	}
}

func TestPublishInAWorkflow(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		first, err := stet.Publish(ctx, news, "a", stet.Headers{"from": "w"})
		if err != nil {
			return "", err
		}
		if err := stet.Sleep(ctx, "nap", time.Millisecond); err != nil {
			return "", err
		}
		if _, err := stet.Publish(ctx, news, "b", stet.Named("second")); err != nil {
			return "", err
		}
		got, err := news.ReceiveEvent(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(got.Value, got.ID == first, got.Headers["from"], got.Headers["tenant"], got.Sent.IsZero()), nil
	})
	for _, parked := range []int{stet.None, 0} {
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked})
		r := begin(t, e, w, 0, stet.Headers{"tenant": "x"})
		if got := outcome(t, r); got != "atruewxfalse" {
			t.Errorf("got %q", got)
		}
		untilTopic(t, e, "news", func(i *stet.TopicInfo) bool { return i.Accepted == 2 })
	}
}

func TestPausedRunKeepsItsEvent(t *testing.T) {
	t.Parallel()
	w := takesOne("w", jobs)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, 0)
	untilTopic(t, e, "jobs", waits(1))
	ok, err := e.Runs().Pause(ctx, r.ID(), stet.Act{})
	done(t, ok, err)
	publish(t, e, jobs, "a")
	untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool { return i.InFlight == 1 })
	ok, err = e.Runs().Resume(ctx, r.ID(), stet.Act{})
	done(t, ok, err)
	if got := outcome(t, r); got != "a" {
		t.Errorf("got %q", got)
	}
}

func TestLargeAndSealedEvents(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 3*store.LargeValue)
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		a, err := jobs.Receive(ctx)
		if err != nil {
			return "", err
		}
		if err := stet.Sleep(ctx, "nap", 5*time.Millisecond); err != nil { // and is loaded again
			return "", err
		}
		b, err := jobs.Receive(ctx, stet.Named("again"))
		return fmt.Sprint(a == large, b), err
	})
	key := stet.PayloadKey{ID: "k1", Secret: make([]byte, 32)}
	for _, policy := range []stet.Payloads{{}, {Compress: 100, Keys: []stet.PayloadKey{key}}} {
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None, Payloads: policy})
		r := begin(t, e, w, 0)
		publish(t, e, jobs, large, "b")
		if got := outcome(t, r); got != "trueb" {
			t.Errorf("got %.100q", got)
		}
	}
}

func TestShowsWhichTopicARunWaitsFor(t *testing.T) {
	t.Parallel()
	w := takesOne("w", jobs)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	r := begin(t, e, w, 0)
	waitStatus(t, e, r.ID(), store.Suspended)
	info, err := e.Runs().Info(testContext(t), r.ID())
	if err != nil || len(info.WaitsFor) != 1 || info.WaitsFor[0].Kind != "event" || info.WaitsFor[0].Topic != "jobs" {
		t.Errorf("it waits for %+v, %v", info.WaitsFor, err)
	}
}

func TestBadTopics(t *testing.T) {
	t.Parallel()
	w := takesOne("w", jobs)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxValue: 1000})
	ctx := testContext(t)
	for _, topic := range []stet.Topic[string]{
		{}, {Name: strings.Repeat("x", 65)}, {Name: "x", Mode: 7}, {Name: "x", Expiry: -2}, {Name: "x", Retention: -5}, {Name: "x", Cap: -2},
		{Name: "x", CapBytes: -2},
	} {
		if _, err := topic.Publish(ctx, e, "v"); !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("publish to %+v: %v", topic, err)
		}
	}
	if _, err := jobs.Publish(ctx, e, strings.Repeat("x", 1001)); !errors.Is(err, stet.ErrTooLarge) {
		t.Errorf("a large event: %v", err)
	}
	if _, err := jobs.Publish(ctx, e, "v", stet.SendKey("")); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("an empty key: %v", err)
	}
	if _, err := e.Topics().Info(ctx, "jobs"); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("a topic that nobody has used: %v", err)
	}
	if _, err := e.Topics().Events(ctx, "jobs"); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("its events: %v", err)
	}
	if list, err := e.Topics().List(ctx); err != nil || len(list) != 0 {
		t.Errorf("a refused publication has made %+v, %v", list, err)
	}
	bad := stet.Define("bad", func(ctx stet.Context, _ int) (string, error) {
		topic := stet.Topic[string]{Name: "x", Visible: 9}
		if _, err := topic.Receive(ctx); !errors.Is(err, stet.ErrInvalid) {
			return "", fmt.Errorf("visibility: %w", err)
		}
		if _, err := stet.Publish(ctx, stet.Topic[string]{Name: "x", Cap: -3}, "v"); !errors.Is(err, stet.ErrInvalid) {
			return "", fmt.Errorf("cap: %w", err)
		}
		if _, err := jobs.Receive(ctx, stet.Within(-time.Second)); !errors.Is(err, stet.ErrInvalid) {
			return "", fmt.Errorf("deadline: %w", err)
		}
		_, err := stet.Select(ctx, topic.Case(new(string)))
		if !errors.Is(err, stet.ErrInvalid) {
			return "", fmt.Errorf("case: %w", err)
		}
		return "ok", nil
	})
	e2 := serve(t, stet.Config{Workflows: []stet.Definition{bad}})
	if got := outcome(t, begin(t, e2, bad, 0)); got != "ok" {
		t.Error(got)
	}
}

// TestTopicsAreListed, and hidden from the list of runs.
func TestTopicsAreListed(t *testing.T) {
	t.Parallel()
	w := takesOne("w", jobs)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	publish(t, e, news, "a")
	publish(t, e, stet.Topic[string]{Name: "jobs", Mode: stet.Consumed, Cap: 7, Expiry: time.Hour, Retention: stet.None},
		"a")
	untilTopic(t, e, "jobs", func(i *stet.TopicInfo) bool { return i.Accepted == 1 })
	untilTopic(t, e, "news", func(i *stet.TopicInfo) bool { return i.Accepted == 1 })
	list, err := e.Topics().List(ctx)
	if err != nil || len(list) != 2 || list[0].Name != "jobs" || list[1].Name != "news" {
		t.Fatalf("%+v, %v", list, err)
	}
	if j := list[0]; j.Cap != 7 || j.Mode != stet.Consumed || j.Expiry != time.Hour || j.Retention != stet.None {
		t.Errorf("%+v", j)
	}
	if n := list[1]; n.Cap != 10_000 || n.Retention != 7*24*time.Hour || n.Expiry != stet.None {
		t.Errorf("%+v", n)
	}
	page, err := e.Store().List(ctx, store.Filter{})
	if err != nil || len(page.Runs) != 0 {
		t.Errorf("the list of runs has %d, %v", len(page.Runs), err)
	}
	if err := stop.Send(ctx, e, "stet.topic/jobs", "x"); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("a message to a topic: %v", err)
	}
}

// TestPublishFromAnotherProcess: a process that executes nothing publishes and sees.
func TestPublishFromAnotherProcess(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			open := s.open(t)
			w := takesTwo("w", jobs)
			e := serve(t, stet.Config{Store: open(), Workflows: []stet.Definition{w}, Poll: 20 * time.Millisecond})
			outside := client(t, open(), w)
			r := begin(t, e, w, 0)
			publish(t, outside, jobs, "a", "b")
			if got := outcome(t, r); got != "a b" {
				t.Errorf("got %q", got)
			}
			untilTopic(t, outside, "jobs", func(i *stet.TopicInfo) bool { return i.Received == 2 })
		})
	}
}

// TestEventsThatArriveWhileSuspending: one that arrives between "the run decides to
// wait" and "the wait is stored" is neither lost nor delivered twice.
func TestEventsThatArriveWhileSuspending(t *testing.T) {
	t.Parallel()
	for _, topic := range []stet.Topic[string]{jobs, news} {
		w := takesTwo("w", topic)
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		for i := range 50 {
			r := begin(t, e, w, 0)
			a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
			publish(t, e, topic, a, b)
			if got := outcome(t, r); got != a+" "+b {
				t.Fatalf("round %d: got %q", i, got)
			}
		}
	}
}
