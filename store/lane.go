package store

// Laned is implemented by a store whose slots are on several servers, each of which can be
// away without the others. A lane is one of these servers with its slots. Methods of the
// store itself concern all lanes, and may fail if one is away. An engine works by the lanes: a store that
// wraps one with several has to have as many, see WrapLanes.
type Laned interface {
	// Lanes returns each lane as a store of its own, always the same ones. Describe,
	// Register, Acquire, Renew, Release, Claim, Commit and Sweep concern the slots of the lane
	// alone: no other server is asked, or waited for. What a Commit sends to a run of another
	// lane is answered as Posted. A command of a batch that is for a run of another lane is
	// Undecided; Apply carries it out. The other methods are those of the whole store.
	Lanes() []Store
	// LaneOf returns the index of the lane that has a slot.
	LaneOf(slot int) int
	// SlotOf returns the slot of a run.
	SlotOf(run RunNo) int
}

// LanesOf returns the lanes of a store. One that is not Laned has one.
func LanesOf(s Store) Laned {
	if l, ok := s.(Laned); ok && len(l.Lanes()) > 1 {
		return l
	}
	return oneLane{s}
}

// oneLane is a store on one server.
type oneLane struct{ Store }

func (s oneLane) Lanes() []Store   { return []Store{s.Store} }
func (s oneLane) LaneOf(int) int   { return 0 }
func (s oneLane) SlotOf(RunNo) int { return 0 }

// WrapLanes returns the lanes of a store that wraps another one: those of inner, each wrapped by
// wrap, which is called once for each. A wrapper embeds it beside the Store. One of a store on one server
// has one lane too, which nothing uses.
func WrapLanes(inner Store, wrap func(lane Store) Store) Laned {
	l := LanesOf(inner)
	w := wrappedLanes{Laned: l}
	for _, lane := range l.Lanes() {
		w.lanes = append(w.lanes, wrap(lane))
	}
	return w
}

type wrappedLanes struct {
	Laned
	lanes []Store
}

func (w wrappedLanes) Lanes() []Store { return w.lanes }
