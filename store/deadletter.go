package store

// DeadFilter selects dead letters. The zero DeadFilter selects all. Fields
// combine with "and", the elements of one field with "or".
type DeadFilter struct {
	Nos       []ItemNo
	RunIDs    []string
	Workflows []string // of the runs
	Names     []string // of messages

	Limit  int    // 0: 100; at most 10,000
	Cursor string // DeadPage.Next of the page before
	Values bool   // with the items' values
}

// DeadLetter is an item that no run will take, and the run to which it was sent.
type DeadLetter struct {
	Run         RunNo
	RunID       string
	Workflow    string
	Status      Status
	Incarnation int // of the run
	Item        Item
	Size        int // length of the item's value, which a listing may leave out
}

// DeadPage is one page of dead letters.
type DeadPage struct {
	Letters []DeadLetter
	Next    string // cursor of the next page; "": this is the last
}

// Bounds validates the filter. It returns the number of letters in a page and the
// item number below which the page begins, 0 for the first page.
func (f *DeadFilter) Bounds() (limit int, below ItemNo, err error) {
	runs := Filter{Limit: f.Limit, Cursor: f.Cursor}
	limit, run, err := runs.Bounds()
	return limit, ItemNo(run), err
}
