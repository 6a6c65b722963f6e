package stet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
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

// shortOf is an error that only some processes know.
type shortOf struct{ Cents int }

func (e *shortOf) Error() string { return fmt.Sprintf("%d cents are short", e.Cents) }

// lines are the lines of a log.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Reset()
}

// count returns how many lines have a text.
func (l *lines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// TestWhatAProcessLacksIsNotRecorded: of two processes on a store, one lacks the codec of a run's input, of a step's
// result, of a message or of an update, a key, or the type of an error, or cannot compile code of a library. It
// writes nothing of that: no run stalls, and no message is refused. Its row says what it lacks, the runs are shown as
// unserved, and they go on in the other process. A run that is terminated ends there, unless its history is sealed.
func TestWhatAProcessLacksIsNotRecorded(t *testing.T) {
	word := stet.Message[string]("word")
	count := stet.Define("count", func(ctx stet.Context, in string) (string, error) {
		if err := stet.Sleep(ctx, "night", 10*time.Minute); err != nil {
			return "", err
		}
		return in, nil
	})
	step := stet.Define("step", func(ctx stet.Context, _ struct{}) (string, error) {
		out, err := stet.Step(ctx, "call", func(context.Context) (string, error) { return "result", nil })
		if err != nil {
			return "", err
		}
		return out, stet.Sleep(ctx, "night", 10*time.Minute)
	})
	message := stet.Define("message", func(ctx stet.Context, _ struct{}) (string, error) { return word.Receive(ctx) })
	kept := stet.Define("kept", func(ctx stet.Context, _ struct{}) (string, error) { return "kept", nil })
	change := stet.Update[string, string]("change")
	asked := stet.Define("asked", func(ctx stet.Context, _ struct{}) (string, error) {
		r, err := change.Receive(ctx)
		if err != nil {
			return "", err
		}
		return "", r.Answer(ctx, r.Value)
	})
	fails := stet.Define("fails", func(ctx stet.Context, _ struct{}) (string, error) {
		_, failed := stet.Step(ctx, "call", func(context.Context) (string, error) {
			return "", stet.Permanent(fmt.Errorf("pay: %w", &shortOf{3}))
		})
		if err := stet.Sleep(ctx, "night", 10*time.Minute); err != nil {
			return "", err
		}
		if short := (*shortOf)(nil); !errors.As(failed, &short) || short.Cents != 3 {
			return "", fmt.Errorf("the error is another one: %w", failed)
		}
		return "", nil
	})
	var tokens sync.Map // by run
	promised := stet.Define("promised", func(ctx stet.Context, id string) (string, error) {
		p, err := stet.NewPromise[string](ctx, "approval")
		if err != nil {
			return "", err
		}
		//stetvet:ignore sync the test needs the token of each run
		tokens.Store(id, p.Token())
		return p.Await(ctx)
	})
	news := stet.Topic[string]{Name: "news"}
	listens := stet.Define("listens", func(ctx stet.Context, _ struct{}) (string, error) { return news.Receive(ctx) })
	parent := stet.Define("parent", func(ctx stet.Context, _ struct{}) (string, error) {
		out, err := kept.Call(ctx, struct{}{})
		if err != nil {
			return "", err
		}
		return out, stet.Sleep(ctx, "night", 10*time.Minute)
	})
	all := []stet.Definition{count, step, message, asked, fails, promised, listens, parent}
	codec := func(cfg *stet.Config) { cfg.Codecs = []stet.Codec{otherFormat{}, stet.JSON} }
	key := func(cfg *stet.Config) { cfg.Payloads.Keys = []stet.PayloadKey{{ID: "k7", Secret: make([]byte, 32)}} }
	update := func(_ context.Context, e *stet.Engine, id string) error {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
			defer cancel()
			answer, err := change.Call(ctx, e, id, "more")
			if id == "d" && !errors.Is(err, stet.ErrUnanswered) || id != "d" && (answer != "more" || err != nil) {
				t.Errorf("%s answers %q, %v", id, answer, err)
			}
		}()
		synctest.Wait() // it is in the inbox
		return nil
	}
	for name, c := range map[string]struct {
		start func(ctx context.Context, e *stet.Engine, id string) error
		later func(ctx context.Context, e *stet.Engine, id string) error // when the run waits
		has   func(cfg *stet.Config)                                     // what only one of the processes has
		known bool                                                       // all know the type of the error
		lacks string
	}{
		"input": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := count.Start(ctx, e, "input", stet.ID(id))
			return err
		}, has: codec, lacks: "format 40"},
		"result": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := step.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, has: codec, lacks: "format 40"},
		"message": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := message.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, later: func(ctx context.Context, e *stet.Engine, id string) error { return word.Send(ctx, e, id, "word") },
			has: codec, lacks: "format 40"},
		"library": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := kept.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, has: func(cfg *stet.Config) { cfg.Library = shelf{kept, false} }, lacks: "a word that is not known here"},
		"request of an update": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := asked.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, later: update, has: codec, lacks: "format 40"},
		"key of an update": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := asked.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, later: update, has: key, lacks: "k7"},
		"promise": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := promised.Start(ctx, e, id, stet.ID(id))
			return err
		}, later: func(ctx context.Context, e *stet.Engine, id string) error {
			token, _ := tokens.Load(id)
			return e.Resolve(ctx, token.(string), "yes")
		}, has: codec, lacks: "format 40"},
		"event": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := listens.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, later: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := news.Publish(ctx, e, "event for "+id)
			return err
		}, has: codec, lacks: "format 40"},
		"result of a child": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := parent.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, has: func(cfg *stet.Config) {
			codec(cfg)
			cfg.Library = shelf{kept, false}
		}, lacks: "format 40"},
		"details of an error": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := fails.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, known: true, has: codec, lacks: "format 40"},
		"type of an error": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := fails.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, has: func(cfg *stet.Config) { cfg.Errors = []stet.ErrorCode{stet.ErrorType[*shortOf]("short")} },
			lacks: `"short"`},
		"key": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := step.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, has: key, lacks: "k7"},
		"key of a message": {start: func(ctx context.Context, e *stet.Engine, id string) error {
			_, err := message.Start(ctx, e, struct{}{}, stet.ID(id))
			return err
		}, later: func(ctx context.Context, e *stet.Engine, id string) error { return word.Send(ctx, e, id, "word") },
			has: key, lacks: "k7"},
	} {
		for _, slots := range []int{1, 16} {
			t.Run(fmt.Sprint(name, "/", slots), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db := memory.New(memory.Slots(slots))
					var log lines
					engine := func(node string, with ...func(*stet.Config)) *stet.Engine {
						t.Helper()
						cfg := stet.Config{Store: db.Join(), Workflows: all, Node: node, Library: shelf{kept, true},
							Logger: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &log), nil))}
						if slots > 1 && name != "type of an error" { // which is a failure for code that fails on bugs
							cfg.OnBug = stet.FailOnBug
						}
						if c.known {
							cfg.Errors = []stet.ErrorCode{stet.ErrorType[*shortOf]("short")}
						}
						for _, f := range with {
							f(&cfg)
						}
						e, err := stet.New(t.Context(), cfg)
						if err != nil {
							t.Fatal(err)
						}
						return e
					}
					ids := []string{"a", "b", "c", "d"}
					outside := engine("outside", c.has)
					whole := engine("first", c.has)
					if name != "library" { // what is to be lacking is recorded by a process that lacks nothing
						stop := serve(t, whole)
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
					log.forget()
					stop := serve(t, engine("bare"))
					if time.Sleep(time.Second); c.later != nil && log.count("level=ERROR") != 1 {
						t.Errorf("%d lines of the log say what the process lacks, a second after its start; want 1",
							log.count("level=ERROR"))
					}
					for _, id := range ids {
						if name == "library" {
							if err := c.start(t.Context(), outside, id); err != nil {
								t.Fatal(err)
							}
						}
					}
					log.forget()
					time.Sleep(20 * time.Minute) // their nights are over
					if n := log.count("level=ERROR"); n == 0 || n > 21 {
						t.Errorf("%d lines of the log say in twenty minutes what is lacking; want one a minute at most", n)
					}
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
						lack := (*stet.UnservedError)(nil)
						if err == nil && (!errors.As(info.Unserved, &lack) || lack.Node != "bare" ||
							!strings.Contains(lack.Lacks, c.lacks) || info.Why[0].Code != "lacks") {
							t.Errorf("%s is shown as %v, %+v; want it to say what its process lacks", id, info.Unserved, info.Why)
						}
					}
					if letters, _, err := outside.DeadLetters().List(t.Context(), store.DeadFilter{}); err != nil ||
						len(letters) > 0 {
						t.Errorf("%d dead letters, %v", len(letters), err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					ok, err := outside.Runs().Terminate(ctx, "d", stet.Act{By: "ada"})
					if pending := strings.HasPrefix(name, "key"); ok == pending || errors.Is(err, stet.ErrPending) != pending ||
						!pending && err != nil {
						t.Errorf("terminate: %t, %v", ok, err)
					}
					defer serve(t, engine("second", c.has))()
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

// TestRecordsThatAProcessCannotReadAreUnserved: a schedule, a topic and a queue whose values are sealed with a key that
// the only process lacks do nothing, are not stalled, and say why, as the process does in its log at its start. A
// process with the key goes on with all.
func TestRecordsThatAProcessCannotReadAreUnserved(t *testing.T) {
	for _, slots := range []int{1, 16} {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New(memory.Slots(slots))
			report := stet.Define("report", func(stet.Context, string) (string, error) { return "", nil })
			news := stet.Topic[string]{Name: "news", Mode: stet.Consumed, Visible: stet.Retained}
			reader := stet.Define("reader", func(ctx stet.Context, _ string) (string, error) { return news.Receive(ctx) })
			pours := stet.Define("pours", func(ctx stet.Context, _ string) (string, error) {
				return stet.Step(ctx, "pour", func(context.Context) (string, error) { return "", nil }, stet.Permit{Queue: "tap"})
			})
			var log lines
			engine := func(node string, keys ...stet.PayloadKey) *stet.Engine {
				t.Helper()
				e, err := stet.New(t.Context(), stet.Config{Store: db.Join(), Node: node, Payloads: stet.Payloads{Keys: keys},
					Workflows: []stet.Definition{report, reader, pours},
					Logger:    slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &log), nil))})
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			key := stet.PayloadKey{ID: "k7", Secret: make([]byte, 32)}
			outside := engine("outside", key)
			stop := serve(t, engine("first", key))
			every := stet.Schedule{Every: 5 * time.Minute}
			if err := report.Schedule(t.Context(), outside, "often", "secret", every); err != nil {
				t.Fatal(err)
			}
			if _, err := news.Publish(t.Context(), outside, "one"); err != nil {
				t.Fatal(err)
			}
			if err := outside.Queues().Create(t.Context(), "tap", stet.QueueSettings{Concurrency: 1}); err != nil {
				t.Fatal(err)
			}
			if err := outside.Queues().Pause(t.Context(), "tap", stet.Act{}); err != nil {
				t.Fatal(err)
			}
			if _, err := pours.Start(t.Context(), outside, "", stet.ID("p")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			stop()
			if _, err := news.Publish(t.Context(), outside, "two"); err != nil {
				t.Fatal(err)
			}
			log.forget()
			stop = serve(t, engine("bare"))
			time.Sleep(time.Second)
			if n := log.count("level=ERROR"); n != 1 {
				t.Errorf("with %d slots %d lines of the log say at its start what the process lacks; want 1", slots, n)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := outside.Queues().Resume(ctx, "tap", stet.Act{}); err == nil {
				t.Errorf("with %d slots a process without the key has resumed the queue", slots)
			}
			cancel()
			time.Sleep(15 * time.Minute)
			check := func(lacks bool) {
				t.Helper()
				schedule, err := outside.Schedules().Info(t.Context(), "often")
				if err != nil || schedule.Stalled != "" {
					t.Fatal(schedule, err)
				}
				schedules, err := outside.Schedules().List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				topic, err := outside.Topics().Info(t.Context(), "news")
				if err != nil {
					t.Fatal(err)
				}
				topics, err := outside.Topics().List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				queue, err := outside.Queues().Info(t.Context(), "tap")
				if err != nil {
					t.Fatal(err)
				}
				queues, err := outside.Queues().List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				record, err := outside.Runs().Info(t.Context(), "stet.schedule/often")
				if err != nil {
					t.Fatal(err)
				}
				unserved := ""
				if record.Unserved != nil {
					unserved = record.Unserved.Error()
				}
				for what, text := range map[string]string{
					"the schedule": schedule.Lacks, "a list of schedules": schedules[0].Lacks,
					"the topic": topic.Lacks, "a list of topics": topics[0].Lacks, "the record": unserved,
					"the queue": queue.Lacks, "a list of queues": queues[0].Lacks,
				} {
					if said := strings.Contains(text, "node bare") && strings.Contains(text, `"k7"`); said != lacks {
						t.Errorf("with %d slots %s says %q; want that something is lacking: %t", slots, what, text, lacks)
					}
				}
				if (queue.Held+queue.Waiting == 0) == lacks || queue.Paused != lacks {
					t.Errorf("with %d slots the queue lacks something: %t, and has %d that wait and %d permits; paused: %t", slots,
						lacks, queue.Waiting, queue.Held, queue.Paused)
				}
				if (schedule.Started == 0) != lacks {
					t.Errorf("the schedule has started %d runs, and lacks something: %t", schedule.Started, lacks)
				}
			}
			check(true)
			defer serve(t, engine("second", key))()
			if slots == 1 { // it stands by
				stop()
			} else {
				defer stop()
			}
			time.Sleep(10 * time.Minute)
			check(false)
			if _, err := reader.Start(t.Context(), outside, "", stet.ID("r")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if info, err := outside.Runs().Info(t.Context(), "r"); err != nil || info.Status != store.Succeeded {
				topic, _ := outside.Topics().Info(t.Context(), "news")
				t.Errorf("with %d slots: %+v, %v, %+v; want that the topic passes its event on", slots, info.Why, err, topic)
			}
		})
	}
}

// TestDetailsSurviveAProcessThatDoesNotKnowThem: a run fails with an error of another run whose type its process does
// not know. A process that knows the type gets the error with its details.
func TestDetailsSurviveAProcessThatDoesNotKnowThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		fails := stet.Define("fails", func(stet.Context, string) (string, error) { return "", &shortOf{5} })
		asks := stet.Define("asks", func(ctx stet.Context, bare bool) (string, error) {
			_, err := stet.Await[string](ctx, "other", "failed")
			if failed := (*stet.RunError)(nil); bare && errors.As(err, &failed) {
				err = failed.Err
			}
			return "", fmt.Errorf("asked: %w", err)
		})
		engine := func(known ...stet.ErrorCode) *stet.Engine {
			t.Helper()
			e, err := stet.New(t.Context(), stet.Config{Store: db, Errors: known, Workflows: []stet.Definition{fails, asks},
				Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		while := func(e *stet.Engine, do func()) {
			defer serve(t, e)()
			do()
			time.Sleep(time.Minute)
		}
		outside := engine(stet.ErrorType[*shortOf]("short"))
		while(engine(stet.ErrorType[*shortOf]("short")), func() {
			if _, err := fails.Start(t.Context(), outside, "", stet.ID("failed")); err != nil {
				t.Fatal(err)
			}
		})
		while(engine(), func() {
			for id, bare := range map[string]bool{"whole": false, "bare": true} {
				if _, err := asks.Start(t.Context(), outside, bare, stet.ID(id)); err != nil {
					t.Fatal(err)
				}
			}
		})
		for _, id := range []string{"whole", "bare"} {
			info, err := outside.Runs().Info(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if short := (*shortOf)(nil); info.Status != store.Failed || !errors.As(info.Err, &short) || short.Cents != 5 {
				t.Errorf("%s is %s with %v; want it to fail with the error of the other run", id, info.Status, info.Err)
			}
		}
	})
}
