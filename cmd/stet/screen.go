package main

import (
	"fmt"
	"io"
	"strings"

	"charm.land/lipgloss/v2"
)

// screen shows lines on a terminal in place of those it has shown before.
type screen struct {
	w     io.Writer
	size  size
	lines int // shown
	text  string
}

// draw shows as much of a text as fits. It does nothing if the text is shown already.
func (s *screen) draw(text string) error {
	if text == s.text {
		return nil
	}
	s.text = text
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(s.size.height-1, 2); len(lines) > most { // the cursor needs a line
		left := len(lines) - (most - 1)
		lines = append(lines[:most-1], fmt.Sprintf("… and %d more", left))
	}
	if s.lines > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\x1b[J", s.lines) // up to the first line, and clear from there
	}
	s.lines = len(lines)
	_, err := lipgloss.Fprint(s.w, cut(strings.Join(lines, "\n")+"\n", s.size.width))
	return err
}
