package script

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// # The program and its children
//
// The program enters an interpreter of a child by a request with an entry. The child may ask, any number of times, and
// leaves the stretch with its last reply. One stretch executes in a child at a time.

// childMark begins what a child writes. The program skips what its packages print before, when they are initialised.
const childMark = "stet: a child for scripts, 1\n"

// maxReply is the most bytes of a reply, and maxCalls those of the inputs of a stretch's calls.
const (
	maxReply = 96 << 20
	maxCalls = 64 << 20
)

// The codes with which a child ends because of a stretch that nothing interrupts.
const (
	exitTime = 81
	exitHeap = 82
)

// request is what the program sends to a child.
type request struct {
	Ended   []uint64 // interpreters that nobody needs any more
	Run     uint64   // the interpreter
	Entry   *entry
	Limit   time.Duration // of processor time
	Program *program      // of a Begin
	Answer  *answer       // to an ask
}

// program is a script for a child.
type program struct {
	ID           uint64
	Name, Source string // "": the child may know it by its ID
	Trace        bool
}

// reply is what a child sends: one of these.
type reply struct {
	Left    *left
	Ask     *ask
	Missing missing
}

// missing is what a child lacks to execute a stretch. Nothing of the stretch is executed then.
type missing int

const (
	_ missing = iota
	missingProgram
	missingInterpreter
)

// ask is a call of a host.
type ask struct {
	Kind  askKind
	Text  string
	Clean bool       // of a token
	Level slog.Level // of a line of the log, which needs no answer
	Count int        // of random numbers
}

type askKind int

const (
	_ askKind = iota
	askRandom
	askHeader
	askToken
	askContinue
	askLog
)

// answer is what a host returns.
type answer struct {
	Text    string
	Number  int
	Problem *problem
	Random  []float64
}

// pipe is one end of the connection between the program and a child.
type pipe[Out, In any] struct {
	to      *bufio.Writer
	from    *io.LimitedReader
	encoder *gob.Encoder
	decoder *gob.Decoder
	limit   int64 // bytes of what is received; 0: none
}

func newPipe[Out, In any](to io.Writer, from io.Reader, limit int64) *pipe[Out, In] {
	p := &pipe[Out, In]{to: bufio.NewWriter(to), limit: limit}
	p.from = &io.LimitedReader{R: bufio.NewReader(from)}
	p.encoder, p.decoder = gob.NewEncoder(p.to), gob.NewDecoder(byteReader{p.from})
	return p
}

// byteReader has the decoder of gob read no further than a message reaches: the next one has a limit of its own.
type byteReader struct{ *io.LimitedReader }

func (r byteReader) ReadByte() (byte, error) {
	if r.N <= 0 {
		return 0, io.EOF
	}
	r.N--
	return r.R.(io.ByteReader).ReadByte()
}

func (p *pipe[Out, In]) send(message *Out) error {
	if err := p.encoder.Encode(message); err != nil {
		return err
	}
	return p.to.Flush()
}

func (p *pipe[Out, In]) receive() (*In, error) {
	p.from.N = 1<<63 - 1
	if p.limit > 0 {
		p.from.N = p.limit
	}
	message := new(In)
	if err := p.decoder.Decode(message); err != nil {
		if p.from.N <= 0 && p.limit > 0 {
			return nil, fmt.Errorf("expected at most %d bytes: %w", p.limit, errTooLong)
		}
		return nil, err
	}
	return message, nil
}

var errTooLong = errors.New("a reply is too long")
