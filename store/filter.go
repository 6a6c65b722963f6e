package store

// Filter selects runs. The zero Filter selects all but entities. Fields combine with
// "and", the elements of one field with "or". Only a filter with IDs, Nos, Workflows or
// Claimed selects entities (law 27).
type Filter struct {
	IDs       []string
	Nos       []RunNo
	IDPrefix  string
	Workflows []string
	Statuses  []Status
	Marks     Marks // all of these are set
	Parent    RunNo
	Tags      []Pair // of each key, the run has the tag with one of the values
	// Created in [CreatedFrom, CreatedBefore); 0 is open.
	CreatedFrom   Time
	CreatedBefore Time
	// Ended in [EndedFrom, EndedBefore); 0 is open. With one of them only runs that have
	// ended are selected.
	EndedFrom   Time
	EndedBefore Time
	// Claimed selects the runs that are claimed in one of these shards, whatever their status.
	// It costs what the shards' groups have claimed, not what the store has.
	Claimed []Shard

	// For List.
	Limit  int    // 0: 100; at most 10,000
	Cursor string // Page.Next of the page before
	Values bool   // with Input, Output and Waits
}

// Page is one page of a listing.
type Page struct {
	Runs []Run
	Next string // cursor of the next page; "": this is the last
}

// Tally counts runs.
type Tally struct {
	Workflow string
	Status   Status
	Runs     int64
}

// HidesEntities reports whether the filter leaves entities out.
func (f *Filter) HidesEntities() bool {
	return len(f.IDs)+len(f.Nos)+len(f.Workflows)+len(f.Claimed) == 0
}
