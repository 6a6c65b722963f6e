// Package location is the path of names that identifies an operation in its run, and
// the encoding of that path as bytes.
//
// A location is a sequence of segments: a name with its occurrence (fetch,
// fetch#2), a key with its occurrence ([sku-7]), or a loop iteration (~3).
//
// # Laws
//
//  1. The encoding is injective, and String and Parse are inverse to each other.
//  2. The byte order of encodings is the order of locations: segment by segment,
//     names by their bytes, keys and iterations after names, then occurrences and
//     iterations by number. A location comes directly before those inside it.
//  3. The locations strictly inside l are exactly the half-open byte range l.Range();
//     no sibling is in it.
//  4. Names are readable in the encoding.
//
// # Encoding
//
// A segment is a kind byte, the escaped text, a terminator, and the number. Kind
// bytes: 0x02 name, 0x03 key, 0x04 iteration. Text is UTF-8 in which 0x00 and
// 0x01 are written 0x01 0x01 and 0x01 0x02; its terminator is 0x00. The number is
// one byte that counts the following bytes, then those bytes, most significant first.
// Occurrence 1 is a count of 0.
package location

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Loc is an encoded location. "" is the root scope.
type Loc string

const (
	kindName      = 0x02
	kindKey       = 0x03
	kindIteration = 0x04

	terminator = 0x00
	escape     = 0x01
	afterKinds = 0x05 // greater than each kind byte

	maxName = 64
	maxKey  = 128

	// maxNumber is the greatest iteration, and the greatest occurrence less one.
	maxNumber = 1<<62 - 1
)

// Name returns the location inside l of an occurrence of a name. Occurrences count
// from 1.
func (l Loc) Name(name string, occurrence int) Loc {
	return l.text(kindName, name, occurrence)
}

// Key returns the location inside l of an occurrence of a key. Occurrences count from
// 1.
func (l Loc) Key(key string, occurrence int) Loc {
	return l.text(kindKey, key, occurrence)
}

// Iteration returns the location inside l of loop iteration n. Iterations count from 0.
func (l Loc) Iteration(n int64) Loc {
	var b strings.Builder
	b.Grow(len(l) + 2 + maxBytes)
	b.WriteString(string(l))
	b.WriteByte(kindIteration)
	writeNumber(&b, uint64(n))
	return Loc(b.String())
}

func (l Loc) text(kind byte, text string, occurrence int) Loc {
	var b strings.Builder
	b.Grow(len(l) + len(text) + 4)
	b.WriteString(string(l))
	b.WriteByte(kind)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case 0x00:
			b.WriteString("\x01\x01") // escape, 1
		case escape:
			b.WriteString("\x01\x02") // escape, 2
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte(terminator)
	writeNumber(&b, uint64(occurrence-1))
	return Loc(b.String())
}

// maxBytes is how many bytes a number has at most, without their count.
const maxBytes = 8

// writeNumber writes n so that byte order is numeric order.
func writeNumber(b *strings.Builder, n uint64) {
	size := 0
	for m := n; m > 0; m >>= 8 {
		size++
	}
	b.WriteByte(byte(size))
	for i := size - 1; i >= 0; i-- {
		b.WriteByte(byte(n >> (8 * i)))
	}
}

// segment is one decoded segment.
type segment struct {
	kind   byte
	text   string
	number uint64 // occurrence - 1, or the iteration
}

var errMalformed = errors.New("malformed location")

// cutSegment decodes the first segment of an encoding.
func cutSegment(s string) (segment, string, error) {
	seg := segment{kind: s[0]}
	s = s[1:]
	switch seg.kind {
	case kindName, kindKey:
		if end := strings.IndexByte(s, terminator); end >= 0 && strings.IndexByte(s[:end], escape) < 0 {
			seg.text, s = s[:end], s[end+1:]
			break
		}
		var text strings.Builder
		for {
			if s == "" {
				return seg, "", errMalformed
			}
			c := s[0]
			s = s[1:]
			if c == terminator {
				break
			}
			if c == escape {
				if s == "" || s[0] != 0x01 && s[0] != 0x02 {
					return seg, "", errMalformed
				}
				c = s[0] - 1
				s = s[1:]
			}
			text.WriteByte(c)
		}
		seg.text = text.String()
	case kindIteration:
	default:
		return seg, "", errMalformed
	}
	if s == "" || s[0] > 8 || len(s) < 1+int(s[0]) || s[0] > 0 && s[1] == 0 {
		return seg, "", errMalformed
	}
	size := int(s[0])
	for _, c := range []byte(s[1 : 1+size]) {
		seg.number = seg.number<<8 | uint64(c)
	}
	if seg.number > maxNumber {
		return seg, "", errMalformed
	}
	return seg, s[1+size:], nil
}

