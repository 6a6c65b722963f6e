package server_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/store/sqlite"
)

const hookSecret = "a secret of sixteen bytes and more"

func signatureOf(secret, text string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// Each returns the headers with which a service signs a body.
func byHMAC(secret, body string) []string {
	return []string{"X-Signature", hex.EncodeToString(signatureOf(secret, body))}
}

func byGitHub(secret, delivery, event, body string) []string {
	return []string{"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(signatureOf(secret, body)),
		"X-GitHub-Delivery", delivery, "X-GitHub-Event", event}
}

func byStripe(secret, body string, at time.Time) []string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return []string{"Stripe-Signature", "t=" + stamp + ",v1=" + hex.EncodeToString(signatureOf(secret, stamp+"."+body))}
}

func byStandard(secret, id, body string, at time.Time) []string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return []string{"webhook-id", id, "webhook-timestamp", stamp,
		"webhook-signature", "v1," + base64.StdEncoding.EncodeToString(signatureOf(secret, id+"."+stamp+"."+body))}
}

// called calls a webhook, and returns the status and the answer.
func (w *world) called(name, body string, headers ...string) (status int, got api.Received) {
	w.t.Helper()
	r := w.do("", "POST", "hooks/"+name, body, append([]string{"Content-Type", "text/plain"}, headers...)...)
	if r.StatusCode < 300 {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			w.t.Fatal(err)
		}
	}
	return r.StatusCode, got
}

func (w *world) calls(want int, again bool, name, body string, headers ...string) {
	w.t.Helper()
	if status, got := w.called(name, body, headers...); status != want || got.Again != again {
		w.t.Errorf("hook %s: expected %d, again %t; found %d, %+v", name, want, again, status, got)
	}
}

func (w *world) hook(name string, h api.SetHook) {
	w.t.Helper()
	if h.Secrets == nil {
		h.Secrets = []string{hookSecret}
	}
	w.ask("admin", "PUT", "hooks/"+name, h, http.StatusOK, nil)
}

// TestHookStarts (T11, T13): a call starts one run for each delivery of the sender. With GitHub that is each body, by
// any ID. The run knows where it is from.
func TestHookStarts(t *testing.T) {
	w := newWorld(t, true)
	w.hook("pushes", api.SetHook{Scheme: "github", Start: "order", Value: "/repository/name"})
	body := `{"repository": {"name": "stet"}}`
	w.calls(202, false, "pushes", body, byGitHub(hookSecret, "d-1", "push", body)...)
	w.calls(200, true, "pushes", body, byGitHub(hookSecret, "d-1", "push", body)...)
	other := `{"repository": {"name": "other"}}`
	w.calls(202, false, "pushes", other, byGitHub(hookSecret, "d-1", "push", other)...)
	w.calls(200, true, "pushes", body, byGitHub(hookSecret, "d-2", "push", body)...) // the ID is not signed
	if status, got := w.called("pushes", `{}`, byGitHub(hookSecret, "d-3", "ping", `{}`)...); status != 200 ||
		got.Ignored != "ping" {
		t.Errorf("a ping: %d, %+v", status, got)
	}
	var list api.Runs
	w.get("operator", "runs", &list)
	if len(list.Runs) != 2 {
		t.Fatalf("the runs: %+v", list)
	}
	run := list.Runs[1]
	if string(run.Input) != `"stet"` || run.Headers["stet.by"] != "hook:pushes" || run.Headers["hook"] != "pushes" ||
		run.Headers["hook.delivery"] != "d-1" || run.Headers["hook.event"] != "push" {
		t.Errorf("the run: %s, %v", run.Input, run.Headers)
	}

	// The ID of the run stands in the body: another delivery about the same run is refused, unless it says the same.
	w.hook("orders", api.SetHook{Scheme: "hmac", Start: "order", Target: "/id", Value: "/sku"})
	for _, c := range []struct {
		body   string
		status int
		again  bool
	}{
		{`{"id": "o-7", "sku": "pear"}`, 202, false}, {`{"id": "o-7", "sku": "pear"}`, 200, true},
		{`{"id": "o-7", "sku": "pear", "at": 2}`, 200, true}, {`{"id": "o-7", "sku": "plum"}`, 409, false},
		{`{"id": 77, "sku": "plum"}`, 202, false}, {`{"id": "stet.topic/x", "sku": "plum"}`, 400, false},
	} {
		w.calls(c.status, c.again, "orders", c.body, byHMAC(hookSecret, c.body)...)
	}
	w.hook("nowhere", api.SetHook{Scheme: "hmac", Start: "unheard-of"})
	w.calls(404, false, "nowhere", `{}`, byHMAC(hookSecret, `{}`)...)
}

