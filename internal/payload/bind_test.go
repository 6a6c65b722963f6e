package payload

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// stage has runs with a value at each place.
type stage struct {
	t     *testing.T
	base  *memory.Store
	view  *View
	lease store.Lease
	batch int64
	runs  []store.RunNo
}

func newStage(t *testing.T, cfg Config) *stage {
	t.Helper()
	s := &stage{t: t, base: memory.New()}
	s.view = New(cfg).View(s.base)
	shard := store.Shard{Group: store.DefaultGroup}
	got, _, err := s.view.Acquire(t.Context(), store.Node{ID: "n", Boot: "1"}, []store.Shard{shard}, 1e9)
	if err != nil {
		t.Fatal(err)
	}
	s.lease = got[0].Lease
	return s
}

func (s *stage) commit(turn *store.Turn, commands ...store.Command) store.BatchResult {
	s.t.Helper()
	s.batch++
	b := store.Batch{Node: "n", Boot: "1", No: s.batch, Leases: []store.Lease{s.lease}, Commands: commands}
	if turn != nil {
		turn.Shard = s.lease.Shard
		b.Turns = []*store.Turn{turn}
	}
	result, err := s.view.Commit(s.t.Context(), b)
	if err != nil {
		s.t.Fatal(err)
	}
	if turn != nil && result.Turns[0].Verdict != store.Committed {
		s.t.Fatalf("%+v", result.Turns[0])
	}
	return result
}

// start starts a run and claims it.
func (s *stage) start(id string, n byte, more func(*store.Start)) store.Run {
	s.t.Helper()
	start := &store.Start{
		ID: id, Shard: s.lease.Shard, Workflow: "w", Seed: store.Seed{n},
		Input: fmt.Appendf(nil, "\x01input of %s %d", id, n),
		Items: []store.Item{message("first", fmt.Sprintf("first of %s %d", id, n))},
	}
	if more != nil {
		more(start)
	}
	run := s.commit(nil, store.Command{Claim: true, Start: start}).Commands[0].Run
	s.runs = append(s.runs, run.No)
	return run
}

func message(id, value string) store.Item {
	return store.Item{Kind: store.ItemMessage, ID: id, Origin: id, Name: "m", Value: []byte("\x01" + value)}
}

// fill writes a value to each place of a run.
func (s *stage) fill(run store.Run) {
	s.t.Helper()
	name := fmt.Sprintf("\x01%s %d %d ", run.ID, run.No, run.Incarnation)
	value := func(what string) []byte { return []byte(name + what) }
	s.commit(nil,
		store.Command{RunID: run.ID, Item: ptr(message(fmt.Sprint("by ID ", run.Incarnation), name+"by ID"))},
		store.Command{RunNo: run.No, Item: ptr(message(fmt.Sprint("by number ", run.Incarnation), name+"by number"))},
		store.Command{RunNo: run.No, Item: &store.Item{Kind: store.ItemResolution, ID: fmt.Sprint("p ", run.Incarnation),
			Origin: "p", Name: "somebody", Incarnation: run.Incarnation, Loc: "p", Value: value("resolution")}},
		store.Command{RunID: run.ID, Item: &store.Item{Kind: store.ItemResolution, ID: fmt.Sprint("q ", run.Incarnation),
			Origin: "q", Incarnation: run.Incarnation, Loc: "q", Value: value("refused")}},
		store.Command{RunNo: run.No, Item: &store.Item{Kind: store.ItemUpdate, ID: fmt.Sprint("u ", run.Incarnation),
			Origin: "u", Name: "u", Value: value("update")}})
	items, err := s.view.Inbox(s.t.Context(), run.No, fmt.Sprint("u ", run.Incarnation), fmt.Sprint("q ", run.Incarnation))
	if err != nil || len(items) != 2 {
		s.t.Fatal(items, err)
	}
	update, refused := items[0], items[1]
	if update.Kind != store.ItemUpdate {
		update, refused = refused, update
	}
	s.commit(&store.Turn{
		Run: run.No, Incarnation: run.Incarnation,
		Entries: []store.Entry{
			{Loc: "a", Kind: store.KindStep, State: store.Done, Seq: 1, At: 1, Value: value("a")},
			{Loc: "b", Kind: store.KindStep, State: store.FailedEntry, Seq: 2, At: 1, Value: value("b")},
			{Loc: "c", Kind: store.KindReceive, State: store.Done, Seq: 3, At: 1, Value: value("c")},
			{Loc: "large", Kind: store.KindStep, State: store.Done, Seq: 4, At: 1,
				Value: append(value("large"), random(2*store.LargeValue)...)},
		},
		Consumed: []store.Consumption{{Item: update.No, Verdict: value("answer")}},
		Refused:  []store.Refusal{{Item: refused.No, Reason: value("reason of the refusal")}},
		Values:   []store.Setting{{Name: "v", Value: value("v")}, {Name: "s", Value: value("s")}},
		Appends:  []store.Append{{Name: "s", Value: value("stream")}},
		Audit:    []store.Audit{{Verb: "edit", Why: name + "why", Detail: name + "detail"}},
	})
}

