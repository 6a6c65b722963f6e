package main

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/sqlite"
)

// printed says what the commands of a page need beside the stores of newShop, and what they print.
type printed struct {
	alone   bool     // they begin in an empty folder
	replace []string // what a person puts in place of a word, in pairs
	prints  []string // patterns of lines, in this order
}

// notExecuted are printed commands that TestPrintedCommands does not execute, with the reason.
var notExecuted = map[string]string{
	"README.md: mkdir shop && cd shop && go mod init shop":             "internal/e2e TestFirstProgram, in a workspace",
	"README.md: go get github.com/stet-run/stet":                       "it needs the network: TestFirstProgram",
	"README.md: go run .":                                              "internal/e2e TestFirstProgram",
	"README.md: git clone https://github.com/stet-run/stet && cd stet": "it needs the network",
	"README.md: go run ./examples/treesum DIR":                         "examples/treesum TestKilledOnGoSource",
	"README.md: go run ./stetvet/cmd/stetvet ./...":                    "make vet executes it",
	"README.md: make test":                                             "it executes this test",
	"README.md: go run ./cmd/stet serve --db treesum.db":               servesForEver,
	"README.md: bin/stet --db mine.db torture":                         "it takes minutes: testdata/script/measure.txtar",
	"README.md: bin/stet --db mine.db bench --workload all --raw":      "it takes minutes: testdata/script/measure.txtar",

	"checking.md: go install github.com/stet-run/stet/stetvet/cmd/stetvet": "it needs the network",
	"checking.md: stetvet ./...": vets,
	"checking.md: go vet -vettool=$(which stetvet) -stetvet.rules=-log ./...": vets,
	"checking.md: stetvet -rules=-log,-sync ./...":                            vets,
	"checking.md: stetvet -contexts=example.com/flow.Context " +
		"-bodies=example.com/flow.Once,example.com/flow.Run.Try ./...": vets,

	"developing.md: stet dev ./cmd/shop -- --verbose": "it works until it is interrupted: TestDev",
	"serving.md: stet serve --db shop.db":             servesForEver,
	"oidc.md: STET_OIDC_SECRET=... stet serve --db shop.db --addr :8443 --tls-cert cert.pem --tls-key key.pem " +
		"--oidc-issuer https://login.example.com --oidc-client stet " +
		"--oidc-redirect https://ops.example.com/api/v1/login/callback --oidc-role groups=stet-admins:admin " +
		"--oidc-role groups=oncall:operator --oidc-role groups=staff:viewer": "it needs a provider: server/oidc",
}

const (
	servesForEver = "it listens at a fixed port until it is interrupted: server/e2e TestTheWalkOfANewUser, at another one"
	vets          = "the stetvet module's TestAloneAndUnderVet"
)

// untilShown shows a topic until its event is there: the program takes it up after the command that sends it has ended.
const untilShown = "until stet --db shop.db topics show jobs >shown && grep -q '^job-17 ' shown; do :; done; cat shown"

// TestPrintedCommands executes each command that the README and the guide print, a page in a shell. Blocks with curl
// are executed by TestGuide of the server. A command that cannot be executed here is in notExecuted.
func TestPrintedCommands(t *testing.T) {
	for _, program := range []string{"bash", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("STET_TEST_STRICT") == "1" {
				t.Fatal(err)
			}
			t.Skipf("expected %s in the PATH, found none", program)
		}
	}
	shop, url, token := newShop(t)
	pages := map[string]printed{
		"README.md": {
			replace: []string{"show RUN", "show sum-1"},
			prints:  []string{`^sum-1 +sum +succeeded`, `^run +sum-1$`},
		},
		"encryption.md": {
			replace: []string{"2026-11:BASE64", "2026-11:" + keyOf('a'), "2025-11:BASE64", "2025-11:" + keyOf('b'),
				"/srv/objects", t.TempDir()},
			prints: []string{`^run +order-42$`},
		},
		"events.md": {
			replace: []string{"stet --db shop.db topics show jobs", untilShown},
			prints:  []string{`^job-17$`, `^jobs `, `^job-17 `},
		},
		"hooks.md":     {prints: []string{`^api/v1/hooks/orders$`, `^api/v1/hooks/pushes$`, `^orders +hmac +start checkout`}},
		"limits.md":    {prints: []string{`^queue +model$`}},
		"progress.md":  {prints: []string{`^100$`}},
		"repair.md":    {prints: []string{`^order-4711 +checkout +failed`, `^run +order-42$`}},
		"schedules.md": {prints: []string{`^nightly/`}},
		"scripts.md": {
			alone:  true,
			prints: []string{`^order 1$`, `^order +1 .* 72 hours$`},
		},
		"serving.md": {
			replace: []string{"https://ops.example.com/stet", url, "stet_...", "x", "5f1c0a9be2d34417", token},
			prints:  []string{`^stet_`, `^stet_`, ` +ada +operator `, `^order-4711 +checkout +failed`},
		},
		"starting.md": {prints: []string{`^order-42$`}},
		"workers.md":  {prints: []string{`^stet_`}},
	}
	listed := map[string]bool{}
	executed := 0
	texts := printedPages(t)
	for _, name := range slices.Sorted(maps.Keys(texts)) { // what is retried on one page is failed on another one before
		var script []string
		for _, command := range commandsOf(texts[name]) {
			if key := name + ": " + command; notExecuted[key] != "" {
				listed[key] = true
			} else {
				script = append(script, command)
			}
		}
		page := pages[name]
		delete(pages, name)
		if len(script) == 0 {
			continue
		}
		executed += len(script)
		t.Run(name, func(t *testing.T) {
			dir := shop
			if page.alone {
				dir = t.TempDir()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			code := strings.NewReplacer(page.replace...).Replace(strings.Join(script, "\n"))
			cmd := exec.CommandContext(ctx, "bash", "-euc", code)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GITHUB_SECRET=github-shares-this", "STRIPE_SECRET=whsec_stripe-shares-this")
			var messages strings.Builder
			cmd.Stderr = &messages
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s\n%v\n%s%s", code, err, out, messages.String())
			}
			rest := string(out)
			for _, line := range page.prints {
				at := regexp.MustCompile("(?m)" + line).FindStringIndex(rest)
				if at == nil {
					t.Fatalf("%s\nprints no line like %s:\n%s%s", code, line, out, messages.String())
				}
				rest = rest[at[1]:]
			}
		})
	}
	for key, reason := range notExecuted {
		if !listed[key] {
			t.Errorf("notExecuted has %q (%s), which no page prints", key, reason)
		}
	}
	for name := range pages {
		t.Errorf("%s has no commands", name)
	}
	if executed < 30 {
		t.Errorf("expected at least 30 commands, found %d", executed)
	}
}

