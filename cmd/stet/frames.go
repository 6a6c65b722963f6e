package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxFrame bounds a message of an agent: what the library reads at most.
const maxFrame = 16 << 20

// withBatches are the versions of the protocol that have batches of JSON-RPC.
var withBatches = []string{"2024-11-05", "2025-03-26"}

// frames reads the messages of an agent, a line each. It answers what is no message, and passes on the others. The
// library would end the session at the first line that it cannot read.
type frames struct {
	in      *bufio.Reader
	out     io.Writer // of answers; one Write is one of them
	batches bool      // the client speaks a version that has them
	ready   []byte    // of a message that is passed on
	end     error     // of in
}

func newFrames(in io.Reader, out io.Writer) *frames {
	return &frames{in: bufio.NewReaderSize(in, 64<<10), out: out}
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	for len(f.ready) == 0 {
		if f.end != nil {
			return 0, f.end
		}
		line, tooLong, err := f.line()
		f.end = err
		line = bytes.TrimSpace(line)
		switch {
		case tooLong:
			err = f.refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("expected a message of at most %d bytes", maxFrame))
		case len(line) == 0:
			continue
		default:
			err = f.take(line)
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, f.ready)
	f.ready = f.ready[n:]
	return n, nil
}

// line reads a line and keeps as much of it as is allowed.
func (f *frames) line() (line []byte, tooLong bool, err error) {
	for {
		part, err := f.in.ReadSlice('\n')
		if len(line)+len(part) > maxFrame {
			line, tooLong = nil, true
		}
		if !tooLong {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// take passes a line on or refuses it.
func (f *frames) take(line []byte) error {
	if !json.Valid(line) {
		return f.refuse(jsonrpc.CodeParseError, "expected one JSON-RPC message in one line, found no JSON")
	}
	if line[0] == '[' {
		if !f.batches {
			return f.refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("expected one message in a line, found a batch: "+
				"the protocol has none after version %s", withBatches[len(withBatches)-1]))
		}
		if err := checkBatch(line); err != nil {
			return f.refuse(jsonrpc.CodeInvalidRequest, "a batch: "+err.Error())
		}
	} else {
		message, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			return f.refuse(jsonrpc.CodeInvalidRequest, "expected a JSON-RPC message: "+err.Error())
		}
		if r, ok := message.(*jsonrpc.Request); ok && r.Method == "initialize" {
			var hello struct {
				ProtocolVersion string `json:"protocolVersion"`
			}
			if json.Unmarshal(r.Params, &hello) == nil { // otherwise the library refuses it
				f.batches = slices.Contains(withBatches, hello.ProtocolVersion)
			}
		}
	}
	f.ready = append(line, '\n')
	return nil
}

// checkBatch returns why the library would not read a batch.
func checkBatch(line []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(line, &parts); err != nil {
		return err
	}
	if len(parts) == 0 {
		return errors.New("expected messages, found none")
	}
	seen := map[any]bool{}
	for _, part := range parts {
		message, err := jsonrpc.DecodeMessage(part)
		if err != nil {
			return err
		}
		r, ok := message.(*jsonrpc.Request)
		if !ok {
			continue
		}
		if id := r.ID.Raw(); seen[id] {
			return fmt.Errorf("expected an ID for each message, found %v twice", id)
		}
		seen[r.ID.Raw()] = true
	}
	return nil
}

// refuse answers what is no message: nothing is known of its ID.
func (f *frames) refuse(code int64, about string) error {
	text, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": about},
	})
	if err == nil {
		_, err = f.out.Write(append(text, '\n'))
	}
	return err
}

// locked is a writer that several write to. Each Write is whole.
type locked struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Close implements io.Closer: others use the writer, too.
func (*locked) Close() error { return nil }