// TestHookSends: a message reaches its run once, also after the run has ended.
func TestHookSends(t *testing.T) {
	w := newWorld(t, true)
	w.started("order", "o-1", "apple")
	key := []byte("a key of twenty four byt")
	w.hook("approvals", api.SetHook{Scheme: "standard", Send: "approved", Target: "/data/order", Value: "/data/who",
		Secrets: []string{"whsec_" + base64.StdEncoding.EncodeToString(key)}})
	body := `{"data": {"order": "o-1", "who": "ann"}}`
	sign := func(id string, at time.Time) []string { return byStandard(string(key), id, body, at) }
	w.calls(401, false, "approvals", body, sign("m-1", time.Now().Add(-6*time.Minute))...)
	w.calls(401, false, "approvals", body, sign("m-1", time.Now().Add(6*time.Minute))...)
	w.calls(202, false, "approvals", body, sign("m-1", time.Now())...)
	if got := w.output("o-1"); got != `"paid apple by ann"` {
		t.Errorf("the order ends with %s", got)
	}
	w.calls(200, true, "approvals", body, sign("m-1", time.Now())...)
	w.calls(409, false, "approvals", body, sign("m-2", time.Now())...) // to a run that has ended
	body = `{"data": {"order": "o-9", "who": "ann"}}`
	w.calls(404, false, "approvals", body, sign("m-3", time.Now())...)
}

// TestHookPublishes: an event has the settings of the topic, and is published once.
func TestHookPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		jobs := stet.Topic[string]{Name: "jobs", Mode: stet.Consumed, Expiry: time.Hour}
		if _, err := jobs.Publish(t.Context(), w.engine, "first"); err != nil {
			t.Fatal(err)
		}
		settled := func(events int64) {
			t.Helper()
			synctest.Wait() // the writer of the topic counts
			info, err := w.engine.Topics().Info(t.Context(), "jobs")
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode != stet.Consumed || info.Expiry != time.Hour || info.Accepted != events {
				t.Fatalf("expected %d events, found the topic %+v", events, info)
			}
		}
		settled(1)
		w.hook("payments", api.SetHook{Scheme: "stripe", Publish: "jobs", Value: "/type"})
		body := `{"id": "evt_1", "type": "invoice.paid", "pending_webhooks": 2}`
		w.calls(202, false, "payments", body, byStripe(hookSecret, body, time.Now())...)
		w.calls(401, false, "payments", body, byStripe(hookSecret, body, time.Now().Add(-time.Hour))...)
		body = `{"id": "evt_1", "type": "invoice.paid", "pending_webhooks": 1}` // the sender's repeat
		w.calls(200, true, "payments", body, byStripe(hookSecret, body, time.Now())...)
		settled(2)
	})
}

// TestHookResolves: the token in the body leads to the promise, and nothing else is assigned.
func TestHookResolves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		if _, err := asks.Start(t.Context(), w.engine, 0, stet.ID("a-1")); err != nil {
			t.Fatal(err)
		}
		token := w.tokenOf("a-1")
		w.hook("answers", api.SetHook{Scheme: "hmac", Header: "X-Answer", Resolve: true, Target: "/token", Value: "/answer"})
		call := func(want int, again bool, body string) {
			t.Helper()
			w.calls(want, again, "answers", body, "X-Answer",
				"sha256="+base64.StdEncoding.EncodeToString(signatureOf(hookSecret, body)))
		}
		call(404, false, `{"token": "p1.forged", "answer": 1}`)
		call(202, false, `{"token": "`+token+`", "answer": 42}`)
		call(200, true, `{"token": "`+token+`", "answer": 42}`)
		if got := w.output("a-1"); got != "42" {
			t.Errorf("the answer is %s", got)
		}
	})
}

// asks waits for a promise.
var asks = stet.Define("asks", func(ctx stet.Context, _ int) (int, error) {
	p, err := stet.NewPromise[int](ctx, "answer")
	if err != nil {
		return 0, err
	}
	return p.Await(ctx)
})