// keyOf is a key for values.
func keyOf(b byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(b), 32)))
}

// newShop makes the stores that the pages speak of in a folder, which it returns: shop.db, on which a program works,
// with a server at the URL, films.db and treesum.db. The token is one of shop.db.
func newShop(t *testing.T) (folder, url, token string) {
	t.Helper()
	folder = t.TempDir()
	self, err := exec.LookPath("stet")
	if err == nil {
		err = os.MkdirAll(filepath.Join(folder, "bin"), 0o755)
	}
	if err == nil {
		err = os.Symlink(self, filepath.Join(folder, "bin", filepath.Base(self))) // what go build -o bin/ ./cmd/stet makes
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	check := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	film := stet.Define("film", func(ctx stet.Context, _ any) (int, error) {
		return 0, stet.Value[int]("percent").Set(ctx, 100)
	})
	sum := stet.Define("sum", func(stet.Context, any) (int, error) { return 1, nil })
	for _, ended := range []struct {
		file, id string
		workflow *stet.Workflow[any, int]
	}{{"films.db", "order-42", film}, {"treesum.db", "sum-1", sum}} {
		e, end := program(t, filepath.Join(folder, ended.file), ended.workflow)
		run, err := ended.workflow.Start(ctx, e, nil, stet.ID(ended.id))
		check(err)
		_, err = run.Wait(ctx)
		check(err)
		end()
	}

	order := stet.Define("order", func(ctx stet.Context, _ any) (bool, error) {
		d, err := stet.Message[struct{ OK bool }]("approved").Receive(ctx)
		return d.OK, err
	})
	checkout := stet.Define("checkout", func(ctx stet.Context, _ any) (int, error) {
		return 0, stet.Do(ctx, "charge", func(context.Context) error { return stet.Permanent(errors.New("card declined")) })
	})
	report := stet.Define("report", func(stet.Context, any) (int, error) { return 1, nil })
	e, end := program(t, filepath.Join(folder, "shop.db"), order, checkout, report)
	t.Cleanup(end)
	_, err = order.Start(ctx, e, map[string]string{"ID": "42"}, stet.ID("order-42"))
	check(err)
	failed, err := checkout.Start(ctx, e, nil, stet.ID("order-4711"))
	check(err)
	if _, err := failed.Wait(ctx); err == nil {
		t.Fatal("order-4711 has not failed")
	}
	check(
		e.Queues().Create(ctx, "model", stet.QueueSettings{Concurrency: 8}),
		e.Queues().Create(ctx, "imports", stet.QueueSettings{Concurrency: 20}),
		report.Schedule(ctx, e, "nightly", nil, stet.Schedule{Cron: "0 3 * * *", Zone: "Europe/Berlin"},
			stet.UntilCarriedOut()),
	)
	_, err = stet.TokensOf(e).Create(ctx, stet.TokenInfo{Name: "former", Role: "viewer"}, stet.Act{})
	check(err)
	tokens, err := stet.TokensOf(e).List(ctx)
	check(err)
	addresses, closed := make(chan string), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- served(e, e.Store(), slog.New(slog.DiscardHandler), "ada", func(url string) {
			addresses <- url
			<-closed
		})
	}()
	t.Cleanup(func() {
		close(closed)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return folder, <-addresses, tokens[0].ID
}

// program is a program on a store: it works until end is called.
func program(t *testing.T, file string, workflows ...stet.Definition) (e *stet.Engine, end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	db, err := sqlite.Open(ctx, file)
	if err == nil {
		e, err = stet.New(ctx, stet.Config{Store: db, Workflows: workflows, Logger: slog.New(slog.DiscardHandler)})
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, func() {
		stop()
		if err := errors.Join(<-ended, db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// printedPages returns the text of the README and of each page of the guide that has commands or names some.
func printedPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	pages := map[string]string{}
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		if strings.Contains(file, "guide/README") {
			name = "guide/README.md"
		}
		pages[name] = string(text)
	}
	return pages
}

var (
	blockOfShell = regexp.MustCompile("(?s)```sh\n(.*?)```")
	noteOfLine   = regexp.MustCompile(`\s+# .*$`)
)

// commandsOf returns the commands of a page's blocks for a shell, but those of blocks with curl, which the server's
// TestGuide executes. A command of several lines is one line.
func commandsOf(page string) (commands []string) {
	for _, block := range blockOfShell.FindAllStringSubmatch(page, -1) {
		if strings.Contains(block[1], "curl ") {
			continue
		}
		for _, line := range strings.Split(regexp.MustCompile(`\\\n\s*`).ReplaceAllString(block[1], ""), "\n") {
			line = strings.TrimSpace(noteOfLine.ReplaceAllString(line, ""))
			if line != "" {
				commands = append(commands, line)
			}
		}
	}
	return commands
}

// TestPrintedCommandsAreThere: each command that the documents name, in a block or in a sentence, is one of stet, with
// flags that it has.
func TestPrintedCommandsAreThere(t *testing.T) {
	pages := printedPages(t)
	for _, dir := range []string{"../../docs", "../../docs/operations"} {
		files, err := filepath.Glob(dir + "/*.md")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pages[filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)] = string(text)
		}
	}
	a := &app{printer: printer{out: io.Discard, err: io.Discard}}
	root := a.rootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	found := 0
	for name, text := range pages {
		var commands []string
		for _, block := range blockOfShell.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(regexp.MustCompile(`\\\n\s*`).ReplaceAllString(block[1], "")) {
				commands = append(commands, strings.TrimSpace(noteOfLine.ReplaceAllString(line, "")))
			}
		}
		prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")
		for _, span := range regexp.MustCompile("`(stet\\s[^`]+)`").FindAllStringSubmatch(prose, -1) {
			commands = append(commands, strings.Join(strings.Fields(span[1]), " "))
		}
		for _, command := range commands {
			words := wordsOf(command)
			for len(words) > 0 && strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-") {
				words = words[1:] // a variable
			}
			if len(words) == 0 || words[0] != "stet" && words[0] != "bin/stet" {
				continue
			}
			found++
			if problem := unknownIn(root, words[1:]); problem != "" {
				t.Errorf("%s: %s: %s", name, command, problem)
			}
		}
	}
	if found < 200 {
		t.Errorf("expected the commands of all pages, found %d", found)
	}
}

