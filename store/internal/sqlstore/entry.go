package sqlstore

import "github.com/stet-run/stet/store"

// EqualEntries reports whether two entries are the same but for their location. A nil
// value differs from an empty one.
func EqualEntries(a, b *store.Entry) bool {
	return a.Kind == b.Kind && a.State == b.State && a.Seq == b.Seq && a.Born == b.Born &&
		a.At == b.At && a.Wake == b.Wake && a.Attempt == b.Attempt && a.Owes == b.Owes &&
		a.Generation == b.Generation && a.Started == b.Started && a.Ended == b.Ended &&
		string(a.Value) == string(b.Value) && (a.Value == nil) == (b.Value == nil)
}
