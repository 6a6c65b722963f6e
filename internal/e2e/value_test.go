package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// narrator shows each word that it receives, and ends with "end".
var (
	said     = stet.Value[string]("said")
	speech   = stet.Stream[string]("speech")
	narrator = stet.Define("narrator", func(ctx stet.Context, _ int) (int, error) {
		for n := 0; ; n++ {
			w, err := word.Receive(ctx)
			if err != nil || w == "end" {
				return n, err
			}
			if err := errors.Join(said.Set(ctx, w), speech.Append(ctx, w)); err != nil {
				return n, err
			}
		}
	})
)

// narrate starts a narrator.
func narrate(t *testing.T, e *stet.Engine) string {
	t.Helper()
	run, err := narrator.Start(testContext(t), e, 0)
	if err != nil {
		t.Fatal(err)
	}
	return run.ID()
}

func speak(t *testing.T, e *stet.Engine, id string, words ...string) {
	t.Helper()
	for _, w := range words {
		if err := word.Send(testContext(t), e, id, w); err != nil {
			t.Fatal(err)
		}
	}
}

// follow sends what a sequence yields, and its error or nil in the end.
func follow[T any](seq iter.Seq2[T, error]) (<-chan T, <-chan error) {
	values, ended := make(chan T, 100), make(chan error, 1)
	go func() {
		defer close(values)
		for v, err := range seq {
			if err != nil {
				ended <- err
				return
			}
			values <- v
		}
		ended <- nil
	}()
	return values, ended
}

// TestReadersInAnyProcess reads while the run goes on, in the process that
// executes it and in another one, live to the end.
func TestReadersInAnyProcess(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		cfg.Workflows, cfg.Poll = []stet.Definition{narrator}, 0
		owner := serve(t, cfg)
		other := client(t, s, narrator)
		id := narrate(t, owner)
		ctx := testContext(t)
		for what, e := range map[string]*stet.Engine{"owner": owner, "other": other} {
			if v, ok, err := said.Get(ctx, e, id); ok || err != nil {
				t.Errorf("%s: before it was set the value is %q, %t, %v", what, v, ok, err)
			}
		}
		type reader struct {
			items  <-chan stet.StreamItem[string]
			values <-chan string
			ends   []<-chan error
		}
		var readers []reader
		for _, e := range []*stet.Engine{owner, other} {
			items, itemsEnd := follow(speech.Tail(ctx, e, id, 0))
			values, valuesEnd := follow(said.Watch(ctx, e, id))
			readers = append(readers, reader{items, values, []<-chan error{itemsEnd, valuesEnd}})
		}
		for i, w := range []string{"one", "two", "three"} {
			speak(t, other, id, w)
			for _, r := range readers { // each waits for this one: live
				if item := <-r.items; item.Value != w || item.Position != int64(i+1) || item.At.IsZero() || item.Rewound {
					t.Errorf("item %d is %+v; want %q", i+1, item, w)
				}
				if v := <-r.values; v != w {
					t.Errorf("the value is %q, want %q", v, w)
				}
			}
		}
		speak(t, owner, id, "end")
		for _, r := range readers {
			for _, ended := range r.ends {
				if err := <-ended; err != nil {
					t.Errorf("in the end: %v", err)
				}
			}
			if extra, more := <-r.items; more {
				t.Errorf("one more item: %+v", extra)
			}
		}
		for _, e := range []*stet.Engine{owner, other} {
			v, ok, err := said.Get(ctx, e, id)
			items, itemsErr := speech.Items(ctx, e, id, 1, 1)
			if v != "three" || !ok || err != nil || itemsErr != nil || len(items) != 1 || items[0].Value != "two" {
				t.Errorf("after the end: %q, %t, %v; %+v, %v", v, ok, err, items, itemsErr)
			}
			feeds, err := e.Runs().Feeds(ctx, id)
			if err != nil || len(feeds) != 2 || feeds[0].Name != "said" || feeds[0].Stream || feeds[0].Last != 3 ||
				!feeds[1].Stream || feeds[1].Last != 3 {
				t.Fatalf("it shows %+v, %v", feeds, err)
			}
			var content string
			if err := feeds[0].Decode(&content); err != nil || content != "three" {
				t.Errorf("the content is %q, %v", content, err)
			}
		}
	})
}

