// Package signature looks at the signatures of webhooks, by the schemes of stet.HookScheme. It
// reads the raw bytes of a body and the headers, parses no body, and knows no store.
//
// Signatures are compared in constant time. Where the sender signs a time, one that is more than
// five minutes off is refused, so that a call that somebody has recorded is of no use later.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stet-run/stet"
)

// MaxAge is how far the time that a sender has signed may be off, to either side.
const MaxAge = 5 * time.Minute

// ErrRefused says that a call is not signed as it must be. The text says what was expected, and
// nothing of secrets.
var ErrRefused = errors.New("the signature of the webhook is refused")

// Call is what a signed call says beside its body.
type Call struct {
	ID    string // by which the sender knows the delivery; "": the headers have none
	Event string // what it is about; "": the headers do not say
}

// Check returns what a call says whose signature one of the hook's secrets has made. Errors wrap
// ErrRefused.
func Check(hook *stet.Hook, header http.Header, body []byte, now time.Time) (Call, error) {
	switch hook.Scheme {
	case stet.HookStandard:
		return standard(hook.Keys(), header, body, now)
	case stet.HookGitHub:
		return github(hook.Keys(), header, body)
	case stet.HookStripe:
		return Call{}, stripe(hook.Keys(), header, body, now)
	case stet.HookHMAC:
		text, err := one(header, hook.Header)
		if err != nil {
			return Call{}, err
		}
		return Call{}, plain(hook.Keys(), hook.Header, text, body)
	}
	return Call{}, refused("this server does not know the scheme %q", hook.Scheme)
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

// one returns the value of a header that must be there once.
func one(header http.Header, name string) (string, error) {
	values := header.Values(name)
	if len(values) != 1 {
		return "", refused("expected one header %s, found %d", name, len(values))
	}
	return values[0], nil
}

// sum signs what the parts are together.
func sum(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		_, _ = mac.Write(part) // a hash takes all
	}
	return mac.Sum(nil)
}

// signed reports whether one of the signatures is that of one of the keys.
func signed(keys, signatures [][]byte, parts ...[]byte) bool {
	any := false
	for _, key := range keys {
		own := sum(key, parts...)
		for _, signature := range signatures {
			if hmac.Equal(own, signature) {
				any = true
			}
		}
	}
	return any
}

// maxSignatures bounds what one call may bring.
const maxSignatures = 16

// recent refuses a time, in seconds since 1970, that is too far off.
func recent(text string, now time.Time) error {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return refused("expected its time in seconds since 1970, found %.40q", text)
	}
	const most = int64(MaxAge / time.Second)
	if off := now.Unix() - seconds; off > most || off < -most {
		return refused("its time is more than %s off; look at the clocks", MaxAge)
	}
	return nil
}

func standard(keys [][]byte, header http.Header, body []byte, now time.Time) (Call, error) {
	prefix := "Webhook-"
	if len(header.Values("Webhook-Signature")) == 0 && len(header.Values("Svix-Signature")) > 0 {
		prefix = "Svix-" // as the specification's first users call them
	}
	var values [3]string
	for i, name := range []string{"Id", "Timestamp", "Signature"} {
		var err error
		if values[i], err = one(header, prefix+name); err != nil {
			return Call{}, err
		}
	}
	id, at := values[0], values[1]
	var signatures [][]byte
	for text := range strings.FieldsSeq(values[2]) {
		encoded, ok := strings.CutPrefix(text, "v1,")
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if ok && err == nil && len(signatures) < maxSignatures {
			signatures = append(signatures, signature)
		}
	}
	if id == "" || !signed(keys, signatures, []byte(id+"."+at+"."), body) {
		return Call{}, refused("no v1 signature of %sSignature is of the secret and this body", prefix)
	}
	return Call{ID: id}, recent(at, now)
}

func github(keys [][]byte, header http.Header, body []byte) (Call, error) {
	const name = "X-Hub-Signature-256"
	text, err := one(header, name)
	if err != nil {
		return Call{}, err
	}
	if !strings.HasPrefix(text, "sha256=") {
		return Call{}, refused("expected %s: sha256=…", name)
	}
	return Call{ID: header.Get("X-Github-Delivery"), Event: header.Get("X-Github-Event")}, plain(keys, name, text, body)
}

func stripe(keys [][]byte, header http.Header, body []byte, now time.Time) error {
	const name = "Stripe-Signature"
	text, err := one(header, name)
	if err != nil {
		return err
	}
	at, signatures := "", [][]byte(nil)
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "t":
			if at != "" {
				return refused("expected one time in %s", name)
			}
			at = value
		case "v1":
			if signature, err := hex.DecodeString(value); err == nil && len(signatures) < maxSignatures {
				signatures = append(signatures, signature)
			}
		}
	}
	if !signed(keys, signatures, []byte(at+"."), body) {
		return refused("no v1 signature of %s is of the secret and this body", name)
	}
	return recent(at, now)
}

// plain looks at the HMAC of a body, in hexadecimal or base64.
func plain(keys [][]byte, name, text string, body []byte) error {
	text = strings.TrimPrefix(text, "sha256=")
	signature, err := hex.DecodeString(text)
	if err != nil {
		signature, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil || !signed(keys, [][]byte{signature}, body) {
		return refused("%s is not of the secret and this body", name)
	}
	return nil
}
