package history

import "github.com/stet-run/stet/store"

// Forsake returns the entries and commands of the turn that ends a run whose code does
// not run. Its waits at topics are withdrawn, its permits are given back, and nobody
// awaits the children that Orphans cancels.
func Forsake(entries []store.Entry) (ended []store.Entry, sends []store.Command) {
	var last int64
	for i := range entries {
		last = max(last, entries[i].Seq)
	}
	for i := range entries {
		if e, with, ok := of(&entries[i]).forsake(&entries[i], last); ok {
			ended, sends = append(ended, e), append(sends, with...)
		}
	}
	return ended, sends
}
