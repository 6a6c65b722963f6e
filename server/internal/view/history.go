package view

import (
	"context"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// History returns a page of the entries of a run, in the order of locations, and whether there are more: a page has
// q.Limit entries at most, and ends with the one whose value exceeds pageBytes. Values above listed are cut. Of the
// entries at given locations, q.At, those are cut that have no room in pageBytes.
func (v *View) History(
	ctx context.Context, runID string, q stet.HistoryQuery,
) (entries []*api.Entry, more bool, err error) {
	info, err := v.find(ctx, runID)
	if err != nil {
		return nil, false, err
	}
	e, edited := v.editor(info.Workflow, "entry")
	edit := func(o *api.Entry) {
		if edited {
			o.Edit(e)
		}
	}
	q.Run = info
	values, limit := q.Values || q.At != nil, q.Limit
	if q.Values = false; limit > 0 {
		q.Limit++
	}
	found, err := v.engine.Runs().History(ctx, runID, q)
	if err != nil {
		return nil, false, err
	}
	if limit > 0 && len(found) > limit {
		found, more = found[:limit], true
	}
	if !values {
		entries = make([]*api.Entry, len(found))
		for i := range found {
			entries[i] = api.EntryOf(&found[i])
		}
		return entries, more, fillTries(ctx, v.engine, info, entries, edit)
	}
	space := room(pageBytes)
	wanted := []string{}
	for i := range found {
		o := &found[i]
		switch {
		case o.Size == 0 || !v.values() && !tells(o):
			continue
		case q.At != nil && v.values():
			if room(o.Size) > space {
				continue
			}
			space -= room(o.Size)
		case !space.takes(o.Size):
			continue
		}
		wanted = append(wanted, o.Location)
		if q.At == nil && space <= 0 && i+1 < len(found) {
			found, more = found[:i+1], true
			break
		}
	}
	entries = make([]*api.Entry, 0, len(found))
	full := map[string]*stet.HistoryEntry{}
	if len(wanted) > 0 {
		read, err := v.engine.Runs().History(ctx, runID, stet.HistoryQuery{Values: true, At: wanted, Run: info})
		if err != nil {
			return nil, false, err
		}
		for i := range read {
			full[read[i].Location] = &read[i]
		}
	}
	for i := range found {
		o := &found[i]
		read := full[o.Location]
		if read != nil {
			o = read
		}
		entry := api.EntryOf(o)
		edit(entry)
		switch {
		case read == nil && o.Size > 0 && o.State == store.Done && valued[o.Kind]:
			entry.Value = v.unread(o.Size)
		case q.At == nil: // it may have grown, or be stored in less
			space := room(pageBytes)
			space.fit(&entry.Value)
			for i := range entry.Messages {
				space.fit(&entry.Messages[i].Value)
			}
		}
		entries = append(entries, entry)
	}
	return entries, more, nil
}

// valued are the kinds of operations whose record, once they are done, is a value that is shown.
var valued = map[store.Kind]bool{
	store.KindStep: true, store.KindReceive: true, store.KindPromise: true, store.KindLoop: true, store.KindChild: true,
	store.KindRun: true, store.KindEvent: true,
}

// tells reports whether an entry is read for a caller that may not read its value: for the code of a failure, and the
// names of what it is about. A record that is large is a value.
func tells(o *stet.HistoryEntry) bool {
	switch {
	case o.State == store.FailedEntry:
		return true
	case o.Size > recorded:
		return false
	case o.State == store.Done && (o.Kind == store.KindStep || o.Kind.Undoes()):
		return o.Attempts > 1
	case o.State == store.Done && o.Kind == store.KindLoop:
		return false
	}
	return true
}

// entry returns the entry at a location with its whole value.
func (v *View) entry(ctx context.Context, runID, location string) (*api.Entry, error) {
	info, err := v.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	found, err := v.engine.Runs().History(ctx, runID, stet.HistoryQuery{Values: true, At: []string{location}, Run: info})
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, notFound("entry", location)
	}
	entry := api.EntryOf(&found[0])
	if e, edited := v.editor(info.Workflow, "entry"); edited {
		entry.Edit(e)
	}
	return entry, nil
}
