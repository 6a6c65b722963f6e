package box

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var errSegments = errors.New("the program's data is not as expected")

// join returns a program for WebAssembly with one segment of data in place of many. Each begin of
// a machine evaluates and copies each of its segments; the Go linker makes thousands of them,
// because it leaves zeros out.
func join(wasm []byte) ([]byte, error) {
	out, _, _, err := change(wasm, func(at int, data []byte) []byte {
		body := appendVarint([]byte{1, 0, constant}, int64(at))
		body = binary.AppendUvarint(append(body, end), uint64(len(data)))
		return append(body, data...)
	})
	return out, err
}

// split returns a program without its data, and the data, which belongs at that address.
func split(wasm []byte) (out []byte, at int, data []byte, err error) {
	return change(wasm, func(int, []byte) []byte { return nil })
}

// Parts of a segment that is copied to an address when a machine begins.
const (
	constant = 0x41
	end      = 0x0b
)

// change replaces the section with a program's data by one with such a body. Without a body there is
// none. The program exports its globals then.
func change(wasm []byte, by func(at int, data []byte) []byte) (out []byte, at int, data []byte, err error) {
	const magic, globalSection, exportSection, dataCount, dataSection = 8, 6, 7, 12, 11
	globals := uint64(0)
	if len(wasm) < magic {
		return nil, 0, nil, errSegments
	}
	out = append([]byte(nil), wasm[:magic]...)
	r := reader{b: wasm[magic:]}
	for len(r.b) > 0 && !r.bad {
		id := r.bytes(1)
		body := r.bytes(int(r.uvarint()))
		if r.bad {
			break
		}
		switch id[0] {
		case globalSection:
			globals = (&reader{b: body}).uvarint()
		case exportSection:
			body = exported(body, globals)
		case dataCount:
			if body = []byte{1}; by(0, nil) == nil {
				continue
			}
		case dataSection:
			if at, data, err = joined(body); err != nil {
				return nil, 0, nil, err
			}
			if body = by(at, data); body == nil {
				continue
			}
		}
		out = append(out, id[0])
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	if r.bad {
		return nil, 0, nil, errSegments
	}
	return out, at, data, nil
}

// exported returns a section of exports with so many globals in addition.
func exported(body []byte, globals uint64) []byte {
	const global = 3
	r := reader{b: body}
	out := binary.AppendUvarint(nil, r.uvarint()+globals)
	out = append(out, r.b...)
	for i := range globals {
		name := globalName(int(i))
		out = append(append(binary.AppendUvarint(out, uint64(len(name))), name...), global)
		out = binary.AppendUvarint(out, i)
	}
	return out
}

// globalName is the name by which a program exports a global.
func globalName(i int) string { return fmt.Sprintf("global %d", i) }

// joined returns the data of a section with all its segments, and its address.
func joined(body []byte) (int, []byte, error) {
	const furthest = 1 << 28
	type segment struct {
		at   int
		init []byte
	}
	var all []segment
	first, last := furthest, 0
	r := reader{b: body}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		active, op := r.bytes(1), r.bytes(1)
		at := int(uint32(r.varint()))
		ends, init := r.bytes(1), r.bytes(int(r.uvarint()))
		if active[0] != 0 || op[0] != constant || ends[0] != end || at > furthest {
			return 0, nil, errSegments
		}
		all = append(all, segment{at, init})
		first, last = min(first, at), max(last, at+len(init))
	}
	if r.bad || len(all) == 0 {
		return 0, nil, errSegments
	}
	data := make([]byte, last-first)
	for _, s := range all {
		copy(data[s.at-first:], s.init) // a later segment hides a former one
	}
	return first, data, nil
}

// reader takes parts of a program's text.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad = true
		return make([]byte, max(n, 1))[:1]
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// varint takes a signed number, which is not as encoding/binary has it.
func (r *reader) varint() (v int64) {
	for shift := 0; ; shift += 7 {
		b := r.bytes(1)[0]
		v |= int64(b&0x7f) << shift
		switch {
		case r.bad || shift > 63:
			r.bad = true
			return 0
		case b&0x80 == 0 && b&0x40 != 0:
			return v | -1<<(shift+7)
		case b&0x80 == 0:
			return v
		}
	}
}

func appendVarint(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
