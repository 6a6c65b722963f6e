package api

// LiveEvents says what the data of each event of the stream is, by the event's name.
type LiveEvents struct {
	Run   Run      `json:"run"`
	Entry RunEntry `json:"entry"`
	Inbox RunInbox `json:"inbox"`
	Value RunValue `json:"value"`
	Item  RunItem  `json:"item"`
	Page  LivePage `json:"page"`
	Nodes Nodes    `json:"nodes"`
	Reset RunReset `json:"reset"`
}

// RunReset is an event: what is known of the entries and items of a run is void, because it was
// taken back, has continued as new, or another one has its ID.
type RunReset struct {
	RunID string `json:"run_id"`
}

// RunEntry is an event entry of a stream: an entry of a run that is new, or stands otherwise.
// It is without its value.
type RunEntry struct {
	RunID string `json:"run_id"`
	Entry *Entry `json:"entry"`
}

// RunInbox is what a run has not taken, in the stream of events.
type RunInbox struct {
	RunID string `json:"run_id"`
	Inbox
}

// RunValue is a value that a run shows, in the stream of events.
type RunValue struct {
	RunID string `json:"run_id"`
	NamedValue
}

// RunItem is an item of a run's stream, in the stream of events.
type RunItem struct {
	RunID  string `json:"run_id"`
	Stream string `json:"stream"`
	StreamItem
}

// LivePage is an event page of a stream: the first page of a list of runs that is followed.
type LivePage struct {
	Query string `json:"query"`
	Runs  []*Run `json:"runs"`
}
