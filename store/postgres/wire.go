package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stet-run/stet/store"
)

// The values of group commits are encoded in the server's binary form here: the driver's
// encoding, which takes any type, costs a multiple of that.

// values are the parameters of a statement. A list that is empty is NULL, which
// costs the server nothing.
type values struct {
	bytes [][]byte
	types []uint32
	room  []byte // holds most of them; not nil
}

// newValues returns room for the parameters of most statements.
func newValues() *values {
	return &values{bytes: make([][]byte, 0, 40), types: make([]uint32, 0, 40), room: make([]byte, 0, 512)}
}

// empty makes room for the parameters of another statement.
func (v *values) empty() {
	v.bytes, v.types, v.room = emptied(v.bytes), emptied(v.types), emptied(v.room)
	if v.room == nil {
		v.room = []byte{}
	}
}

// keptBytes bounds the memory of one list of a batch that is kept for the next one.
const keptBytes = 256 << 10

// emptied returns the memory of a list for another one, without references to its old
// elements; nil if it is large.
func emptied[T any](l []T) []T {
	var one T
	if cap(l)*int(unsafe.Sizeof(one)) > keptBytes {
		return nil
	}
	clear(l)
	return l[:0]
}

func (v *values) add(typ uint32, value []byte) {
	v.bytes, v.types = append(v.bytes, value), append(v.types, typ)
}

// small adds a value that fill appends.
func (v *values) small(typ uint32, fill func([]byte) []byte) {
	at := len(v.room)
	v.room = fill(v.room)
	v.add(typ, v.room[at:len(v.room):len(v.room)])
}

func (v *values) text(s string) {
	v.small(pgtype.TextOID, func(out []byte) []byte { return append(out, s...) })
}
func (v *values) bytea(b []byte) { v.add(pgtype.ByteaOID, b) }
func (v *values) number(n int64) {
	v.small(pgtype.Int8OID, func(out []byte) []byte { return binary.BigEndian.AppendUint64(out, uint64(n)) })
}
func (v *values) integer(n int64) {
	v.small(pgtype.Int4OID, func(out []byte) []byte { return binary.BigEndian.AppendUint32(out, uint32(n)) })
}
func (v *values) short(n int64) {
	v.small(pgtype.Int2OID, func(out []byte) []byte { return binary.BigEndian.AppendUint16(out, uint16(n)) })
}
func (v *values) bool(b bool) {
	one := byte(0)
	if b {
		one = 1
	}
	v.small(pgtype.BoolOID, func(out []byte) []byte { return append(out, one) })
}

func (v *values) numbers(lists ...[]int64) {
	for _, l := range lists {
		numbersOf(v, l, func(n int64) int64 { return n })
	}
}

func (v *values) texts(lists ...[]string) {
	for _, l := range lists {
		textsOf(v, l, func(s string) string { return s })
	}
}

// numbersOf adds a list that has a number of each row. textsOf, bytesOf, byteasOf and
// boolsOf do the same for other types.
func numbersOf[T any](v *values, rows []T, of func(T) int64) {
	v.array(pgtype.Int8ArrayOID, pgtype.Int8OID, len(rows), 8*len(rows), false, func(out []byte) []byte {
		for _, row := range rows {
			out = binary.BigEndian.AppendUint32(out, 8)
			out = binary.BigEndian.AppendUint64(out, uint64(of(row)))
		}
		return out
	})
}

func textsOf[T any](v *values, rows []T, of func(T) string) {
	stringsOf(v, pgtype.TextArrayOID, pgtype.TextOID, rows, of)
}

// bytesOf adds a list of texts that the server keeps as bytes.
func bytesOf[T any](v *values, rows []T, of func(T) string) {
	stringsOf(v, pgtype.ByteaArrayOID, pgtype.ByteaOID, rows, of)
}

func stringsOf[T any](v *values, typ, element uint32, rows []T, of func(T) string) {
	size := 0
	for _, row := range rows {
		size += len(of(row))
	}
	v.array(typ, element, len(rows), size, false, func(out []byte) []byte {
		for _, row := range rows {
			s := of(row)
			out = binary.BigEndian.AppendUint32(out, uint32(len(s)))
			out = append(out, s...)
		}
		return out
	})
}

