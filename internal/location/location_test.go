package location_test

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/testing/soak"
)

const root = location.Loc("")

// greatest is the greatest number that a location holds: an iteration, or an
// occurrence less one.
const greatest = 1<<62 - 1

func TestTextForm(t *testing.T) {
	for _, c := range []struct {
		loc  location.Loc
		text string
	}{
		{root, ""},
		{root.Name("charge", 1), "charge"},
		{root.Name("notify", 2), "notify#2"},
		{root.Name("poll", 1).Iteration(3).Name("fetch", 1), "poll/~3/fetch"},
		{root.Name("poll", 1).Iteration(0).Name("fetch", 2), "poll/~0/fetch#2"},
		{root.Name("pack", 1).Key("sku-7", 1).Name("pick", 1), "pack/[sku-7]/pick"},
		{root.Name("pack", 3).Key("sku-7", 2), "pack#3/[sku-7]#2"},
		{root.Iteration(greatest), "~4611686018427387903"},
		{root.Name("much", greatest+1), "much#4611686018427387904"},
		{root.Name("/#[]~%", 1), "%2F%23%5B%5D%7E%25"},
		{root.Key("a/b", 1), "[a%2Fb]"},
		{root.Name("größe", 1), "größe"},
		{root.Name("größe/kg", 1), "größe%2Fkg"},
		{root.Name("a step with spaces", 1), "a step with spaces"},
	} {
		if got := c.loc.String(); got != c.text {
			t.Errorf("String of %q = %q; want %q", string(c.loc), got, c.text)
		}
		if got, err := location.Parse(c.text); err != nil || got != c.loc {
			t.Errorf("Parse(%q) = %q, %v; want %q", c.text, string(got), err, string(c.loc))
		}
	}
}

// The encoding is stored: it must never change.
func TestEncodingIsPinned(t *testing.T) {
	for _, c := range []struct {
		loc  location.Loc
		want string
	}{
		{root.Name("fetch", 1), "\x02fetch\x00\x00"},
		{root.Name("fetch", 2), "\x02fetch\x00\x01\x01"},
		{root.Name("fetch", 257), "\x02fetch\x00\x02\x01\x00"},
		{root.Key("sku-7", 1), "\x03sku-7\x00\x00"},
		{root.Iteration(0), "\x04\x00"},
		{root.Iteration(3), "\x04\x01\x03"},
		{root.Name("poll", 1).Iteration(255).Name("x", 1), "\x02poll\x00\x00\x04\x01\xff\x02x\x00\x00"},
		{root.Name("a\x00b\x01c", 1), "\x02a\x01\x01b\x01\x02c\x00\x00"},
	} {
		if string(c.loc) != c.want {
			t.Errorf("the encoding of %s is %q; want %q", c.loc, string(c.loc), c.want)
		}
	}
}

