package inboxes_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/inboxes"
	"github.com/stet-run/stet/store"
)

// inbox is a store with one run.
type inbox struct {
	items []store.Item
	looks int
	slow  chan struct{} // a look takes until it is closed; nil: no time
}

func (b *inbox) List(_ context.Context, f store.Filter) (store.Page, error) {
	if f.IDs[0] != "r" {
		return store.Page{}, nil
	}
	return store.Page{Runs: []store.Run{{No: 7}}}, nil
}

func (b *inbox) Pending(ctx context.Context, q store.PendingQuery) (sum store.Pending, err error) {
	b.looks++
	if b.slow != nil {
		select {
		case <-b.slow:
		case <-ctx.Done():
			return sum, ctx.Err()
		}
	}
	for _, it := range b.items {
		if slices.Contains(q.Kinds, it.Kind) {
			sum.Items, sum.Bytes = sum.Items+1, sum.Bytes+int64(len(it.Value)+it.Size)
		}
	}
	return sum, nil
}

// send sends a message of some bytes and reports whether it was admitted.
func (b *inbox) send(t *testing.T, g *inboxes.Guard, kind store.ItemKind, size int) bool {
	t.Helper()
	it := store.Item{Kind: kind, State: store.New, Value: make([]byte, size)}
	if err := g.Admit(t.Context(), "r", &it, inboxes.Blindly); err != nil {
		if !errors.Is(err, inboxes.ErrFull) {
			t.Fatal(err)
		}
		return false
	}
	g.Sent("r", 7, &it)
	it.LeaveOut()
	b.items = append(b.items, it)
	return true
}

// TestItems: an inbox takes as many messages as it may, and again when some were received;
// what is no message is not bounded.
func TestItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &inbox{}
		g := inboxes.New(b, inboxes.Limits{Items: 1000, Bytes: -1})
		for i := range 1000 {
			if !b.send(t, g, store.ItemMessage, 1) {
				t.Fatalf("message %d is refused", i)
			}
		}
		if b.looks > 5 {
			t.Errorf("it has looked %d times", b.looks)
		}
		for range 10 {
			if b.send(t, g, store.ItemMessage, 1) || b.send(t, g, store.ItemUpdate, 1) {
				t.Fatal("a full inbox takes a message")
			}
		}
		if b.looks > 6 {
			t.Errorf("it has looked %d times", b.looks)
		}
		if !b.send(t, g, store.ItemResolution, 1) {
			t.Error("a resolution is refused")
		}
		b.items = b.items[2:]
		time.Sleep(2 * time.Second)
		taken := 0
		for b.send(t, g, store.ItemMessage, 1) {
			taken++
		}
		if taken != 2 {
			t.Errorf("with room for 2 it takes %d", taken)
		}
	})
}

// TestBytes: values count, also those that Load leaves out.
func TestBytes(t *testing.T) {
	b := &inbox{}
	g := inboxes.New(b, inboxes.Limits{Items: -1, Bytes: 1 << 20})
	taken := 0
	for b.send(t, g, store.ItemMessage, 100<<10) {
		taken++
	}
	if taken != 11 { // the eleventh fills it
		t.Errorf("%d messages of 100 KiB fit into 1 MiB", taken)
	}
}

// TestAnotherRun: a run that replaces one under its ID has an inbox of its own.
func TestAnotherRun(t *testing.T) {
	b := &inbox{}
	g := inboxes.New(b, inboxes.Limits{Items: 1, Bytes: -1})
	if !b.send(t, g, store.ItemMessage, 1) || b.send(t, g, store.ItemMessage, 1) {
		t.Fatal("an inbox of one message takes another number")
	}
	g.Sent("r", 8, &store.Item{Kind: store.ItemMessage})
	b.items = nil
	if !b.send(t, g, store.ItemMessage, 1) {
		t.Error("the inbox of another run is full")
	}
}

// TestFirst: a sender that looks first finds an inbox that others have filled; one that does
// not sends, and finds it when it has sent much. What is counted for a run whose number is not
// known counts all the same.
func TestFirst(t *testing.T) {
	full := make([]store.Item, 300)
	for i := range full {
		full[i] = store.Item{Kind: store.ItemMessage, State: store.Seen}
	}
	it := &store.Item{Kind: store.ItemMessage}
	b := &inbox{items: full}
	g := inboxes.New(b, inboxes.Limits{Items: 300, Bytes: -1})
	if err := g.Admit(t.Context(), "r", it, inboxes.Looks); !errors.Is(err, inboxes.ErrFull) {
		t.Errorf("who looks first is told %v", err)
	}
	if err := g.Admit(t.Context(), "none", it, inboxes.Looks); err != nil {
		t.Errorf("of a run that does not exist: %v", err)
	}
	g = inboxes.New(b, inboxes.Limits{Items: 300, Bytes: -1})
	sent := 0
	for g.Admit(t.Context(), "r", it, inboxes.Blindly) == nil {
		g.Sent("r", 0, it)
		sent++
	}
	if sent != 200 {
		t.Errorf("a sender that does not look has sent %d", sent)
	}
	b.items = full[:298]
	g = inboxes.New(b, inboxes.Limits{Items: 300, Bytes: -1})
	for i := range 3 {
		if err := g.Admit(t.Context(), "r", it, inboxes.Looks); (err == nil) != (i < 2) {
			t.Errorf("message %d into room for two: %v", i, err)
		}
		g.Sent("r", 7, it)
		b.items = full[:min(299+i, 300)]
	}
}

// TestOneLooks: of many senders to a run one looks into the inbox, and the others wait for its answer. When it gives
// up, the others find out for themselves.
func TestOneLooks(t *testing.T) {
	for name, leaves := range map[string]bool{"to the end": false, "and gives up": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &inbox{slow: make(chan struct{})}
				g := inboxes.New(b, inboxes.Limits{Items: 300, Bytes: -1})
				first, leave := context.WithCancel(t.Context())
				defer leave()
				var senders sync.WaitGroup
				send := func(ctx context.Context, want error) {
					senders.Go(func() {
						err := g.Admit(ctx, "r", &store.Item{Kind: store.ItemMessage}, inboxes.Looks)
						if !errors.Is(err, want) {
							t.Errorf("a sender is told %v, expected %v", err, want)
						}
					})
				}
				if leaves {
					send(first, context.Canceled)
				} else {
					send(first, nil)
				}
				synctest.Wait()
				send(t.Context(), nil)
				if !leaves {
					for range 50 {
						send(t.Context(), nil)
					}
				}
				synctest.Wait()
				if b.looks != 1 {
					t.Errorf("%d senders look, expected one", b.looks)
				}
				if leaves {
					leave()
					synctest.Wait()
				}
				close(b.slow)
				senders.Wait()
				if want := 1 + map[bool]int{true: 1}[leaves]; b.looks != want {
					t.Errorf("the inbox was read %d times, expected %d", b.looks, want)
				}
			})
		})
	}
}
