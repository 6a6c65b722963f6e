package signature

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
)

// vectors are what the makers of the schemes have published: secret, headers, body, and the time
// at which it was signed.
var vectors = []struct {
	name    string
	hook    stet.Hook
	header  map[string]string
	body    string
	at      int64 // 0: it is not signed
	id      string
	event   string
	changed string // a header whose change must be refused, though it is not the signature; "": none
}{
	{ // of the specification's libraries
		name: "standard",
		hook: stet.Hook{Scheme: stet.HookStandard, Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}},
		header: map[string]string{"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
			"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		body: `{"test": 2432232314}`, at: 1614265330, id: "msg_p5jXN8AQM9LWM0D4loKWxJek", changed: "webhook-id",
	},
	{ // the same under the names of Svix, among signatures of other kinds and keys, with a secret without a prefix
		name: "standard by svix",
		hook: stet.Hook{Scheme: stet.HookStandard, Secrets: []string{"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}},
		header: map[string]string{"svix-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "svix-timestamp": "1614265330",
			"svix-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= " +
				"v1a,AAAA v1,bm9ldHUjKzFob2VudXRob2VodWUzMjRvdWVvdW9ldQo="},
		body: `{"test": 2432232314}`, at: 1614265330, id: "msg_p5jXN8AQM9LWM0D4loKWxJek", changed: "svix-timestamp",
	},
	{ // of GitHub's documentation
		name: "github", hook: stet.Hook{Scheme: stet.HookGitHub, Secrets: []string{"It's a Secret to Everybody"}},
		header: map[string]string{"X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-GitHub-Event": "push",
			"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
		body: "Hello, World!", id: "72d3162e-cc78-11e3-81ab-4c9367dc0958", event: "push",
	},
	{ // of a library for Stripe, whose own documentation has a header and no body to it
		name: "stripe", hook: stet.Hook{Scheme: stet.HookStripe, Secrets: []string{"secret"}},
		header: map[string]string{"Stripe-Signature": "t=1533204620," +
			"v1=5a81ebe328da1df19581cbc6c7377920947ffd30b56eebcc7ba9a6938a090965," +
			"v0=63f3a72374a733066c4be69ed7f8e5ac85c22c9f0a6a612ab9a025a9e4ee7eef"},
		body: `{"account":"acct_123","api_version":"2017-05-25","created":1533204620,"data":{"object":{"amount":1000,` +
			`"currency":"usd","customer":"cus_123","date":1533204620,"description":"Test Invoice Item",` +
			`"discountable":false,"id":"ii_123","invoice":"in_123","livemode":false,"metadata":{},"object":"invoiceitem",` +
			`"period":{"end":1533204620,"start":1533204620},"proration":false,"quantity":3}},"id":"evt_123",` +
			`"livemode":false,"object":"event","pending_webhooks":1,"request":{"id":"req_123",` +
			`"idempotency_key":"idempotency-key-123"},"type":"invoiceitem.created"}`,
		at: 1533204620,
	},
	{ // RFC 4231, case 2
		name: "hmac in hexadecimal", hook: stet.Hook{Scheme: stet.HookHMAC, Header: "X-Signature", Secrets: []string{"Jefe"}},
		header: map[string]string{"X-Signature": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
		body:   "what do ya want for nothing?",
	},
	{ // RFC 4231, case 1
		name: "hmac in base64",
		hook: stet.Hook{Scheme: stet.HookHMAC, Header: "X-Shop-Hmac", Secrets: []string{strings.Repeat("\x0b", 20)}},
		header: map[string]string{"X-Shop-Hmac": "sha256=" + inBase64(
			"b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")},
		body: "Hi There",
	},
}

func inBase64(text string) string {
	data, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(data)
}

func headerOf(of map[string]string) http.Header {
	h := http.Header{}
	for key, value := range of {
		h.Set(key, value)
	}
	return h
}

// TestVectors: each scheme takes what its maker has signed, and refuses the slightest change.
func TestVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			now := time.Unix(v.at, 0)
			check := func(hook stet.Hook, h http.Header, body string, at time.Time) (Call, error) {
				return Check(&hook, h, []byte(body), at)
			}
			good := headerOf(v.header)
			call, err := check(v.hook, good, v.body, now)
			if err != nil || call.ID != v.id || call.Event != v.event {
				t.Fatalf("%+v, %v", call, err)
			}
			refusedAs := func(what string, hook stet.Hook, h http.Header, body string, at time.Time) {
				t.Helper()
				if _, err := check(hook, h, body, at); !errors.Is(err, ErrRefused) {
					t.Errorf("%s: %v", what, err)
				} else if hook.Secrets[0] != "secret" && strings.Contains(err.Error(), hook.Secrets[0]) {
					t.Errorf("%s: the error has the secret: %v", what, err)
				}
			}
			refusedAs("a changed body", v.hook, good, v.body+" ", now)
			other := v.hook
			other.Secrets = []string{"whsec_" + base64.StdEncoding.EncodeToString([]byte("another secret of a hook"))}
			refusedAs("another secret", other, good, v.body, now)
			both := v.hook
			both.Secrets = []string{other.Secrets[0], v.hook.Secrets[0]}
			if _, err := check(both, good, v.body, now); err != nil {
				t.Errorf("the second of two secrets: %v", err)
			}
			for name := range v.header {
				if strings.Contains(strings.ToLower(name), "github-") {
					continue // GitHub does not sign it
				}
				for _, change := range []func(h http.Header){
					func(h http.Header) { h.Del(name) },
					func(h http.Header) { h.Set(name, "") },
					func(h http.Header) { h.Set(name, h.Get(name)[1:]) },
					func(h http.Header) { h.Add(name, h.Get(name)) },
				} {
					h := good.Clone()
					change(h)
					refusedAs(fmt.Sprintf("%s: %q", name, h.Values(name)), v.hook, h, v.body, now)
				}
			}
			if v.changed != "" {
				h := good.Clone()
				h.Set(v.changed, "1614265331")
				refusedAs("another "+v.changed, v.hook, h, v.body, now)
			}
			if v.at == 0 {
				return
			}
			for off, ok := range map[time.Duration]bool{MaxAge: true, -MaxAge: true, MaxAge + time.Second: false,
				-MaxAge - time.Second: false, 365 * 24 * time.Hour: false} {
				if _, err := check(v.hook, good, v.body, now.Add(off)); (err == nil) != ok {
					t.Errorf("%s later: %v", off, err)
				}
			}
		})
	}
}

