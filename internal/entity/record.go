package entity

import (
	"bytes"
	"strconv"

	"github.com/stet-run/stet/store"
)

// recordMark begins the headers of an item whose value begins with a record; the length of the
// record follows. What others write into headers is JSON, and begins otherwise.
const recordMark = "record "

// Attach puts a record of who asks and why into an item, before its value: both are one value
// of the store, encrypted alike, and durable in one act. Nil attaches nothing.
func Attach(it *store.Item, record []byte) {
	if record == nil {
		return
	}
	it.Headers = strconv.AppendInt([]byte(recordMark), int64(len(record)), 10)
	it.Value = append(append(make([]byte, 0, len(record)+len(it.Value)), record...), it.Value...)
}

// Detach is the inverse of Attach: it leaves the value as it was, and the record in place of the
// headers. It returns the record; nil: the item has none. Rules get their items detached.
func Detach(it *store.Item) []byte {
	digits, marked := bytes.CutPrefix(it.Headers, []byte(recordMark))
	if !marked {
		return nil
	}
	it.Headers = nil
	if n, err := strconv.Atoi(string(digits)); err == nil && n > 0 && n <= len(it.Value) {
		it.Headers, it.Value = it.Value[:n:n], it.Value[n:]
		if it.Size >= n {
			it.Size -= n
		}
	}
	return it.Headers
}
