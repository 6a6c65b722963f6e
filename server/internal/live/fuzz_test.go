package live_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/live"
	"github.com/stet-run/stet/server/internal/view"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// FuzzEventID: whatever a reader says that it knows, the server refuses it as a bad cursor, or
// tells how the run stands, and every entry above what the reader knows: all of them after a
// reset, and none twice.
func FuzzEventID(f *testing.F) {
	s := memory.New()
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		for range 3 {
			if err := stet.Stream[int]("all").Append(ctx, 1); err != nil {
				return 0, err
			}
			if err := stet.Sleep(ctx, "nap", 1); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	quiet := slog.New(slog.DiscardHandler)
	e, err := stet.New(f.Context(), stet.Config{Store: s, Workflows: []stet.Definition{w}, Logger: quiet})
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	f.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			f.Error(err)
		}
	})
	run, err := w.Start(ctx, e, 0, stet.ID("r"))
	if err == nil {
		_, err = run.Wait(ctx)
	}
	if err != nil {
		f.Fatal(err)
	}
	entries, err := e.Runs().History(ctx, "r", stet.HistoryQuery{})
	if err != nil || len(entries) == 0 {
		f.Fatal(entries, err)
	}
	highest := int64(0)
	for i := range entries {
		highest = max(highest, entries[i].Number)
	}
	reads, who := live.New(e), &access.Identity{Name: "vera", Role: access.Viewer}
	// tell returns what a reader is told, and what it could say that it knows then.
	tell := func(t testing.TB, last string) (ids []string, numbers []int64, items []int64, reset, said bool, err error) {
		subjects := live.Subjects{Runs: []string{"r"}, Streams: []live.Stream{{Run: "r", Name: "all"}}}
		follower, err := reads.Follow(view.New(e, who, nil), subjects, last)
		if err != nil {
			return nil, nil, nil, false, false, err
		}
		follower.Tell = func(event, id string, data any) error {
			ids = append(ids, id)
			text, err := json.Marshal(data)
			if err != nil {
				t.Fatal(err)
			}
			var entry api.RunEntry
			var item api.RunItem
			switch event {
			case "run":
				said = true
			case "reset":
				reset = true
			case "entry":
				err = json.Unmarshal(text, &entry)
				if entry.Entry.Number > 0 { // what has none may come at any time
					numbers = append(numbers, entry.Entry.Number)
				}
			case "item":
				err = json.Unmarshal(text, &item)
				items = append(items, item.Position)
			}
			return err
		}
		return ids, numbers, items, reset, said, errors.Join(follower.Round(ctx), follower.Round(ctx))
	}
	known, _, _, _, _, err := tell(f, "")
	if err != nil {
		f.Fatal(err)
	}
	for _, id := range known {
		data, err := base64.RawURLEncoding.DecodeString(id)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	for _, text := range []string{
		``, `null`, `{}`, `{"r":{}}`, `{"r":null}`, `{"x":{"n":1}}`, `{"r":{"n":-1}}`, `{"r":{"n":9223372036854775807}}`,
		`{"r":{"i":-1,"g":5,"n":2}}`, `{"r":{"n":1,"t":5}}`, `{"r":{"s":{"all":-5}}}`,
		`{"r":{"r":77,"n":2,"s":{"all":3}}}`, `{"r":{"s":{"all":9223372036854775807}}}`,
		`{"r":{"s":{"all":2,"none":1}}}`, `[1]`, `{"r":{"n":"1"}}`, `{"r":{"i":0},"R":{"i":1}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		last := base64.RawURLEncoding.EncodeToString([]byte(text))
		_, numbers, items, reset, said, err := tell(t, last)
		if errors.Is(err, store.ErrBadCursor) {
			return
		}
		if err != nil || !said {
			t.Fatalf("%q: told of the run: %t, %v", text, said, err)
		}
		var places map[string]struct {
			Run    int64            `json:"r"`
			Number int64            `json:"n"`
			Items  map[string]int64 `json:"s"`
		}
		if last != "" {
			if err := json.Unmarshal([]byte(text), &places); err != nil {
				t.Fatalf("%q is taken: %v", text, err)
			}
		}
		from := max(places["r"].Number, 0)
		if reset {
			from = 0
		}
		var want int64 = from
		for _, n := range numbers {
			if want++; n != want {
				t.Fatalf("%q: entries %v after %d", text, numbers, from)
			}
		}
		if want < highest && from <= highest {
			t.Fatalf("%q: entries %v after %d, of %d", text, numbers, from, highest)
		}
		if from > highest && !reset {
			t.Fatalf("%q: no reset for who knows more than there is", text)
		}
		position := places["r"].Items["all"]
		if run := places["r"].Run; run != 0 && run != 1 {
			position = 0 // the reader knows another run
		}
		for _, p := range items {
			if p <= position {
				t.Fatalf("%q: items %v", text, items)
			}
			position = p
		}
		if position < 3 { // a reader that says it knows more than there is gets what comes after that
			t.Fatalf("%q: items %v", text, items)
		}
	})
}
