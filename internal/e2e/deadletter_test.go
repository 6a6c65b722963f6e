package e2e_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

// hearing ends after so many words.
var hearing = stet.Define("hearing", func(ctx stet.Context, words int) (string, error) {
	var all string
	for range words {
		w, err := word.Receive(ctx, stet.Named("next"))
		if err != nil {
			return all, err
		}
		all += w
	}
	return all, nil
})

// start starts a run of hearing that has these words.
func startHearing(t *testing.T, e *stet.Engine, w *stet.Workflow[int, string], words int,
	first ...string) *stet.Run[string] {
	t.Helper()
	var opts []stet.StartOption
	for _, f := range first {
		opts = append(opts, stet.FirstMessage(word, f))
	}
	r, err := w.Start(testContext(t), e, words, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func letters(t *testing.T, e *stet.Engine, f store.DeadFilter) []stet.DeadLetter {
	t.Helper()
	f.Values = true
	list, next, err := e.DeadLetters().List(testContext(t), f)
	if err != nil || next != "" {
		t.Fatalf("dead letters: %v, next %q", err, next)
	}
	return list
}

// TestDeadLetters are what a run has not received by its end, can be sent again
// to another run, once, and removed.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	e := serve(t, stet.Config{Workflows: []stet.Definition{hearing}})
	ctx := testContext(t)
	r := startHearing(t, e, hearing, 1, "a", "b", "c")
	if got, err := r.Wait(ctx); err != nil || got != "a" {
		t.Fatalf("got %q, %v", got, err)
	}
	list := letters(t, e, store.DeadFilter{})
	var values []string
	for i := range list {
		var v string
		if err := list[i].Decode(&v); err != nil {
			t.Error(err)
		}
		values = append(values, v)
		if l := list[i]; l.RunID != r.ID() || l.Workflow != "hearing" || l.Status != store.Succeeded ||
			l.Name != string(word) ||
			l.Kind != store.ItemMessage || l.Size == 0 || l.Sent.IsZero() || l.Err() != nil {
			t.Errorf("the letter is %+v", l)
		}
	}
	if !slices.Equal(values, []string{"c", "b"}) {
		t.Fatalf("the dead letters are %q; want c and b, newest first", values)
	}

	other := startHearing(t, e, hearing, 1)
	for range 2 { // the second time there is no such letter
		if err := e.DeadLetters().Replay(ctx, list[1].Number, other.ID(), stet.Act{}); err != nil &&
			!errors.Is(err, stet.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if got, err := other.Wait(ctx); err != nil || got != "b" {
		t.Errorf("the run that got the letter: %q, %v", got, err)
	}
	if left := letters(t, e, store.DeadFilter{}); len(left) != 1 || left[0].Number != list[0].Number {
		t.Errorf("after the replay there are %+v", left)
	}

	if err := e.DeadLetters().Replay(ctx, list[0].Number, other.ID(), stet.Act{}); !errors.Is(err, stet.ErrTerminal) {
		t.Errorf("replay to a run that has ended: %v", err)
	}
	if err := e.DeadLetters().Replay(ctx, list[0].Number, "nobody", stet.Act{}); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("replay to nobody: %v", err)
	}
	if left := letters(t, e, store.DeadFilter{}); len(left) != 1 {
		t.Errorf("a replay that failed took the letter: %+v", left)
	}
	for _, want := range []int{1, 0} {
		if n, err := e.DeadLetters().Remove(ctx, stet.Act{}, list[0].Number, list[0].Number, list[1].Number,
			9999); err != nil || n != want {
			t.Errorf("removed %d, %v; want %d", n, err, want)
		}
	}
	if left := letters(t, e, store.DeadFilter{}); len(left) != 0 {
		t.Errorf("after the removal there are %+v", left)
	}
}

// TestDeadLetterOfAPromise cannot be sent again: it is for one place in one run.
func TestDeadLetterOfAPromise(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 1)
	w := stet.Define("promising", func(ctx stet.Context, _ int) (string, error) {
		p, err := stet.NewPromise[int](ctx, "p")
		if err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "tell", func(context.Context) error { tokens <- p.Token(); return nil }); err != nil {
			return "", err
		}
		return word.Receive(ctx)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w, hearing}})
	ctx := testContext(t)
	for _, reject := range []bool{false, true} {
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		token := <-tokens
		if reject {
			err = e.Reject(ctx, token, errDeclined)
		} else {
			err = e.Resolve(ctx, token, 7)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := word.Send(ctx, e, r.ID(), "end"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		list := letters(t, e, store.DeadFilter{RunIDs: []string{r.ID()}})
		if len(list) != 1 || list[0].Kind != store.ItemResolution {
			t.Fatalf("the dead letters are %+v", list)
		}
		var n int
		decodeErr, failure := list[0].Decode(&n), list[0].Err()
		if reject && (!errors.Is(decodeErr, stet.ErrInvalid) || failure == nil || failure.Error() != errDeclined.Error()) {
			t.Errorf("a rejection: %v, %v", decodeErr, failure)
		}
		if !reject && (decodeErr != nil || n != 7 || failure != nil) {
			t.Errorf("a resolution: %d, %v, %v", n, decodeErr, failure)
		}
		other := startHearing(t, e, hearing, 1)
		if err := e.DeadLetters().Replay(ctx, list[0].Number, other.ID(), stet.Act{}); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("replay of a resolution: %v", err)
		}
	}
}

