package api

import (
	"encoding/json"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Item is an item of the inbox of a run.
type Item struct {
	Kind     string    `json:"kind" words:"ItemKind"`
	Name     string    `json:"name,omitempty"`
	Location string    `json:"location,omitempty"` // of the operation that it is for; "": whichever takes it
	Sent     time.Time `json:"sent"`
	Size     int       `json:"size"` // of what is stored, in bytes
	Seen     bool      `json:"seen"` // by the run, which keeps it for later
	// By and Why say which identity has sent it, and its reason, if it has headers that say so.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
	// Value is that of a message or an update, if it is not large.
	Value json.RawMessage `json:"value,omitempty"`
}

// ItemOf returns the form of an item.
func ItemOf(it *store.Item) Item {
	i := Item{
		Kind: it.Kind.String(), Name: it.Name, Location: stet.LocationOf(it.Loc), Sent: it.Sent.Time(),
		Size: max(len(it.Value), it.Size), Seen: it.State == store.Seen,
	}
	var headers stet.Headers
	if len(it.Headers) > 0 && json.Unmarshal(it.Headers, &headers) == nil { // otherwise they say nothing
		i.By, i.Why = headers[byHeader], headers[whyHeader]
	}
	if it.Kind == store.ItemMessage || it.Kind == store.ItemUpdate {
		i.Value = Value(it.Value)
	}
	return i
}

// Edit edits the value, and what its headers say.
func (i *Item) Edit(e Editor) {
	e.text(&i.By)
	e.text(&i.Why)
	e.value(&i.Value)
}

// Inbox is what a run has not taken yet, in the order of arrival.
type Inbox struct {
	Items []Item `json:"items"`
}

// NamedValue is a value that a run shows under a name.
type NamedValue struct {
	Name  string          `json:"name"`
	At    time.Time       `json:"at"`
	Set   int64           `json:"set"` // how often
	Value json.RawMessage `json:"value,omitempty"`
}

// Edit edits the value.
func (v *NamedValue) Edit(e Editor) { e.value(&v.Value) }

// Stream is a stream that a run shows.
type Stream struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`   // of the last item
	Last int64     `json:"last"` // position
	// Dropped is how many items, the first ones, are gone.
	Dropped int64 `json:"dropped,omitempty"`
}

// FeedsOf returns the forms of what a run shows.
func FeedsOf(feeds []store.Feed) (values []NamedValue, streams []Stream) {
	for i := range feeds {
		f := &feeds[i]
		if f.Stream {
			streams = append(streams, Stream{f.Name, f.At.Time(), f.Last, f.Dropped})
		} else {
			values = append(values, NamedValue{f.Name, f.At.Time(), f.Last, Value(f.Value)})
		}
	}
	return values, streams
}

// Shown is what a run shows while it goes on.
type Shown struct {
	Values  []NamedValue `json:"values"`
	Streams []Stream     `json:"streams"`
}

// StreamItem is an item of a stream.
type StreamItem struct {
	Position int64           `json:"position"`
	At       time.Time       `json:"at"`
	Skipped  int64           `json:"skipped,omitempty"` // items before it that are gone
	Rewound  bool            `json:"rewound,omitempty"`
	Location string          `json:"location,omitempty"` // of the step whose body has emitted it
	Attempt  int             `json:"attempt,omitempty"`
	Again    bool            `json:"again,omitempty"` // the body is executed again
	Value    json.RawMessage `json:"value,omitempty"`
}

// StreamItemOf returns the form of an item.
func StreamItemOf(i *stet.StreamItem[stet.RawValue]) StreamItem {
	return StreamItem{
		Position: i.Position, At: i.At, Skipped: i.Skipped, Rewound: i.Rewound,
		Location: i.Location, Attempt: i.Attempt, Again: i.Again,
		Value: Value(i.Value.Bytes()),
	}
}

// Edit edits the value.
func (i *StreamItem) Edit(e Editor) { e.value(&i.Value) }

// StreamItems are items of a stream, in the order of their positions. Fewer than asked for
// do not mean that there are no more; none does.
type StreamItems struct {
	Items []StreamItem `json:"items"`
}

// Audit is an operator's act on a run.
type Audit struct {
	Time   time.Time `json:"time"`
	Who    string    `json:"who,omitempty"`
	Verb   string    `json:"verb"`
	Why    string    `json:"why,omitempty"`
	Detail string    `json:"detail,omitempty"`
	About  string    `json:"about,omitempty"` // in the store's own audit: as queue mail
}

// StoreAuditOf returns the form of an act on the store.
func StoreAuditOf(a *stet.AuditEntry) Audit {
	return Audit{Time: a.At, Who: a.By, Verb: a.Verb, Why: a.Why, About: a.About}
}

// AuditOf returns the form of an act.
func AuditOf(a *store.Audit) Audit {
	return Audit{Time: a.Time.Time(), Who: a.Who, Verb: a.Verb, Why: a.Why, Detail: a.Detail}
}

// Edit edits the reason, and the detail, which may quote an error.
func (a *Audit) Edit(e Editor) {
	e.text(&a.Why)
	e.text(&a.Detail)
}

// Audits are the acts on a run, oldest first, or a page of those on the store, newest first.
type Audits struct {
	Audit []Audit `json:"audit"`
	// Next is the cursor of the next page; "": this is the last.
	Next string `json:"next,omitempty"`
}

// Promise is a promise of a run.
type Promise struct {
	Run      string    `json:"run"`
	Location string    `json:"location"`
	State    string    `json:"state" words:"PromiseState"` // open, resolved or rejected
	At       time.Time `json:"at,omitzero"`
	Token    string    `json:"token,omitempty"` // for those who may operate
}

// PromiseOf returns the form of a promise, with its token.
func PromiseOf(p *stet.PromiseInfo) Promise {
	v := Promise{p.RunID, p.Location, "open", p.At, p.Token}
	switch {
	case p.Rejected:
		v.State = "rejected"
	case p.Assigned:
		v.State = "resolved"
	}
	return v
}

// Promises are the promises of a run.
type Promises struct {
	Promises []Promise `json:"promises"`
}

// Deletion says who has deleted a run.
type Deletion struct {
	At       time.Time    `json:"at"`
	ID       string       `json:"id"`
	Number   store.RunNo  `json:"number"`
	Workflow string       `json:"workflow"`
	Status   store.Status `json:"status"`
	By       string       `json:"by"`
	Reason   string       `json:"reason,omitempty"`
}

// DeletionOf returns the form of a deletion.
func DeletionOf(d *stet.Deletion) Deletion {
	return Deletion{d.At, d.RunID, d.Number, d.Workflow, d.Status, d.By, d.Why}
}

// Deletions are deletions of runs, newest first.
type Deletions struct {
	Deletions []Deletion `json:"deletions"`
}
