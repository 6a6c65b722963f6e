package payload

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// shelf is Objects in memory.
type shelf struct {
	mu      sync.Mutex
	content map[string][]byte
	written map[string]time.Time
	now     time.Time
	away    error
}

func newShelf() *shelf {
	return &shelf{content: map[string][]byte{}, written: map[string]time.Time{}, now: time.Unix(1e9, 0)}
}

func (s *shelf) Put(_ context.Context, name string, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away == nil {
		s.content[name], s.written[name] = bytes.Clone(content), s.now
	}
	return s.away
}

func (s *shelf) Get(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.content[name] == nil {
		return nil, fs.ErrNotExist
	}
	return bytes.Clone(s.content[name]), s.away
}

func (s *shelf) Delete(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.content, name)
	return nil
}

func (s *shelf) List(_ context.Context, after string) ([]store.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []store.Object
	for name := range s.content {
		if name > after {
			list = append(list, store.Object{Name: name, Written: s.written[name]})
		}
	}
	slices.SortFunc(list, func(a, b store.Object) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(len(list), 2)], nil
}

func testKey(id string) Key { return Key{id, bytes.Repeat([]byte(id[:1]), KeySize)} }

var here = at{place: "here", group: "r1", holder: holder{form: byNo, no: 1}, what: what{sort: outputOf}}

// open opens a value of that place.
func (p *Policy) openHere(ctx context.Context, value []byte) ([]byte, error) {
	return p.open(ctx, value, &owner{no: 1}, here.what)
}

// configs are all combinations of what can be done.
func configs() map[string]Config {
	all := map[string]Config{}
	for i := range 8 {
		var cfg Config
		name := ""
		if i&1 != 0 {
			cfg.Compress, name = 100, name+"compress "
		}
		if i&2 != 0 {
			cfg.Keys, name = []Key{testKey("k1")}, name+"encrypt "
		}
		if i&4 != 0 {
			cfg.Objects, cfg.Offload, name = newShelf(), 300, name+"offload"
		}
		all[name] = cfg
	}
	return all
}

func TestOpenIsTheInverseOfSeal(t *testing.T) {
	values := [][]byte{nil, {}, {1}, {Marker}, {Marker, 0, 0}, []byte("\x01\"text\""), bytes.Repeat([]byte("ab"), 500),
		random(2000)}
	for name, cfg := range configs() {
		p := New(cfg)
		for _, v := range values {
			sealed, err := p.seal(t.Context(), here, v)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.openHere(t.Context(), sealed)
			if err != nil || !bytes.Equal(got, v) || (got == nil) != (v == nil) {
				t.Errorf("%s: %.20q came back as %.20q, %v", name, v, got, err)
			}
			if again, err := p.seal(t.Context(), here, v); err != nil || !bytes.Equal(again, sealed) {
				t.Errorf("%s: the same value at the same place is stored as another, %v", name, err)
			}
			if cfg.Keys != nil && len(v) > 3 {
				if bytes.Contains(sealed, v[1:]) {
					t.Errorf("%s: the value is in what is stored", name)
				}
				elsewhere, err := p.seal(t.Context(), at{place: "there", group: "r1", holder: here.holder, what: here.what}, v)
				if err != nil || bytes.Equal(elsewhere[len(elsewhere)-16:], sealed[len(sealed)-16:]) {
					t.Errorf("%s: equal values at two places are stored equal, %v", name, err)
				}
				if got, err := p.openHere(t.Context(), elsewhere); err != nil || !bytes.Equal(got, v) {
					t.Errorf("%s: of the other place: %v", name, err)
				}
			}
			if name == "" && len(v) > 0 && v[0] != Marker && !bytes.Equal(sealed, v) {
				t.Errorf("nothing is to be done, and %.20q is stored as %.20q", v, sealed)
			}
		}
	}
}

