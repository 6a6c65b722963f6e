package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// listenerRef is a workflow whose runs wait for events in several ways, and append those that they take to a stream, in
// the same commit.
var listenerRef = stet.Ref[uint64, int](prefix + "listener")

// taken is an event that a run has taken. Exactly one of its numbers is not 0.
type taken struct {
	Job  int64 `json:"job,omitempty"`
	News int64 `json:"news,omitempty"`
}

var takes = stet.Stream[taken](prefix + "takes")

// jobsOf and newsOf return the topics of a seed. A job is for one run, news are for
// all; both are the numbers in which they were published, from 1.
func jobsOf(seed uint64) stet.Topic[int64] {
	return stet.Topic[int64]{Name: fmt.Sprintf("%sjobs-%016x", prefix, seed), Mode: stet.Consumed, Visible: stet.Retained}
}

func newsOf(seed uint64) stet.Topic[int64] {
	return stet.Topic[int64]{Name: fmt.Sprintf("%snews-%016x", prefix, seed), Retention: stet.None, Cap: stet.None}
}

func (w *worker) listener() *stet.Workflow[uint64, int] {
	jobs, news := jobsOf(w.seed), newsOf(w.seed)
	return stet.Define(listenerRef.Name(), func(ctx stet.Context, seed uint64) (int, error) {
		n := 0
		for i := range 2 + int(seed%3) {
			within := time.Duration(50+mix(seed, uint64(i))%300) * time.Millisecond
			var t taken
			var err error
			switch mix(seed, uint64(i)) >> 16 % 4 {
			case 0:
				t.News, err = news.Receive(ctx, stet.Key(fmt.Sprint(i)), stet.Within(within))
			case 1: // the loser is withdrawn with what it was given
				_, err = stet.Select(ctx, jobs.Case(&t.Job, stet.Key(fmt.Sprint(i))), news.Case(&t.News, stet.Key(fmt.Sprint(i))),
					stet.AfterDelay(fmt.Sprint("enough-", i), within))
			default:
				t.Job, err = jobs.Receive(ctx, stet.Key(fmt.Sprint(i)), stet.Within(within))
			}
			if errors.Is(err, stet.ErrTimeout) {
				continue
			}
			if err != nil {
				return n, err
			}
			if t == (taken{}) {
				continue
			}
			n++
			if w.plants.has(plantEvent) && t.Job > 0 {
				t.Job = 1 // which others take too
			}
			if err := takes.Append(ctx, t); err != nil {
				return n, err
			}
		}
		return n, nil
	})
}

// topicWatch is the harness's knowledge of the topics.
type topicWatch struct {
	listeners map[string]bool           // run IDs, and whether they are known to be there
	published map[string]map[int64]bool // by topic: numbers, and whether they are known to be there
}

// keepListening starts runs that wait for events, and publishes some, until ctx ends.
func (h *harness) keepListening(ctx context.Context) error {
	jobs, news := jobsOf(h.cfg.Seed), newsOf(h.cfg.Seed)
	h.topics.published, h.topics.listeners = map[string]map[int64]bool{jobs.Name: {}, news.Name: {}}, map[string]bool{}
	for i := int64(1); pause(ctx, rand.N(60*time.Millisecond)) == nil; i++ {
		id := fmt.Sprintf("%slistener-%016x-%d", prefix, h.cfg.Seed, i)
		seed := mix(h.cfg.Seed, uint64(i))
		_, err := listenerRef.Start(ctx, h.client.engine, seed, stet.ID(id))
		if err != nil && !indefinite(err) {
			return fmt.Errorf("start %s: %w", id, err)
		}
		h.topics.listeners[id] = err == nil // a run whose start was not answered may take events, too
		if err == nil && seed%6 == 0 {
			h.attend(func(ctx context.Context) error { return h.endListener(ctx, id) })
		}
		for _, topic := range []stet.Topic[int64]{jobs, news} {
			if topic.Name == news.Name && i%4 > 0 {
				continue
			}
			_, err := topic.Publish(ctx, h.client.engine, i, stet.SendKey(fmt.Sprint(i)))
			if err != nil && !indefinite(err) {
				return fmt.Errorf("publish %d to %s: %w", i, topic.Name, err)
			}
			h.topics.published[topic.Name][i] = err == nil
		}
	}
	return nil
}

