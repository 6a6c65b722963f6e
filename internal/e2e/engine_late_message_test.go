package e2e_test

import (
	"context"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// slowObjects keeps objects in memory. beforeGet may be nil.
type slowObjects struct {
	mu        sync.Mutex
	content   map[string][]byte
	beforeGet func()
}

func (o *slowObjects) Put(_ context.Context, name string, content []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.content[name] = content
	return nil
}

func (o *slowObjects) Get(_ context.Context, name string) ([]byte, error) {
	if o.beforeGet != nil {
		o.beforeGet()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if content, ok := o.content[name]; ok {
		return content, nil
	}
	return nil, fs.ErrNotExist
}

func (o *slowObjects) Delete(context.Context, string) error { return nil }

func (o *slowObjects) List(context.Context, string) ([]store.Object, error) { return nil, nil }

// TestMessageBeforeTheDeadlineOfABusyRun has a run look at a large message for other
// eyes for so long that the one that it waits for comes, and then its deadline: what
// was sent by then is received, though the inbox was read again meanwhile.
func TestMessageBeforeTheDeadlineOfABusyRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
			return word.Receive(ctx, stet.Within(10*time.Second))
		})
		objects := &slowObjects{content: map[string][]byte{}}
		goOn := make(chan struct{})
		var once sync.Once
		first := memory.New()
		values := stet.Payloads{Objects: objects, Offload: store.LargeValue}
		outside, err := stet.New(t.Context(), stet.Config{Store: first.Join(), Payloads: values,
			Workflows: []stet.Definition{w, oneWord}})
		if err != nil {
			t.Fatal(err)
		}
		e := serve(t, stet.Config{Store: first, Payloads: values, Workflows: []stet.Definition{w, oneWord}, Poll: time.Hour})
		r := begin(t, e, w, 0, stet.ID("busy"))
		begin(t, e, oneWord, 0, stet.ID("beside"))
		send := func(m stet.Message[string], id, text string) {
			t.Helper()
			if err := m.Send(t.Context(), outside, id, text); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		objects.beforeGet = func() { once.Do(func() { <-goOn }) }
		time.Sleep(5 * time.Second)
		send(other, r.ID(), strings.Repeat("x", 10_000))
		time.Sleep(4 * time.Second)
		send(word, r.ID(), "in time")
		time.Sleep(2 * time.Second)
		send(word, "beside", "the inbox is read once more")
		time.Sleep(time.Second)
		close(goOn)
		if got, err := r.Wait(t.Context()); err != nil || got != "in time" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
