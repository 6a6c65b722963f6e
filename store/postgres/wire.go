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

// The values of group commits are written into the server's binary form here: the
// driver's way for any type costs a multiple of that.

// values are the parameters of a statement. A list that is empty is NULL, which
// costs the server nothing.
type values struct {
	bytes [][]byte
	types []uint32
	room  []byte // holds most of them; not nil
}

// newValues returns room for what most statements have.
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

// keptBytes bounds what is kept of the memory of a batch for the next one, in one list.
const keptBytes = 256 << 10

// emptied returns the room of a list for another one, which refers to nothing of the
// former; nil if it is large.
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
		v.array(pgtype.Int8ArrayOID, pgtype.Int8OID, len(l), 8*len(l), false, func(out []byte) []byte {
			for _, n := range l {
				out = binary.BigEndian.AppendUint32(out, 8)
				out = binary.BigEndian.AppendUint64(out, uint64(n))
			}
			return out
		})
	}
}

func (v *values) texts(lists ...[]string) {
	for _, l := range lists {
		size := 0
		for _, s := range l {
			size += len(s)
		}
		v.array(pgtype.TextArrayOID, pgtype.TextOID, len(l), size, false, func(out []byte) []byte {
			for _, s := range l {
				out = binary.BigEndian.AppendUint32(out, uint32(len(s)))
				out = append(out, s...)
			}
			return out
		})
	}
}

// byteas adds lists in which nil is NULL.
func (v *values) byteas(lists ...[][]byte) {
	for _, l := range lists {
		size, null := 0, false
		for _, b := range l {
			size += len(b)
			null = null || b == nil
		}
		v.array(pgtype.ByteaArrayOID, pgtype.ByteaOID, len(l), size, null, func(out []byte) []byte {
			for _, b := range l {
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
}

func (v *values) bools(lists ...[]bool) {
	for _, l := range lists {
		v.array(pgtype.BoolArrayOID, pgtype.BoolOID, len(l), len(l), false, func(out []byte) []byte {
			for _, b := range l {
				one := byte(0)
				if b {
					one = 1
				}
				out = append(binary.BigEndian.AppendUint32(out, 1), one)
			}
			return out
		})
	}
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
func (s *Store) prepared(ctx context.Context, c *pgconn.PgConn, text string, v *values) (*pgconn.StatementDescription, error) {
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