// endListener cancels a run, which may have ended.
func (h *harness) endListener(ctx context.Context, id string) error {
	if err := pause(ctx, rand.N(time.Second)); err != nil {
		return err
	}
	_, err := h.client.engine.Runs().Cancel(ctx, id, stet.Act{Why: "a strike"})
	if err != nil && !indefinite(err) && !errors.Is(err, stet.ErrTerminal) && !errors.Is(err, stet.ErrRefused) {
		return fmt.Errorf("cancel %s: %w", id, err)
	}
	return nil
}

// topicsRest reports whether nothing is on its way between the topics and runs.
func (h *harness) topicsRest(ctx context.Context) (bool, error) {
	for name := range h.topics.published {
		info, err := h.client.engine.Topics().Info(ctx, name)
		if errors.Is(err, stet.ErrNotFound) {
			continue
		}
		if err != nil || info.InFlight+info.Waiting > 0 {
			return false, err
		}
	}
	return true, nil
}

// checkTopics checks that every event is accounted for: that a job that was accepted
// was taken by one run or is kept, and that no run got the same news twice, or in
// another order.
func (a *audit) checkTopics(ctx context.Context) error {
	took := map[int64]int{} // jobs, by how many runs
	for id, known := range a.topics.listeners {
		if err := a.checkListener(ctx, id, known, took); err != nil {
			return err
		}
	}
	for name, published := range a.topics.published {
		info, err := a.client.engine.Topics().Info(ctx, name)
		if errors.Is(err, stet.ErrNotFound) {
			for n, known := range published {
				if known {
					a.report.violated(acknowledgedLost, "topic %s: event %d was published, and there is no such topic", name, n)
				}
			}
			continue
		}
		if err != nil {
			return err
		}
		a.report.count("events of "+info.Mode.String()+" topics", int(info.Accepted))
		if info.InFlight+info.Waiting > 0 {
			a.report.violated(stuck, "topic %s: %d events are on their way and %d waits stand, and no run lives: %+v",
				name, info.InFlight, info.Waiting, info)
		}
		if info.Accepted != info.Received+info.Pending+info.InFlight+info.Expired {
			a.report.violated(lostEvents, "topic %s: the counts do not add up: %+v", name, info)
		}
		kept := map[int64]bool{}
		events, err := a.client.engine.Topics().Events(ctx, name)
		if err != nil {
			return err
		}
		for i := range events {
			var n int64
			if err := events[i].Decode(&n); err != nil {
				return err
			}
			kept[n] = true
		}
		a.checkEvents(name, info.Mode, published, kept, took)
	}
	return nil
}

func (a *audit) checkEvents(name string, mode stet.TopicMode, published, kept map[int64]bool, took map[int64]int) {
	for n, known := range published {
		there := 0
		if kept[n] {
			there++
		}
		if mode == stet.Consumed {
			there += took[n]
		}
		switch {
		case there > 1:
			a.report.violated(lostEvents, "topic %s: event %d was taken by %d runs, and is kept: %t", name, n, took[n], kept[n])
		case there == 0 && known:
			a.report.violated(acknowledgedLost, "topic %s: event %d was published, no run has taken it, and it is not kept",
				name, n)
		}
	}
}

// checkListener checks how a run has ended, and counts the jobs that it has taken.
func (a *audit) checkListener(ctx context.Context, id string, known bool, took map[int64]int) error {
	page, err := a.db.List(ctx, store.Filter{IDs: []string{id}, Limit: 1})
	switch {
	case err != nil:
		return err
	case len(page.Runs) == 0 && !known:
		return nil
	case len(page.Runs) == 0:
		a.report.violated(acknowledgedLost, "run %s was started, and is not there", id)
		return nil
	}
	r := &page.Runs[0]
	a.report.count("listeners: "+r.Status.String(), 1)
	switch {
	case !r.Status.Terminal():
		a.report.violated(stuck, "run %s is %s with marks %d and waits for %s", id, r.Status, r.Marks, r.Waits)
	case r.Status == store.Failed:
		a.report.violated(wrongResults, "run %s has failed: %s", id, r.Output)
	}
	items, err := takes.Items(ctx, a.client.engine, id, 0, store.MaxPage)
	if err != nil {
		return err
	}
	last := int64(0)
	for _, it := range items {
		switch {
		case it.Value.Job > 0:
			took[it.Value.Job]++
		case it.Value.News <= last:
			a.report.violated(lostEvents, "run %s got news %d after %d", id, it.Value.News, last)
		default:
			last = it.Value.News
		}
	}
	return nil
}
