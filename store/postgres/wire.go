package postgres

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stet-run/stet/store"
)

// The values of group commits are written into the server's binary form here: the
// driver's way for any type costs a multiple of that.

// values are the parameters of a statement. A list that is empty is NULL, which
// costs the server nothing.
type values struct {
	bytes   [][]byte
	types   []uint32
	formats []int16
}

func (v *values) add(typ uint32, value []byte) {
	v.bytes, v.types, v.formats = append(v.bytes, value), append(v.types, typ), append(v.formats, pgtype.BinaryFormatCode)
}

func (v *values) text(s string)  { v.add(pgtype.TextOID, append([]byte{}, s...)) }
func (v *values) bytea(b []byte) { v.add(pgtype.ByteaOID, b) }
func (v *values) number(n int64) {
	v.add(pgtype.Int8OID, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func (v *values) numbers(lists ...[]int64) {
	for _, l := range lists {
		v.add(pgtype.Int8ArrayOID, array(pgtype.Int8OID, len(l), 8*len(l), false, func(out []byte) []byte {
			for _, n := range l {
				out = binary.BigEndian.AppendUint32(out, 8)
				out = binary.BigEndian.AppendUint64(out, uint64(n))
			}
			return out
		}))
	}
}

func (v *values) texts(lists ...[]string) {
	for _, l := range lists {
		size := 0
		for _, s := range l {
			size += len(s)
		}
		v.add(pgtype.TextArrayOID, array(pgtype.TextOID, len(l), size, false, func(out []byte) []byte {
			for _, s := range l {
				out = binary.BigEndian.AppendUint32(out, uint32(len(s)))
				out = append(out, s...)
			}
			return out
		}))
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
		v.add(pgtype.ByteaArrayOID, array(pgtype.ByteaOID, len(l), size, null, func(out []byte) []byte {
			for _, b := range l {
				if b == nil {
					out = binary.BigEndian.AppendUint32(out, ^uint32(0))
					continue
				}
				out = binary.BigEndian.AppendUint32(out, uint32(len(b)))
				out = append(out, b...)
			}
			return out
		}))
	}
}

func (v *values) bools(lists ...[]bool) {
	for _, l := range lists {
		v.add(pgtype.BoolArrayOID, array(pgtype.BoolOID, len(l), len(l), false, func(out []byte) []byte {
			for _, b := range l {
				one := byte(0)
				if b {
					one = 1
				}
				out = append(binary.BigEndian.AppendUint32(out, 1), one)
			}
			return out
		}))
	}
}

// array returns an array of one dimension whose elements fill appends, each behind
// its length; nil if there are none.
func array(typ uint32, elements, size int, null bool, fill func([]byte) []byte) []byte {
	if elements == 0 {
		return nil
	}
	out := make([]byte, 0, 20+4*elements+size)
	out = binary.BigEndian.AppendUint32(out, 1) // dimensions
	flag := uint32(0)
	if null {
		flag = 1
	}
	out = binary.BigEndian.AppendUint32(out, flag)
	out = binary.BigEndian.AppendUint32(out, typ)
	out = binary.BigEndian.AppendUint32(out, uint32(elements))
	out = binary.BigEndian.AppendUint32(out, 1) // the first place
	return fill(out)
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

// statement adds a statement to a batch. Where a session keeps nothing it is
// prepared each time.
func (s *Store) statement(ctx context.Context, batch *pgconn.Batch, c *pgconn.PgConn, text string, v *values) error {
	results := []int16{pgtype.BinaryFormatCode}
	if s.pooled {
		batch.ExecParams(s.sql(text), v.bytes, v.types, v.formats, results)
		return nil
	}
	known, _ := c.CustomData()[preparedKey].(map[string]string)
	if known == nil {
		known = map[string]string{}
		c.CustomData()[preparedKey] = known
	}
	name, ok := known[text]
	if !ok {
		name = fmt.Sprintf("stet_%d", len(known)+1)
		if _, err := c.Prepare(ctx, name, s.sql(text), v.types); err != nil {
			return err
		}
		known[text] = name
	}
	batch.ExecPrepared(name, v.bytes, v.formats, results)
	return nil
}
