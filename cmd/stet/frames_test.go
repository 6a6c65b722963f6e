package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestFramesOfAnAgent: what is no message is answered, and the session goes on with the next line.
func TestFramesOfAnAgent(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	hello := func(version string) string {
		return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `"}}`
	}
	old := hello("2025-03-26")
	batch := "[" + call + "]"
	for name, c := range map[string]struct {
		in, passed, refused string // refused: the codes
	}{
		"messages":          {call + "\n\r\n" + call + "\r\n" + call, call + call + call, ""},
		"batch":             {batch + "\n" + call + "\n", call, "-32600"},
		"batch, new client": {hello("2025-06-18") + "\n" + batch + "\n" + call, hello("2025-06-18") + call, "-32600"},
		"batch, old client": {old + "\n" + batch + "\n[]\n" + call, old + batch + call, "-32600"},
		"an ID twice":       {old + "\n[" + call + "," + call + "]\n" + call, old + call, "-32600"},
		"no JSON":           {"GET / HTTP/1.1\n" + call + "\n{\"jsonrpc\n", call, "-32700 -32700"},
		"no message":        {"5\nnull\n{}\n" + call + "\n", call, "-32600 -32600 -32600"},
		"too long":          {strings.Repeat(" ", maxFrame) + call + "\n" + call + "\n", call, "-32600"},
	} {
		var out bytes.Buffer
		got, err := io.ReadAll(newFrames(iotest.HalfReader(strings.NewReader(c.in)), &out))
		if passed := strings.ReplaceAll(string(got), "\n", ""); err != nil || passed != c.passed {
			t.Errorf("%s: passed on %s, %v", name, passed, err)
		}
		var codes []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, `"code":`)
			code, _, _ := strings.Cut(rest, ",")
			codes = append(codes, code)
			if !strings.Contains(line, `"id":null`) || !strings.Contains(line, `"jsonrpc":"2.0"`) {
				t.Errorf("%s: answered %s", name, line)
			}
		}
		if answered := strings.Join(codes, " "); answered != c.refused {
			t.Errorf("%s: answered %s, want %s", name, answered, c.refused)
		}
	}
}
