package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stet-run/stet"
)

// binary returns the path of a stet that can be started.
func binary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "stet") // TestMain goes by the name
	if err := errors.Join(os.Symlink(self, path)); err != nil {
		t.Fatal(err)
	}
	return path
}

// spoken is an answer of a tool, or the error of its call.
func spoken(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) (text string, refused bool) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

// agent connects a client that confirms everything.
func agent(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
	}).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMCPOverStandardInput: a client of the protocol starts stet, reads a store on which an
// application works, by the store and by a server, and acts after a confirmation.
func TestMCPOverStandardInput(t *testing.T) {
	for _, byServer := range []bool{false, true} {
		p := newPlace(t, byServer)
		if _, err := greet.Start(t.Context(), p.e, nil, stet.ID("g-1")); err != nil {
			t.Fatal(err)
		}
		p.until("g-1", "suspended") // an act is confirmed for a run as it was shown
		var log bytes.Buffer
		cmd := exec.Command(binary(t), append([]string{"mcp", "--allow", "send,cancel,deploy_script"}, p.args...)...)
		cmd.Stderr = &log
		s := agent(t, &mcp.CommandTransport{Command: cmd})
		text, refused := spoken(t, s, "explain_run", map[string]any{"run": "g-1"})
		if refused || !strings.Contains(text, "g-1") {
			t.Errorf("explain_run: %s", text)
		}
		if text, refused := spoken(t, s, "send", map[string]any{
			"run": "g-1", "name": "name", "value": "ann", "reason": "test",
		}); refused {
			t.Errorf("send: %s", text)
		}
		scripted(t, p, s, !byServer) // whose token is an operator's
		text, refused = spoken(t, s, "wait_run", map[string]any{"run": "g-1", "seconds": 50})
		if refused || !strings.Contains(text, "hello ann") {
			t.Errorf("wait_run: %s", text)
		}
		page, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "stet://guide/repair"})
		if err != nil || !strings.Contains(page.Contents[0].Text, "# Repair a stuck run") {
			t.Errorf("the guide: %+v, %v", page, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("stet mcp ends with %v", err)
		}
		if !strings.Contains(log.String(), "tool=send") || strings.Contains(log.String(), "ann") {
			t.Errorf("the log: %s", &log)
		}
	}
}

// scripted deploys a script in two versions and reads it, or is refused.
func scripted(t *testing.T, p *place, s *mcp.ClientSession, may bool) {
	t.Helper()
	deploy := func(source string) (string, bool) {
		return spoken(t, s, "deploy_script", map[string]any{
			"name": "hail", "source": source, "typescript": true, "reason": "test",
		})
	}
	if text, refused := deploy("export default async function ( {"); !refused || !strings.Contains(text, "hail.ts:1:") {
		t.Errorf("a source that does not parse: %s", text)
	}
	const first = `export default async function (name: string) { return "hail " + name; }`
	text, refused := deploy(first)
	if !may {
		if !refused || !strings.Contains(text, "forbidden") {
			t.Errorf("an operator deploys: %s", text)
		}
		return
	}
	if refused || !strings.Contains(text, `"version":1`) {
		t.Fatalf("deploy_script: %s", text)
	}
	second := strings.Replace(first, "hail ", "hail again, ", 1)
	if text, refused := deploy(second); refused || !strings.Contains(text, `"version":2`) {
		t.Errorf("deploy_script again: %s", text)
	}
	text, refused = spoken(t, s, "get_script", map[string]any{"name": "hail", "version": 1})
	if refused || !strings.Contains(text, `"current":2`) || !strings.Contains(text, "(name: string)") ||
		strings.Contains(text, "again") {
		t.Errorf("get_script: %s", text)
	}
	if text, refused = spoken(t, s, "get_script", nil); refused || !strings.Contains(text, `"name":"hail"`) {
		t.Errorf("get_script without a name: %s", text)
	}
	acts, err := stet.AuditOf(p.e).List(t.Context(), stet.AuditFilter{About: "script hail"})
	if err != nil || len(acts) != 2 || acts[0].Verb != "deploy" || !strings.HasPrefix(acts[0].By, "mcp:") ||
		acts[0].Why != "test" {
		t.Errorf("the audit: %+v, %v", acts, err)
	}
}

// TestMCPGoesOnAfterABatch speaks by hand: a batch and a line that is no JSON are refused, and the next call is
// answered.
func TestMCPGoesOnAfterABatch(t *testing.T) {
	db := filepath.Join(t.TempDir(), "s.db")
	if code := execute(t.Context(), []string{"--db", db, "migrate"}, nil, io.Discard, io.Discard); code != exitDone {
		t.Fatalf("migrate: exit code %d", code)
	}
	in, lines := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan int, 1)
	var log bytes.Buffer
	go func() {
		ended <- execute(t.Context(), []string{"mcp", "--db", db}, in, out, &log)
		out.Close()
	}()
	scanner := bufio.NewScanner(answers)
	for _, c := range []struct{ say, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
			`"clientInfo":{"name":"test","version":"1"}}}`, `"protocolVersion":"2025-06-18"`},
		{`[{"jsonrpc":"2.0","id":2,"method":"ping"}]`, `"code":-32600`},
		{`hello`, `"code":-32700`},
		{`{"jsonrpc":"2.0","id":3,"method":"ping"}`, `"id":3`},
	} {
		if _, err := io.WriteString(lines, c.say+"\n"); err != nil {
			t.Fatal(err)
		}
		if !scanner.Scan() || !strings.Contains(scanner.Text(), c.want) {
			t.Fatalf("after %s it says %s, %v; want %s\n%s", c.say, scanner.Text(), scanner.Err(), c.want, &log)
		}
	}
	lines.Close()
	if code := <-ended; code != exitDone {
		t.Errorf("exit code %d: %s", code, &log)
	}
}