func TestParseRefusesOtherForms(t *testing.T) {
	for _, text := range []string{
		"/", "a/", "/a", "a//b",
		"a#", "a#0", "a#1", "a#02", "a#x", "a#-2", "a#2#3", "a#4611686018427387905", "a#99999999999999999999",
		"~", "~x", "~-1", "~03", "~4611686018427387904", "~99999999999999999999", "~1#2",
		"[", "[a", "a]", "[a]b", "[]", "[a][b]", "[a]#1",
		"%", "%2", "%2f", "%zz", "%41", "a%00b", "a~b", "tab\there",
		"\xff", "%FF",
		strings.Repeat("n", 65), "[" + strings.Repeat("k", 129) + "]",
	} {
		loc, err := location.Parse(text)
		switch {
		case err == nil:
			t.Errorf("Parse(%q) = %q; want an error", text, string(loc))
		case !strings.Contains(err.Error(), strconv.Quote(text)):
			t.Errorf("Parse(%q): %v; want an error that shows the text", text, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "größe", "with space", "a/b", strings.Repeat("n", 64), "日本"} {
		if err := location.CheckName(name); err != nil {
			t.Errorf("CheckName(%q) = %v; want nil", name, err)
		}
	}
	for _, c := range []struct{ name, part string }{
		{"", "found 0"},
		{strings.Repeat("n", 65), "1 to 64 bytes, found 65"},
		{"a\nb", "control"},
		{"a\u0085b", "control"},
		{"a\x00b", "control"},
		{"\xff", "UTF-8"},
	} {
		if err := location.CheckName(c.name); err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("CheckName(%q) = %v; want an error with %q", c.name, err, c.part)
		}
	}
	if err := location.CheckKey(strings.Repeat("k", 128)); err != nil {
		t.Errorf("a key of 128 bytes: %v", err)
	}
	if err := location.CheckKey(strings.Repeat("k", 129)); err == nil {
		t.Error("a key of 129 bytes is accepted")
	}
}

func TestCheckRefusesForeignBytes(t *testing.T) {
	for _, encoded := range []string{
		"", "x", "\x02", "\x02fetch", "\x02fetch\x00", "\x02fetch\x00\x01", "\x02fetch\x00\x01\x00",
		"\x02fetch\x00\x02\x00\x01",                             // a number with a leading zero
		"\x02fetch\x00\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09", // too long
		"\x04\x08\x40\x00\x00\x00\x00\x00\x00\x00",              // one more than the greatest
		"\x04\x08\xff\xff\xff\xff\xff\xff\xff\xff",
		"\x02\x00\x00", "\x02a\x01\x03\x00\x00", "\x02a\x01", "\x02a\x01\x01b\x00\x00", "\x02\xff\x00\x00",
		"\x05a\x00\x00", "\x01a\x00\x00",
		"\x02" + strings.Repeat("n", 65) + "\x00\x00",
		string(root.Name("fetch", 1)) + "x",
	} {
		if location.Check(encoded) == nil {
			t.Errorf("Check(%q) = nil; want an error", encoded)
		}
	}
	if err := location.Check(string(root.Iteration(greatest))); err != nil {
		t.Errorf("the greatest iteration: %v", err)
	}
}

// What cannot be decoded is shown, never a panic.
func TestMalformedIsShownQuoted(t *testing.T) {
	loc := root.Name("poll", 1) + "\x07?"
	if got, want := loc.String(), `poll/"\a?"`; got != want {
		t.Errorf("String = %s; want %s", got, want)
	}
	if got := loc.Depth(); got != 1 {
		t.Errorf("Depth = %d; want the 1 segment before the fault", got)
	}
}

func TestFamily(t *testing.T) {
	poll := root.Name("poll", 1)
	third := poll.Iteration(3)
	fetch := third.Name("fetch", 2)
	for _, c := range []struct {
		loc, parent location.Loc
		base        string
		depth       int
	}{
		{root, root, "", 0},
		{poll, root, "poll", 1},
		{third, poll, "~3", 2},
		{fetch, third, "fetch#2", 3},
		{fetch.Key("k", 1), fetch, "[k]", 4},
	} {
		if c.loc.Parent() != c.parent || c.loc.Base() != c.base || c.loc.Depth() != c.depth {
			t.Errorf("%s: Parent %q, Base %q, Depth %d; want %q, %q, %d", c.loc,
				c.loc.Parent(), c.loc.Base(), c.loc.Depth(), c.parent, c.base, c.depth)
		}
	}
	for _, c := range []struct {
		outer, inner location.Loc
		want         bool
	}{
		{root, poll, true}, {poll, third, true}, {poll, fetch, true}, {third, fetch, true},
		{poll, poll, false}, {third, poll, false}, {root, root, false},
		{poll, root.Name("poll", 2), false}, {poll, root.Name("poll", 2).Name("x", 1), false},
		{poll, root.Name("polls", 1), false},
		{third, poll.Iteration(33), false}, {poll.Iteration(1), poll.Iteration(256), false},
	} {
		if got := c.outer.Contains(c.inner); got != c.want {
			t.Errorf("%q contains %q: %v; want %v", c.outer, c.inner, got, c.want)
		}
	}
}

func TestPrefixes(t *testing.T) {
	scope := location.Loc("").Name("pack", 1)
	l := scope.Key("sku-7", 1).Name("pick", 2)
	want := []location.Loc{scope, scope.Key("sku-7", 1), l}
	if got := l.Prefixes(""); !slices.Equal(got, want) {
		t.Errorf("of %s: expected %q, found %q", l, want, got)
	}
	if got := l.Prefixes(scope); !slices.Equal(got, want[1:]) {
		t.Errorf("of %s in %s: expected %q, found %q", l, scope, want[1:], got)
	}
	if damaged := l + "\x07"; !slices.Equal(damaged.Prefixes(""), append(want, damaged)) {
		t.Errorf("of a damaged one: expected what is whole and itself, found %q", damaged.Prefixes(""))
	}
}

func TestNearest(t *testing.T) {
	var known []location.Loc
	for _, text := range []string{"charge", "charge#2", "refund", "notify", "pack/[sku-7]/pick", "pack/[sku-8]/pick",
		"pack/[sku-7]/wrap"} {
		known = append(known, parse(t, text))
	}
	for _, c := range []struct {
		asked string
		n     int
		want  []string
	}{
		{"chrge", 3, []string{"charge", "charge#2"}},
		{"chrge", 1, []string{"charge"}},
		{"pack/[sku-7]/pack", 3, []string{"pack/[sku-7]/pick", "pack/[sku-8]/pick"}},
		{"something entirely different", 3, nil},
	} {
		var got []string
		for _, loc := range location.Nearest(parse(t, c.asked), known, c.n) {
			got = append(got, loc.String())
		}
		if diff := gocmp.Diff(c.want, got); diff != "" {
			t.Errorf("nearest to %s (-want +got):\n%s", c.asked, diff)
		}
	}
}

func parse(t *testing.T, text string) location.Loc {
	t.Helper()
	loc, err := location.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// segment and path are the plain model that the encoding is compared with.
type segment struct {
	kind   int // 0 name, 1 key, 2 iteration: the order of kinds
	text   string
	number int64 // occurrence - 1, or the iteration
}

type path []segment

func (p path) loc() location.Loc {
	loc := root
	for _, s := range p {
		switch s.kind {
		case 0:
			loc = loc.Name(s.text, int(s.number)+1)
		case 1:
			loc = loc.Key(s.text, int(s.number)+1)
		default:
			loc = loc.Iteration(s.number)
		}
	}
	return loc
}

func (p path) compare(q path) int {
	return slices.CompareFunc(p, q, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(a.text, b.text), cmp.Compare(a.number, b.number))
	})
}

