package openapi

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// words are the sets of words that a field of package api may have, by the name that its tag
// words says.
var words = map[string][]string{
	"Status":       named(store.Queued),
	"EntryKind":    named(store.KindStep),
	"EntryState":   named(store.Open),
	"ItemKind":     itemKinds(),
	"NodeState":    {"working", "standing by", "draining", "drained", "silent", "lost"},
	"PromiseState": {"open", "resolved", "rejected"},
	"TaskState":    {"offered", "leased", "expired"},
	"LeaseState":   {"held", "cancelled", "gone", "released"},
	"TopicMode":    {"broadcast", "consumed"},
	"BulkVerb":     {"cancel", "terminate", "pause", "resume", "nudge", "retry"},
	"HookScheme":   {"standard", "github", "stripe", "hmac"},
	"Role":         roles(),
	"Right":        rights(),
}

// named returns the names of the numbers from first on; a number without a name has one with
// a bracket.
func named[T interface {
	~uint8
	fmt.Stringer
}](first T) (names []string) {
	for v := first; !strings.Contains(v.String(), "("); v++ {
		names = append(names, v.String())
	}
	return names
}

func itemKinds() (names []string) {
	for k := range store.ItemKind(255) {
		if k.Valid() {
			names = append(names, k.String())
		}
	}
	return names
}

func roles() (names []string) {
	for _, role := range access.Roles() {
		names = append(names, string(role))
	}
	return names
}

// rights are those that a role may have: public is none.
func rights() []string {
	return slices.DeleteFunc(named(access.Public), func(name string) bool { return name == access.Public.String() })
}

// ofText returns the words of a type of numbers that is written as text, or nil.
func ofText(t reflect.Type) (names []string) {
	if t.Kind() != reflect.Uint8 {
		return nil
	}
	for n := range uint64(256) {
		v := reflect.New(t).Elem()
		v.SetUint(n)
		if text, err := v.Interface().(encoding.TextMarshaler).MarshalText(); err == nil {
			names = append(names, string(text))
		}
	}
	return names
}

// set returns a reference to the schema of a set of words.
func (d *document) set(name string, of []string) object {
	if of == nil {
		panic(fmt.Sprintf("no words are called %q", name))
	}
	d.add(name, object{"type": "string", "enum": of})
	return object{"$ref": components + name}
}
