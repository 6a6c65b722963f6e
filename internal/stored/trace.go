package stored

import (
	"bytes"
	"strings"
)

// TraceHeader is the header of a run by which it belongs to a trace, as W3C Trace Context
// defines it: 00-TRACE-SPAN-FLAGS.
const TraceHeader = "traceparent"

// TraceID returns the ID of the trace that encoded headers name, 32 hexadecimal digits, or "".
func TraceID(headers []byte) string {
	_, rest, _ := bytes.Cut(headers, []byte(`"`+TraceHeader+`":"`))
	const begin, end = len("00-"), len("00-") + 32
	if len(rest) <= end || rest[begin-1] != '-' || rest[end] != '-' {
		return ""
	}
	id := string(rest[begin:end])
	if strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}