// random returns bytes that cannot be compressed.
func random(n int) []byte {
	out := make([]byte, 0, n+32)
	for i := 0; len(out) < n; i++ {
		out = append(out, mac(binary.BigEndian.AppendUint64(nil, uint64(i)))...)
	}
	return out[:n]
}

func TestCompressionOnlyIfItShrinks(t *testing.T) {
	p := New(Config{Compress: 100})
	for _, c := range []struct {
		value   []byte
		smaller bool
	}{{bytes.Repeat([]byte("a"), 99), false}, {bytes.Repeat([]byte("a"), 100), true}, {random(5000), false}} {
		sealed, err := p.seal(t.Context(), here, c.value)
		if err != nil || len(sealed) > len(c.value) || (len(sealed) < len(c.value)) != c.smaller {
			t.Errorf("%d bytes are stored as %d, %v", len(c.value), len(sealed), err)
		}
	}
}

// TestPoliciesShareNothing: what one bubble of testing/synctest has made, another
// must not touch.
func TestPoliciesShareNothing(t *testing.T) {
	plain := bytes.Repeat([]byte("a"), 1<<10)
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			p := New(Config{Compress: 1})
			sealed, err := p.seal(t.Context(), here, plain)
			if err != nil || len(sealed) >= len(plain) {
				t.Fatalf("expected a smaller value, found %d bytes, %v", len(sealed), err)
			}
			for _, p := range []*Policy{p, nil} {
				if got, err := p.openHere(t.Context(), sealed); err != nil || !bytes.Equal(got, plain) {
					t.Fatalf("expected the value, found %d bytes, %v", len(got), err)
				}
			}
		})
	}
}

func TestRotation(t *testing.T) {
	value := []byte("\x01secret")
	first := New(Config{Keys: []Key{testKey("a")}})
	old, err := first.seal(t.Context(), here, value)
	if err != nil {
		t.Fatal(err)
	}
	both := New(Config{Keys: []Key{testKey("b"), testKey("a")}})
	next, err := both.seal(t.Context(), here, value)
	if err != nil {
		t.Fatal(err)
	}
	for i, sealed := range [][]byte{old, next} {
		if s, _, err := Look(sealed); err != nil || s.Key != []string{"a", "b"}[i] || s.Size != len(value) {
			t.Errorf("%+v, %v", s, err)
		}
		if got, err := both.openHere(t.Context(), sealed); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%q, %v", got, err)
		}
	}
	for _, p := range []*Policy{New(Config{Keys: []Key{testKey("b")}}), New(Config{}), nil} {
		_, err := p.openHere(t.Context(), old)
		if !errors.Is(err, ErrUnknownKey) || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("without the key: %v", err)
		}
	}
	impostor := New(Config{Keys: []Key{{"a", bytes.Repeat([]byte("z"), KeySize)}}})
	if _, err := impostor.openHere(t.Context(), old); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("with another secret under the ID: %v", err)
	}
}

