package api

// RunEntry is an event entry of a stream: an entry of a run that is new, or stands otherwise.
// It is without its value.
type RunEntry struct {
	RunID string `json:"run_id"`
	Entry *Entry `json:"entry"`
}

// LivePage is an event page of a stream: the first page of a list of runs that is followed.
type LivePage struct {
	Query string `json:"query"`
	Runs  []*Run `json:"runs"`
}