// tokenOf returns the token of a run's promise, in a bubble of synctest: it waits until the run
// awaits it.
func (w *world) tokenOf(id string) string {
	w.t.Helper()
	synctest.Wait()
	found, err := w.engine.Runs().Promises(w.t.Context(), id)
	if err != nil || len(found) != 1 {
		w.t.Fatalf("expected one promise, found %+v, %v", found, err)
	}
	return found[0].Token
}

// TestHookIsRefused (T12, T13): without a good signature nothing is done, whatever else a caller
// has, and nothing is told.
func TestHookIsRefused(t *testing.T) {
	w := newWorld(t, true)
	w.hook("orders", api.SetHook{Scheme: "hmac", Start: "order", Target: "/id", Value: "/sku"})
	body := `{"id": "o-1", "sku": "pear"}`
	for _, headers := range [][]string{
		nil, {"Authorization", "Bearer admin"}, byHMAC("another secret of many bytes", body), byHMAC(hookSecret, body+" "),
		{"X-Signature", ""}, {"X-Signature", strings.Repeat("0", 64)},
	} {
		p := w.refused("", "POST", "hooks/orders", body, "unauthenticated", headers...)
		if strings.Contains(fmt.Sprint(p), hookSecret) {
			t.Errorf("the answer has the secret: %+v", p)
		}
	}
	w.refused("", "POST", "hooks/others", body, "not_found", byHMAC(hookSecret, body)...)
	w.refused("", "POST", "hooks/"+strings.Repeat("x", 300), body, "not_found", byHMAC(hookSecret, body)...)
	for text, code := range map[string]string{
		`{"sku": "pear"}`: "pointer", `{"id": "o-1"}`: "pointer", `{"id": {"x": 1}, "sku": 1}`: "pointer",
		`{"id": 1.5, "sku": 1}`: "pointer", `payload=%7B%7D`: "invalid", ``: "invalid", `{"id": "o-1"`: "invalid",
	} {
		p := w.refused("", "POST", "hooks/orders", text, code, byHMAC(hookSecret, text)...)
		if code == "pointer" && (p.Status != 422 || !strings.Contains(p.Detail, "/")) {
			t.Errorf("%s: %+v", text, p)
		}
	}
	large := `{"id": "o-1", "sku": "` + strings.Repeat("x", 3<<20) + `"}`
	w.refused("", "POST", "hooks/orders", large, "too_large", byHMAC(hookSecret, large)...)
	w.refused("", "POST", "hooks/orders", body, "cross_site",
		append(byHMAC(hookSecret, body), "Sec-Fetch-Site", "cross-site")...)
	var list api.Runs
	if w.get("operator", "runs", &list); len(list.Runs) != 0 {
		t.Errorf("runs were started: %+v", list)
	}
	w.stop()
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.calls(503, false, "orders", body, byHMAC(hookSecret, body)...)
}

