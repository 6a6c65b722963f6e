package script

import (
	"crypto/rand"
	"regexp"
	"strconv"
	"strings"

	"github.com/dop251/goja"
)

// A number of JavaScript has 53 bits, and JSON.parse rounds a longer whole number without a word: an account
// 9007199254740993 becomes another one. A script gets an object in its place, which keeps the digits. It is passed on,
// stored and sent as the number that it was, and a text made of it has all digits. To compute with it, or to compare it
// with ==, throws a RangeError.

// exactKey is the key of the object that replaces such a number in the text which JSON.parse reads. exactBegin begins
// the text by which it is known in what JSON.stringify writes. No value of a script has them but by these functions.
var (
	exactKey   = "stet number " + rand.Text()
	exactBegin = exactKey + " "
	exactText  = regexp.MustCompile(`"` + exactBegin + `(-?\d+)"`)
)

// longest is the number of digits that a number of JavaScript always keeps.
const longest = 15

// withExact returns a JSON text in which objects replace the whole numbers that JSON.parse would change, and whether
// there are any. The text is valid.
func withExact(text string) (string, bool) {
	if !hasLong(text) {
		return text, false
	}
	var out strings.Builder
	done, found := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(text) && strings.IndexByte("0123456789+-.eE", text[end]) >= 0 {
				end++
			}
			if number := text[i:end]; isChanged(number) {
				out.WriteString(text[done:i])
				out.WriteString(`{"` + exactKey + `":"` + number + `"}`)
				done, found = end, true
			}
			i = end - 1
		}
	}
	out.WriteString(text[done:])
	return out.String(), found
}

// hasLong reports whether a text has more digits in a row than a number of JavaScript always keeps.
func hasLong(text string) bool {
	row := 0
	for i := range len(text) {
		if c := text[i]; c < '0' || c > '9' {
			row = 0
		} else if row++; row > longest {
			return true
		}
	}
	return false
}

// isChanged reports whether a number in JSON is a whole one, written without a point or exponent, that has another
// value in JavaScript.
func isChanged(number string) bool {
	digits := strings.TrimPrefix(number, "-")
	if len(digits) <= longest || strings.ContainsAny(digits, ".eE") {
		return false
	}
	f, err := strconv.ParseFloat(digits, 64)
	return err != nil || strconv.FormatFloat(f, 'f', 0, 64) != digits
}

// restored replaces the objects of withExact in a value by numbers with all their digits.
func (r *interpreter) restored(v goja.Value) goja.Value {
	o, ok := v.(*goja.Object)
	if !ok {
		return v
	}
	if digits := o.Get(exactKey); digits != nil {
		return r.exact(digits.String())
	}
	for _, key := range o.Keys() {
		if inner, ok := o.Get(key).(*goja.Object); ok {
			_ = o.Set(key, r.restored(inner)) // a value that JSON.parse has made takes it
		}
	}
	return v
}

// exact is a number with all its digits.
func (r *interpreter) exact(digits string) *goja.Object {
	o := r.vm.NewObject()
	hidden := func(name string, f func(goja.FunctionCall) goja.Value) {
		_ = o.DefineDataProperty(name, r.vm.ToValue(f), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE)
	}
	text := r.vm.ToValue(digits)
	hidden("toString", func(goja.FunctionCall) goja.Value { return text })
	hidden("toJSON", func(goja.FunctionCall) goja.Value {
		if r.encoding {
			return r.vm.ToValue(exactBegin + digits)
		}
		return text
	})
	_ = o.DefineDataPropertySymbol(goja.SymToPrimitive, r.vm.ToValue(func(c goja.FunctionCall) goja.Value {
		if c.Argument(0).String() == "string" {
			return text
		}
		panic(r.rangeError("%s has more digits than a number may have: pass it on as it is, or as a text", digits))
	}), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE)
	return o
}

// unmarked returns what JSON.stringify has written, with the numbers in place of their texts.
func unmarked(text string) string {
	if !strings.Contains(text, exactBegin) {
		return text
	}
	return exactText.ReplaceAllString(text, "$1")
}
