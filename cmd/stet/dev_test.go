package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

// shop is a program with a workflow that waits, and then says which version has gone on.
const shop = `package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/sqlite"
)

var order = stet.Define("order", func(ctx stet.Context, _ any) (string, error) {
	if err := stet.Do(ctx, "begin", func(context.Context) error {
		fmt.Println("<b>begun", stet.RunID(ctx))
		return nil
	}); err != nil {
		return "", err
	}
	name, err := stet.Message[string]("go").Receive(ctx)
	return name + " by VERSION", err
})

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := sqlite.Open(ctx, os.Getenv("STET_DB"))
	if err != nil {
		panic(err)
	}
	defer s.Close()
	e, err := stet.New(ctx, stet.Config{Store: s, Workflows: []stet.Definition{order}})
	if err != nil {
		panic(err)
	}
	if err := e.Run(ctx); err != nil {
		panic(err)
	}
}
`

// TestDev: a program with a workflow is built and executed; a run that it has begun goes on
// in the next version, and the page says what the program prints.
func TestDev(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a program of Windows is not asked to end")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, more := range map[string]string{"go.mod": "\nrequire github.com/stet-run/stet v0.0.0\n\n" +
		"replace github.com/stet-run/stet => " + root + "\n", "go.sum": ""} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, strings.Replace(string(text), "module github.com/stet-run/stet", "module example.com/shop", 1)+more)
	}
	write("main.go", strings.ReplaceAll(shop, "VERSION", "1"))
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("STET_DB", "postgres://nobody@nowhere.invalid/shop") // of the shell: it is not taken

	serving, stop := context.WithCancel(ctx)
	out, address := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(serving, []string{"dev", "--addr", "127.0.0.1:0"}, nil, address, t.Output())
		_ = address.Close()
	}()
	printed := bufio.NewReader(out)
	line, err := printed.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, printed) }() // what the program prints
	url, once, ok := strings.Cut(strings.TrimSpace(line), "#token=")
	if !ok {
		t.Fatalf("expected an address with a token, found %q", line)
	}
	if got := status(t, ctx, http.MethodGet, url+"dev", "", ""); got != http.StatusUnauthorized {
		t.Errorf("without a credential the page is %d", got)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	answer, err := browser.Post(url+"api/v1/login", "application/json", strings.NewReader(`{"token":"`+once+`"}`))
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the login: %+v, %v", answer, err)
	}
	_ = answer.Body.Close()
	page := func(path string) string {
		t.Helper()
		answer, err := browser.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, answer.StatusCode, err)
		}
		return string(text)
	}
	until := func(what string, is func() bool) {
		t.Helper()
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for !is() {
			select {
			case <-again.C:
			case <-ctx.Done():
				t.Fatalf("expected %s, found %s", what, page("dev.json"))
			}
		}
	}
	c, err := client.New(url, client.Options{HTTP: browser})
	if err != nil {
		t.Fatal(err)
	}
	until("the workflow", func() bool {
		_, err := c.Start(ctx, "", api.Start{Workflow: "order", ID: "o-1", Input: json.RawMessage("null")})
		return err == nil
	})
	stands := func(want store.Status) func() bool {
		return func() bool { run, err := c.Run(ctx, "o-1"); return err == nil && run.Status == want }
	}
	until("a run that waits", stands(store.Suspended))

	write("main.go", "package main\n\nfunc main() { undefined() }\n")
	const failed = "the build has failed"
	until("a failed build", func() bool { return strings.Contains(page("dev.json"), `"phase":"build failed"`) })
	if text := page("dev"); strings.Count(text, "undefined: undefined") != 1 || !strings.Contains(text, failed) {
		t.Errorf("the page does not show the failed build once: %s", text)
	}
	write("main.go", strings.ReplaceAll(shop, "VERSION", "2"))
	until("the second version", func() bool { return strings.Contains(page("dev.json"), `"starts":2`) })
	if err := c.Send(ctx, "o-1", "go", "", api.Send{Value: json.RawMessage(`"tea"`)}); err != nil {
		t.Fatal(err)
	}
	run, err := c.Wait(ctx, "o-1")
	if err != nil || string(run.Output) != `"tea by 2"` {
		t.Errorf("the run: %+v, %v", run, err)
	}
	if text := page("dev?run=o-1"); !strings.Contains(text, "&lt;b&gt;begun o-1") || strings.Contains(text, "built in") {
		t.Errorf("the page of the run: %s", text)
	}
	stop()
	if code := <-ended; code != exitDone {
		t.Errorf("stet dev ends with %d", code)
	}
	if ignored, err := os.ReadFile(filepath.Join(dir, ".stet", ".gitignore")); err != nil || string(ignored) != "*\n" {
		t.Errorf(".stet/.gitignore: %q, %v", ignored, err)
	}
}

// TestDevIsRefused where there is nothing to build.
func TestDevIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, want := range map[string]int{
		"dev --addr 127.0.0.1:0": exitFailed, "dev a b": exitUsage, "dev -o ids": exitUsage,
	} {
		if code := execute(t.Context(), strings.Fields(args), nil, io.Discard, t.Output()); code != want {
			t.Errorf("stet %s: %d", args, code)
		}
	}
}
