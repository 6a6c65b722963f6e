package api

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stet-run/stet"
)

// Failure is an error, with those it wraps.
type Failure struct {
	Message  string     `json:"message"`
	Code     string     `json:"code,omitempty"`
	Location string     `json:"location,omitempty"` // of a step
	Attempts int        `json:"attempts,omitempty"` // of a step
	Stack    string     `json:"stack,omitempty"`    // of a panic
	Causes   []*Failure `json:"causes,omitempty"`   // of a step: of its last attempts, oldest first
}

// FailureOf returns the form of an error: the whole failure, if it is one that is recorded.
func FailureOf(err error) *Failure {
	if failure := (*stet.FailureRecord)(nil); errors.As(err, &failure) {
		return failureOf(failure)
	}
	return &Failure{Message: err.Error()}
}

func failureOf(f *stet.FailureRecord) *Failure {
	v := &Failure{Message: f.Message, Code: f.Code, Location: f.Location, Attempts: f.Attempts, Stack: f.Stack}
	if f.Cause != nil {
		v.Causes = append(v.Causes, failureOf(f.Cause))
	}
	for _, cause := range f.Causes {
		v.Causes = append(v.Causes, failureOf(cause))
	}
	return v
}

// Edit edits the texts; codes, locations and numbers of attempts stay. Of nil it does nothing.
func (f *Failure) Edit(e Editor) {
	if f == nil {
		return
	}
	e.text(&f.Message)
	e.text(&f.Stack)
	for _, cause := range f.Causes {
		cause.Edit(e)
	}
}

// String returns the failure with its causes and stacks for people, in lines.
func (f *Failure) String() string {
	var text strings.Builder
	f.write(&text, "")
	return text.String()
}

func (f *Failure) write(text *strings.Builder, indent string) {
	lines := func(s string) {
		for line := range strings.Lines(strings.TrimSpace(s)) {
			fmt.Fprintf(text, "%s%s\n", indent, strings.TrimSuffix(line, "\n"))
		}
	}
	lines(f.Message)
	if f.Stack != "" {
		lines(f.Stack)
	}
	for i, cause := range f.Causes {
		if f.Attempts > 0 {
			fmt.Fprintf(text, "%sattempt %d:\n", indent, f.Attempts-len(f.Causes)+i+1)
			cause.write(text, indent+"  ")
			continue
		}
		for _, news := range cause.beyond(f.Message) {
			fmt.Fprintf(text, "%scaused by:\n", indent)
			news.write(text, indent+"  ")
		}
	}
}

// beyond returns the failure, or those of its causes that say more than the message.
func (f *Failure) beyond(message string) (news []*Failure) {
	if f.Stack != "" || f.Attempts > 0 || !strings.Contains(message, strings.TrimSpace(f.Message)) {
		return []*Failure{f}
	}
	for _, cause := range f.Causes {
		news = append(news, cause.beyond(message)...)
	}
	return news
}
