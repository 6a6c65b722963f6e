package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// wait bounds everything that a page should do.
const wait = 20 * time.Second

// browser returns a context in which tabs open. The test is skipped without a browser. The one without windows comes
// first: a page takes a third of the work in it.
func browser(t *testing.T) context.Context {
	t.Helper()
	program := ""
	for _, name := range []string{
		"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
	} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		const missing = "expected chromium-headless-shell or chromium in the PATH, found none: apt-get install chromium"
		if os.Getenv("STET_TEST_STRICT") == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.WindowSize(1360, 900), chromedp.Flag("lang", "en-GB"), chromedp.Env("TZ=Europe/Berlin"),
		chromedp.WSURLReadTimeout(time.Minute))
	all, endAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(all)
	t.Cleanup(func() {
		end()
		endAll()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// tab is a page of the browser, with all that must not happen on it.
type tab struct {
	t      *testing.T
	ctx    context.Context
	origin string
	also   string // another origin that may be asked; "": none

	mu       sync.Mutex
	faults   []string
	requests int
	urls     []string
}

// watch is put into each page before its own script: it collects violations, long tasks, and what takes clicks.
const watch = `
	window.seen = { violations: [], long: [], clicked: new Set() };
	const listen = EventTarget.prototype.addEventListener;
	EventTarget.prototype.addEventListener = function (type, ...rest) {
		if (type === "click") seen.clicked.add(this);
		return listen.call(this, type, ...rest);
	};
	addEventListener("securitypolicyviolation",
		(e) => seen.violations.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));
	new PerformanceObserver((l) => { for (const e of l.getEntries()) seen.long.push([e.startTime, e.duration]); })
		.observe({ type: "longtask", buffered: true });`

// open opens a page in a new tab and waits until what a selector names is there.
func open(t *testing.T, browser context.Context, address, until string) *tab {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := chromedp.NewContext(browser)
	tb := &tab{t: t, ctx: ctx, origin: u.Scheme + "://" + u.Host}
	t.Cleanup(end)
	if err := chromedp.Listen(ctx, tb.event); err != nil {
		t.Fatal(err)
	}
	tb.do(call(network.Enable, network.EnableParams{}), call(runtime.Enable, cdp.Empty{}), call(log.Enable, cdp.Empty{}),
		call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}),
		chromedp.Navigate(address))
	tb.until(until)
	return tb
}

// call is a command of the protocol whose answer does not matter.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

func (tb *tab) fault(format string, args ...any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.faults = append(tb.faults, fmt.Sprintf(format, args...))
}

func (tb *tab) event(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var args []string
			for _, a := range e.Args {
				args = append(args, string(a.Value)+a.Description)
			}
			tb.fault("the console has an error: %s", strings.Join(args, " "))
		}
	case *runtime.EventExceptionThrown:
		tb.fault("an exception: %s", fmt.Sprintf("%+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			tb.fault("the log has an error: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, tb.origin+"/") &&
			(tb.also == "" || !strings.HasPrefix(e.Request.URL, tb.also+"/")) && !strings.HasPrefix(e.Request.URL, "data:") {
			tb.fault("a foreign request: %s", e.Request.URL)
		}
		tb.mu.Lock()
		tb.requests++
		tb.urls = append(tb.urls, e.Request.URL)
		tb.mu.Unlock()
	case *page.EventJavascriptDialogOpening:
		tb.fault("a dialog of the browser: %s", e.Message)
	}
}

// do carries actions out.
func (tb *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, wait)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		tb.t.Fatalf("%v\n%s", err, tb.text())
	}
}

// text returns what the page shows, for messages.
func (tb *tab) text() string {
	ctx, cancel := context.WithTimeout(tb.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// until waits until a selector finds something.
func (tb *tab) until(selector string) {
	tb.t.Helper()
	tb.untilTrue(fmt.Sprintf(`document.querySelector(%q) !== null`, selector))
}

// untilTrue waits until a condition of the page holds. It asks from outside: a page under
// this policy makes no function of a text.
func (tb *tab) untilTrue(condition string) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, wait)
	defer cancel()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](condition))
		if err == nil && ok {
			return
		}
		select {
		case <-ctx.Done():
			tb.mu.Lock()
			defer tb.mu.Unlock()
			tb.t.Fatalf("never came true: %s (%v)\n%s\n%v", condition, err, tb.text(), tb.faults)
		case <-time.After(15 * time.Millisecond):
		}
	}
}

// is returns the value of an expression of the page.
func is[T any](tb *tab, expression string) T {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, wait)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		tb.t.Fatalf("%s: %v\n%s", expression, err, tb.text())
	}
	return v
}

// script executes something on the page.
func (tb *tab) script(text string) {
	tb.t.Helper()
	tb.do(chromedp.Evaluate[chromedp.Void](text))
}

// keys presses keys, one after the other.
func (tb *tab) keys(keys ...string) {
	tb.t.Helper()
	for _, k := range keys {
		tb.do(chromedp.KeyEvent(k))
	}
}

// clean fails the test if something has happened that must not happen on any page.
func (tb *tab) clean() {
	tb.t.Helper()
	for _, v := range is[[]string](tb, `window.seen.violations`) {
		tb.fault("the content security policy was violated: %s", v)
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, f := range tb.faults {
		tb.t.Error(f)
	}
	tb.faults = nil
}

// scheme sets the colours that the system prefers.
func (tb *tab) scheme(scheme string) {
	tb.t.Helper()
	tb.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}))
}

// picture keeps a picture of the page, if STET_E2E_PICTURES says where.
func (tb *tab) picture(name string) {
	tb.t.Helper()
	dir := os.Getenv("STET_E2E_PICTURES")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(tb.ctx, wait)
	defer cancel()
	shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		tb.t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), shot, 0o644); err != nil {
		tb.t.Fatal(err)
	}
}
