package script

import (
	"fmt"
	"maps"
	"regexp"
	re2 "regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// The marks of a property, while the interpreter's own translation takes place, which does not know them. Both are no
// characters.
const (
	propertyBegin = '\ufdd0'
	propertyEnd   = '\ufdd1'
)

var markedProperty = regexp.MustCompile("\ufdd0([pP])([^\ufdd1]*)\ufdd1")

// property returns what Go's engine has for \p{name} or \P{name}, in marks.
func property(escape, flags string) (string, error) {
	kind, name := escape[1], strings.TrimSuffix(escape[len(`\p{`):], "}")
	known, value := "", name
	if key, of, pair := strings.Cut(name, "="); pair {
		switch key {
		case "Script", "sc":
			if unicode.Scripts[of] != nil {
				known = of
			}
		case "General_Category", "gc":
			known = category(of)
		}
		value = of
	} else if known = category(name); known == "" && (name == "Any" || name == "ASCII" || name == "Assigned") {
		known = name
	}
	switch {
	case known == "":
		hint := ""
		if unicode.Scripts[value] != nil && value == name {
			hint = fmt.Sprintf(`; a script is \p{Script=%s}`, name)
		}
		return "", fmt.Errorf(`expected a general category, as \p{L} or \p{Letter}, or \p{Script=Greek}, found %s%s`,
			escape, hint)
	case kind == 'P' && strings.Contains(flags, "i"):
		return "", fmt.Errorf(`expected \p and [^…] with the flag i, found %s`, escape)
	}
	return string(propertyBegin) + string(kind) + known + string(propertyEnd), nil
}

// category returns the short name of a general category; "": it is none.
func category(name string) string {
	if short := unicode.CategoryAliases[name]; short != "" {
		return short
	}
	if unicode.Categories[name] != nil {
		return name
	}
	return ""
}

// checkFlags refuses flags that the interpreter does not know.
func checkFlags(flags string) error {
	for i, flag := range flags {
		if !strings.ContainsRune("gimsuy", flag) || strings.ContainsRune(flags[:i], flag) {
			return fmt.Errorf("expected each of the flags g, i, m, s, u and y once at most, found %q", flags)
		}
	}
	return nil
}

// folds returns, of each unit of text that is equal to others in expressions with the flag i and without the flag u,
// those others. The language compares upper cases there, where Go's engine folds: s and ſ are no equals.
var folds = sync.OnceValue(func() map[rune][]rune {
	equal := map[rune][]rune{} // by their upper case
	for c := rune(0); c <= 0xffff; c++ {
		if upper := canonical(c); upper != c || unicode.SimpleFold(c) != c {
			equal[upper] = append(equal[upper], c)
		}
	}
	others := map[rune][]rune{}
	for _, same := range equal {
		for _, c := range same {
			for _, other := range same {
				if other != c {
					others[c] = append(others[c], other)
				}
			}
		}
	}
	return others
})

// canonical is Canonicalize of the language, without the flag u.
func canonical(c rune) rune {
	switch {
	case c >= 0x1f80 && c <= 0x1faf, c == 0x1fb3, c == 0x1fbc, c == 0x1fc3, c == 0x1fcc, c == 0x1ff3, c == 0x1ffc:
		return c // its upper case is two characters
	}
	upper := unicode.ToUpper(c)
	if c >= 0x80 && upper < 0x80 || upper > 0xffff {
		return c
	}
	return upper
}

// folded returns an expression of Go's engine that does without its flag i.
func folded(text string) (string, error) {
	var out strings.Builder
	for len(text) > 0 {
		head := 1 // what is copied
		switch {
		case strings.HasPrefix(text, "(?P<"):
			head = strings.IndexByte(text, '>') + 1
		case strings.HasPrefix(text, "(?"):
			head = strings.IndexByte(text, ':') + 1
		case text[0] == '[':
			end := classEnd(text)
			if end < 2 {
				return "", fmt.Errorf("expected a class, found %s", text)
			}
			class, negative := text[1:end], false
			if class[0] == '^' {
				class, negative = class[1:], true
			}
			re, err := re2.Parse("["+class+"]", re2.Perl)
			if err != nil {
				return "", err
			}
			out.WriteString(foldedClass(re, negative))
			text = text[end+1:]
			continue
		case text[0] == '\\' && len(text) > 1 && text[1] == 'x':
			if head = len(`\x00`); strings.HasPrefix(text, `\x{`) {
				head = strings.IndexByte(text, '}') + 1
			}
			if head < 1 || head > len(text) {
				return "", fmt.Errorf("expected a number, found %s", text)
			}
			n, err := strconv.ParseUint(strings.Trim(text[2:head], "{}"), 16, 32)
			if err != nil {
				return "", err
			}
			out.WriteString(foldedRune(rune(n), text[:head]))
			text = text[head:]
			continue
		case text[0] == '\\' && len(text) > 1:
			head = 2
		default:
			for i, c := range text {
				if i > 0 {
					head = i
					break
				}
				head = len(text)
				out.WriteString(foldedRune(c, string(c)))
			}
			text = text[head:]
			continue
		}
		if head < 1 {
			return "", fmt.Errorf("expected a group, found %s", text)
		}
		out.WriteString(text[:head])
		text = text[head:]
	}
	return out.String(), nil
}

// classEnd returns where the class ends that a text begins with.
func classEnd(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ']':
			return i
		}
	}
	return len(text) - 1
}

func foldedRune(c rune, as string) string {
	others := folds()[c]
	if len(others) == 0 {
		return as
	}
	return "[" + as + string(others) + "]"
}

// foldedClass returns a class with what is equal to what is in it.
func foldedClass(re *re2.Regexp, negative bool) string {
	set := re.Rune
	if re.Op == re2.OpLiteral {
		set = []rune{re.Rune[0], re.Rune[0]}
	}
	var out strings.Builder
	out.WriteByte('[')
	if negative {
		out.WriteByte('^')
	}
	for i := 0; i < len(set); i += 2 {
		fmt.Fprintf(&out, `\x{%x}-\x{%x}`, set[i], set[i+1])
	}
	equal := folds()
	for _, c := range slices.Sorted(maps.Keys(equal)) {
		others := equal[c]
		for i := 0; i < len(set); i += 2 {
			if c >= set[i] && c <= set[i+1] {
				for _, other := range others {
					fmt.Fprintf(&out, `\x{%x}`, other)
				}
				break
			}
		}
	}
	out.WriteByte(']')
	return out.String()
}
