package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// arguments reads the arguments of a command, of which - names standard input.
type arguments struct{ in io.Reader }

// jsonArgument returns the argument at the index as JSON; - reads it from
// standard input, and none is null.
func (a *arguments) jsonArgument(args []string, index int) (json.RawMessage, error) {
	if len(args) <= index {
		return json.RawMessage("null"), nil
	}
	data := []byte(args[index])
	if args[index] == "-" {
		var err error
		if data, err = io.ReadAll(a.in); err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
	}
	var value json.RawMessage // a number may be longer than any type of Go
	if err := json.Unmarshal(data, &value); err != nil {
		where := ""
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			where = fmt.Sprintf(" at byte %d", syntax.Offset)
		}
		return nil, usage(fmt.Errorf("expected JSON, found %.60q: %w%s; a text needs quotes of its own: '\"text\"'",
			data, err, where))
	}
	return value, nil
}

// dashRun is the argument for the run whose ID is "-".
const dashRun = "./-"

// runIDs returns the arguments, or, if the one argument is -, the lines of
// standard input.
func (a *arguments) runIDs(args []string) ([]string, error) {
	if !slices.Contains(args, "-") {
		ids := slices.Clone(args)
		for i, id := range ids {
			if id == dashRun {
				ids[i] = "-"
			}
		}
		return ids, nil
	}
	if len(args) > 1 {
		return nil, usage(fmt.Errorf("expected - alone, found it among %d arguments", len(args)))
	}
	var ids []string
	lines := bufio.NewScanner(a.in)
	for lines.Scan() {
		if id := strings.TrimSpace(lines.Text()); id != "" {
			ids = append(ids, id)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return ids, nil
}

// checkTimeout refuses negative durations, and zero unless it has a meaning.
func checkTimeout(d time.Duration, zero bool) error {
	switch {
	case d < 0 && zero:
		return usage(fmt.Errorf("--timeout: expected a duration of 0 or more, found %s", d))
	case d <= 0 && !zero:
		return usage(fmt.Errorf("--timeout: expected a positive duration, found %s", d))
	}
	return nil
}
