package resources

import (
	"errors"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// FuzzCursor: what was sealed opens for the same list, query, order and limit, and for no other;
// whatever else opens, we would have sealed.
func FuzzCursor(f *testing.F) {
	all, some := &access.Identity{}, &access.Identity{Workflows: []string{"order"}}
	f.Add("", "7", "status=failed", "created")
	f.Add(binding("runs", "status=failed", "created", all).seal("7"), "7", "status=failed", "created")
	f.Add("AAAAAAAAAAAA", "\x00", "", "ended")
	f.Add("!", "a", "\x00", "")
	f.Fuzz(func(t *testing.T, text, cursor, query, order string) {
		b := binding("runs", query, order, all)
		if found, err := b.open(b.seal(cursor)); err != nil || found != cursor {
			t.Errorf("%q opens as %q, %v", cursor, found, err)
		}
		for what, other := range map[string]bound{
			"another list": binding("children", query, order, all), "another query": binding("runs", query+" ", order, all),
			"another order": binding("runs", query, order+" ", all), "another limit": binding("runs", query, order, some),
		} {
			if _, err := other.open(b.seal(cursor)); cursor != "" && !errors.Is(err, store.ErrBadCursor) {
				t.Errorf("%s opens %q: %v", what, cursor, err)
			}
		}
		if found, err := b.open(text); err == nil && b.seal(found) != text {
			t.Errorf("%q opens as %q, and that is sealed as %q", text, found, b.seal(found))
		} else if err != nil && !errors.Is(err, store.ErrBadCursor) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// FuzzBulkToken: the token of a preview opens for its identity until it expires; whatever else
// opens says a verb that a bulk has, in the name of who opens it.
func FuzzBulkToken(f *testing.F) {
	now := time.Unix(1_800_000_000, 0).UTC()
	who := &access.Identity{Name: "olga", Role: access.Operator}
	sealed := func(t bulkToken) string {
		text, err := t.seal(who)
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	good := bulkToken{BulkRequest: api.BulkRequest{Query: "status=failed", Verb: "retry"}, Who: "olga", Newest: 7,
		Expires: now.Add(time.Minute)}
	verb, name, late := good, good, good
	verb.Verb, name.Who, late.Expires = "explode", "ada", now
	for _, t := range []bulkToken{good, verb, name, late} {
		f.Add(sealed(t), "status=failed", "retry")
	}
	f.Add("", "", "")
	f.Add("AAAA", "\xff", "cancel")
	f.Fuzz(func(t *testing.T, text, query, v string) {
		found, err := openBulk(text, who, now)
		switch {
		case err != nil && !errors.Is(err, stet.ErrInvalid):
			t.Errorf("%q: %v", text, err)
		case err == nil && (found.Who != who.Name || bulkVerbs[found.Verb] == nil || !now.Before(found.Expires)):
			t.Errorf("%q opens as %+v", text, found)
		}
		made := bulkToken{BulkRequest: api.BulkRequest{Query: query, Verb: v}, Who: who.Name, Expires: now.Add(time.Second)}
		if text, err = made.seal(who); err != nil {
			t.Fatal(err)
		}
		if found, err = openBulk(text, who, now); (err == nil) != (bulkVerbs[v] != nil) {
			t.Errorf("verb %q: %+v, %v", v, found, err)
		}
		for what, other := range map[string]*access.Identity{
			"another name": {Name: "ada", Role: who.Role}, "another role": {Name: who.Name, Role: access.Administrator},
			"another limit": {Name: who.Name, Role: who.Role, Workflows: []string{"order"}},
		} {
			if _, err := openBulk(text, other, now); err == nil {
				t.Errorf("%s opens %q", what, text)
			}
		}
	})
}
