package api_test

import (
	"strings"
	"testing"

	"github.com/stet-run/stet/api"
)

// FuzzPathSegment: each ID comes back from its segment, which has nothing that a proxy or a
// browser changes.
func FuzzPathSegment(f *testing.F) {
	ids := []string{"", ".", "..", "~", "~x", "order-1", "a/b", "%2F", "ü", "a b", "k-\x00", "stet.topic/jobs"}
	for _, id := range ids {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		segment := api.PathSegment(id)
		if segment == "" || segment == "." || segment == ".." || strings.ContainsAny(segment, "/%?#\\ \x00") {
			t.Fatalf("%q is written %q", id, segment)
		}
		if got, err := api.ParsePathSegment(segment); err != nil || got != id {
			t.Fatalf("%q is written %q, and read %q, %v", id, segment, got, err)
		}
		if got, err := api.ParseUnescaped(id); err == nil && strings.HasPrefix(id, "~") && api.PathSegment(got) == "" {
			t.Fatalf("%q is read as %q", id, got)
		}
	})
}
