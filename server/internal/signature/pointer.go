package signature

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// At returns what a JSON pointer (RFC 6901) leads to in a document: "" is the whole. ok is false
// if there is nothing.
func At(document json.RawMessage, pointer string) (found json.RawMessage, ok bool) {
	if pointer == "" {
		return document, true
	}
	for step := range strings.SplitSeq(pointer[1:], "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		document = bytes.TrimSpace(document)
		switch {
		case len(document) > 0 && document[0] == '{':
			var members map[string]json.RawMessage
			if json.Unmarshal(document, &members) != nil {
				return nil, false
			}
			if document, ok = members[step]; !ok {
				return nil, false
			}
		case len(document) > 0 && document[0] == '[':
			var elements []json.RawMessage
			n, err := strconv.Atoi(step)
			if err != nil || strconv.Itoa(n) != step || json.Unmarshal(document, &elements) != nil || n < 0 ||
				n >= len(elements) {
				return nil, false
			}
			document = elements[n]
		default:
			return nil, false
		}
	}
	return document, true
}

// TextAt returns the text or the whole number that a pointer leads to, as a text. ok is false if
// there is something else, or nothing.
func TextAt(document json.RawMessage, pointer string) (text string, ok bool) {
	found, ok := At(document, pointer)
	if !ok {
		return "", false
	}
	if json.Unmarshal(found, &text) == nil && bytes.HasPrefix(bytes.TrimSpace(found), []byte(`"`)) {
		return text, text != ""
	}
	var number json.Number
	if json.Unmarshal(found, &number) != nil || strings.ContainsAny(number.String(), ".eE") {
		return "", false
	}
	return number.String(), number != ""
}
