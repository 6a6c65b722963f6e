package sqlstore

// Statements executes statements in one transaction: one of the store's own, or one that
// a caller has begun.
//
// The statements of this package are written for both databases. A store makes its own
// form of them:
//
//   - A table or an index is stet.name. Postgres puts its schema in front, SQLite the
//     prefix stet_.
//   - A parameter is $1, and greatest the larger of two numbers.
//   - ::type is for Postgres alone, /*sqlite … */ for SQLite alone.
//   - {suspended} is the number of a status, a mark, a kind or a state; see package words.
//
// Arguments are int, int64, bool, string, []byte (nil: NULL), Bytes, store.Time and nil.
type Statements interface {
	// Exec executes a statement that returns no rows, and returns how many it has changed.
	Exec(text string, args ...any) (changes int64, err error)
	// Row reads the columns of one row into dest: *int64, *string, *[]byte, *bool. It
	// reports false if there is no row.
	Row(text string, args []any, dest ...any) (found bool, err error)
}

// Bytes is a text that may hold any bytes: a bytea in Postgres, a TEXT in SQLite.
type Bytes string
