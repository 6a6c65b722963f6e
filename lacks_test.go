package stet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// otherFormat is a codec with a format of its own.
type otherFormat struct{}

func (otherFormat) Format() byte                       { return 40 }
func (otherFormat) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (otherFormat) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// shelf is a library of one workflow that may not compile in this process.
type shelf struct {
	workflow stet.Definition
	broken   bool
}

func (shelf) Names(context.Context, *stet.Engine) ([]string, error) { return []string{"kept"}, nil }

func (s shelf) Definition(context.Context, *stet.Engine, *stet.LibraryRun) (stet.Definition, error) {
	if s.broken {
		return nil, fmt.Errorf("the source of kept has a word that is not known here: %w", stet.ErrLacks)
	}
	return s.workflow, nil
}

// TestWhatAProcessLacksIsNotRecorded: of two processes on a store, one lacks the codec of a run's input, of a step's
// result or of a message, or cannot compile code of a library. It writes nothing of that: no run stalls, and no message
// is refused. Its row says what it lacks, and the runs go on in the other process. A run that is terminated ends.
func TestWhatAProcessLacksIsNotRecorded(t *testing.T) {
	word := stet.Message[string]("word")
	count := stet.Define("count", func(ctx stet.Context, in string) (string, error) {
		if err := stet.Sleep(ctx, "night", time.Hour); err != nil {
			return "", err
		}
		return in, nil
	})
	step := stet.Define("step", func(ctx stet.Context, _ struct{}) (string, error) {
		out, err := stet.Step(ctx, "call", func(context.Context) (string, error) { return "result", nil })
		if err != nil {
			return "", err
		}
		return out, stet.Sleep(ctx, "night", time.Hour)
	})
	message := stet.Define("message", func(ctx stet.Context, _ struct{}) (string, error) { return word.Receive(ctx) })
	kept := stet.Define("kept", func(ctx stet.Context, _ struct{}) (string, error) { return "kept", nil })
	all := []stet.Definition{count, step, message}
	for name, c := range map[string]struct {
		start func(ctx context.Context, e *stet.Engine, id string) error
		later func(ctx context.Context, e *stet.Engine, id string) error // when the run waits
		lacks string
	}{
		"input": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := count.Start(ctx, e, "input", stet.ID(id))
			return err
		}, lacks: "format 40"},
		"result": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := step.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, lacks: "format 40"},
		"message": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := message.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, later: func(ctx context.Context, e *stet.Engine, id string) error { return word.Send(ctx, e, id, "word") },
			lacks: "format 40"},
		"library": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := kept.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, lacks: "a word that is not known here"},
	} {
		for _, slots := range []int{1, 16} {
			t.Run(fmt.Sprint(name, "/", slots), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db := memory.New(memory.Slots(slots))
					engine := func(node string, codecs []stet.Codec, broken bool) *stet.Engine {
						t.Helper()
						e, err := stet.New(t.Context(), stet.Config{Store: db.Join(), Workflows: all, Codecs: codecs, Node: node,
							Library: shelf{kept, broken}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
						if err != nil {
							t.Fatal(err)
						}
						return e
					}
					both := []stet.Codec{otherFormat{}, stet.JSON}
					serve := func(e *stet.Engine) (stop func()) {
						ctx, cancel := context.WithCancel(context.Background())
						ended := make(chan error, 1)
						go func() { ended <- e.Run(ctx) }()
						synctest.Wait()
						return func() {
							cancel()
							if err := <-ended; err != nil {
								t.Error(err)
							}
						}
					}
					ids := []string{"a", "b", "c", "d"}
					outside := engine("outside", both, false)
					whole := engine("first", both, false)
					if name != "library" { // what is to be lacking is recorded by a process that lacks nothing
						stop := serve(whole)
						for _, id := range ids {
							if err := c.start(t.Context(), outside, id); err != nil {
								t.Fatal(err)
							}
						}
						time.Sleep(time.Minute)
						stop()
						for _, id := range ids {
							if c.later == nil {
								break
							}
							if err := c.later(t.Context(), outside, id); err != nil {
								t.Fatal(err)
							}
						}
					}
					stop := serve(engine("bare", []stet.Codec{stet.JSON}, true))
					for _, id := range ids {
						if name == "library" {
							if err := c.start(t.Context(), outside, id); err != nil {
								t.Fatal(err)
							}
						}
					}
					time.Sleep(2 * time.Hour) // their nights are over
					nodes, err := outside.Nodes().Info(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					said := ""
					for i := range nodes.Nodes {
						said += strings.Join(nodes.Nodes[i].Lacks, "\n")
					}
					if !strings.Contains(said, c.lacks) {
						t.Errorf("the node says that it lacks %q; want it to name %q", said, c.lacks)
					}
					for _, id := range ids {
						info, err := outside.Runs().Info(t.Context(), id)
						if err != nil || info.Status == store.Stalled || info.Status.Terminal() {
							t.Errorf("%s: %+v, %v; want it to wait", id, info, err)
						}
					}
					if letters, _, err := outside.DeadLetters().List(t.Context(), store.DeadFilter{}); err != nil ||
						len(letters) > 0 {
						t.Errorf("%d dead letters, %v", len(letters), err)
					}
					if ok, err := outside.Runs().Terminate(t.Context(), "d", stet.Act{By: "ada"}); !ok || err != nil {
						t.Errorf("terminate: %t, %v", ok, err)
					}
					defer serve(engine("second", both, false))()
					if slots == 1 { // it stands by
						stop()
					} else {
						defer stop()
					}
					time.Sleep(5 * time.Minute)
					for _, id := range ids {
						info, err := outside.Runs().Info(t.Context(), id)
						want := store.Succeeded
						if id == "d" {
							want = store.Cancelled
						}
						if err != nil || info.Status != want {
							t.Errorf("%s: %s (%s), %v; want %s", id, info.Status, info.Reason, err, want)
						}
					}
				})
			})
		}
	}
}