func TestDamageIsReported(t *testing.T) {
	for name, cfg := range configs() {
		if cfg.Keys == nil {
			continue // what is neither encrypted nor in an object is as safe as the store
		}
		p := New(cfg)
		value := append(random(500), bytes.Repeat([]byte("value "), 50)...)
		sealed, err := p.seal(t.Context(), here, value)
		if err != nil {
			t.Fatal(err)
		}
		for i := range sealed {
			for _, bad := range [][]byte{flipped(sealed, i), sealed[:i]} {
				if got, err := p.openHere(t.Context(), bad); err == nil && len(bad) > 0 && bad[0] == Marker {
					t.Fatalf("%s: with byte %d changed or cut off it opens as %.20q", name, i, got)
				}
			}
		}
		s, ok := cfg.Objects.(*shelf)
		if !ok {
			continue
		}
		for object, content := range s.content {
			s.content[object] = flipped(content, len(content)/2)
			if _, err := p.openHere(t.Context(), sealed); !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%s: a changed object: %v", name, err)
			}
			delete(s.content, object)
			if _, err := p.openHere(t.Context(), sealed); !errors.Is(err, store.ErrDamaged) || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: an object that is gone: %v", name, err)
			}
		}
		if _, err := New(Config{Keys: cfg.Keys}).openHere(t.Context(), sealed); !errors.Is(err, ErrNoObjects) {
			t.Errorf("%s: without objects: %v", name, err)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func flipped(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 0x40
	return b
}

// TestABombIsRefused: a length that a compressed value claims is not believed.
func TestABombIsRefused(t *testing.T) {
	small := newCoders().encoder().EncodeAll(bytes.Repeat([]byte("a"), 1<<20), nil)
	for _, size := range []uint64{10, 1 << 20 >> 1, 1 << 39} {
		bomb := append(binary.AppendUvarint([]byte{Marker, compressed}, size), small...)
		if _, err := New(Config{}).openHere(t.Context(), bomb); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("a value that claims %d bytes: %v", size, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	p := New(Config{Keys: []Key{testKey("k")}, Compress: 10})
	for _, v := range []string{"", "x", strings.Repeat("text ", 50)} {
		sealed, err := p.seal(f.Context(), here, []byte(v))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(sealed)
		f.Add(append(sealed, 1))
	}
	f.Add([]byte{Marker, compressed, 5, 1, 2, 3})
	f.Add([]byte{Marker, offloaded, 5, 1, 2, 3})
	f.Fuzz(func(t *testing.T, value []byte) {
		plain, err := p.openHere(t.Context(), value)
		s, sealed, lookErr := Look(value)
		if lookErr != nil && err == nil || sealed && err == nil && len(plain) != s.Size {
			t.Errorf("%x opens as %x, %v; a look says %+v, %v", value, plain, err, s, lookErr)
		}
	})
}

// exempt are the fields of bytes and texts that stay readable, and why.
var exempt = map[string]string{
	"ID": "runs are found by it", "RunID": "runs are found by it", "Workflow": "runs are found by it", "Name": "a name",
	"DiscardNames": "names",
	"Origin":       "an ID",
	"Loc":          "locations are keys", "ParentLoc": "a location", "From": "a location", "To": "a location", "Group": "a name",
	"Build": "a version", "Admit": "the ID of an entity",
	"Tags": "runs are found by them", "Headers": "the store validates them", "Waits": "locations and names",
	"Who": "a name", "Verb": "a word",
	"Queue": "names, like tags", "Data": "names: a place in a queue",
	"Seed": "random", "Random": "random", "Input hash": "a hash",
}

// TestNoValueIsForgotten: whatever bytes or text a turn or command holds is
// sealed, or its field is known to stay readable.
func TestNoValueIsForgotten(t *testing.T) {
	turn, start := &store.Turn{}, store.Command{}
	n := 0
	fill(reflect.ValueOf(turn).Elem(), &n, 0)
	fill(reflect.ValueOf(&start).Elem(), &n, 0)
	p := New(Config{Keys: []Key{testKey("k")}})
	sealedTurn, err := p.SealTurn(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	commands, err := p.SealCommands(t.Context(), []store.Command{start})
	if err != nil {
		t.Fatal(err)
	}
	if n < 30 {
		t.Fatalf("only %d values were filled in", n)
	}
	for path, v := range readable(reflect.ValueOf(sealedTurn).Elem(), "Turn") {
		t.Errorf("%s is stored as it is: %q; seal it in walk.go, or say in exempt why not", path, v)
	}
	for path, v := range readable(reflect.ValueOf(commands[0]), "Command") {
		t.Errorf("%s is stored as it is: %q; seal it in walk.go, or say in exempt why not", path, v)
	}
	for path, v := range sealedIn(reflect.ValueOf(turn).Elem(), "Turn") {
		t.Errorf("the caller's %s was changed to %q", path, v)
	}
}

const filler = "plain value "

// fill sets every field of bytes or text to something of its own.
func fill(v reflect.Value, n *int, depth int) {
	if depth > 8 {
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[[]byte]():
		*n++
		v.SetBytes(fmt.Appendf(nil, "%s%d", filler, *n))
	case v.Kind() == reflect.String:
		*n++
		v.SetString(fmt.Sprintf("%s%d", filler, *n))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n, depth+1)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n, depth+1)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n, depth+1)
	}
}

// readable returns the fields that are as they were filled in and not exempt.
func readable(v reflect.Value, path string) map[string]string {
	return matching(v, path, func(s string) bool { return strings.HasPrefix(s, filler) })
}

func sealedIn(v reflect.Value, path string) map[string]string {
	return matching(v, path, func(s string) bool { return !strings.HasPrefix(s, filler) })
}

func matching(v reflect.Value, path string, is func(string) bool) map[string]string {
	found := map[string]string{}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch {
		case v.Type() == reflect.TypeFor[[]byte]():
			if v.Len() > 0 && is(string(v.Bytes())) {
				found[path] = string(v.Bytes())
			}
		case v.Kind() == reflect.String:
			if v.Len() > 0 && is(v.String()) {
				found[path] = v.String()
			}
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); exempt[f.Name] == "" {
					walk(v.Field(i), path+"."+f.Name)
				}
			}
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), path)
			}
		case v.Kind() == reflect.Pointer && !v.IsNil():
			walk(v.Elem(), path)
		}
	}
	walk(v, path)
	return found
}

