package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// progress is a bar on a terminal that shows how much of something is done. It is
// safe for concurrent use.
type progress struct {
	w     io.Writer
	width int // of the terminal; 0: there is none, and nothing is shown
	what  string
	total int

	mu    sync.Mutex
	done  int
	shown string
}

// newProgress returns a bar for total things, which shows on a terminal only.
func newProgress(w io.Writer, width int, what string, total int) *progress {
	p := &progress{w: w, width: width, what: what, total: total}
	p.draw()
	return p
}

// step counts one more as done.
func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.draw()
}

// end removes the bar from the terminal.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown != "" {
		fmt.Fprint(p.w, clearLine)
		p.shown = ""
	}
}

const clearLine = "\r\x1b[K"

// draw shows the bar if it looks different from what is shown.
func (p *progress) draw() {
	if p.total == 0 {
		return
	}
	count := fmt.Sprintf("%d/%d", p.done, p.total)
	room := p.width - len(p.what) - len(count) - len(" [] ") - 1
	if room < 1 {
		return // also when there is no terminal
	}
	room = min(room, 40)
	full := room * p.done / p.total
	line := fmt.Sprintf("%s [%s%s] %s", p.what, strings.Repeat("=", full), strings.Repeat(" ", room-full), count)
	if line != p.shown {
		fmt.Fprint(p.w, clearLine, line)
		p.shown = line
	}
}
