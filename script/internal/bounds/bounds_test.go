package bounds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dop251/goja"

	"github.com/stet-run/stet/script/internal/bounds"
)

// around returns n times the begin of something, a 1 within, and n times its end.
func around(begin, end string) func(n int) string {
	return func(n int) string { return strings.Repeat(begin, n) + "1" + strings.Repeat(end, n) }
}

// nests are ways to make n levels of brackets.
var nests = map[string]func(n int) string{
	"parentheses":          around("(", ")"),
	"lists":                around("[", "]"),
	"calls":                around("f(", ")"),
	"members":              around("a[", "]"),
	"blocks":               around("{", "}"),
	"functions":            around("()=>{", "}"),
	"functions in lines":   around("() => {\n", "\n}\n"),
	"templates":            around("`${", "}`"),
	"behind a string":      func(n int) string { return "f(`)`, ')', \"\\\")\", /[)/]\\)/);" + around("(", ")")(n) },
	"behind a division":    func(n int) string { return "a / b; a[0] / c; (1) / d; `` / e;" + around("(", ")")(n) },
	"behind an expression": func(n int) string { return "if (a) /\"(/.test(b); x = !/'(/.test(b);" + around("(", ")")(n) },
	"behind a member":      func(n int) string { return "a.return / 2; a.if(1) / '/'; this.#in / 2;" + around("(", ")")(n) },
	"behind a comment":     func(n int) string { return "// )))\u2028" + around("(", ")")(n) + "/* ((( */ // (((" },
	"behind a word":        func(n int) string { return "\\u0072eturn / 1; \\u{72}eturn / 1;" + around("(", ")")(n) },
	"behind a name of one": func(n int) string { return "x = {return: /'/, in: /\"/};" + around("(", ")")(n) },
}