// TestHooksAreAdministered: who may, what is refused, and what stands in the audit. Secrets are
// shown to nobody, and two may count at a time.
func TestHooksAreAdministered(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
	w := newWorld(t, true, func(o *server.Options) {
		o.Logger = slog.New(slog.NewTextHandler(locked{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	h := api.SetHook{Scheme: "hmac", Secrets: []string{hookSecret}, Start: "order", Reason: "the shop"}
	for _, who := range []string{"viewer", "caller", "operator", "worker", "limited"} {
		w.refused(who, "PUT", "hooks/orders", h, "forbidden")
		w.refused(who, "GET", "hooks", nil, "forbidden")
		w.refused(who, "DELETE", "hooks/orders", map[string]string{}, "forbidden")
	}
	for what, bad := range map[string]api.SetHook{
		"no scheme": {Secrets: h.Secrets, Start: "order"}, "unknown scheme": {Scheme: "md5", Secrets: h.Secrets, Start: "order"},
		"no act": {Scheme: "hmac", Secrets: h.Secrets}, "two acts": {Scheme: "hmac", Secrets: h.Secrets, Start: "a", Publish: "b"},
		"no secret": {Scheme: "hmac", Start: "order"}, "short": {Scheme: "hmac", Secrets: []string{"short"}, Start: "order"},
		"three":         {Scheme: "hmac", Secrets: []string{hookSecret, hookSecret, hookSecret}, Start: "order"},
		"no base64":     {Scheme: "standard", Secrets: []string{"whsec_ no base64 at all"}, Start: "order"},
		"short key":     {Scheme: "standard", Secrets: []string{"whsec_QUJDREVGRw=="}, Start: "order"},
		"no target":     {Scheme: "hmac", Secrets: h.Secrets, Send: "m"},
		"wrong pointer": {Scheme: "hmac", Secrets: h.Secrets, Start: "order", Value: "data.id"},
		"header":        {Scheme: "github", Secrets: h.Secrets, Start: "order", Header: "X"},
		"nothing there": {Scheme: "hmac", Secrets: h.Secrets, Start: "order", Replace: true},
	} {
		code := "invalid"
		if what == "nothing there" {
			code = "not_found"
		}
		if p := w.refused("admin", "PUT", "hooks/orders", bad, code); strings.Contains(p.Detail, hookSecret) {
			t.Errorf("%s: the answer has the secret: %+v", what, p)
		}
	}
	w.hook("orders", h)
	w.refused("admin", "PUT", "hooks/orders", h, "invalid") // there is one
	w.calls(202, false, "orders", `"a"`, byHMAC(hookSecret, `"a"`)...)
	const second = "the second secret of the hook"
	h.Secrets, h.Replace = []string{second, hookSecret}, true
	w.hook("orders", h)
	w.calls(202, false, "orders", `"b"`, byHMAC(hookSecret, `"b"`)...)
	w.calls(202, false, "orders", `"c"`, byHMAC(second, `"c"`)...)
	h.Secrets = h.Secrets[:1]
	w.hook("orders", h)
	w.calls(401, false, "orders", `"d"`, byHMAC(hookSecret, `"d"`)...)

	text, err := io.ReadAll(w.do("admin", "GET", "hooks", nil).Body)
	if err != nil || !bytes.Contains(text, []byte(`"name":"orders"`)) || bytes.Contains(text, []byte("secret")) {
		t.Errorf("the list: %s, %v", text, err)
	}
	w.ask("admin", "DELETE", "hooks/orders", api.Reason{Reason: "closed"}, http.StatusOK, nil)
	w.refused("admin", "DELETE", "hooks/orders", api.Reason{}, "not_found")
	w.calls(404, false, "orders", `"c"`, byHMAC(second, `"c"`)...)
	var audits api.Audits
	w.get("admin", "audit?about=hook+orders", &audits)
	if len(audits.Audit) != 4 || audits.Audit[0].Verb != "remove" || audits.Audit[0].Who != "ada" ||
		audits.Audit[0].Why != "closed" || audits.Audit[3].Verb != "create" || audits.Audit[3].Why != "the shop" {
		t.Errorf("the audit: %+v", audits)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(log.String(), "identity=hook:orders") ||
		!strings.Contains(log.String(), "a call of a webhook was refused") {
		t.Errorf("the log says nothing of the hook: %s", log.String())
	}
	for _, secret := range []string{hookSecret, second, hex.EncodeToString(signatureOf(second, `"c"`))} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// locked is a writer for several goroutines.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// TestSecretsOfHooksAreEncrypted in the store, as values are.
func TestSecretsOfHooksAreEncrypted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	for encrypt, there := range map[bool]bool{false: true, true: false} {
		path := fmt.Sprint(path, encrypt)
		db, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stet.Config{Store: db, Logger: quiet()}
		if encrypt {
			cfg.Payloads.Keys = []stet.PayloadKey{{ID: "k", Secret: []byte("32 bytes that nobody else knows!")}}
		}
		e, err := stet.New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, e)
		hook := stet.Hook{Name: "h", Scheme: stet.HookHMAC, Secrets: []string{hookSecret}, Start: "order"}
		if err := stet.HooksOf(e).Create(t.Context(), hook, stet.Act{}); err != nil {
			t.Fatal(err)
		}
		if h, err := stet.HooksOf(e).Get(t.Context(), "h"); err != nil || h.Secrets[0] != hookSecret {
			t.Errorf("%+v, %v", h, err)
		}
		stop()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, name := range []string{path, path + "-wal"} {
			data, err := os.ReadFile(name)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			found = found || bytes.Contains(data, []byte(hookSecret))
		}
		if found != there {
			t.Errorf("encrypted %t: the secret is in the file: %t", encrypt, found)
		}
	}
}