func (l Loc) segments() ([]segment, error) {
	var segments []segment
	for s := string(l); s != ""; {
		seg, rest, err := cutSegment(s)
		if err != nil {
			return segments, err
		}
		segments = append(segments, seg)
		s = rest
	}
	return segments, nil
}

// Check returns nil if encoded is a well-formed location other than the root.
func Check(encoded string) error {
	segments, err := Loc(encoded).segments()
	switch {
	case err != nil:
		return fmt.Errorf("location %q: %w", encoded, err)
	case len(segments) == 0:
		return errors.New("location: expected a name, found the root scope")
	}
	for _, seg := range segments {
		if seg.kind == kindName {
			err = CheckName(seg.text)
		} else if seg.kind == kindKey {
			err = CheckKey(seg.text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckName returns nil if name may name an operation: 1 to 64 bytes of UTF-8
// without control characters.
func CheckName(name string) error { return checkText("name", name, maxName) }

// CheckKey returns nil if key may be a key: 1 to 128 bytes of UTF-8 without
// control characters.
func CheckKey(key string) error { return checkText("key", key, maxKey) }

func checkText(what, text string, most int) error {
	switch {
	case text == "" || len(text) > most:
		return fmt.Errorf("%s %q: expected 1 to %d bytes, found %d", what, text, most, len(text))
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %q: expected valid UTF-8", what, text)
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%s %q: expected no control characters", what, text)
	}
	return nil
}

// String returns the text form: poll/~3/fetch#2, pack/[sku-7]/pick. From the first
// malformed byte on the rest is quoted.
func (l Loc) String() string {
	var b strings.Builder
	for s := string(l); s != ""; {
		seg, rest, err := cutSegment(s)
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		if err != nil {
			b.WriteString(strconv.Quote(s))
			break
		}
		b.WriteString(seg.String())
		s = rest
	}
	return b.String()
}

// Path returns the text form as an operator writes it: the root is "/".
func (l Loc) Path() string {
	if l == "" {
		return "/"
	}
	return l.String()
}

func (seg segment) String() string {
	switch seg.kind {
	case kindIteration:
		return "~" + strconv.FormatUint(seg.number, 10)
	case kindKey:
		return "[" + escapeText(seg.text) + "]" + occurrence(seg.number)
	}
	return escapeText(seg.text) + occurrence(seg.number)
}

func occurrence(number uint64) string {
	if number == 0 {
		return ""
	}
	return "#" + strconv.FormatUint(number+1, 10)
}

const special = "/#[]~%"

func escapeText(text string) string {
	if !strings.ContainsAny(text, special) && !strings.ContainsFunc(text, unicode.IsControl) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if invalid := r == utf8.RuneError && size == 1; invalid || unicode.IsControl(r) || strings.ContainsRune(special, r) {
			for _, c := range []byte(text[:size]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

// Parse returns the location with the text form.
func Parse(text string) (Loc, error) {
	var l Loc
	if text == "" {
		return "", nil
	}
	for part := range strings.SplitSeq(text, "/") {
		seg, err := parseSegment(part)
		if err != nil {
			return "", fmt.Errorf("location %q: segment %q: %w", text, part, err)
		}
		switch seg.kind {
		case kindIteration:
			l = l.Iteration(int64(seg.number))
		default:
			l = l.text(seg.kind, seg.text, int(seg.number)+1)
		}
	}
	if l.String() != text {
		return "", fmt.Errorf("location %q: expected its own form %q", text, l.String())
	}
	return l, nil
}

func parseSegment(part string) (segment, error) {
	if n, ok := strings.CutPrefix(part, "~"); ok {
		number, err := strconv.ParseUint(n, 10, 64)
		if err != nil || number > maxNumber {
			return segment{}, errors.New("expected the number of an iteration after ~")
		}
		return segment{kind: kindIteration, number: number}, nil
	}
	seg := segment{kind: kindName}
	text, n, repeated := strings.Cut(part, "#")
	if repeated {
		number, err := strconv.ParseUint(n, 10, 64)
		if err != nil || number < 2 || number > maxNumber+1 {
			return seg, errors.New("expected an occurrence of 2 or more after #")
		}
		seg.number = number - 1
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		seg.kind = kindKey
		if text, ok = strings.CutSuffix(inner, "]"); !ok {
			return seg, errors.New("expected ] after the key")
		}
	}
	var err error
	if seg.text, err = unescapeText(text); err != nil {
		return seg, err
	}
	if seg.kind == kindKey {
		return seg, CheckKey(seg.text)
	}
	return seg, CheckName(seg.text)
}

func unescapeText(text string) (string, error) {
	if !strings.Contains(text, "%") {
		return text, nil
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if i+2 >= len(text) {
			return "", errors.New("expected two hexadecimal digits after %")
		}
		c, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", errors.New("expected two hexadecimal digits after %")
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), nil
}

// Parent returns the scope of l; that of the root is the root.
func (l Loc) Parent() Loc {
	last := 0
	for at := 0; at < len(l); {
		_, rest, err := cutSegment(string(l[at:]))
		if err != nil {
			break
		}
		last, at = at, len(l)-len(rest)
	}
	return l[:last]
}

// Enclosing returns the innermost loop iteration that l is in, or that l is itself, or
// the root.
func (l Loc) Enclosing() Loc {
	found := Loc("")
	if strings.IndexByte(string(l), kindIteration) < 0 {
		return found // no iteration; the byte may also be a part of a number
	}
	for rest := string(l); rest != ""; {
		seg, after, err := cutSegment(rest)
		if err != nil {
			break
		}
		if rest = after; seg.kind == kindIteration {
			found = l[:len(l)-len(rest)]
		}
	}
	return found
}

// Prefixes returns the locations between the scope, which contains l or is the root, and l,
// the outermost first; l itself is the last. From a malformed segment on there is l alone.
func (l Loc) Prefixes(scope Loc) []Loc {
	var found []Loc
	for at := len(scope); at < len(l); {
		_, rest, err := cutSegment(string(l[at:]))
		if err != nil {
			return append(found, l)
		}
		at = len(l) - len(rest)
		found = append(found, l[:at])
	}
	return found
}

// Base returns the text of the last segment.
func (l Loc) Base() string { return l[len(l.Parent()):].String() }

// Operation returns the name of the operation at l, its key, and the scope of its call.
// If l ends with a key or an iteration, these are of the operation around it.
func (l Loc) Operation() (name, key string, scope Loc) {
	if l != "" {
		if seg, rest, err := cutSegment(string(l)); err == nil && rest == "" && seg.kind == kindName {
			return seg.text, "", ""
		}
	}
	for at := l; at != ""; at = at.Parent() {
		seg, _, err := cutSegment(string(at[len(at.Parent()):]))
		switch {
		case err != nil:
			return "", "", ""
		case seg.kind == kindName:
			return seg.text, key, at.Parent()
		case seg.kind == kindKey && key == "":
			key = seg.text
		}
	}
	return "", key, ""
}

// Depth returns the number of segments.
func (l Loc) Depth() int {
	segments, _ := l.segments() // of a malformed location, those before the fault
	return len(segments)
}

// Contains reports whether m is strictly inside l.
func (l Loc) Contains(m Loc) bool { return len(m) > len(l) && strings.HasPrefix(string(m), string(l)) }

// Spans reports whether m is inside a key or an iteration of l, and not inside a name
// that is directly in l.
func (l Loc) Spans(m Loc) bool { return l.Contains(m) && m[len(l)] != kindName }

// Range returns the half-open byte range of the locations strictly inside l.
func (l Loc) Range() (from, to string) {
	return string(l) + string(rune(kindName)), string(l) + string(rune(afterKinds))
}

// Nearest returns up to n of the known locations whose text is similar to that of asked:
// siblings first, then by edit distance.
func Nearest(asked Loc, known []Loc, n int) []Loc {
	type candidate struct {
		loc     Loc
		sibling bool
		far     int
	}
	parent, base := asked.Parent(), asked.Base()
	candidates := make([]candidate, 0, len(known))
	for _, k := range known {
		c := candidate{loc: k, sibling: k.Parent() == parent}
		longest := max(len(base), len(k.Base()))
		limit := longest/3 + 1
		if c.sibling {
			c.far, limit = distance(base, k.Base()), longest*2/3+1
		} else {
			c.far = distance(asked.String(), k.String())
		}
		if c.far <= limit {
			candidates = append(candidates, c)
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		if a.sibling != b.sibling {
			if a.sibling {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.loc, b.loc))
	})
	var nearest []Loc
	for _, c := range candidates[:min(n, len(candidates))] {
		nearest = append(nearest, c.loc)
	}
	return nearest
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = min(diagonal, row[j], row[j-1]) + 1
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}

// Iterations returns the half-open byte range of the iterations of a loop at l and of
// the locations inside them.
func (l Loc) Iterations() (from, to string) {
	return string(l) + string(rune(kindIteration)), string(l) + string(rune(afterKinds))
}

// Loops returns the loops that l is in, each with the iteration, the outermost first.
// Of a malformed location it returns those before the fault.
func (l Loc) Loops() iter.Seq2[Loc, int64] {
	return func(yield func(Loc, int64) bool) {
		for at := 0; at < len(l); {
			seg, rest, err := cutSegment(string(l[at:]))
			if err != nil {
				return
			}
			if seg.kind == kindIteration && !yield(l[:at], int64(seg.number)) {
				return
			}
			at = len(l) - len(rest)
		}
	}
}