func (p path) inside(q path) bool {
	return len(p) > len(q) && slices.Equal(p[:len(q)], q)
}

// drawPath draws few different texts and numbers, so that two paths have much in
// common; among them are those at the borders of the encoding.
func drawPath(t *rapid.T, label string) path {
	texts := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "ab", "b", "a\x00", "a\x01", "a\x00b", "a\x02", "/", "%", "#2", "[a]", "~3", "é",
			"é/", "\uffff"}),
		rapid.StringN(1, 16, 64),
	)
	numbers := rapid.OneOf(
		rapid.SampledFrom([]int64{0, 1, 2, 254, 255, 256, 65535, 65536, 1<<32 - 1, 1 << 32, greatest}),
		rapid.Int64Range(0, greatest),
	)
	segments := rapid.Custom(func(t *rapid.T) segment {
		s := segment{kind: rapid.IntRange(0, 2).Draw(t, "kind"), number: numbers.Draw(t, "number")}
		if s.kind != 2 {
			s.text = texts.Draw(t, "text")
		}
		return s
	})
	return rapid.SliceOfN(segments, 0, 4).Draw(t, label)
}

// relative draws a path that often is near to p.
func relative(t *rapid.T, p path) path {
	q := slices.Clone(p[:rapid.IntRange(0, len(p)).Draw(t, "common")])
	return append(q, drawPath(t, "rest")...)
}

// property tries p, more often under STET_SOAK.
func property(t *testing.T, p func(t *rapid.T)) {
	t.Helper()
	for range soak.Times(t) {
		rapid.Check(t, p)
	}
}

// Laws 1 and 2.
func TestOrderOfBytesIsOrderOfLocations(t *testing.T) {
	property(t, func(t *rapid.T) {
		p := drawPath(t, "p")
		q := relative(t, p)
		if got, want := strings.Compare(string(p.loc()), string(q.loc())), p.compare(q); got != want {
			t.Fatalf("%q and %q compare as %d; want %d", string(p.loc()), string(q.loc()), got, want)
		}
	})
}

// Law 3.
func TestRangeIsExactlyWhatIsInside(t *testing.T) {
	property(t, func(t *rapid.T) {
		p := drawPath(t, "p")
		q := relative(t, p)
		from, to := p.loc().Range()
		encoded := string(q.loc())
		if got, want := from <= encoded && encoded < to, q.inside(p); got != want {
			t.Fatalf("%q in the range of %q: %v; want %v", q.loc(), p.loc(), got, want)
		}
		if got, want := p.loc().Contains(q.loc()), q.inside(p); got != want {
			t.Fatalf("%q contains %q: %v; want %v", p.loc(), q.loc(), got, want)
		}
	})
}