func (s *stage) end(run store.Run) {
	s.commit(&store.Turn{Run: run.No, Incarnation: run.Incarnation, Update: &store.Update{Status: store.Cancelled,
		Output: fmt.Appendf(nil, "\x01output of %d", run.No), Reason: fmt.Sprintf("\x01reason of %d", run.No)}})
}

// readAll reads every value of the runs, by its place. It reads each as many ways as there
// are, and leaves out those that return an error.
func readAll(t *testing.T, s store.Store, runs []store.RunNo) map[string][]byte {
	t.Helper()
	ctx, all := t.Context(), map[string][]byte{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(value []byte, format string, args ...any) {
		if len(value) > 0 {
			all[fmt.Sprintf(format, args...)] = value
		}
	}
	page, err := s.List(ctx, store.Filter{Nos: runs, Values: true})
	must(err)
	for _, run := range page.Runs {
		no := run.No
		put(run.Input, "%d listed input", no)
		put(run.Output, "%d listed output", no)
		put([]byte(run.Reason), "%d listed reason", no)
		for inc := range run.Incarnation + 1 {
			entries, err := s.History(ctx, store.HistoryQuery{Run: no, Incarnation: inc, Values: true})
			must(err)
			for _, e := range entries {
				put(e.Value, "%d history %d %s", no, inc, e.Loc)
			}
		}
		items, err := s.Inbox(ctx, no)
		must(err)
		for _, it := range items {
			put(it.Value, "%d inbox %s", no, it.ID)
			put(it.Verdict, "%d answer %s", no, it.ID)
		}
		feeds, err := s.Feeds(ctx, store.FeedQuery{Runs: []store.RunNo{no}, Values: true})
		must(err)
		for _, f := range feeds {
			put(f.Value, "%d value %s", no, f.Name)
		}
		stream, err := s.Stream(ctx, store.StreamQuery{Run: no, Name: "s"})
		must(err)
		for _, it := range stream {
			put(it.Value, "%d stream %d", no, it.Pos)
		}
		audit, err := s.Audit(ctx, no)
		must(err)
		for _, a := range audit {
			put([]byte(a.Why), "%d why %d", no, a.No)
			put([]byte(a.Detail), "%d detail %d", no, a.No)
		}
		letters, err := s.DeadLetters(ctx, store.DeadFilter{RunIDs: []string{run.ID}, Values: true})
		must(err)
		for _, l := range letters.Letters {
			put(l.Item.Value, "%d dead %s", no, l.Item.ID)
			put(l.Item.Verdict, "%d dead reason %s", no, l.Item.ID)
		}
		snaps, _, err := s.Load(ctx, []store.RunNo{no})
		if len(snaps) == 0 {
			if !errors.Is(err, store.ErrDamaged) {
				t.Fatalf("a run that is not loaded: %v", err)
			}
			continue
		}
		for _, e := range snaps[0].Entries {
			put(e.Value, "%d loaded %s", no, e.Loc)
		}
		for _, it := range snaps[0].Items {
			put(it.Value, "%d loaded item %s", no, it.ID)
		}
		put(snaps[0].Run.Input, "%d loaded input", no)
	}
	return all
}

// exchanged is a store in which somebody has put one stored value in the place of another.
type exchanged struct {
	store.Store
	from, to []byte
}

func (s *exchanged) bytes(v *[]byte) {
	if bytes.Equal(*v, s.from) {
		*v = bytes.Clone(s.to)
	}
}

func (s *exchanged) text(t *string) {
	v := []byte(*t)
	s.bytes(&v)
	*t = string(v)
}

func (s *exchanged) run(r *store.Run) {
	s.bytes(&r.Input)
	s.bytes(&r.Output)
	s.text(&r.Reason)
}

func (s *exchanged) entries(entries []store.Entry) {
	for i := range entries {
		s.bytes(&entries[i].Value)
	}
}

func (s *exchanged) items(items []store.Item) {
	for i := range items {
		s.bytes(&items[i].Value)
		s.bytes(&items[i].Verdict)
	}
}

func (s *exchanged) List(ctx context.Context, f store.Filter) (store.Page, error) {
	page, err := s.Store.List(ctx, f)
	for i := range page.Runs {
		s.run(&page.Runs[i])
	}
	return page, err
}

func (s *exchanged) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	snaps, left, err := s.Store.Load(ctx, runs)
	for i := range snaps {
		s.run(&snaps[i].Run)
		s.entries(snaps[i].Entries)
		s.items(snaps[i].Items)
	}
	return snaps, left, err
}