// TestPointers: the examples of RFC 6901, and what is not there.
func TestPointers(t *testing.T) {
	const document = `{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6,
		" ": 7, "m~n": 8, "o": {"id": 12345678901234567890, "part": 1.5, "text": "t", "none": null, "yes": true}}`
	for pointer, want := range map[string]string{
		"/foo": `["bar", "baz"]`, "/foo/0": `"bar"`, "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4",
		`/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8", "": document,
		"/foo/2": "", "/foo/-": "", "/foo/01": "", "/foo/+1": "", "/foo/x": "", "/bar": "", "/a": "", "/foo/0/x": "",
		"/o/none/x": "",
	} {
		found, ok := At(json.RawMessage(document), pointer)
		if ok != (want != "") || string(found) != want {
			t.Errorf("%q: %s, %t", pointer, found, ok)
		}
	}
	for pointer, want := range map[string]string{
		"/o/id": "12345678901234567890", "/o/text": "t", "/o/part": "", "/o/none": "", "/o/yes": "", "/o": "", "/foo": "",
		"/foo/0": "bar", "/nowhere": "",
	} {
		if text, ok := TextAt(json.RawMessage(document), pointer); text != want || ok != (want != "") {
			t.Errorf("%q: %q, %t", pointer, text, ok)
		}
	}
}

// FuzzCheck: no header and body is taken without the secret, and none ends the process.
func FuzzCheck(f *testing.F) {
	for _, v := range vectors {
		for name, value := range v.header {
			f.Add(name, value, v.body, "/id")
		}
	}
	f.Fuzz(func(t *testing.T, name, value, body, pointer string) {
		for _, scheme := range []stet.HookScheme{stet.HookStandard, stet.HookGitHub, stet.HookStripe, stet.HookHMAC} {
			hook := &stet.Hook{Scheme: scheme, Header: "X-Signature", Secrets: []string{"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx"}}
			h := http.Header{}
			for _, name := range []string{name, "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Stripe-Signature",
				"X-Hub-Signature-256", "X-Signature"} {
				h.Set(name, value)
			}
			if _, err := Check(hook, h, []byte(body), time.Unix(1614265330, 0)); err == nil {
				t.Errorf("%s: %s: %s is taken", scheme, name, value)
			}
		}
		if json.Valid([]byte(body)) && strings.HasPrefix(pointer, "/") {
			_, _ = TextAt(json.RawMessage(body), pointer)
		}
	})
}
