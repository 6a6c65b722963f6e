package stet

import (
	"encoding/json"
	"fmt"
)

// MarshalJSON returns the value as JSON, and null for none. A value of another codec, or one whose
// key or object is missing, is a text that says so.
func (r RawValue) MarshalJSON() ([]byte, error) {
	switch {
	case r.data == nil:
		return []byte("null"), nil
	case Unreadable(r.data) != nil:
		return json.Marshal(Unreadable(r.data).Error())
	case len(r.data) > 1 && r.data[0] == JSON.Format() && json.Valid(r.data[1:]):
		return r.data[1:], nil
	}
	return json.Marshal(fmt.Sprintf("%d bytes of another format", len(r.data)))
}

// IsZero reports whether there is no value. JSON with omitzero leaves it out then.
func (r RawValue) IsZero() bool { return r.data == nil }

// MarshalJSON returns the fields, those without a value left out: Input and Output as the values
// that they are, and of Unserved and Err the texts.
func (i RunInfo) MarshalJSON() ([]byte, error) {
	type fields RunInfo
	return json.Marshal(struct {
		fields
		Unserved string `json:",omitempty"`
		Err      string `json:",omitempty"`
	}{fields(i), errorText(i.Unserved), errorText(i.Err)})
}

// MarshalJSON returns the fields, and what Value, Messages and Err return, as Value, Messages and
// Err.
func (e HistoryEntry) MarshalJSON() ([]byte, error) {
	type fields HistoryEntry
	messages, err := e.Messages()
	if err == nil {
		err = e.Err()
	}
	return json.Marshal(struct {
		fields
		Value    RawValue          `json:",omitzero"`
		Messages []ReceivedMessage `json:",omitempty"`
		Err      string            `json:",omitempty"`
	}{fields(e), e.Value(), messages, errorText(err)})
}

// MarshalJSON returns the fields, and what Value and Err return, as Value and Err.
func (d DeadLetter) MarshalJSON() ([]byte, error) {
	type fields DeadLetter
	return json.Marshal(struct {
		fields
		Value RawValue `json:",omitzero"`
		Err   string   `json:",omitempty"`
	}{fields(d), d.Value(), errorText(d.Err())})
}

// MarshalJSON returns the fields, and of a value its content as Value.
func (f Feed) MarshalJSON() ([]byte, error) {
	type fields Feed
	return json.Marshal(struct {
		fields
		Value RawValue `json:",omitzero"`
	}{fields(f), f.content})
}

// MarshalJSON returns the fields, and the event's data as Value.
func (i EventInfo) MarshalJSON() ([]byte, error) {
	type fields EventInfo
	return json.Marshal(struct {
		fields
		Value RawValue `json:",omitzero"`
	}{fields(i), RawValue{i.value, i.codecs}})
}

// MarshalJSON returns the fields, with Input as the value that it is.
func (i ScheduleInfo) MarshalJSON() ([]byte, error) {
	type fields ScheduleInfo
	return json.Marshal(struct {
		fields
		Input RawValue `json:",omitzero"`
	}{fields(i), RawValue{data: i.Input}})
}

// errorText returns the text of an error, "" of nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
