package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// raceRuns is how many runs each race has.
const raceRuns = 60

// races sends to runs from two other processes at the moments at which they suspend,
// time out or end.
func races(t *testing.T, open Open) {
	w := newWorld(t, open)
	waits := stet.Define("waits", func(ctx stet.Context, _ int) (string, error) {
		if err := stet.Do(ctx, "before", func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		got, err := word.Receive(ctx, stet.Within(50*time.Millisecond))
		if errors.Is(err, stet.ErrTimeout) {
			return "timeout", nil
		}
		return got, err
	})
	counts := stet.Define("counts", func(ctx stet.Context, n int) (int, error) {
		sum := 0
		for range n {
			v, err := number.Receive(ctx)
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nil
	})
	short := stet.Define("short", func(ctx stet.Context, n int) (string, error) {
		if err := stet.Sleep(ctx, "nap", time.Duration(n)*time.Millisecond); err != nil {
			return "", err
		}
		return "done", nil
	})
	p := w.calm(longLease, waits, counts, short)
	other, err := stet.New(t.Context(), stet.Config{Store: w.open(), Payloads: payloads, Node: "other", Poll: poll})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begin := func(start func() error) bool {
		err := insist(ctx, start)
		if err != nil {
			t.Error(err)
		}
		return err == nil
	}
	var all sync.WaitGroup
	for i := range raceRuns {
		all.Go(func() { // a message against the suspension, and against the deadline
			id := fmt.Sprint("waits-", i)
			if !begin(func() error { _, err := waits.Start(ctx, w.outside, i, stet.ID(id)); return err }) {
				return
			}
			rest(ctx, time.Duration(i)*time.Millisecond)
			sent := word.Send(ctx, other, id, "word")
			got, err := waits.Handle(w.outside, id).Wait(ctx)
			late := errors.Is(sent, stet.ErrTerminal)
			if err != nil || got != "word" && got != "timeout" || late && got != "timeout" || sent != nil && !late {
				t.Errorf("%s: %q, %v; sent: %v", id, got, err, sent)
			}
		})
		all.Go(func() { // messages of two senders: none is lost or doubled
			id := fmt.Sprint("counts-", i)
			if !begin(func() error { _, err := counts.Start(ctx, w.outside, 20, stet.ID(id)); return err }) {
				return
			}
			var senders sync.WaitGroup
			for s, e := range []*stet.Engine{w.outside, other} {
				senders.Go(func() {
					for k := range 10 {
						for range 2 { // each twice, with one key
							err := number.Send(ctx, e, id, 1<<k, stet.SendKey(fmt.Sprint(s, "-", k)))
							if err != nil && !errors.Is(err, stet.ErrTerminal) {
								t.Error(err)
							}
						}
					}
				})
			}
			senders.Wait()
			if got, err := counts.Handle(w.outside, id).Wait(ctx); err != nil || got != 2*(1<<10-1) {
				t.Errorf("%s: %d, %v", id, got, err)
			}
		})
		all.Go(func() { // a terminate against a cancel: the run ends by a terminate that was granted
			id := fmt.Sprint("both-", i)
			after := stet.StartAfter(time.Duration(i%3) * time.Hour) // one of three has begun
			if !begin(func() error { _, err := counts.Start(ctx, w.outside, 1, stet.ID(id), after); return err }) {
				return
			}
			rest(ctx, time.Duration(i)*time.Millisecond)
			cancelled := make(chan error, 1)
			go func() {
				_, err := w.outside.Runs().Cancel(ctx, id, stet.Act{Why: "race"})
				cancelled <- err
			}()
			granted, err := other.Runs().Terminate(ctx, id, stet.Act{Why: "race"})
			for _, err := range []error{err, <-cancelled} {
				if err != nil && !errors.Is(err, stet.ErrRefused) && !errors.Is(err, stet.ErrTerminal) {
					t.Errorf("%s: %v", id, err)
				}
			}
			_, err = counts.Handle(w.outside, id).Wait(ctx)
			if !errors.Is(err, stet.ErrCancelled) || granted && !strings.Contains(err.Error(), "terminated: race") {
				t.Errorf("%s: the terminate was granted: %t; the run: %v", id, granted, err)
			}
		})
		all.Go(func() { // a cancel against the end
			id := fmt.Sprint("short-", i)
			if !begin(func() error { _, err := short.Start(ctx, w.outside, i, stet.ID(id)); return err }) {
				return
			}
			rest(ctx, time.Duration(i)*time.Millisecond)
			granted, cancelErr := other.Runs().Cancel(ctx, id, stet.Act{Why: "race"})
			if cancelErr != nil && !errors.Is(cancelErr, stet.ErrRefused) && !errors.Is(cancelErr, stet.ErrTerminal) {
				t.Errorf("%s: cancel: %v", id, cancelErr)
			}
			_, err := short.Handle(w.outside, id).Wait(ctx)
			if granted != errors.Is(err, stet.ErrCancelled) || !granted && err != nil {
				t.Errorf("%s: the cancel was granted: %t, %v; the run: %v", id, granted, cancelErr, err)
			}
		})
	}
	all.Wait()
	live := []store.Status{store.Queued, store.Running, store.Suspended, store.Stalled}
	tallies, err := w.outside.Runs().Count(ctx, store.Filter{Statuses: live})
	if err != nil || len(tallies) != 0 {
		t.Errorf("some runs have not ended: %+v, %v", tallies, err)
	}
	if err := p.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

var number = stet.Message[int]("number")
