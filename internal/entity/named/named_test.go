package named_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/entity/named"
	"github.com/stet-run/stet/store"
)

type thing struct {
	Name  string `json:"name"`
	Value int    `json:"value"`
}

var things = named.Things[thing]{ID: "stet.x/all", Set: "set", Remove: "remove",
	Name: func(t *thing) string { return t.Name }}

// TestRead: entries count, then items in their order, whatever else was sent.
func TestRead(t *testing.T) {
	message := func(name, value string) store.Item {
		return store.Item{Kind: store.ItemMessage, Name: name, Value: []byte(value)}
	}
	entries := []store.Entry{{Loc: "1", Value: []byte(`{"name":"a","value":1}`)},
		{Loc: "2", Value: []byte(`{"name":"b","value":2}`)}}
	for name, c := range map[string]struct {
		inbox []store.Item
		want  []thing
	}{
		"entered":             {nil, []thing{{"a", 1}, {"b", 2}}},
		"set in place of one": {[]store.Item{message("set", `{"name":"a","value":3}`)}, []thing{{"a", 3}, {"b", 2}}},
		"removed":             {[]store.Item{message("remove", `"b"`)}, []thing{{"a", 1}}},
		"removed and set again": {[]store.Item{message("remove", `"a"`), message("set", `{"name":"a"}`)},
			[]thing{{"a", 0}, {"b", 2}}},
		"an unknown one is removed": {[]store.Item{message("remove", `"c"`)}, []thing{{"a", 1}, {"b", 2}}},
		"other items": {[]store.Item{message("rename", `"a"`), {Kind: store.ItemNudge, Name: "remove"}},
			[]thing{{"a", 1}, {"b", 2}}},
	} {
		if got, err := things.Read(entries, c.inbox); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: expected %v, found %v, %v", name, c.want, got, err)
		}
	}
	for _, damaged := range []store.Item{message("set", `{`), message("remove", `{}`)} {
		if _, err := things.Read(entries, []store.Item{damaged}); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s %s: expected store.ErrDamaged, found %v", damaged.Name, damaged.Value, err)
		}
	}
	if _, err := things.Read([]store.Entry{{Loc: "1", Value: []byte("x")}}, nil); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a damaged entry: expected store.ErrDamaged, found %v", err)
	}
}