// TestDiscardDeadLetters: the workflow's policy.
func TestDiscardDeadLetters(t *testing.T) {
	t.Parallel()
	careless := stet.Define("careless", func(ctx stet.Context, _ int) (string, error) { return word.Receive(ctx) },
		stet.DiscardDeadLetters())
	e := serve(t, stet.Config{Workflows: []stet.Definition{careless, hearing}})
	ctx := testContext(t)
	for _, w := range []*stet.Workflow[int, string]{careless, hearing} {
		r := startHearing(t, e, w, 1, "a", "b")
		if _, err := r.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		// a run that ends without its code follows the policy as well
		never, err := w.Start(ctx, e, 1, stet.FirstMessage(word, "c"), stet.StartAfter(1<<40))
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := e.Runs().Cancel(ctx, never.ID(), stet.Act{}); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	for _, l := range letters(t, e, store.DeadFilter{}) {
		if l.Workflow != "hearing" {
			t.Errorf("a dead letter of %s", l.Workflow)
		}
	}
	if n := len(letters(t, e, store.DeadFilter{Workflows: []string{"hearing"}})); n != 2 {
		t.Errorf("hearing has %d dead letters; want 2", n)
	}
}

// TestDiscardDeadLettersByKind: the policy may differ by kind of message.
func TestDiscardDeadLettersByKind(t *testing.T) {
	t.Parallel()
	tick, payment := stet.Message[int]("tick"), stet.Message[int]("payment")
	w := stet.Define("clock", func(ctx stet.Context, _ int) (string, error) { return word.Receive(ctx) },
		stet.DiscardDeadLetters(tick, stet.Message[string]("other")))
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	first := []stet.StartOption{stet.FirstMessage(tick, 1), stet.FirstMessage(payment, 2), stet.FirstMessage(tick, 3)}
	r, err := w.Start(ctx, e, 1, append(first, stet.ID("by-code"), stet.FirstMessage(word, "go"))...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	// A run that ends without its code follows the policy as well.
	if _, err := w.Start(ctx, e, 1, append(first, stet.ID("without"), stet.StartAfter(1<<40))...); err != nil {
		t.Fatal(err)
	}
	if ok, err := e.Runs().Cancel(ctx, "without", stet.Act{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for _, id := range []string{"by-code", "without"} {
		list := letters(t, e, store.DeadFilter{RunIDs: []string{id}})
		var amount int
		if len(list) != 1 || list[0].Name != "payment" || list[0].Decode(&amount) != nil || amount != 2 {
			t.Errorf("the dead letters of %s are %+v; want the payment alone", id, list)
		}
	}

	_, err = stet.New(ctx, stet.Config{Store: memory.New(), Workflows: []stet.Definition{
		stet.Define("bad", func(stet.Context, int) (int, error) { return 0, nil },
			stet.DiscardDeadLetters(stet.Message[int](""))),
		stet.Define("many", func(stet.Context, int) (int, error) { return 0, nil },
			stet.DiscardDeadLetters(slices.Repeat([]stet.MessageKind{tick}, 101)...)),
	}})
	if !errors.Is(err, stet.ErrInvalid) || !strings.Contains(err.Error(), `"bad"`) ||
		!strings.Contains(err.Error(), "found 101") {
		t.Errorf("a kind without a name, and 101 kinds: %v", err)
	}
}

// TestReplayOfADeadLetterKeepsItsHeaders, and its value where this process cannot read it.
func TestReplayOfADeadLetterKeepsItsHeaders(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "letters.db")
	open := func(p stet.Payloads) (*stet.Engine, func()) {
		s, err := sqlite.Open(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{hearing, heads}, Payloads: p})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		return e, func() {
			cancel()
			if err := errors.Join(<-ended, s.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	keys := stet.Payloads{Keys: []stet.PayloadKey{payloadKey("k1")}}
	ctx := testContext(t)
	e, stop := open(keys)
	r := begin(t, e, hearing, 1, stet.FirstMessage(word, "a"),
		stet.FirstMessage(word, "b", stet.Headers{"trace": "17"}))
	outcome(t, r)
	other := begin(t, e, heads, 0, stet.ID("other"))
	stop()

	list := func(e *stet.Engine) []stet.DeadLetter { return letters(t, e, store.DeadFilter{}) }
	e, stop = open(stet.Payloads{})
	before := list(e)
	if len(before) != 1 || before[0].Headers["trace"] != "17" {
		t.Fatalf("the dead letters are %+v", before)
	}
	err := e.DeadLetters().Replay(ctx, before[0].Number, other.ID(), stet.Act{})
	if !errors.Is(err, stet.ErrSealed) || len(list(e)) != 1 {
		t.Errorf("without the key: %v; want ErrSealed, and the letter kept", err)
	}
	stop()

	e, stop = open(keys)
	defer stop()
	if err := e.DeadLetters().Replay(ctx, before[0].Number, "other", stet.Act{}); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, heads.Handle(e, "other")); got != "b with trace 17" {
		t.Errorf("the other run has received %q", got)
	}
	if left := list(e); len(left) != 0 {
		t.Errorf("%d letters are left", len(left))
	}
}

// heads receives a word with its header.
var heads = stet.Define("heads", func(ctx stet.Context, _ int) (string, error) {
	d, err := word.ReceiveDelivery(ctx)
	return d.Value + " with trace " + d.Headers["trace"], err
})
