package torture

import (
	"context"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// ended is an item of a run's stream: a node of its program that has ended, and a value over all that have ended so
// far, in their order. So each item shows whether one before it is missing, or is there twice.
type ended struct {
	Node  int    `json:"node"`
	Order uint64 `json:"order"`
}

var (
	ends      = stet.Stream[ended](prefix + "ends")
	lastOrder = stet.Value[uint64](prefix + "order")
)

// show appends the end of a node to the stream.
func (e *execution) show(ctx stet.Context, n *node) error {
	if err := ends.Append(ctx, ended{n.id, e.order}); err != nil {
		return err
	}
	if e.plants.has(plantRepeat) {
		if err := ends.Append(ctx, ended{n.id, e.order}); err != nil {
			return err
		}
	}
	return lastOrder.Set(ctx, e.order)
}

// checkStream checks that a run has shown each end once, in order.
func (a *audit) checkStream(ctx context.Context, r *store.Run) error {
	var order uint64
	position := int64(0)
	for {
		items, err := ends.Items(ctx, a.client.engine, r.ID, position, store.MaxPage)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			break
		}
		for _, item := range items {
			if position++; item.Position != position || item.Value.Order != mix(order, uint64(item.Value.Node)) {
				a.report.violated(brokenStreams, "run %s: item %d says that node %d has ended, and does not follow the one before",
					r.ID, item.Position, item.Value.Node)
				return nil
			}
			order = item.Value.Order
		}
	}
	a.report.count("items of streams", int(position))
	last, _, err := lastOrder.Get(ctx, a.client.engine, r.ID)
	if err != nil {
		return err
	}
	out := a.outputs[r.ID]
	if last != order || out != nil && out.Order != order {
		a.report.violated(brokenStreams, "run %s: the stream ends with %d, the value is %d, the result %+v",
			r.ID, order, last, out)
	}
	return nil
}
