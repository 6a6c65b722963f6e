package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// A connection has 256 MiB of memory, for its cache and for all that SQLite sorts or keeps for a while, because
// temp_store is MEMORY. When they are used up SQLite says so, and the driver panics.

// outOfMemory is the text of that panic, whose value the driver does not export.
const outOfMemory = "sqlite3: out of memory"

// bounded calls fn, in which the memory of a connection may be used up. That is the error sqlite3.NOMEM.
func bounded(fn func() error) (err error) {
	defer func() {
		switch r := recover(); {
		case r == nil:
		case fmt.Sprint(r) == outOfMemory:
			err = fmt.Errorf("%w: the connection has used up its memory", sqlite3.NOMEM)
		default:
			panic(r)
		}
	}()
	return fn()
}

// sortOnDisk makes the connection use temporary files in place of memory, or memory again: for what sorts a whole
// table. The connection is in no transaction.
func (c *conn) sortOnDisk(disk bool) error {
	where := "MEMORY"
	if disk {
		where = "FILE"
	}
	return c.Exec("PRAGMA temp_store=" + where)
}
