package plan

import "time"

// Ahead is how far nodes may be ahead of the store's time whose clocks went faster than clock.Drift allows. What the
// store answers corrects them, but their bound does not go back: it stands until the store is there.
func (p *Plan) Ahead(at time.Duration) (by time.Duration) {
	for _, f := range p.Faults {
		if f.Kind != Drift || f.Share <= 1 || f.At >= at {
			continue
		}
		gone := time.Duration((f.Share - 1) * float64(min(f.Lasts, at-f.At)))
		if at < f.At+f.Lasts+p.uncorrected()+gone {
			by += gone
		}
	}
	return by
}

// uncorrected is how long a node may go without an answer of the store that comes soon enough to
// correct its clock. One that gets none drops its shards before its leases end.
func (p *Plan) uncorrected() (most time.Duration) {
	for i := range p.Nodes {
		most = max(most, p.Nodes[i].LeaseTTL)
	}
	for _, f := range p.Faults {
		switch f.Kind {
		case Freeze, Twin, StoreLag, Away, Slow, Cut, Mute, Lose, Unheard, Refuse:
			most += f.Lasts
		}
	}
	return most
}
