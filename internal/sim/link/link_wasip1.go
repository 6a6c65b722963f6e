// Package link connects a machine with its world.
package link

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"strings"
	"unsafe"
)

//go:wasmimport world send
func send(to, kind, call uint32, body unsafe.Pointer, size uint32)

//go:wasmimport world note
func note(body unsafe.Pointer, size uint32)

//go:wasmimport world arguments
func arguments(to unsafe.Pointer, size uint32) uint32

// Send sends a message to another machine.
func Send(to int, kind byte, call uint32, body []byte) {
	send(uint32(to), uint32(kind), call, unsafe.Pointer(unsafe.SliceData(body)), uint32(len(body)))
}

// Arguments returns the arguments of the machine, its name first.
func Arguments() []string {
	b := make([]byte, arguments(nil, 0))
	arguments(unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b)))
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Note reports to the world, at once.
func Note(b []byte) { note(unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))) }

// in takes several messages at once.
var in = bufio.NewReaderSize(os.Stdin, 1<<16)

// Receive waits for the next message.
func Receive() (from int, kind byte, call uint32, body []byte, err error) {
	var head [13]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, 0, 0, nil, err
	}
	body = make([]byte, binary.LittleEndian.Uint32(head[0:]))
	_, err = io.ReadFull(in, body)
	return int(binary.LittleEndian.Uint32(head[4:])), head[12], binary.LittleEndian.Uint32(head[8:]), body, err
}
