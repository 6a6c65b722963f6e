package acts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/store"
)

// TestStoredForms pins what stores have: an entry, and an item that is not entered yet.
func TestStoredForms(t *testing.T) {
	got, err := acts.Read(
		[]store.Entry{{
			Loc:   "000000000000000e",
			Value: []byte(`{"by":"ada","verb":"pause","about":"queue mail","why":"late","detail":"x","id":"1","at":7}`),
		}},
		[]store.Item{{No: 15, Kind: store.ItemMessage, Name: "act", Sent: 8, Value: []byte(`{"by":"bo","verb":"resume"}`)}},
	)
	want := []acts.Record{
		{By: "ada", Verb: "pause", About: "queue mail", Why: "late", Detail: "x", ID: "1", No: 14, At: 7},
		{By: "bo", Verb: "resume", No: 15, At: 8},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
