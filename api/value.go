package api

import (
	"encoding/json"
	"fmt"

	"github.com/stet-run/stet"
)

// Value returns a stored value as JSON, without the byte that says that it is JSON. Of a
// value in another format, or one that is sealed and whose key is missing, it returns a JSON
// text that says so; of no value nil.
func Value(stored []byte) json.RawMessage {
	if stored == nil {
		return nil
	}
	if missing := stet.Unreadable(stored); missing != nil {
		return quoted(missing.Error())
	}
	if len(stored) > 1 && stored[0] == stet.JSON.Format() && json.Valid(stored[1:]) {
		return stored[1:]
	}
	return quoted(fmt.Sprintf("%d bytes of another format", len(stored)))
}

// quoted returns a text as JSON.
func quoted(text string) json.RawMessage {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text always encodes
	}
	return data
}

// Redacted stands in place of a value that the reader may not see.
type Redacted struct {
	Redacted bool `json:"redacted"` // true
	Bytes    int  `json:"bytes"`    // length of the value: as JSON if it was read, otherwise as it is stored
}

// Cut replaces a value that is too large for a page. It is read by itself.
type Cut struct {
	Cut   bool `json:"cut"`   // true
	Bytes int  `json:"bytes"` // length of the value: as JSON if it was read, otherwise as it is stored
}

// Editor changes the values of what is shown: inputs, results, messages, heartbeats, and the
// texts of headers, errors and stacks. Neither function is called for what is not there.
type Editor struct {
	Value func(value json.RawMessage) json.RawMessage
	Text  func(text string) string
}

// Redaction takes values away: in their place stands a Redacted, and in the place of a text
// how long it was.
var Redaction = Editor{
	Value: func(value json.RawMessage) json.RawMessage {
		data, err := json.Marshal(Redacted{true, len(value)})
		if err != nil {
			panic(err) // a flag and a number always encode
		}
		return data
	},
	Text: func(text string) string { return fmt.Sprintf("[redacted, %d bytes]", len(text)) },
}

func (e Editor) value(value *json.RawMessage) {
	if *value != nil {
		*value = e.Value(*value)
	}
}

func (e Editor) text(text *string) {
	if *text != "" {
		*text = e.Text(*text)
	}
}

// headers replaces headers by edited ones; the map that was there stays as it is.
func (e Editor) headers(headers *stet.Headers) {
	if *headers == nil {
		return
	}
	out := make(stet.Headers, len(*headers))
	for key, value := range *headers {
		e.text(&value)
		out[key] = value
	}
	*headers = out
}