// TestTailGoesOn: from a position, and no further than it is asked for.
func TestTailGoesOn(t *testing.T) {
	t.Parallel()
	e := serve(t, stet.Config{Workflows: []stet.Definition{narrator}})
	id := narrate(t, e)
	speak(t, e, id, "a", "b", "c", "d", "end")
	ctx := testContext(t)
	if _, err := e.Runs().Wait(ctx, id); err != nil {
		t.Fatal(err)
	}
	read := func(after int64, most int) (text string) {
		for item, err := range speech.Tail(ctx, e, id, after) {
			if err != nil {
				return err.Error()
			}
			if text += item.Value; len(text) == most {
				break
			}
		}
		return text
	}
	for _, row := range []struct {
		after int64
		most  int
		want  string
	}{{0, 9, "abcd"}, {2, 9, "cd"}, {4, 9, ""}, {99, 9, ""}, {1, 2, "bc"}} {
		if got := read(row.after, row.most); got != row.want {
			t.Errorf("after %d, at most %d: %q; want %q", row.after, row.most, got, row.want)
		}
	}
}

// TestASlowReaderSeesTheLastContent: a reader may miss contents, not the last.
func TestASlowReaderSeesTheLastContent(t *testing.T) {
	t.Parallel()
	e := serve(t, stet.Config{Workflows: []stet.Definition{narrator}})
	id := narrate(t, e)
	speak(t, e, id, "first")
	ctx := testContext(t)
	var got []string
	for v, err := range said.Watch(ctx, e, id) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, v); len(got) == 1 {
			for i := range 50 {
				speak(t, e, id, fmt.Sprint(i))
			}
			speak(t, e, id, "last", "end")
			if _, err := e.Runs().Wait(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(got, []string{"first", "last"}) {
		t.Errorf("seen are %q", got)
	}
}

// TestReadersAreTold of mistakes by clear errors.
func TestReadersAreTold(t *testing.T) {
	t.Parallel()
	e := serve(t, stet.Config{Workflows: []stet.Definition{narrator}})
	id := narrate(t, e)
	speak(t, e, id, "a text")
	waitStatus(t, e, id, store.Suspended)
	ctx := testContext(t)
	stopped, stop := context.WithCancelCause(ctx)
	cause := errors.New("enough")
	items, ended := follow(speech.Tail(stopped, e, id, 0))
	<-items
	stop(cause)
	if err := <-ended; !errors.Is(err, cause) {
		t.Errorf("a reader whose context ends: %v", err)
	}
	last := func(seq iter.Seq2[stet.StreamItem[int], error]) (err error) {
		for _, err = range seq {
		}
		return err
	}
	numbers := stet.Stream[int]("speech")
	_, _, getErr := stet.Value[int]("said").Get(ctx, e, id)
	_, _, noneErr := said.Get(ctx, e, "none")
	_, itemsErr := speech.Items(ctx, e, "none", 0, 0)
	_, minusErr := speech.Items(ctx, e, id, -1, 0)
	_, manyErr := speech.Items(ctx, e, id, 0, store.MaxPage+1)
	_, nameErr := stet.Stream[int]("").Items(ctx, e, id, 0, 0)
	_, feedsErr := e.Runs().Feeds(ctx, "none")
	var watchErr error
	for _, watchErr = range said.Watch(ctx, e, "none") {
	}
	for what, row := range map[string]struct {
		err  error
		want error
		text string
	}{
		"Get of no run":                  {noneErr, stet.ErrNotFound, `"none"`},
		"Get as another type":            {getErr, nil, "cannot unmarshal string"},
		"Items of no run":                {itemsErr, stet.ErrNotFound, `"none"`},
		"Items before the first":         {minusErr, stet.ErrInvalid, "-1"},
		"too many Items":                 {manyErr, stet.ErrInvalid, "10001"},
		"Items of no name":               {nameErr, stet.ErrInvalid, "stream"},
		"Feeds of no run":                {feedsErr, stet.ErrNotFound, `"none"`},
		"Watch of no run":                {watchErr, stet.ErrNotFound, `"none"`},
		"Tail of no run":                 {last(numbers.Tail(ctx, e, "none", 0)), stet.ErrNotFound, `"none"`},
		"Tail from before the beginning": {last(numbers.Tail(ctx, e, id, -5)), stet.ErrInvalid, "-5"},
		"Tail as another type":           {last(numbers.Tail(ctx, e, id, 0)), nil, "item 1: decode int"},
	} {
		if row.err == nil || row.want != nil && !errors.Is(row.err, row.want) ||
			!strings.Contains(row.err.Error(), row.text) {
			t.Errorf("%s: %v; want %v and %q", what, row.err, row.want, row.text)
		}
	}
}

// TestWhatCannotBeShown is an error of the call with FailOnBug, and the run goes on.
func TestWhatCannotBeShown(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		large := strings.Repeat("x", 2000)
		channels := stet.Stream[chan int]("channels")
		var got []string
		for _, err := range []error{
			speech.Append(ctx, large), said.Set(ctx, large),
			channels.Append(ctx, nil), stet.Value[func()]("f").Set(ctx, func() {}),
			stet.SetTags(ctx, stet.Tags{"a b": "x"}),
		} {
			got = append(got, fmt.Sprint(errors.Is(err, stet.ErrTooLarge), errors.Is(err, stet.ErrInvalid)))
		}
		return strings.Join(got, ","), speech.Append(ctx, "small")
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxValue: 1000, OnBug: stet.FailOnBug})
	got, err := run(t, e, w, 0)
	if want := "true false,true false,false true,false true,false true"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// counting counts what readers ask of a store.
