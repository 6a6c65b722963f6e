package api

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"github.com/stet-run/stet/store"
)

// PathSegment returns an ID or a name as one segment of an address's path. What proxies or
// browsers might change on the way is written as ~ and base64url: the empty text, "." and
// "..", what begins with ~, and what has other bytes than A-Z a-z 0-9 . _ ~ : @ and -.
func PathSegment(id string) string {
	plain := id != "" && id != "." && id != ".." && id[0] != '~'
	for i := 0; plain && i < len(id); i++ {
		c := id[i]
		plain = c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("._~:@-", c) >= 0
	}
	if plain {
		return id
	}
	return "~" + base64.RawURLEncoding.EncodeToString([]byte(id))
}

// ParsePathSegment is the inverse of PathSegment. It also reads a segment that is
// percent-encoded. The error wraps store.ErrInvalid.
func ParsePathSegment(segment string) (string, error) {
	id, err := url.PathUnescape(segment)
	if err == nil {
		return ParseUnescaped(id)
	}
	return "", fmt.Errorf("path: %w: %w", err, store.ErrInvalid)
}

// ParseUnescaped is ParsePathSegment for a segment of which percent-encoding was undone.
func ParseUnescaped(segment string) (string, error) {
	encoded, ok := strings.CutPrefix(segment, "~")
	if !ok {
		return segment, nil
	}
	id, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "", fmt.Errorf("path: expected ~ and base64url, found %.100q: %w", segment, store.ErrInvalid)
	}
	return string(id), nil
}
