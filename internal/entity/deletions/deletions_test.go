package deletions_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stet-run/stet/internal/entity/deletions"
	"github.com/stet-run/stet/store"
)

// TestStoredForms pins what stores have: an entry, and an item that is not entered yet.
func TestStoredForms(t *testing.T) {
	got, err := deletions.Read(
		[]store.Entry{{
			Loc:   "000000000000000e",
			Value: []byte(`{"by":"ada","why":"old","runs":[{"id":"a","no":7,"workflow":"w","status":"failed"}],"at":7}`),
		}},
		[]store.Item{{No: 15, Kind: store.ItemMessage, Name: "deleted", Sent: 8, Value: []byte(`{"by":"bo","runs":null}`)}},
	)
	want := []deletions.Record{
		{By: "ada", Why: "old", Runs: []deletions.Run{{ID: "a", No: 7, Workflow: "w", Status: store.Failed}}, At: 7},
		{By: "bo", At: 8},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
