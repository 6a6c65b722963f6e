package api

import (
	"encoding/json"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Letter is a dead letter: something that was sent to a run and that nobody will receive.
type Letter struct {
	Number   store.ItemNo    `json:"number"`
	Kind     string          `json:"kind" words:"ItemKind"`
	Name     string          `json:"name,omitempty"`
	Run      string          `json:"run"`
	Workflow string          `json:"workflow"`
	Status   store.Status    `json:"status"`
	Sent     time.Time       `json:"sent"`
	Size     int             `json:"size"`
	Value    json.RawMessage `json:"value,omitempty"`
	Error    *Failure        `json:"error,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	By       string          `json:"by,omitempty"` // the identity that has sent it, of its header stet.by
}

// LetterOf returns the form of a dead letter.
func LetterOf(l *stet.DeadLetter) *Letter {
	v := &Letter{
		Number: l.Number, Kind: l.Kind.String(), Name: l.Name, Run: l.RunID, Workflow: l.Workflow, Status: l.Status,
		Sent: l.Sent, Size: l.Size, Value: Value(l.Value().Bytes()),
		Reason: l.Reason, By: l.Headers[byHeader],
	}
	if err := l.Err(); err != nil {
		v.Error = FailureOf(err)
	}
	return v
}

// Edit edits the value, and the texts of the error and the reason.
func (l *Letter) Edit(e Editor) {
	e.value(&l.Value)
	l.Error.Edit(e)
	e.text(&l.Reason)
	e.text(&l.By)
}

// Letters is a page of dead letters, newest first.
type Letters struct {
	Letters []*Letter `json:"letters"`
	Next    string    `json:"next,omitempty"` // cursor of the next page; "": this is the last
}