func (s *exchanged) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	entries, err := s.Store.History(ctx, q)
	s.entries(entries)
	return entries, err
}

func (s *exchanged) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	items, err := s.Store.Inbox(ctx, run, ids...)
	s.items(items)
	return items, err
}

func (s *exchanged) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	feeds, err := s.Store.Feeds(ctx, q)
	for i := range feeds {
		s.bytes(&feeds[i].Value)
	}
	return feeds, err
}

func (s *exchanged) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	items, err := s.Store.Stream(ctx, q)
	for i := range items {
		s.bytes(&items[i].Value)
	}
	return items, err
}

func (s *exchanged) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	audit, err := s.Store.Audit(ctx, run)
	for i := range audit {
		s.text(&audit[i].Why)
		s.text(&audit[i].Detail)
	}
	return audit, err
}

func (s *exchanged) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	page, err := s.Store.DeadLetters(ctx, f)
	for i := range page.Letters {
		s.bytes(&page.Letters[i].Item.Value)
	}
	return page, err
}

// play makes runs with values at every place: two of them, one that has continued as new,
// one that is forked, and one that was replaced under its ID by another.
func play(t *testing.T, cfg Config) *stage {
	t.Helper()
	s := newStage(t, cfg)
	a, b := s.start("a", 1, nil), s.start("b", 2, nil)
	s.fill(a)
	s.fill(b)
	s.commit(&store.Turn{Run: b.No, Update: &store.Update{Status: store.Running,
		Continue: &store.Continuation{Workflow: "w", Seed: store.Seed{3}, Input: []byte("\x01second input")}}})
	next := b
	next.Incarnation = 1
	s.fill(next)
	fork := s.start("fork", 4, func(start *store.Start) {
		start.Fork = &store.Fork{
			Entries: []store.Entry{
				{Loc: "a", Kind: store.KindStep, State: store.Done, Seq: 1, At: 1, Value: []byte("\x01forked a")},
				{Loc: "b", Kind: store.KindStep, State: store.Done, Seq: 2, At: 1, Value: []byte("\x01forked b")},
				{Loc: "large", Kind: store.KindStep, State: store.Done, Seq: 3, At: 1,
					Value: append([]byte("\x01forked"), random(2*store.LargeValue)...)},
			},
			Items: []store.Item{{Kind: store.ItemMessage, ID: "kept", Origin: "kept", Name: "m", State: store.New,
				Value: []byte("\x01forked message")}},
			Audit: []store.Audit{{Verb: "fork", Why: "forked why", Detail: "forked detail"}},
		}
	})
	old := s.start("r", 5, nil)
	s.fill(old)
	s.end(old)
	if again := s.start("r", 6, func(start *store.Start) { start.Existing = store.ReplaceEnded }); again.No == old.No {
		t.Fatal("not replaced")
	}
	s.end(a)
	_ = fork
	return s
}

