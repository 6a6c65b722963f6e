package script

import (
	"strconv"

	"github.com/dop251/goja"
)

// The limits of values, which one native call might exceed by far before anything can stop it.
const (
	maxText  = 16 << 20  // UTF-16 code units of a string
	maxArray = 1_000_000 // elements
	maxDepth = 100       // of a value, and of arrays that are joined

	maxSorted = 200_000       // elements that are sorted without a function; prelude.js has it
	maxBrief  = 1 << 20       // characters for what takes long for each; prelude.js has it
	maxSearch = 1_000_000_000 // characters of a text that are compared with those of another; prelude.js has it
)

// encoded returns a value as JSON.stringify does, within the limits; what has no JSON is null. An
// error is thrown in the script.
func (r *interpreter) encoded(v goja.Value) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case goja.String:
		r.checkText(v.Length())
		if quoted := `"` + v.String() + `"`; plainText(quoted) {
			return quoted
		}
		return r.stringified(v.ToObject(r.vm))
	case *goja.Object:
		if _, function := goja.AssertFunction(v); function {
			return "null"
		}
		r.checkValue(v)
		return r.stringified(v)
	}
	switch v.Export().(type) {
	case int64, bool:
		return v.String()
	case float64:
		if n := v.ToFloat(); n-n == 0 { // neither infinite nor no number
			if n == 0 {
				return "0"
			}
			return v.String()
		}
	}
	return "null"
}

// stringified is JSON.stringify.
func (r *interpreter) stringified(o *goja.Object) string {
	r.encoding = true
	text, err := o.MarshalJSON()
	r.encoding = false
	if err != nil {
		panic(err)
	}
	return unmarked(string(text))
}

func (r *interpreter) checkText(n int) {
	if n > maxText {
		panic(r.rangeError("a string may have 16 MiB, not %d characters", n))
	}
}

func (r *interpreter) checkList(n int) {
	if n > maxArray {
		panic(r.rangeError("an array may have 1,000,000 elements, not %d", n))
	}
}

// checkJSON refuses a JSON text that is too deep, or has too many elements, for JSON.parse: it calls itself for each
// level.
func (r *interpreter) checkJSON(text goja.String) {
	depth, elements, within := 0, 0, false
	for i := 0; i < text.Length(); i++ {
		switch c := text.CharAt(i); {
		case within && c == '\\':
			i++
		case c == '"':
			within = !within
		case within:
		case c == '[' || c == '{':
			elements++
			if depth++; depth > maxDepth {
				panic(r.rangeError("JSON may be 100 levels deep"))
			}
		case c == ']' || c == '}':
			depth--
		case c == ',':
			elements++
		}
		r.checkList(elements)
	}
}

// checkValue refuses a value that is too large or too deep, or refers to itself.
func (r *interpreter) checkValue(o *goja.Object) {
	texts, nodes := 0, 0
	for depth, level := 0, []*goja.Object{o}; len(level) > 0; depth++ {
		if depth > maxDepth {
			panic(r.rangeError("a value may be 100 levels deep, or refers to itself"))
		}
		var next []*goja.Object
		for _, o := range level {
			if toJSON, ok := goja.AssertFunction(o.Get("toJSON")); ok { // it is written in place of the object
				v, err := toJSON(o)
				if err != nil {
					panic(err)
				}
				if inner, ok := v.(*goja.Object); ok {
					next = append(next, inner)
				}
				continue
			}
			if o.ClassName() == "Array" {
				r.checkList(int(min(o.Get("length").ToInteger(), maxArray+1)))
			}
			for _, key := range o.Keys() {
				switch v := o.Get(key).(type) {
				case goja.String:
					texts += v.Length()
					r.checkText(texts)
				case *goja.Object:
					if _, function := goja.AssertFunction(v); !function {
						next = append(next, v)
					}
				}
			}
			r.checkList(len(next))
		}
		nodes += len(next)
		r.checkList(nodes)
		level = next
	}
}

// guardCharacters bounds the characters of a text that are iterated: natives that take all of them, as `[...text]`,
// cannot be interrupted.
func (r *interpreter) guardCharacters() error {
	proto := r.vm.ToValue("").ToObject(r.vm).Prototype()
	all, _ := goja.AssertFunction(proto.GetSymbol(goja.SymIterator))
	guarded := func(c goja.FunctionCall) goja.Value {
		if s, ok := c.This.(goja.String); ok {
			r.checkList(s.Length())
		}
		out, err := all(c.This)
		if err != nil {
			panic(err)
		}
		return out
	}
	yes, no := goja.FLAG_TRUE, goja.FLAG_FALSE
	return proto.DefineDataPropertySymbol(goja.SymIterator, r.vm.ToValue(guarded), yes, yes, no)
}

// guardJoin bounds the join of arrays, which texts of arrays call without its name.
func (r *interpreter) guardJoin() error {
	proto := r.vm.NewArray().Prototype()
	join, _ := goja.AssertFunction(proto.Get("join"))
	guarded := func(c goja.FunctionCall) goja.Value {
		if r.joining > maxDepth {
			panic(r.rangeError("arrays may be joined 100 levels deep"))
		}
		r.joining++
		defer func() { r.joining-- }()
		o := c.This.ToObject(r.vm)
		n, separator := 0, r.textOf(r.vm.ToValue(","))
		if length := o.Get("length"); length != nil {
			n = int(min(max(length.ToInteger(), 0), maxArray+1))
		}
		r.checkList(n)
		if at := c.Argument(0); !goja.IsUndefined(at) {
			separator = r.textOf(at)
		}
		texts := n * separator.Length()
		parts := make([]any, n)
		for i := range n {
			part := r.textOf(r.vm.ToValue(""))
			if v := o.Get(strconv.Itoa(i)); v != nil && !goja.IsUndefined(v) && !goja.IsNull(v) {
				part = r.textOf(v)
			}
			texts += part.Length()
			r.checkText(texts)
			parts[i] = part
		}
		out, err := join(r.vm.NewArray(parts...), separator)
		if err != nil {
			panic(err)
		}
		return out
	}
	return proto.DefineDataProperty("join", r.vm.ToValue(guarded), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
}
