package store

import "strconv"

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
	// ParentID names the parent by its ID, or by its number as text if no run has that as its ID. A store refuses a
	// filter that has it: ResolveParent puts the number in its place.
	ParentID string
	Tags     []Pair // of each key, the run has the tag with one of the values
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

	// For Count. Above 0: of each status, in the order of workflows, Count stops at Most+1
	// runs. So a status whose sum is up to Most is counted exactly, and one whose sum is above
	// has more than Most. 0: all are counted, which reads them all.
	Most int

	// For List.
	ByEnded bool   // only runs that have ended, the last one first; of one moment the newest
	Limit   int    // 0: 100; at most 10,000
	Cursor  string // Page.Next of the page before
	Values  bool   // with Input, Output and Waits
	// Longest leaves large values out of a list with Values: each Input, and each Output of a run that has
	// succeeded, that has more bytes. InputSize and OutputSize say how many. 0: none is left out; -1: all are.
	Longest int
}

// Keeps reports whether a list by the filter has the input of a run, and its output. It needs the run's Status and
// sizes.
func (f *Filter) Keeps(r *Run) (input, output bool) {
	fits := func(size int) bool { return f.Longest == 0 || size <= f.Longest }
	return f.Values && fits(r.InputSize), f.Values && (r.Status != Succeeded || fits(r.OutputSize))
}

// Trim takes from a run what a list by the filter leaves out.
func (f *Filter) Trim(r *Run) {
	input, output := f.Keeps(r)
	if !input {
		r.Input = nil
	}
	if !output {
		r.Output = nil
	}
	if !f.Values {
		r.Waits = nil
	}
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

// ResolveParent puts the number of the run that ParentID names in its place. find returns the number of the run with an
// ID, or 0 if there is none. found is false if ParentID names no run and is no number.
func (f *Filter) ResolveParent(find func(id string) (RunNo, error)) (found bool, err error) {
	if f.ParentID == "" {
		return true, nil
	}
	no, err := find(f.ParentID)
	if err != nil {
		return false, err
	}
	if no == 0 {
		number, err := strconv.ParseInt(f.ParentID, 10, 64)
		if err != nil || number < 1 {
			return false, nil
		}
		no = RunNo(number)
	}
	f.Parent, f.ParentID = no, ""
	return true, nil
}

// Plain reports whether the filter selects by nothing but workflows and statuses, so that
// the listing of each workflow and status has what it selects.
func (f *Filter) Plain() bool {
	return len(f.IDs)+len(f.Nos)+len(f.Claimed)+len(f.Tags) == 0 && f.IDPrefix+f.ParentID == "" && f.Marks == 0 &&
		f.Parent == 0 && f.CreatedFrom|f.CreatedBefore|f.EndedFrom|f.EndedBefore == 0
}

// HidesEntities reports whether the filter leaves entities out.
func (f *Filter) HidesEntities() bool {
	return len(f.IDs)+len(f.Nos)+len(f.Workflows)+len(f.Claimed) == 0
}