// TestEveryPlaceOpens: whatever is written at a place is read there, in every way, also of a
// run that was replaced under its ID.
func TestEveryPlaceOpens(t *testing.T) {
	s := play(t, Config{Keys: []Key{testKey("k")}, Require: RequireBound})
	plain := play(t, Config{})
	want, got := readAll(t, plain.view, plain.runs), readAll(t, s.view, s.runs)
	stored := readAll(t, s.base, s.runs)
	if len(want) < 90 {
		t.Errorf("only %d values", len(want))
	}
	for at, value := range want {
		if !bytes.Equal(got[at], value) {
			t.Errorf("%s: expected %.30q, found %.30q", at, value, got[at])
		}
		raw := stored[at]
		if text, ok := strings.CutPrefix(string(raw), textMark); ok && raw[1] >= '+' {
			if decoded, err := base64.RawStdEncoding.DecodeString(text); err == nil {
				raw = decoded
			}
		}
		if raw == nil { // large as stored alone
			continue
		}
		if look, sealed, err := Look(raw); !sealed || err != nil || look.form == 0 {
			t.Errorf("%s is stored as %.30q: %v", at, raw, err)
		}
	}
}

// away is a store in which runs cannot be listed.
type away struct{ store.Store }

func (away) List(context.Context, store.Filter) (store.Page, error) {
	return store.Page{}, fmt.Errorf("%w: it is away", store.ErrUnavailable)
}

// TestNoValueStaysSealedForAnInstant: the place of some values needs the ID of their run. If the store fails while it
// is looked up, a read returns that error. A sealed value instead would be taken for one that cannot be read, and a
// fork would keep it.
func TestNoValueStaysSealedForAnInstant(t *testing.T) {
	s := play(t, Config{Keys: []Key{testKey("k")}})
	fork := s.runs[2]
	view := s.view.p.View(away{s.base})
	for name, read := range map[string]func(context.Context) (any, error){
		"history": func(ctx context.Context) (any, error) {
			return view.History(ctx, store.HistoryQuery{Run: fork, Values: true})
		},
		"inbox": func(ctx context.Context) (any, error) { return view.Inbox(ctx, fork) },
		"audit": func(ctx context.Context) (any, error) { return view.Audit(ctx, fork) },
		"dead letters": func(ctx context.Context) (any, error) {
			page, err := view.DeadLetters(ctx, store.DeadFilter{RunIDs: []string{"a"}, Values: true})
			return page.Letters, err
		},
	} {
		if got, err := read(t.Context()); !errors.Is(err, store.ErrUnavailable) || !reflect.ValueOf(got).IsZero() {
			t.Errorf("%s: expected store.ErrUnavailable, found %v beside %.200v", name, err, got)
		}
	}
}

// alike reports whether two places are not told apart: those of two items of one stream, and
// of two acts of operators on one run, whose numbers the store gives; and what two runs have
// been started with under one ID.
func alike(a, b string) bool {
	isStart := func(at string) bool { return strings.Contains(at, "input") || strings.HasSuffix(at, "first") }
	if isStart(a) {
		return isStart(b) && strings.Contains("45", a[:1]) && strings.Contains("45", b[:1])
	}
	for _, sort := range []string{"stream", "why", "detail"} {
		if i := strings.Index(a, " "+sort+" "); i > 0 {
			return strings.HasPrefix(b, a[:i+len(sort)+2])
		}
	}
	return false
}

