package view

import (
	"encoding/json"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

const (
	// listed is how many bytes a value has in a page, and shortened in one whose values have pageBytes before it. A
	// larger one is cut, and not read.
	listed, shortened = 64 << 10, 1 << 10
	pageBytes         = 8 << 20
	// recorded is how many bytes a record has that is read for a caller that may not read values: of those that say
	// which run, topic or message they are about, or with which code something has failed.
	recorded = store.LargeValue - 1
	// none is the bound of store.Filter.Longest by which no value is read.
	none = -1
)

// values reports whether the identity may read values.
func (v *View) values() bool { return v.who.Role.May(access.Values) }

// unread returns what replaces a value of so many bytes that was not read.
func (v *View) unread(size int) json.RawMessage {
	if v.values() {
		return form(api.Cut{Cut: true, Bytes: size})
	}
	return form(api.Redacted{Redacted: true, Bytes: size})
}

func form(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // a flag and a number always encode
	}
	return data
}

// room is how many bytes a page has left for values.
type room int

// fit cuts a value that is too large for the page.
func (r *room) fit(value *json.RawMessage) {
	most := listed
	if *r <= 0 {
		most = shortened
	}
	if len(*value) > most {
		*value = form(api.Cut{Cut: true, Bytes: len(*value)})
	}
	*r -= room(len(*value))
}

// takes reports whether a value of so many bytes is to be read for the page.
func (r *room) takes(size int) bool {
	most := listed
	if *r <= 0 {
		most = shortened
	}
	if size > most {
		return false
	}
	*r -= room(size)
	return true
}