// TestBrackets: as many brackets as a place may have pass, and one more is refused with its place, whatever is before.
func TestBrackets(t *testing.T) {
	for name, nest := range nests {
		if err := bounds.Check("a.js", nest(bounds.MaxBrackets/2)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := bounds.MaxBrackets / 2; n <= bounds.MaxBrackets; n++ { // a level may have two
			if err := bounds.Check("a.js", nest(n)); err != nil && !strings.Contains(err.Error(), "200 brackets that are open") {
				t.Errorf("%s, %d: %v", name, n, err)
			}
		}
		err := bounds.Check("a.js", nest(bounds.MaxBrackets+1))
		if err == nil || !strings.Contains(err.Error(), "200 brackets that are open") ||
			!strings.HasPrefix(err.Error(), "a.js:") {
			t.Errorf("%s: expected that one more is refused, found %v", name, err)
		}
	}
	if err := bounds.Check("a.js", nests["parentheses"](bounds.MaxBrackets)); err != nil {
		t.Error(err)
	}
}

// chains are ways to make n levels without brackets, or without more of them at one place. Some take levels that few
// would write.
var chains = map[string]func(n int) string{
	"sum":                 func(n int) string { return "x = a" + strings.Repeat("+a", n) },
	"members":             func(n int) string { return "x = a" + strings.Repeat(".a", n) },
	"members in lines":    func(n int) string { return "x = a" + strings.Repeat("\n.a", n) },
	"calls":               func(n int) string { return "a" + strings.Repeat("()", n) },
	"calls of a template": func(n int) string { return "a" + strings.Repeat("``", n) },
	"negations":           func(n int) string { return "x = " + strings.Repeat("!", n) + "1" },
	"words":               func(n int) string { return "x = " + strings.Repeat("typeof\n", n) + "1" },
	"assignments":         func(n int) string { return strings.Repeat("a=", n) + "1" },
	"choices":             func(n int) string { return "x = " + strings.Repeat("a?b:", n) + "1" },
	"conditions":          func(n int) string { return strings.Repeat("if(a)\n", n) + "b" },
	"else":                func(n int) string { return strings.Repeat("if(a)b;else ", n) + "b" },
	"else after a list":   func(n int) string { return strings.Repeat("if(a)b,c;else ", n) + "b" },
	"else after a block":  func(n int) string { return strings.Repeat("if(a){b}\nelse ", n) + "b" },
	"loops":               func(n int) string { return strings.Repeat("do ", n) + "a" + strings.Repeat(";while(1)", n) },
	"labels":              func(n int) string { return many("l%d:\n", n) + "a" },
	"arrows":              func(n int) string { return "x = " + strings.Repeat("a=>", n) + "1" },
	"classes": func(n int) string {
		return strings.Repeat("class\na extends ", n) + "b" + strings.Repeat("{}", n)
	},
	"types":           func(n int) string { return "let x: " + strings.Repeat("A<b,", n) + "c" + strings.Repeat(">", n) },
	"within brackets": func(n int) string { return "f(" + strings.Repeat("a+", n/2) + "g(" + strings.Repeat("a+", n/2) + "1))" },
}

func many(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestChains: long statements are refused, and such as people write pass.
func TestChains(t *testing.T) {
	for name, chain := range chains {
		if err := bounds.Check("a.js", chain(150)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		err := bounds.Check("a.js", chain(bounds.MaxSigns+1))
		if err == nil || !strings.Contains(err.Error(), "4000 words and signs") {
			t.Errorf("%s: expected that it is refused, found %v", name, err)
		}
	}
	for n, refused := range map[int]bool{1998: false, 1999: true} { // x = a + a …
		if err := bounds.Check("a.js", chains["sum"](n)); (err != nil) != refused {
			t.Errorf("%d sums: %v", n, err)
		}
	}
}

// TestLongSources: however long a source is, its statements and the elements of its lists count for themselves.
func TestLongSources(t *testing.T) {
	for name, c := range map[string]string{
		"statements":         "a(b);",
		"without semicolons": "const a = b(1)\nawait c.d(a)\nif (e) f()\n",
		"functions":          "function a() {}\nasync function b() {}\n",
		"blocks":             "if (a) { b } else { c }\nfor (const a of b) { c }\ntry { a() } catch (e) { b }\n",
		"loops":              "while (a) { b }\nx()\ndo { b } while (a)\nx()\n",
		"expressions":        "if (a.match(/[\"'`(]/)) b = c / d\n",
		"choices":            "x = a ? b : { c: d };",
		"templates":          "x = `a ${b} c`;",
		"labels":             "a: for (;;) break a;",
		"TypeScript":         "const a: A<B, C<D>> = b! as any\ninterface E { a: b; c?: d }\nenum F { a, b }\n",
		"classes":            "class A { #a = 1; static b() { return this.#a / 2 } get c() { return 1 } }\n",
		"switch":             "switch (a) { case 1: b(); break; default: c() }\n",
		"comments":           "// it's (\n/* don't { */ a();\n",
		"arrows":             "f(a => b => c, (d = (e) => f) => g);",
		"divisions":          "a = b / c / d; e = f[0] / g; h = (i) / j; k++ / l;",
		"exports":            "export const a = 1, b = 2;\nexport { c, d };\nimport { e, f } from \"./g\";\n",
		"objects in lists":   "x({ a: 1, b: [1, 2], c() { return 1 }, ...d }, 2);",
		"JSON":               `x = {"a": {"b": [1, 2, {"c": null}]}, "d": "e"};`,
		"await of operators": "await a; yield / 2;",
	} {
		if err := bounds.Check("a.js", strings.Repeat(c, 3000)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string][3]string{
		"list":      {"x = [", "1,", "]"},
		"objects":   {"x = {", "a: 1,", "}"},
		"arguments": {"x(", "{ a: 1 },", ")"},
		"variables": {"let a", ",b = 1", ""},
		"result":    {"return {", "a: [1, 2],", "}"},
		"exports":   {"export {", "a,", "}"},
		"members":   {"enum A {", "a,", "}"},
		"body":      {"f(() => {", "a();", "})"},
		"class":     {"class A {", "a() {}\n", "}"},
	} {
		if err := bounds.Check("a.ts", c[0]+strings.Repeat(c[1], 3000)+c[2]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestArrows: a parameter list of an arrow function is read again, with those within.
func TestArrows(t *testing.T) {
	lists := func(n int) string { return "x = " + strings.Repeat("(a = ", n) + "1" + strings.Repeat(") => 1", n) }
	if err := bounds.Check("a.js", lists(bounds.MaxArrows)); err != nil {
		t.Error(err)
	}
	for _, between := range []string{"", "f(", "[", "{ a: ", "() => { "} {
		closing := map[string]string{"": "", "f(": ")", "[": "]", "{ a: ": "}", "() => { ": "}"}[between]
		n := bounds.MaxArrows + 1
		source := "x = " + strings.Repeat("(a = "+between, n) + "1" + strings.Repeat(closing+") => 1", n)
		if err := bounds.Check("a.js", source); err == nil || !strings.Contains(err.Error(), "4 parameter lists") {
			t.Errorf("%s: expected that it is refused, found %v", source, err)
		}
	}
	if err := bounds.Check("a.js", "x = "+strings.Repeat("(a) => f(", 100)+"1"+strings.Repeat(")", 100)); err != nil {
		t.Errorf("bodies within bodies: %v", err)
	}
}

// TestOpening: no text that hides brackets may have more of them than a parser can take that takes them for code.
func TestOpening(t *testing.T) {
	for n, refused := range map[int]bool{bounds.MaxOpening: false, bounds.MaxOpening + 1: true} {
		err := bounds.Check("a.js", "'"+strings.Repeat("(", n)+"'")
		const want = "at most 40000 opening brackets, found 40001"
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// TestWithoutEnd: a source that no parser takes is refused where its own end of things would be a guess.
func TestWithoutEnd(t *testing.T) {
	for source, want := range map[string]string{
		"a\n 'b\n'":      "a.js:2:2: expected an end of the string in its line",
		"'a":             "a.js:1:1: expected an end of the string",
		"'a\\":           "a.js:1:1: expected an end of the string",
		"`a":             "a.js:1:1: expected an end of the template",
		"`a${b":          "a.js:1:1: expected an end of `",
		"/* a":           "a.js:1:1: expected an end of the comment",
		"x = /a":         "a.js:1:5: expected an end of the regular expression",
		"x = /[/]":       "a.js:1:5: expected an end of the regular expression",
		"(a":             "a.js:1:1: expected an end of (",
		"a)":             "a.js:1:2: expected what ends a former bracket",
		"(a]":            "a.js:1:3: expected what ends a former bracket",
		"{}\n/'(/.x":     "a.js:2:1: expected a slash that divides",
		"a <!-- b":       "a.js:1:3: expected a comment that begins with //",
		"a\n--> b":       "a.js:2:1: expected a comment that begins with //",
		"a++ /'/ b":      "a.js:1:5: expected a slash that divides",
		"yield /\"/ 2":   "a.js:1:7: expected a slash that divides",
		"a > /[(]/.b":    "a.js:1:5: expected a slash that divides",
		"x\n= '\u2028\n": "a.js:2:3: expected an end of the string in its line",
	} {
		if err := bounds.Check("a.js", source); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: expected %s, found %v", source, want, err)
		}
	}
	for _, source := range []string{
		"", "{}", "#!/usr/bin/node 'it", "a --> b", "'\u2028'", "a\\u{62}", "x = {} / 2", "a = b / 1", "1..a",
	} {
		if err := bounds.Check("a.js", source); err != nil {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// FuzzCheck: what has no end is refused by the interpreter's parser, too, and no source ends the process.
func FuzzCheck(f *testing.F) {
	for _, nest := range nests {
		f.Add(nest(3))
	}
	for _, chain := range chains {
		f.Add(chain(3))
	}
	f.Add("x = a\n/b/g")
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 1000 {
			return
		}
		err := bounds.Check("a.js", source)
		if err == nil || strings.Contains(err.Error(), "slash that") || strings.Contains(err.Error(), "HTML") ||
			strings.Contains(err.Error(), "at most") {
			return
		}
		if _, other := goja.Parse("a.js", source); other == nil {
			t.Errorf("%q: the parser takes it, and Check says %v", source, err)
		}
	})
}