// TestAnEqualSecondRecord of a final entry without a number is stored as the
// first one was, though the key has changed in between: the store refuses a
// different one.
func TestAnEqualSecondRecord(t *testing.T) {
	ctx := t.Context()
	base := memory.New()
	shard := store.Shard{Group: store.DefaultGroup}
	old := New(Config{Keys: []Key{testKey("a")}}).View(base)
	got, _, err := old.Acquire(ctx, store.Node{ID: "n", Boot: "1"}, []store.Shard{shard}, 1e9)
	if err != nil {
		t.Fatal(err)
	}
	batch := int64(0)
	commit := func(v *View, turn *store.Turn, commands ...store.Command) store.BatchResult {
		t.Helper()
		batch++
		b := store.Batch{Node: "n", Boot: "1", No: batch, Leases: []store.Lease{got[0].Lease}, Commands: commands}
		if turn != nil {
			b.Turns = []*store.Turn{turn}
		}
		result, err := v.Commit(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	run := commit(old, nil, store.Command{Claim: true,
		Start: &store.Start{ID: "r", Shard: shard, Workflow: "w", Input: []byte("\x01in")}}).Commands[0].Run
	if string(run.Input) != "\x01in" {
		t.Fatalf("the answer has the input %q", run.Input)
	}
	entry := store.Entry{Loc: "x", Kind: store.KindStep, State: store.Done, Value: []byte("\x01value")}
	large := store.Entry{Loc: "y", Kind: store.KindStep, State: store.Done, Value: random(9000)}
	if v := commit(old, &store.Turn{Run: run.No, Shard: shard,
		Entries: []store.Entry{entry, large}}).Turns[0]; v.Verdict != store.Committed {
		t.Fatal(v)
	}
	next := New(Config{Keys: []Key{testKey("b"), testKey("a")}, Compress: 10}).View(base)
	if v := commit(next, &store.Turn{Run: run.No, Shard: shard,
		Entries: []store.Entry{numbered(entry, 1)}}).Turns[0]; v.Verdict != store.Refused {
		t.Fatalf("without having read it: %+v; this test proves nothing", v)
	}
	snaps, _, err := next.Load(ctx, []store.RunNo{run.No})
	if err != nil || string(snaps[0].Entries[0].Value) != "\x01value" || snaps[0].Entries[1].Value != nil ||
		snaps[0].Entries[1].Size < 9000 {
		t.Fatalf("%+v, %v", snaps, err)
	}
	if _, err := next.History(ctx, store.HistoryQuery{Run: run.No, Locs: []string{"y"}, Values: true}); err != nil {
		t.Fatal(err)
	}
	if v := commit(next, &store.Turn{Run: run.No, Shard: shard,
		Entries: []store.Entry{numbered(entry, 1), numbered(large, 2)}}).Turns[0]; v.Verdict != store.Committed {
		t.Errorf("the equal second record: %+v", v)
	}
	different := numbered(entry, 1)
	different.Value = []byte("\x01other")
	if v := commit(next, &store.Turn{Run: run.No, Shard: shard,
		Entries: []store.Entry{different}}).Turns[0]; v.Verdict != store.Refused {
		t.Errorf("a different record: %+v", v)
	}
}

func numbered(e store.Entry, seq int64) store.Entry {
	e.Seq, e.At = seq, 5
	return e
}

// TestCollect deletes what nothing refers to, and nothing else.
func TestCollect(t *testing.T) {
	ctx := t.Context()
	s, base := newShelf(), memory.New()
	p := New(Config{Objects: s, Offload: 100})
	v := p.View(base)
	start := func(id string) store.Run {
		a, _, err := v.Apply(ctx, []store.Command{{Start: &store.Start{ID: id, Shard: store.Shard{Group: "g"}, Workflow: "w",
			Input: random(200),
			Items: []store.Item{{Kind: store.ItemMessage, ID: "m", Value: random(300)}}}}})
		if err != nil {
			t.Fatal(err)
		}
		return a[0].Run
	}
	start("kept")
	// and then it crashed
	if _, err := p.SealCommands(ctx, []store.Command{{Start: &store.Start{ID: "never", Input: random(200)}}}); err != nil {
		t.Fatal(err)
	}
	orphan, err := p.SealTurn(ctx, &store.Turn{Run: 99, Entries: []store.Entry{{Loc: "x", Value: random(200)}}})
	if err != nil {
		t.Fatal(err)
	}
	overwritten, err := p.SealTurn(ctx, &store.Turn{Run: 1, Entries: []store.Entry{{Loc: "x", Value: random(200)}}})
	if err != nil {
		t.Fatal(err)
	}
	s.content["stranger"], s.content["r/x"] = []byte("x"), []byte("x")
	if len(s.content) != 7 {
		t.Fatalf("%d objects", len(s.content))
	}
	// The clock of the objects counts, not that of this machine.
	s.now = s.now.Add(time.Hour - 1)
	if n, err := p.Collect(ctx, base, time.Hour); err != nil || n != 0 {
		t.Fatalf("before their time: %d, %v", n, err)
	}
	s.now = s.now.Add(1)
	n, err := p.Collect(ctx, base, time.Hour)
	if err != nil || n != 3 {
		t.Fatalf("collected %d, %v; want 3", n, err)
	}
	for _, turn := range []*store.Turn{orphan, overwritten} {
		if _, err := p.openHere(ctx, turn.Entries[0].Value); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what nothing refers to: %v", err)
		}
	}
	snaps, _, err := v.Load(ctx, []store.RunNo{1})
	if err != nil || len(snaps) != 1 || len(snaps[0].Run.Input) != 200 || len(snaps[0].Items[0].Value) != 300 {
		t.Errorf("what is referred to: %v", err)
	}
}

// foldedShelf compares names without case, and lists each as it was written first, as the
// file systems of macOS and Windows do.
type foldedShelf struct {
	*shelf
	first map[string]string // spelling of each part that was written, by its path without case
}

func (s *foldedShelf) spelled(name string) string {
	var folder string
	for part := range strings.SplitSeq(name, "/") {
		key := strings.ToLower(path.Join(folder, part))
		if s.first[key] == "" {
			s.first[key] = part
		}
		folder = path.Join(folder, s.first[key])
	}
	return folder
}

func (s *foldedShelf) Put(ctx context.Context, name string, content []byte) error {
	return s.shelf.Put(ctx, s.spelled(name), content)
}

func (s *foldedShelf) Get(ctx context.Context, name string) ([]byte, error) {
	return s.shelf.Get(ctx, s.spelled(name))
}

// TestObjectsOfIDsThatLookAlike keeps the objects of runs whose IDs differ little, and of
// one whose ID is as long as can be.
func TestObjectsOfIDsThatLookAlike(t *testing.T) {
	ctx := t.Context()
	s, base := &foldedShelf{newShelf(), map[string]string{}}, memory.New()
	p := New(Config{Objects: s, Offload: 100})
	v := p.View(base)
	long := strings.Repeat("x", 255)
	ids := []string{"aaa", "aaG", "AAA", "aAa", long, long[:125], long[:126], "日本"}
	input := random(200)
	for _, id := range ids {
		if _, _, err := v.Apply(ctx, []store.Command{{Start: &store.Start{ID: id, Shard: store.Shard{Group: "g"},
			Workflow: "w", Input: input}}}); err != nil {
			t.Fatalf("run %.10q: %v", id, err)
		}
	}
	for name := range s.content {
		if len(name) > 500 || slices.ContainsFunc(strings.Split(name, "/"), func(p string) bool { return len(p) > 255 }) {
			t.Errorf("a name that is too long: %s", name)
		}
	}
	s.now = s.now.Add(time.Hour)
	if n, err := p.Collect(ctx, base, time.Hour); err != nil || n != 0 {
		t.Errorf("collected %d, %v", n, err)
	}
	page, err := v.List(ctx, store.Filter{IDs: ids, Values: true})
	if err != nil || len(page.Runs) != len(ids) {
		t.Fatalf("%d runs, %v", len(page.Runs), err)
	}
	for _, run := range page.Runs {
		if !bytes.Equal(run.Input, input) {
			t.Errorf("run %.10q has lost its input", run.ID)
		}
	}
}

// TestLoadLeavesOutWhatCannotBeRead, and returns the others.
func TestLoadLeavesOutWhatCannotBeRead(t *testing.T) {
	ctx := t.Context()
	base := memory.New()
	for i, id := range []string{"a", "b"} {
		v := New(Config{Keys: []Key{testKey(id)}}).View(base)
		if _, _, err := v.Apply(ctx,
			[]store.Command{{Start: &store.Start{ID: id, Shard: store.Shard{Group: "g"}, Workflow: "w",
				Seed: store.Seed{byte(i)}, Input: []byte("in")}}}); err != nil {
			t.Fatal(err)
		}
	}
	v := New(Config{Keys: []Key{testKey("b")}}).View(base)
	snaps, _, err := v.Load(ctx, []store.RunNo{1, 2})
	if len(snaps) != 1 || snaps[0].Run.ID != "b" || !errors.Is(err, ErrUnknownKey) ||
		!strings.Contains(err.Error(), `run "a"`) {
		t.Errorf("%+v, %v", snaps, err)
	}
	page, err := v.List(ctx, store.Filter{Values: true})
	if err != nil || len(page.Runs) != 2 || string(page.Runs[0].Input) != "in" {
		t.Fatalf("%+v, %v", page, err)
	}
	if s, sealed, err := Look(page.Runs[1].Input); !sealed || err != nil || s.Key != "a" {
		t.Errorf("a value that cannot be opened is listed as %+v, %v", s, err)
	}
}

// The values of an entity have no format byte. A plain one that begins like a sealed one
// is readable; one that is sealed is not.
func TestReadableEntries(t *testing.T) {
	plain := []store.Entry{{Value: nil}, {Value: []byte{Marker}}, {Value: []byte{Marker, 0xff}},
		{Value: []byte("\xa1\x01\x02")}}
	if err := ReadableEntries(plain); err != nil {
		t.Errorf("plain values: %v", err)
	}
	sealed, err := New(Config{Keys: []Key{testKey("k")}}).seal(t.Context(), here, []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	if err := ReadableEntries(append(plain, store.Entry{Value: sealed})); !errors.Is(err, ErrSealed) {
		t.Errorf("a sealed value: %v", err)
	}
}
