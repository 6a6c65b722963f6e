package box

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// section returns a section of a program.
func section(id byte, body ...byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(body))), body...)
}

// TestJoinKeepsTheData: the one segment has what the many have, at their addresses, and zeros
// between them.
func TestJoinKeepsTheData(t *testing.T) {
	head := []byte("\x00asm\x01\x00\x00\x00")
	for what, c := range map[string]struct{ many, one []byte }{
		"in order": {
			[]byte{2, 0, 0x41, 10, 0x0b, 2, 'a', 'b', 0, 0x41, 13, 0x0b, 1, 'c'},
			[]byte{1, 0, 0x41, 10, 0x0b, 4, 'a', 'b', 0, 'c'},
		},
		"the later one first": {
			[]byte{2, 0, 0x41, 13, 0x0b, 1, 'c', 0, 0x41, 10, 0x0b, 2, 'a', 'b'},
			[]byte{1, 0, 0x41, 10, 0x0b, 4, 'a', 'b', 0, 'c'},
		},
		"an address of two bytes": {
			[]byte{1, 0, 0x41, 0xc0, 0x00, 0x0b, 1, 'a'},
			[]byte{1, 0, 0x41, 0xc0, 0x00, 0x0b, 1, 'a'},
		},
	} {
		other := section(5, 1, 2, 3)
		got, err := join(bytes.Join([][]byte{head, other, section(12, 2), section(11, c.many...), other}, nil))
		want := bytes.Join([][]byte{head, other, section(12, 1), section(11, c.one...), other}, nil)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: found %x, %v; expected %x", what, got, err, want)
		}
	}
	for what, bad := range map[string][]byte{
		"no program":          []byte("\x00asm"),
		"a section too short": append(head, 11, 9, 1),
		"a passive segment":   append(head, section(11, 1, 1, 0x41, 10, 0x0b, 1, 'a')...),
		"a computed address":  append(head, section(11, 1, 0, 0x23, 10, 0x0b, 1, 'a')...),
		"a negative address":  append(head, section(11, 1, 0, 0x41, 0x7f, 0x0b, 1, 'a')...),
		"a segment too short": append(head, section(11, 1, 0, 0x41, 10, 0x0b, 5, 'a')...),
		"no segment":          append(head, section(11, 0)...),
	} {
		if out, err := join(bytes.Clone(bad)); err == nil {
			t.Errorf("%s: expected an error, found %x", what, out)
		}
	}
}

// TestGlobalsAreExported: beside what the program exports itself.
func TestGlobalsAreExported(t *testing.T) {
	head := []byte("\x00asm\x01\x00\x00\x00")
	globals := section(6, 2, 0x7f, 1, 0x41, 0, 0x0b, 0x7e, 1, 0x42, 0, 0x0b)
	data := section(11, 1, 0, 0x41, 10, 0x0b, 1, 'a')
	own := []byte{1, 'f', 0, 7}
	in := bytes.Join([][]byte{head, globals, section(7, append([]byte{1}, own...)...), data}, nil)
	got, err := join(in)
	exports := append([]byte{3}, own...)
	for i := range 2 {
		exports = append(append(append(exports, 8), globalName(i)...), 3, byte(i))
	}
	want := bytes.Join([][]byte{head, globals, section(7, exports...), data}, nil)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("found %x, %v; expected %x", got, err, want)
	}
}