// TestValuesCannotBeExchanged puts each stored value in the place of each other one: none is
// read as that of the other place.
func TestValuesCannotBeExchanged(t *testing.T) {
	s := play(t, Config{Keys: []Key{testKey("k")}})
	stored, plain := readAll(t, s.base, s.runs), readAll(t, s.view, s.runs)
	byValue := map[string][]string{} // stored value, the places that show it
	for at, v := range stored {
		byValue[string(v)] = append(byValue[string(v)], at)
	}
	values := slices.Sorted(maps.Keys(byValue))
	if len(values) < 50 {
		t.Fatalf("%d values", len(values))
	}
	for _, from := range values {
		for _, to := range values {
			if from == to {
				continue
			}
			tampered := New(Config{Keys: []Key{testKey("k")}}).View(&exchanged{s.base, []byte(from), []byte(to)})
			var run store.RunNo
			if _, err := fmt.Sscan(byValue[from][0], &run); err != nil {
				t.Fatal(err)
			}
			got := readAll(t, tampered, []store.RunNo{run})
			for _, at := range byValue[from] {
				forged := plain[byValue[to][0]]
				if len(forged) > 0 && bytes.Equal(got[at], forged) && !alike(at, byValue[to][0]) {
					t.Errorf("%s is read as the value of %s", at, byValue[to][0])
				}
			}
		}
	}
}

// before is a value that was encrypted when values were bound to no place.
const before = "020218016b69ec875a5c7499fbafa06d71c4fc4bcf216cde239527f59426bb190c317afeab175694d94986584527a69665ea2" +
	"39c1b0ab422605e7e1c770bf193696ee0b783"

func TestValuesOfBeforeOpen(t *testing.T) {
	value, err := hex.DecodeString(before)
	if err != nil {
		t.Fatal(err)
	}
	for require, want := range map[Require]error{
		RequireNothing: nil, RequireEncrypted: nil, RequireBound: errUnbound,
	} {
		p := New(Config{Keys: []Key{testKey("k")}, Require: require})
		got, err := p.openHere(t.Context(), value)
		if want == nil && (err != nil || string(got) != strings.Repeat("\x01before ", 3)) || !errors.Is(err, want) {
			t.Errorf("with %d required: %q, %v; want %v", require, got, err, want)
		}
	}
}

// TestPlainValuesAreRefused: with Require nothing is read that is not encrypted, however it
// is stored, and what stands in its place says why.
func TestPlainValuesAreRefused(t *testing.T) {
	for name, cfg := range map[string]Config{
		"as given": {}, "compressed": {Compress: 1}, "in objects": {Objects: newShelf(), Offload: 1},
	} {
		s := play(t, cfg)
		cfg.Keys = []Key{testKey("k")}
		cfg.Require = RequireEncrypted
		strict := New(cfg).View(s.base)
		plain := readAll(t, s.view, s.runs)
		got := readAll(t, strict, s.runs)
		for at, value := range got {
			isText := strings.Contains(at, "reason") || strings.Contains(at, "why") || strings.Contains(at, "detail")
			if bytes.Equal(value, plain[at]) && !isText {
				t.Errorf("%s: %s is read as %.20q", name, at, value)
			}
			if err := Readable(value); !isText && !errors.Is(err, store.ErrDamaged) && !errors.Is(err, ErrSealed) {
				t.Errorf("%s: %s is readable: %v", name, at, err)
			}
		}
		snaps, _, _, err := strict.LoadOwned(t.Context(), s.runs)
		if err != nil || len(snaps) != len(s.runs) {
			t.Fatalf("%s: %d runs for their owner, %v", name, len(snaps), err)
		}
		for i := range snaps {
			if damage := snaps[i].Run.Damage; !strings.HasPrefix(damage, "input: ") ||
				!strings.Contains(damage, "not encrypted") {
				t.Errorf("%s: run %q: %q", name, snaps[i].Run.ID, damage)
			}
		}
	}
}

// TestUnansweredIsTheStores: that no code answered an update is said by the store, which has
// no key.
func TestUnansweredIsTheStores(t *testing.T) {
	s := newStage(t, Config{Keys: []Key{testKey("k")}, Require: RequireBound})
	run := s.start("a", 1, nil)
	s.commit(nil, store.Command{RunID: "a", Item: &store.Item{Kind: store.ItemUpdate, ID: "u", Origin: "u", Name: "u",
		Value: []byte("\x01update")}})
	s.end(run)
	items, err := s.view.Inbox(t.Context(), run.No, "u")
	if err != nil || len(items) != 1 || string(items[0].Verdict) != store.Unanswered {
		t.Errorf("%+v, %v", items, err)
	}
}