func TestParentBaseDepthOfAnyPath(t *testing.T) {
	property(t, func(t *rapid.T) {
		p := drawPath(t, "p")
		loc := p.loc()
		if loc.Depth() != len(p) {
			t.Fatalf("the depth of %q is %d; want %d", loc, loc.Depth(), len(p))
		}
		if len(p) == 0 {
			return
		}
		parent, last := p[:len(p)-1], p[len(p)-1:]
		if loc.Parent() != parent.loc() || loc.Base() != last.loc().String() {
			t.Fatalf("%q: Parent %q, Base %q; want %q, %q", loc, loc.Parent(), loc.Base(), parent.loc(), last.loc())
		}
	})
}

// Law 1, for names and keys that Check accepts.
func TestTextRoundTrip(t *testing.T) {
	property(t, func(t *rapid.T) {
		p := drawPath(t, "p")
		loc := p.loc()
		parsed, err := location.Parse(loc.String())
		switch valid := location.Check(string(loc)) == nil || loc == root; {
		case valid && (err != nil || parsed != loc):
			t.Fatalf("%q is written %q and read as %q, %v", string(loc), loc, string(parsed), err)
		case !valid && err == nil:
			t.Fatalf("%q is refused by Check, but its text %q by Parse is not", string(loc), loc)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "fetch", "poll/~3/fetch", "notify#2", "pack/[sku-7]/pick", "a%2Fb#3/[%5B]#2",
		"größe", "~00", "%41", "a#1", "//"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		loc, err := location.Parse(text)
		if err != nil {
			return
		}
		if loc.String() != text {
			t.Fatalf("%q is read as %q and written %q", text, string(loc), loc)
		}
		if err := location.Check(string(loc)); err != nil && loc != root {
			t.Fatalf("%q is read as what Check refuses: %v", text, err)
		}
	})
}

func FuzzCheck(f *testing.F) {
	for _, loc := range []location.Loc{
		root, root.Name("fetch", 1), root.Name("notify", 300), root.Name("poll", 1).Iteration(3).Name("fetch", 1),
		root.Name("pack", 1).Key("sku-7", 1).Name("pick", 1), "\x02a\x01", "\x04\x01\x00",
		"\x04\x08\x40\x00\x00\x00\x00\x00\x00\x00",
	} {
		f.Add(string(loc))
	}
	f.Fuzz(func(t *testing.T, encoded string) {
		loc := location.Loc(encoded)
		text, parent, base, depth := loc.String(), loc.Parent(), loc.Base(), loc.Depth() // none may panic
		if location.Check(encoded) != nil {
			return
		}
		if parsed, err := location.Parse(text); err != nil || parsed != loc {
			t.Fatalf("%q is written %q and read as %q, %v", encoded, text, string(parsed), err)
		}
		if parent.Depth() != depth-1 || !parent.Contains(loc) {
			t.Fatalf("%q: the parent is %q", loc, parent)
		}
		if last, err := location.Parse(base); err != nil || string(parent)+string(last) != encoded {
			t.Fatalf("%q: the base is %q, %v", loc, base, err)
		}
	})
}

func TestEnclosing(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "",
		"a/[k]/b#4":        "",
		"a#5/b#1029":       "", // the bytes of these numbers look like the kind of an iteration
		"poll/~3":          "poll/~3",
		"poll/~4/a/[k]":    "poll/~4",
		"p/~4/q/~1028/a#5": "p/~4/q/~1028",
	} {
		l, err := location.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Enclosing().String(); got != want {
			t.Errorf("%q is in %q, want %q", text, got, want)
		}
	}
	if got := location.Loc("\x02a\x00\x00\x04\x01").Enclosing(); got != "" {
		t.Errorf("the malformed location is in %q", got)
	}
}

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		l, m string
		want bool
	}{
		{"a", "a/[k]", true},
		{"a", "a/[k]#2/b", true},
		{"a", "a/~3", true},
		{"a", "a/~3/b", true},
		{"a", "a/b", false},
		{"a", "a/b/[k]", false},
		{"a", "a", false},
		{"a", "a#2/[k]", false},
		{"a/[k]", "a/[k]/b", false},
	} {
		l, err := location.Parse(c.l)
		if err != nil {
			t.Fatal(err)
		}
		m, err := location.Parse(c.m)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Spans(m); got != c.want {
			t.Errorf("%s spans %s: %v, want %v", l, m, got, c.want)
		}
	}
}
