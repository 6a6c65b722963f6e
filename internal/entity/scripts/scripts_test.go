package scripts_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/scripts"
	"github.com/stet-run/stet/store"
)

// record is an entity whose rules are made again for each change, from its entries.
type record struct {
	t       *testing.T
	entries map[string]store.Entry
	items   store.ItemNo
}

func (r *record) stands() (list []store.Entry) {
	for _, loc := range slices.Sorted(maps.Keys(r.entries)) {
		list = append(list, r.entries[loc])
	}
	return list
}

func (r *record) change(verb string, c *scripts.Change, now store.Time) (answer scripts.Answer) {
	r.t.Helper()
	value, err := json.Marshal(c)
	if err != nil {
		r.t.Fatal(err)
	}
	r.items++
	m := entity.New(entity.Config{Run: store.Run{No: 1}, Rules: scripts.New(nil), Entries: r.stands()})
	m.Deliver(store.Item{
		No: r.items, Kind: store.ItemUpdate, Name: verb, ID: fmt.Sprint(r.items), Value: value, State: store.New,
	})
	for m.Advance(now, now); ; m.Advance(now, now) {
		turn := m.Take()
		if turn == nil {
			return answer
		}
		for _, s := range turn.Prune {
			maps.DeleteFunc(r.entries, func(loc string, _ store.Entry) bool { return s.Contains(loc) })
		}
		for _, e := range turn.Entries {
			r.entries[e.Loc] = e
		}
		for _, done := range turn.Consumed {
			if answer, err = scripts.DecodeAnswer(done.Verdict); err != nil {
				r.t.Fatal(err)
			}
		}
		m.Committed()
	}
}

// TestRandomChanges: each content has one number, which is given once; what is current, or
// was a moment ago, is never deleted; and a record is what its entries say.
func TestRandomChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := &record{t: t, entries: map[string]store.Entry{}}
	numbers := map[string]int{}  // by content, of those that are there
	used := map[int]store.Time{} // when a version was current last
	now, last := store.Time(1), 0
	current := 0
	for i := range 3000 {
		now += store.Time(random.Int64N(int64(scripts.Settled / 2)))
		verb := []string{scripts.Deploy, scripts.Deploy, scripts.Use, scripts.Remove, scripts.Collect}[random.IntN(5)]
		text := fmt.Sprint("code ", random.IntN(12))
		hash := sha256.Sum256([]byte(text))
		c := &scripts.Change{
			Content: &scripts.Content{Hash: hash[:], Code: text}, Version: 1 + random.IntN(last+1), By: "me",
		}
		for n := range last {
			c.Versions = append(c.Versions, n+1)
		}
		used[current] = now
		a := r.change(verb, c, now)
		there := slices.Collect(maps.Values(numbers))
		switch verb {
		case scripts.Deploy:
			n, known := numbers[text]
			if known == a.New || known && n != a.Version || !known && a.Version != last+1 {
				t.Fatalf("change %d: %q got %+v; it had %d", i, text, a, n)
			}
			numbers[text], current, last = a.Version, a.Version, max(last, a.Version)
		case scripts.Use:
			if a.Missing == slices.Contains(there, c.Version) {
				t.Fatalf("change %d: use %d of %v: %+v", i, c.Version, there, a)
			}
			if !a.Missing {
				current = c.Version
			}
		case scripts.Remove:
			current = 0
		case scripts.Collect:
			for _, n := range there {
				free := n != current && now-used[n] >= store.Time(scripts.Settled)
				if free != slices.Contains(a.Deleted, n) {
					t.Fatalf("change %d: version %d, used at %d of %d, current %d: %+v", i, n, used[n], now, current, a)
				}
			}
			maps.DeleteFunc(numbers, func(_ string, n int) bool { return slices.Contains(a.Deleted, n) })
		}
		head, err := scripts.ReadCurrent(r.stands())
		versions, errVersions := scripts.ReadVersions(r.stands())
		if err != nil || errVersions != nil || head.Number != current || len(versions) != len(numbers) {
			t.Fatalf("change %d: current %d of %d, expected %d of %d; %v, %v", i, head.Number, len(versions), current,
				len(numbers), err, errVersions)
		}
		for text, n := range numbers {
			if content, err := scripts.ReadContent(r.stands(), n); err != nil || content == nil || content.Code != text {
				t.Fatalf("change %d: version %d holds %+v, %v", i, n, content, err)
			}
		}
	}
	if last < 50 {
		t.Errorf("only %d versions were made: nothing was deleted", last)
	}
}

// TestBounds: a request that does not decode is refused, as is one version too many.
func TestBounds(t *testing.T) {
	r := &record{t: t, entries: map[string]store.Entry{}}
	if a := r.change("dance", &scripts.Change{}, 1); a.Refused == "" {
		t.Errorf("an unknown request: %+v", a)
	}
	if a := r.change(scripts.Deploy, &scripts.Change{}, 1); a.Refused == "" {
		t.Errorf("a deploy of nothing: %+v", a)
	}
	for i := range scripts.Most + 1 {
		hash := sha256.Sum256(fmt.Append(nil, i))
		a := r.change(scripts.Deploy, &scripts.Change{Content: &scripts.Content{Hash: hash[:], Code: "x"}}, 1)
		if full := i == scripts.Most; full != (a.Refused != "") {
			t.Fatalf("version %d: %+v", i+1, a)
		}
	}
}
