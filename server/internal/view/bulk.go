package view

import (
	"context"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// Bulk is what an identity may act on by a filter.
type Bulk struct{ *View }

// Matching returns a page of the runs within the limit that match a filter, for what decides
// by them: no value of theirs is read.
func (v Bulk) Matching(ctx context.Context, f store.Filter) (runs []stet.RunInfo, next string, err error) {
	f.Values = false
	if !withoutEntities(&f) || !restrict(v.who, &f) {
		return nil, "", nil
	}
	found, next, err := v.engine.Runs().List(ctx, f)
	for i := range found {
		if v.who.Sees(found[i].Workflow) && !store.IsEntity(found[i].Workflow) {
			runs = append(runs, found[i])
		}
	}
	return runs, next, err
}

// MayAct refuses arguments of a verb that the limit does not allow.
func (v Bulk) MayAct(a api.Act) error { return mayAct(v.who, a) }

func mayAct(who *access.Identity, a api.Act) error {
	if a.Children && who.Limited() {
		return Denied("an identity with a limit cannot act on children, which may be runs of other workflows")
	}
	return nil
}