type counting struct {
	store.Store
	reads atomic.Int64
}

func (c *counting) List(ctx context.Context, f store.Filter) (store.Page, error) {
	c.reads.Add(1)
	return c.Store.List(ctx, f)
}

func (c *counting) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	c.reads.Add(1)
	return c.Store.Feeds(ctx, q)
}

func (c *counting) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	c.reads.Add(1)
	return c.Store.Stream(ctx, q)
}

// TestIdleReadersAskNothing: a hundred readers of a run that does nothing cost no
// query in the process that executes it, and in another one two for each poll
// interval, however many they are.
func TestIdleReadersAskNothing(t *testing.T) {
	t.Parallel()
	for _, process := range []string{"the owner", "another"} {
		t.Run(process, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := memory.New()
				c := &counting{Store: first}
				if process == "another" {
					c.Store = first.Join()
				}
				cfg := stet.Config{Store: first, Workflows: []stet.Definition{narrator}, LeaseTTL: time.Hour, Poll: time.Second}
				if process == "the owner" {
					cfg.Store = c
				}
				owner := serve(t, cfg)
				reader := owner
				if process == "another" {
					var err error
					if reader, err = stet.New(t.Context(),
						stet.Config{Store: c, Workflows: cfg.Workflows, Poll: time.Second}); err != nil {
						t.Fatal(err)
					}
				}
				id := narrate(t, owner)
				speak(t, owner, id, "a")
				ctx, stop := context.WithCancel(t.Context())
				var readers sync.WaitGroup
				for range 100 {
					readers.Go(func() {
						for _, err := range speech.Tail(ctx, reader, id, 0) {
							if err != nil && ctx.Err() == nil {
								t.Error(err)
							}
						}
					})
				}
				time.Sleep(20 * time.Second) // until all have read, the run was evicted, and its owner has looked for others
				before := c.reads.Load()
				time.Sleep(100 * time.Second)
				asked := c.reads.Load() - before
				stop()
				readers.Wait()
				most := int64(0)
				if process == "another" {
					most = 2 * 101
				}
				if asked > most {
					t.Errorf("in 100 s they have asked %d times, want at most %d", asked, most)
				}
			})
		})
	}
}
