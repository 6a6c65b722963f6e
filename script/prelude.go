package script

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/dop251/goja"
)

// preludeSource is what is done to the language before a script begins. See the text for its
// marks.
//
//go:embed prelude.js
var preludeSource string

// preludeName is the file of the prelude in positions.
const preludeName = "stet"

var (
	word   = regexp.MustCompile(`[A-Za-z0-9]+`)
	chosen = regexp.MustCompile(`/\*\?\*/\[[^\]]*\]`)
)

// absent are the globals of the interpreter that a script does not have.
var absent = []string{"eval", "Function", "Proxy", "Intl", "BigInt", "ArrayBuffer", "SharedArrayBuffer", "DataView",
	"Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
	"Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array", "WeakRef", "FinalizationRegistry"}

// newCompiled adds to a compiled script what it finds beside the language.
func newCompiled(c compiled, code parsed, source string) *compiled {
	c.code, c.adds, c.errors = code.program, code.adds, code.errors
	c.expressions, c.used = &expressions{}, map[string]bool{}
	if code.expressions {
		c.used["/"] = true
	}
	for _, name := range word.FindAllString(written(ownCode(source)), -1) {
		c.used[name] = true
	}
	if code.computes || c.used["Reflect"] || c.used["getOwnPropertyDescriptor"] || c.used["getOwnPropertyDescriptors"] ||
		strings.Contains(source, `\u`) || strings.Contains(source, `\x`) {
		for _, name := range guardedNames() { // it may have any of them
			c.used[name] = true
		}
	}
	for _, name := range absent {
		if c.used[name] {
			c.absent = append(c.absent, name)
		}
	}
	for _, t := range toolbox {
		if c.used[t.object] && c.used[t.name] {
			c.tools = append(c.tools, t)
		}
	}
	c.prelude = preludes.of(preludeFor(c.used))
	return &c
}

// guardedNames are the words that the prelude, the expressions and the absent globals are for. The combinators of Task
// are not among them: who computes the name of Task finds none.
var guardedNames = sync.OnceValue(func() []string {
	names := append([]string{"match", "matchAll", "search", "JSON"}, absent...)
	for line := range strings.Lines(preludeSource) {
		if mark, list, _ := strings.Cut(strings.TrimSpace(line), " "); mark == "//?" && list != "all any race" {
			names = append(names, strings.Fields(list)...)
		}
	}
	return names
})

// bundlerHelpers are what the bundler begins each script with. They name and compute members of what they are given.
const bundlerHelpers = `var __script = (() => {
  var __defProp = Object.defineProperty;
  var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
  var __getOwnPropNames = Object.getOwnPropertyNames;
  var __hasOwnProp = Object.prototype.hasOwnProperty;
  var __export = (target, all) => {
    for (var name in all)
      __defProp(target, name, { get: all[name], enumerable: true });
  };
  var __copyProps = (to, from, except, desc) => {
    if (from && typeof from === "object" || typeof from === "function") {
      for (let key of __getOwnPropNames(from))
        if (!__hasOwnProp.call(to, key) && key !== except)
          __defProp(to, key, { get: () => from[key], ` +
	`enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable });
    }
    return to;
  };
  var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);
`

// reaching are the helpers by which a script could come to a function that it does not name. The other two copy members
// under their names, and what cannot be enumerated stays so.
var reaching = []string{"__defProp", "__getOwnPropDesc", "__getOwnPropNames", "__hasOwnProp", "__copyProps"}

// ownCode returns a source without the helpers of the bundler, if it has exactly these and uses none to reach members.
func ownCode(source string) string {
	own, found := strings.CutPrefix(source, bundlerHelpers)
	if !found || slices.ContainsFunc(reaching, func(name string) bool { return strings.Contains(own, name) }) {
		return source
	}
	return own
}

// written returns a script without its source map, which is its last line.
func written(source string) string {
	const mark = "//# sourceMappingURL="
	code := strings.TrimRight(source, "\n")
	if at := strings.LastIndexByte(code, '\n') + 1; strings.HasPrefix(code[at:], mark) {
		return code[:at]
	}
	return source
}

// preludes are the compiled preludes of this process: many scripts need the same.
var preludes preludeCache

type preludeCache struct {
	mu       sync.Mutex
	compiled map[string]*goja.Program
}

// maxPreludes bounds the cache, which is emptied then.
const maxPreludes = 200

// of returns a compiled prelude; nil: it does nothing.
func (c *preludeCache) of(text string) *goja.Program {
	if text == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.compiled[text]
	if p == nil {
		if c.compiled == nil || len(c.compiled) >= maxPreludes {
			c.compiled = map[string]*goja.Program{}
		}
		p = goja.MustCompile(preludeName, text, true)
		c.compiled[text] = p
	}
	return p
}

// part is some lines of the prelude.
type part struct {
	text    string
	words   []string // in the text
	helps   string   // the word for which it is there; "": it is no helper
	in, own bool     // it is in; because of a word of the script
}

// preludeFor returns the part of the prelude that is for a script with these words; "": none is.
func preludeFor(used map[string]bool) string {
	var parts []*part
	now := &part{in: true}
	begin := func(next *part) { parts, now = append(parts, now), next }
	for line := range strings.Lines(preludeSource) {
		mark, names, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch mark {
		case "//?":
			in := slices.ContainsFunc(strings.Fields(names), func(name string) bool { return used[name] })
			begin(&part{in: in, own: in})
		case "//@":
			begin(&part{helps: names})
		case "//.":
			begin(&part{in: true})
		default:
			now.text += chosen.ReplaceAllStringFunc(line, func(list string) string {
				names := slices.DeleteFunc(word.FindAllString(list, -1), func(name string) bool { return !used[name] })
				return `["` + strings.Join(names, `", "`) + `"]`
			})
		}
	}
	parts = append(parts, now)
	for _, p := range parts {
		p.words = word.FindAllString(p.text, -1)
	}
	for more := true; more; { // helpers may need others
		more = false
		for _, helper := range parts {
			if helper.in || helper.helps == "" {
				continue
			}
			helper.in = slices.ContainsFunc(parts, func(p *part) bool {
				return p.in && slices.Contains(p.words, helper.helps)
			})
			more = more || helper.in
		}
	}
	var out strings.Builder
	any := false
	for _, p := range parts {
		if any = any || p.own; p.in {
			out.WriteString(p.text)
		}
	}
	if !any {
		return ""
	}
	return out.String()
}