// TestWhoConfirms: over HTTP the owner of a token may have written the client. There the client's word that a person
// has confirmed an act is not the default.
func TestWhoConfirms(t *testing.T) {
	want := map[string]string{"mcp": "ask", "serve": "token", "dev": "token"}
	for _, cmd := range (&app{}).commands() {
		for _, name := range []string{"confirm", "mcp-confirm"} {
			if f := cmd.Flags().Lookup(name); f != nil {
				if f.DefValue != want[cmd.Name()] {
					t.Errorf("stet %s --%s: expected %q, found %q", cmd.Name(), name, want[cmd.Name()], f.DefValue)
				}
				delete(want, cmd.Name())
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("without the flag: %v", want)
	}
}

// TestMCPIsRefused: wrong flags change nothing, and say what is expected.
func TestMCPIsRefused(t *testing.T) {
	db := filepath.Join(t.TempDir(), "s.db")
	for args, want := range map[string]string{
		"mcp --allow all": "by name", "mcp --allow delete": "expected some of start", "mcp --confirm maybe": "ask, token or none",
		"mcp --values some": "all or none", "mcp --bulk 0 --allow start --confirm no": "expected ask",
		"serve --mcp-allow all": "by name",
	} {
		var complaints bytes.Buffer
		code := execute(t.Context(), append([]string{"--db", db}, strings.Fields(args)...), nil, io.Discard, &complaints)
		if code == exitDone || !strings.Contains(complaints.String(), want) && !strings.Contains(args, "serve") {
			t.Errorf("stet %s: %d, %s", args, code, &complaints)
		}
	}
}

// TestMCPOverHTTP: stet serve answers agents with the identities and the rights of the API.
func TestMCPOverHTTP(t *testing.T) {
	p := newPlace(t, false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tokens := map[string]string{}
	for _, role := range []string{"viewer", "operator", "admin"} {
		token, err := stet.TokensOf(p.e).Create(ctx, stet.TokenInfo{Name: role, Role: role}, stet.Act{})
		if err != nil {
			t.Fatal(err)
		}
		tokens[role] = token
	}
	if _, err := greet.Start(ctx, p.e, "secret-text", stet.ID("g-1")); err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	out, address := io.Pipe()
	ended := make(chan int, 1)
	args := append([]string{"serve", "--addr", "127.0.0.1:0", "--mcp-allow", "cancel,deploy_script",
		"--mcp-confirm", "ask"}, p.args...)
	go func() {
		ended <- execute(serving, args, nil, address, io.Discard)
		_ = address.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url, _, _ := strings.Cut(strings.TrimSpace(line), "#token=")
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, token := range []string{"", "stet_none"} {
		if got := status(t, ctx, http.MethodPost, url+"mcp", token, body); got != http.StatusUnauthorized {
			t.Errorf("with the token %q: %d", token, got)
		}
	}
	foreign, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	foreign.Header.Set("Authorization", "Bearer "+tokens["operator"])
	foreign.Host = "evil.example"
	answer, err := http.DefaultClient.Do(foreign)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under another name: %d", answer.StatusCode)
	}
	foreign.Host, foreign.Body = "", io.NopCloser(strings.NewReader(body))
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if answer, err = http.DefaultClient.Do(foreign); err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("from another site: %d", answer.StatusCode)
	}

	connect := func(role string) *mcp.ClientSession {
		return agent(t, &mcp.StreamableClientTransport{
			Endpoint: url + "mcp", HTTPClient: &http.Client{Transport: bearing{tokens[role]}},
		})
	}
	viewer := connect("viewer")
	text, refused := spoken(t, viewer, "get_run", map[string]any{"run": "g-1"})
	if refused || strings.Contains(text, "secret-text") {
		t.Errorf("a viewer sees %s", text)
	}
	cancelIt := map[string]any{"runs": []string{"g-1"}, "reason": "test"}
	if text, refused := spoken(t, viewer, "cancel", cancelIt); !refused || !strings.Contains(text, "forbidden") {
		t.Errorf("a viewer cancels: %s", text)
	}
	operator := connect("operator")
	if text, refused := spoken(t, operator, "cancel", cancelIt); refused {
		t.Errorf("an operator cancels: %s", text)
	}
	audit, err := p.e.Runs().Audit(ctx, "g-1")
	if err != nil || len(audit) != 1 || audit[0].Who != "mcp:operator" {
		got, _ := json.Marshal(audit)
		t.Errorf("the audit: %s, %v", got, err)
	}
	scripted(t, p, operator, false)
	administrator := connect("admin")
	scripted(t, p, administrator, true)
	_, _, _ = viewer.Close(), operator.Close(), administrator.Close() // there are no sessions to end
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("the server ends with %d", code)
	}
}

// bearing adds a token to requests.
type bearing struct{ token string }

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}
