package develop

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	maxLines = 5000
	maxLine  = 4 << 10 // bytes
)

// Line is a line that was printed.
type Line struct {
	Number int64     `json:"number"` // from 1
	At     time.Time `json:"at"`
	From   string    `json:"from"` // out, err or stet
	Text   string    `json:"text"`
}

// ring keeps the last lines.
type ring struct {
	mu    sync.Mutex
	lines []Line
	last  int64
}

func (r *ring) add(from, text string) {
	if len(text) > maxLine {
		text = text[:maxLine] + "…"
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	line := Line{r.last, time.Now(), from, text}
	if len(r.lines) < maxLines {
		r.lines = append(r.lines, line)
	} else {
		r.lines[(r.last-1)%maxLines] = line
	}
}

// with returns the lines that have a text, oldest first.
func (r *ring) with(text string) []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := []Line{}
	for i := range r.lines {
		line := r.lines[(r.last+int64(i))%int64(len(r.lines))]
		if strings.Contains(line.Text, text) {
			found = append(found, line)
		}
	}
	return found
}

// writer returns a writer that keeps lines, and passes on what it gets.
func (r *ring) writer(from string, next io.Writer) *lineWriter {
	return &lineWriter{ring: r, from: from, next: next}
}

// lineWriter is for one goroutine at a time.
type lineWriter struct {
	ring *ring
	from string
	next io.Writer
	rest []byte // of a line that has not ended
}

func (w *lineWriter) Write(data []byte) (int, error) {
	if _, err := w.next.Write(data); err != nil {
		return 0, err
	}
	n := len(data)
	for {
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		w.rest = append(w.rest, line...)
		if !ended {
			if len(w.rest) > maxLine {
				w.flush()
			}
			return n, nil
		}
		w.ring.add(w.from, strings.TrimSuffix(string(w.rest), "\r"))
		w.rest, data = w.rest[:0], rest
	}
}

// flush keeps what is left of a line.
func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.ring.add(w.from, string(w.rest))
		w.rest = w.rest[:0]
	}
}
