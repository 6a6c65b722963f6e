package api

import "time"

// BulkRequest asks what a verb would reach if it were used on all runs that match.
type BulkRequest struct {
	Query string `json:"query"`                 // a filter, as stet ls takes it; empty: all runs
	Verb  string `json:"verb" words:"BulkVerb"` // cancel, terminate, pause, resume, nudge or retry
	Act
}

// BulkPreview says which runs a bulk reaches; nothing has happened yet.
type BulkPreview struct {
	// Token is what the bulk takes. It stands for the query, the verb, its arguments, the
	// identity, and the newest run that matched: runs that start later are not touched.
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
	Runs    int       `json:"runs"`           // that match, up to 1000
	More    bool      `json:"more,omitempty"` // more than Runs match
	// Examples are the newest ones, up to 20.
	Examples []BulkExample `json:"examples"`
}

// BulkExample is a run that a bulk reaches.
type BulkExample struct {
	ID       string `json:"id"`
	Workflow string `json:"workflow"`
	Status   string `json:"status" words:"Status"`
}

// Bulk acts on the runs of a preview.
type Bulk struct {
	Token string `json:"token"`
}

// BulkResult is what became of one run; the answer to a bulk is a line with one as JSON for
// each, and a line with a BulkEnd at the end.
type BulkResult struct {
	ID      string `json:"id"`
	Done    bool   `json:"done,omitempty"`    // the owner has granted it
	Pending bool   `json:"pending,omitempty"` // nobody has decided yet: the request stands
	Code    string `json:"code,omitempty"`    // of the error; "": there was none
	Detail  string `json:"detail,omitempty"`  // of the error
}

// BulkEnd is the last line of a bulk. An answer without one was cut off: some runs after the
// last line may have been acted on. A repetition with the same token goes over what is left.
type BulkEnd struct {
	End     bool `json:"end"`
	Done    int  `json:"done"`
	Pending int  `json:"pending"`
	Refused int  `json:"refused"`
	// More says that the bulk has ended before the last run, at its limit of 10,000 runs or
	// for the reason in Code.
	More   bool   `json:"more,omitempty"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}