// wordsOf splits a command into words as a shell does, up to a pipe, a redirection or the next command.
func wordsOf(command string) (words []string) {
	var word strings.Builder
	quote, in := rune(0), false
	flush := func() {
		if in {
			words = append(words, word.String())
		}
		word.Reset()
		in = false
	}
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ':
			flush()
		case strings.ContainsRune("|><;&#", r):
			flush()
			return words
		default:
			in = true
			word.WriteRune(r)
		}
	}
	flush()
	return words
}

// unknownIn says which command or flag of a command line is none of stet's; "": all are.
func unknownIn(root *cobra.Command, words []string) string {
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	named := func(w string) bool { return w != strings.ToUpper(w) && w == strings.ToLower(w) }
	if cmd.HasSubCommands() && len(rest) > 0 && named(rest[0]) && !strings.HasPrefix(rest[0], "-") {
		return "expected a command of " + cmd.CommandPath() + ", found " + rest[0]
	}
	for _, w := range rest {
		if w == "--" {
			break
		}
		name := strings.TrimLeft(w, "-")
		name, _, _ = strings.Cut(name, "=")
		switch {
		case !strings.HasPrefix(w, "-") || name == "" || name == "help":
		case strings.HasPrefix(w, "--"):
			if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
				return "expected a flag of " + cmd.CommandPath() + ", found --" + name
			}
		case cmd.Flags().ShorthandLookup(name[:1]) == nil && cmd.InheritedFlags().ShorthandLookup(name[:1]) == nil:
			return "expected a flag of " + cmd.CommandPath() + ", found -" + name
		}
	}
	return ""
}
