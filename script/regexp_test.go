package script_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stet-run/stet/stettest"
)

// expressions is a script that uses each way of the language to find something, with many expressions
// and texts.
const expressions = `
	const seen = [];
	const see = (...what) => seen.push(JSON.stringify(what));
	const show = m => m && [...m, m.index, m.input, m.groups];
	const texts = ["", "a", "aab", "one two  three", "x=1;y=22;", "a\nb\n\nc", "line\nline",
		"ÄÖ xäx ä", "😀a😀", "a😀b\ud800c",
		"the The tHe", "2026-01-02 and 2027-11-30", "aXbXc", "  trim ", "Straße ſtraße K",
		"ẞßΩωΩ ÅåÅ θΘϴ ΑᾳᾼµΜ ĳĲ ǅ", "STRAKkK"];
	const all = [/a/, /a*/g, /(?:)/g, /(\w+)\s*/g, /(?<k>\w)=(?<v>\d+);/g, /^b?/gm, /^/g, /$/gm, /\b/g,
		/\bx/g, /\B./g, /ä/g, /./g, /./gu,
		/[^a]/gu, /\u{1F600}|b/u, /😀/g, /(?:\ud83d\ude00|q)/gu,
		/[\s\S]$/, /[\S]+/g, /[^\S\n]+/g, /[^\S]/gu, /[\S]/gu, /THE/gi, /(\d+)-(\d+)-(\d+)/g,
		/(a)|(b)/g, /(?:(a)|(b))+?/g, /X/y,
		/a/y, /a/gy, /\s+/, /,|;/, /.+/gs, /line/gm, /(z)?a/, /K|ſ/g, /x{0,3}/g,
		/k|s/gi, /[a-z]+/gi, /[^s]+/gi, /(?<k>ST)(?:r\u0041|K)/gi, /\x73/gi, /[ſK]/gi, /ä+/gi, /[à-ö]+/gi,
		/ẞ|ß/gi, /SS/giu, /k|s/giu,
		/[\ud83d]/gi, /^line$/gmi, /[^]s/gi, /[]|e/gi, /\p{L}+/gu, /[\p{Lu}\s]+/gu, /\p{Script=Latin}+/giu, /\P{L}/gu];
	for (const re of all) for (const s of texts) {
		see(re.source, re.flags, s);
		see(show(re.exec(s)), re.lastIndex, show(re.exec(s)), re.lastIndex, re.test(s), re.lastIndex);
		re.lastIndex = 2;
		see(show(re.exec(s)), re.lastIndex, re.test(s), re.lastIndex);
		re.lastIndex = 0;
		see(s.search(re), s.match(re), s.split(re), s.split(re, 2), s.replace(re, "<$&$1>"));
		re.lastIndex = 0;
		see(s.replace(re, (...m) => JSON.stringify(m)));
		if (re.global) see(s.replaceAll(re, "-"), [...s.matchAll(re)].map(show));
		re.lastIndex = 0;
	}
	see("aXb".match("x|X"), [..."a.b.c".matchAll("[.]")].map(show), "abc".search("c"), "abc".match(),
		new RegExp("b", "g").exec("abc").index);
	see("a b".split(" "), String(/a\/b/g), /a/ instanceof RegExp, Object.keys(/a/), RegExp("a").test("a"));
	return seen.join("\n");`

// TestExpressions (S13): what expressions find in a script is what another implementation of the language finds,
// where the rules of Go's engine do not differ.
func TestExpressions(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("STET_TEST_STRICT") == "1" {
			t.Fatal("node is not installed; tools/servers installs it")
		}
		t.Skip("node is not installed; tools/servers installs it")
	}
	cmd := exec.CommandContext(t.Context(), node, "-e", "process.stdout.write((() => {"+expressions+"})())")
	cmd.Stderr = os.Stderr
	want, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	w := compile(t, "case", "export default () => {"+expressions+"}")
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		run, err := w.Start(t.Context(), env.Engine, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := run.Wait(t.Context())
		var got string
		if err != nil || json.Unmarshal(out, &got) != nil {
			t.Fatal(err)
		}
		found := strings.Split(got, "\n")
		for i, line := range strings.Split(string(want), "\n") {
			if i >= len(found) || found[i] != line {
				t.Fatalf("expected\n%s\nfound\n%s", line, found[min(i, len(found)-1)])
			}
		}
	})
}
