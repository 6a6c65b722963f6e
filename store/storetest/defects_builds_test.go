package storetest

import (
	"context"
	"slices"

	"github.com/stet-run/stet/store"
)

// updates changes the updates of turns.
func updates(change func(*store.Update)) func(*broken, context.Context, store.Batch) (store.BatchResult, error) {
	return turns(func(_ *broken, _ context.Context, t *store.Turn) {
		if t.Update != nil {
			u := *t.Update
			change(&u)
			t.Update = &u
		}
	})
}

func init() {
	type claim = func(*broken, context.Context, store.ClaimRequest) (store.Claims, error)
	asked := func(change func(*store.ClaimRequest)) claim {
		return func(b *broken, ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			change(&req)
			return b.Store.Claim(ctx, req)
		}
	}
	registers := func(change func(*store.Node)) func(*broken, context.Context, store.Node) (store.Time, error) {
		return func(b *broken, ctx context.Context, n store.Node) (store.Time, error) {
			change(&n)
			return b.Store.Register(ctx, n)
		}
	}
	defects = append(defects,
		&defect{name: "a build is not raised", commit: updates(func(u *store.Update) { u.Build = "" })},
		&defect{name: "a build is never taken away", commit: updates(func(u *store.Update) { u.AnyBuild = false })},
		&defect{name: "a start's build is forgotten",
			commit: func(b *broken, ctx context.Context, batch store.Batch) (store.BatchResult, error) {
				batch.Commands = slices.Clone(batch.Commands)
				for i := range batch.Commands {
					if c := &batch.Commands[i]; c.Start != nil && c.Start.Fork == nil {
						start := *c.Start
						start.Build, c.Start = "", &start
					}
				}
				return b.Store.Commit(ctx, batch)
			}},
		&defect{name: "a run's own retention is forgotten", commit: updates(func(u *store.Update) { u.Keep = 0 })},
		&defect{name: "a run is not given back", commit: updates(func(u *store.Update) { u.Unclaim = false })},
		&defect{name: "a claim takes runs of any build", claim: asked(func(r *store.ClaimRequest) { r.Build = "" })},
		&defect{name: "a claim does not tell what it leaves",
			claim: asked(func(r *store.ClaimRequest) { r.Unservable = false })},
		&defect{name: "a claim reports the runs that it leaves without a request for that",
			claim: asked(func(r *store.ClaimRequest) { r.Unservable = true })},
		&defect{name: "a node's groups are forgotten", register: registers(func(n *store.Node) { n.Groups = nil })},
		&defect{name: "a node's needs are forgotten", register: registers(func(n *store.Node) { n.Requirements = nil })},
		&defect{name: "a node's bodies are forgotten", register: registers(func(n *store.Node) { n.Bodies = nil })},
		&defect{name: "a node's tasks are forgotten", found: "Law26/TheMarkStays",
			register: registers(func(n *store.Node) { n.Tasks = nil })},
		&defect{name: "the digest of a node's zones is forgotten", found: "Law26/TheMarkStays",
			register: registers(func(n *store.Node) { n.Zones = "" })},
		&defect{name: "what a node lacks is forgotten", found: "Law26/TheMarkStays",
			register: registers(func(n *store.Node) { n.Lacks = nil })},
		&defect{name: "the nodes whose shards a node has taken are forgotten", found: "Law26/TheMarkStays",
			register: registers(func(n *store.Node) { n.Lost = nil })},
		&defect{name: "the nodes whose shards a node has taken stay", found: "Law26/TheMarkStays",
			register: func(b *broken, ctx context.Context, n store.Node) (store.Time, error) {
				if d, err := b.Store.Describe(ctx); err == nil && !n.Draining {
					for _, former := range d.Nodes {
						if former.ID == n.ID && former.Boot == n.Boot && len(n.Lost) == 0 {
							n.Lost = former.Lost
						}
					}
				}
				return b.Store.Register(ctx, n)
			}},
		&defect{name: "the length of a node's leases is forgotten", register: registers(func(n *store.Node) { n.TTL = 0 })},
		&defect{name: "a node is not to be drained",
			register: func(b *broken, ctx context.Context, n store.Node) (store.Time, error) {
				if n.Draining && !n.Stopped {
					d, err := b.Store.Describe(ctx)
					return d.Now, err
				}
				return b.Store.Register(ctx, n)
			}},
		&defect{name: "a node that is to be drained is registered",
			register: registers(func(n *store.Node) { n.Draining = false })},
	)
}
