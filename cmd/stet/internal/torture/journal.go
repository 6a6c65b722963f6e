package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// The kinds of lines.
const (
	lineOwn   = "own"   // a process has taken Shards over
	lineLeft  = "left"  // a process that lives has lost Shards: it could not renew its leases
	lineStart = "start" // a step's body begins
	lineEnd   = "end"   // a step's body returns
	lineStale = "stale" // a body that has begun had been cancelled before it did: its run has gone on, or is elsewhere
	lineToken = "token" // a step hands out the token of the promise at Node
	lineTaken = "taken" // a part of the run's history was taken back; Key takenAsked: that is going to be asked for
	lineLost  = "lost"  // a process ends because it has lost the store
	lineWoke  = "woke"  // a step has begun behind the sleep at Node, which was due at Due

	ackStart   = "start"   // a run was started
	ackSend    = "send"    // a message was sent; Key is its key
	ackResolve = "resolve" // a promise was resolved; Value
	ackCancel  = "cancel"  // a cancel or terminate was granted
	ackVerb    = "verb"    // what Key says was done to a run
	ackAccount = "account" // an account was opened
	ackUpdate  = "update"  // an update was answered; Key, how (Status), and Value
	ackEnd     = "ended"   // a run was seen to have ended; Status, and Value of its result
)

const takenAsked = "asked"

// line is a line of one of the two logs: effects on the world, and acknowledgements that callers received.
type line struct {
	Kind    string `json:"k"`
	Process string `json:"p,omitempty"`
	At      int64  `json:"t"` // microseconds since the epoch, by this machine's clock
	Run     string `json:"r,omitempty"`
	Loc     string `json:"l,omitempty"`
	Attempt int    `json:"a,omitempty"`
	No      int64  `json:"n,omitempty"` // of the execution, in its process
	Key     string `json:"key,omitempty"`
	Due     int64  `json:"due,omitempty"` // microseconds since the epoch
	Node    int    `json:"node,omitempty"`
	Value   uint64 `json:"v,omitempty"`
	Status  string `json:"s,omitempty"`
	Text    string `json:"text,omitempty"`

	Shards []string `json:"shards,omitempty"` // that were taken over
	Epochs []int64  `json:"epochs,omitempty"` // of their leases, in the same order
}

// journal is a file to which several processes append lines.
type journal struct{ file *os.File }

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	return &journal{f}, err
}

// append writes a line with one call of the system. The line begins with a line
// break of its own, so that one that was cut by a kill spoils no other.
func (j *journal) append(l line) error {
	l.At = machineTime()
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(append([]byte{'\n'}, data...), '\n'))
	return err
}

func (j *journal) close() error { return j.file.Close() }

// size returns the length of the file: a later line stands behind it.
func (j *journal) size() (int64, error) {
	info, err := j.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// placed is a line with its place in the file.
type placed struct {
	line
	place   int64
	written int64 // not before, as At; 0: not known. A process may be paused between the two
}

// reader reads a growing journal.
type reader struct {
	file  *os.File
	place int64 // of the first byte that was not returned
}

func openReader(path string) (*reader, error) {
	f, err := os.Open(path)
	return &reader{file: f}, err
}

func (r *reader) close() error { return r.file.Close() }

// read returns the complete lines that were not returned before.
func (r *reader) read() ([]placed, error) {
	data, err := io.ReadAll(io.NewSectionReader(r.file, r.place, 1<<40))
	if err != nil {
		return nil, err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	var lines []placed
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if text := data[:end]; len(text) > 0 {
			var l line
			if err := json.Unmarshal(text, &l); err == nil { // otherwise it was cut by a kill
				lines = append(lines, placed{line: l, place: r.place})
			}
		}
		data = data[end+1:]
		r.place += int64(end) + 1
	}
	return lines, nil
}

// readJournal returns all lines of a file.
func readJournal(path string) (lines []placed, err error) {
	r, err := openReader(path)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return r.read()
}