// byteasOf adds a list in which nil is NULL.
func byteasOf[T any](v *values, rows []T, of func(T) []byte) {
	size, null := 0, false
	for _, row := range rows {
		b := of(row)
		size += len(b)
		null = null || b == nil
	}
	v.array(pgtype.ByteaArrayOID, pgtype.ByteaOID, len(rows), size, null, func(out []byte) []byte {
		for _, row := range rows {
			b := of(row)
			if b == nil {
				out = binary.BigEndian.AppendUint32(out, ^uint32(0))
				continue
			}
			out = binary.BigEndian.AppendUint32(out, uint32(len(b)))
			out = append(out, b...)
		}
		return out
	})
}

func boolsOf[T any](v *values, rows []T, of func(T) bool) {
	v.array(pgtype.BoolArrayOID, pgtype.BoolOID, len(rows), len(rows), false, func(out []byte) []byte {
		for _, row := range rows {
			one := byte(0)
			if of(row) {
				one = 1
			}
			out = append(binary.BigEndian.AppendUint32(out, 1), one)
		}
		return out
	})
}

// array adds an array of one dimension whose elements fill appends, each behind its
// length; NULL if there are none.
func (v *values) array(typ, element uint32, elements, size int, null bool, fill func([]byte) []byte) {
	if elements == 0 {
		v.add(typ, nil)
		return
	}
	v.room = slices.Grow(v.room, 20+4*elements+size)
	v.small(typ, func(out []byte) []byte {
		out = binary.BigEndian.AppendUint32(out, 1) // dimensions
		flag := uint32(0)
		if null {
			flag = 1
		}
		out = binary.BigEndian.AppendUint32(out, flag)
		out = binary.BigEndian.AppendUint32(out, element)
		out = binary.BigEndian.AppendUint32(out, uint32(elements))
		out = binary.BigEndian.AppendUint32(out, 1) // the first place
		return fill(out)
	})
}

// readNumber reads a bigint.
func readNumber(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: expected a number of 8 bytes, found %d", store.ErrDamaged, len(b))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// readNumbers reads an array of bigint; NULL has none.
func readNumbers(b []byte) ([]int64, error) {
	const head = 20
	if len(b) < head {
		return nil, nil // NULL, or empty
	}
	n := int(binary.BigEndian.Uint32(b[12:]))
	if len(b) != head+12*n {
		return nil, fmt.Errorf("%w: expected %d numbers, found %d bytes", store.ErrDamaged, n, len(b))
	}
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(binary.BigEndian.Uint64(b[head+12*i+4:]))
	}
	return list, nil
}

// preparedKey is where a connection keeps which statements it has prepared.
const preparedKey = "stet.prepared"

// binaryFormat is that of all parameters and results.
var binaryFormat = []int16{pgtype.BinaryFormatCode}

// prepared returns a statement that the session keeps.
func (s *Store) prepared(ctx context.Context, c *pgconn.PgConn, text string,
	v *values) (*pgconn.StatementDescription, error) {
	known, _ := c.CustomData()[preparedKey].(map[string]*pgconn.StatementDescription)
	if known == nil {
		known = map[string]*pgconn.StatementDescription{}
		c.CustomData()[preparedKey] = known
	}
	if is := known[text]; is != nil {
		return is, nil
	}
	is, err := c.Prepare(ctx, fmt.Sprintf("stet_%d", len(known)+1), s.sql(text), v.types)
	if err == nil {
		known[text] = is
	}
	return is, err
}

// statement adds a statement to a batch. Where a session keeps nothing it is
// prepared each time.
func (s *Store) statement(ctx context.Context, batch *pgconn.Batch, c *pgconn.PgConn, text string, v *values) error {
	if s.pooled {
		batch.ExecParams(s.sql(text), v.bytes, v.types, binaryFormat, binaryFormat)
		return nil
	}
	is, err := s.prepared(ctx, c, text, v)
	if err == nil {
		batch.ExecPrepared(is.Name, v.bytes, binaryFormat, binaryFormat)
	}
	return err
}
