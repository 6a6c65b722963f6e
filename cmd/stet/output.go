package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/term"

	"github.com/stet-run/stet/store"
)

// The forms of output.
const (
	formTable = "table"
	formJSON  = "json"
	formIDs   = "ids"
)

// printer prints the output of a command in the form that --output names.
type printer struct {
	out, err io.Writer // data; messages to the user
	output   string    // the form
}

func (p *printer) checkForm() error {
	switch p.output {
	case formTable, formJSON, formIDs:
		return nil
	}
	return usage(fmt.Errorf("--output: expected table, json or ids, found %q", p.output))
}

// checkNoIDs refuses the form ids for a command that prints no runs.
func (p *printer) checkNoIDs() error {
	if p.output == formIDs {
		return usage(fmt.Errorf("--output: expected table or json, found %q: this command prints no runs", p.output))
	}
	return nil
}

// json prints v as one line.
func (p *printer) json(v any) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := p.out.Write(escaped(line.Bytes()))
	return err
}

// value prints JSON as it was stored, as one line.
func (p *printer) value(text json.RawMessage) error {
	_, err := fmt.Fprintf(p.out, "%s\n", escaped(text))
	return err
}

// id prints the ID of something as one line: as it is, for the program that reads it, but
// without what controls a terminal.
func (p *printer) id(id string) error {
	if sizeOf(p.out).width > 0 {
		id = printable(id)
	}
	_, err := fmt.Fprintln(p.out, id)
	return err
}

// escaped returns JSON of the same value in which no character controls a terminal or the
// direction of text.
func escaped(text []byte) []byte {
	hidden := func(r rune) bool { return r > '~' && !unicode.IsGraphic(r) || r == utf8.RuneError }
	if bytes.IndexFunc(text, hidden) < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for _, r := range string(text) { // a byte that is no UTF-8 is RuneError
		switch high, low := utf16.EncodeRune(r); {
		case !hidden(r):
			out = utf8.AppendRune(out, r)
		case high != unicode.ReplacementChar:
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// say prints a message that is no data.
func (p *printer) say(format string, args ...any) { fmt.Fprintf(p.err, format+"\n", args...) }

// size is the size of a terminal in characters. The zero size is no terminal.
type size struct{ width, height int }

// sizeOf returns the size of the terminal behind w.
func sizeOf(w io.Writer) size {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) {
		return size{}
	}
	width, height, err := term.GetSize(f.Fd())
	if err != nil || width <= 0 || height <= 0 {
		return size{80, 24}
	}
	return size{width, height}
}

// grid is a table for people.
type grid struct {
	headers []string // none: without a line of them
	rows    [][]string
	// style gives the colour of a cell; nil: none.
	style func(row, column int) lipgloss.Style
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// String returns the lines of the table, with the sequences for colours and
// without spaces at the ends.
func (g *grid) String() string {
	if len(g.rows) == 0 && len(g.headers) == 0 {
		return ""
	}
	t := table.New().Rows(g.rows...).Wrap(false).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false)
	last := len(g.headers) - 1
	if last >= 0 {
		t.Headers(g.headers...)
	} else {
		last = len(g.rows[0]) - 1
	}
	t.StyleFunc(func(row, column int) lipgloss.Style {
		style := lipgloss.NewStyle()
		switch {
		case row == table.HeaderRow:
			style = style.Bold(true)
		case g.style != nil:
			style = g.style(row, column)
		}
		if column < last {
			style = style.PaddingRight(2)
		}
		return style
	})
	lines := strings.Split(t.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// print prints the table, cut to the width of a terminal.
func (p *printer) print(g *grid) error {
	text := g.String()
	if width := sizeOf(p.out).width; width > 0 {
		text = cut(text, width)
	}
	_, err := lipgloss.Fprint(p.out, text)
	return err
}

// cut cuts each line to the width.
func cut(text string, width int) string {
	style := lipgloss.NewStyle().MaxWidth(width)
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString(style.Render(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return all.String()
}

// statusStyle is the colour of a status.
func statusStyle(s store.Status) lipgloss.Style {
	style := lipgloss.NewStyle()
	switch s {
	case store.Succeeded:
		return style.Foreground(lipgloss.Green)
	case store.Failed, store.Stalled:
		return style.Foreground(lipgloss.Red)
	case store.Cancelled:
		return style.Foreground(lipgloss.Yellow)
	case store.Running:
		return style.Foreground(lipgloss.Cyan)
	}
	return style
}

// short makes one line of a text, of at most n characters.
func short(text string, n int) string {
	text = printable(strings.Join(strings.Fields(text), " "))
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

// printable replaces characters that would control a terminal, except tabs and ends of lines.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// duration returns d with about three digits: 1.23s, 4m10s, 3d4h.
func duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// amount returns a number of bytes as people read it, nothing for 0.
func amount(n int) string {
	switch {
	case n == 0:
		return ""
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// moment returns a time as people read it, - for none.
func moment(t store.Time) string {
	if t == 0 {
		return "-"
	}
	return t.Time().Format("2006-01-02 15:04:05.000Z")
}
