package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/internal/endpoint"
)

// apiPage is the page with a request of each endpoint. TestAPIPage executes it, TestGuide does not.
const apiPage = "api.md"

// TestAPIPage executes the requests of the page in their order, on the server of a small shop, and
// compares each answer with the one that the page shows. Each endpoint of the table has its
// heading there, in the order of the table.
func TestAPIPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", apiPage))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := examplesOf(string(text))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		shop := newShop(t)
		var headings, table []string
		for _, e := range server.TableOf(shop.handler) {
			table = append(table, e.Method+" "+e.Path)
		}
		for _, x := range shown {
			if x.endpoint != "" {
				headings = append(headings, x.endpoint)
			}
		}
		for _, name := range table {
			if !slices.Contains(headings, name) {
				t.Errorf("%s: the endpoint %s has no example", apiPage, name)
			}
		}
		for _, name := range headings {
			if !slices.Contains(table, name) {
				t.Errorf("%s: %s is no endpoint", apiPage, name)
			}
		}
		if !t.Failed() && !slices.Equal(headings, table) {
			t.Errorf("%s: expected the order of the table, found %s", apiPage, headings)
		}
		for i := range shown {
			shop.compare(&shown[i])
		}
	})
}

// example is a request that a page shows, with its answer.
type example struct {
	line     int    // of the page
	endpoint string // that the heading names; "" of what stands below another heading
	command  string
	answer   string // "HTTP/1.1 ", the status, headers, an empty line, the body
}

// examplesOf reads a page: a block sh with one request by curl, and after it the block http with
// the answer. A heading of the third level with code names an endpoint, and has one request.
func examplesOf(page string) (all []example, err error) {
	heading, block, begun := "", []string(nil), 0
	kind := "" // of the block; "": none
	for i, line := range strings.Split(page, "\n") {
		number := i + 1
		switch {
		case kind != "" && line != "```":
			block = append(block, line)
		case kind == "sh" && strings.HasPrefix(strings.Join(block, "\n"), "curl "):
			all = append(all, example{line: begun, endpoint: heading, command: strings.Join(block, "\n")})
			kind, heading = "", ""
		case kind == "http":
			if len(all) == 0 || all[len(all)-1].answer != "" {
				return nil, fmt.Errorf("line %d: an answer without a request", begun)
			}
			all[len(all)-1].answer = strings.Join(block, "\n")
			kind = ""
		case kind != "":
			kind = ""
		case strings.HasPrefix(line, "```"):
			kind, block, begun = strings.TrimPrefix(line, "```"), nil, number
		case strings.HasPrefix(line, "#") && heading != "":
			return nil, fmt.Errorf("line %d: %s has no request before it", number, heading)
		case strings.HasPrefix(line, "### `"):
			heading = strings.Trim(strings.TrimPrefix(line, "### "), "`")
		}
	}
	for _, x := range all {
		if x.answer == "" {
			return nil, fmt.Errorf("line %d: a request without an answer", x.line)
		}
	}
	if heading != "" {
		return nil, fmt.Errorf("%s has no request", heading)
	}
	return all, nil
}

// request is a request by curl.
type request struct {
	method, url, body string
	headers           http.Header
}

// parseCurl reads a command as a shell and curl do, of which it knows only this: words, text in
// single quotes, text in double quotes with \", the variables of env in either but single quotes, a
// backslash at the end of a line; -X, -H and -d, each before its argument, and one address.
func parseCurl(command string, env map[string]string) (*request, error) {
	words, err := shellWords(strings.ReplaceAll(command, "\\\n", " "), env)
	if err != nil {
		return nil, err
	}
	r := &request{headers: http.Header{}}
	withBody := false
	for i := 1; i < len(words); i++ {
		flag := words[i]
		if !strings.HasPrefix(flag, "-") {
			if r.url != "" {
				return nil, fmt.Errorf("expected one address, found %s and %s", r.url, flag)
			}
			r.url = flag
			continue
		}
		if i++; i == len(words) {
			return nil, fmt.Errorf("expected an argument after %s, found none", flag)
		}
		switch flag {
		case "-X":
			r.method = words[i]
		case "-d":
			r.body, withBody = words[i], true
		case "-H":
			name, value, ok := strings.Cut(words[i], ": ")
			if !ok {
				return nil, fmt.Errorf("expected a header, found %q", words[i])
			}
			r.headers.Add(name, value)
		default:
			return nil, fmt.Errorf("expected -X, -H or -d, found %s", flag)
		}
	}
	if withBody && r.headers.Get("Content-Type") == "" {
		r.headers.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	switch {
	case len(words) == 0 || words[0] != "curl" || r.url == "":
		return nil, fmt.Errorf("expected curl and an address, found %q", words)
	case r.method == "" && withBody:
		r.method = http.MethodPost
	case r.method == "":
		r.method = http.MethodGet
	}
	return r, nil
}

var variable = regexp.MustCompile(`\$[A-Z][A-Z0-9_]*`)

func shellWords(command string, env map[string]string) (words []string, err error) {
	var word strings.Builder
	within, quote := false, byte(0)
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, within = c, true
		case quote == '"' && c == '\\' && strings.ContainsRune(`"\$`, rune(command[min(i+1, len(command)-1)])):
			i++
			word.WriteByte(command[i])
		case quote != '\'' && c == '$':
			name := variable.FindString(command[i:])
			value, ok := env[strings.TrimPrefix(name, "$")]
			if !ok || !strings.HasPrefix(command[i:], name) {
				return nil, fmt.Errorf("there is no variable at %.20q", command[i:])
			}
			word.WriteString(value)
			i += len(name) - 1
		case quote != '\'' && strings.IndexByte("\\`!", c) >= 0, quote == 0 && strings.IndexByte("|&;<>()*?[]{}~#", c) >= 0:
			return nil, fmt.Errorf("expected a plain command, found %q", c)
		case quote == 0 && (c == ' ' || c == '\n'):
			if within {
				words = append(words, word.String())
				word.Reset()
			}
			within = false
		default:
			word.WriteByte(c)
			within = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if within {
		words = append(words, word.String())
	}
	return words, nil
}

// compare executes an example, and compares the answer with the one that the page shows.
func (s *shop) compare(x *example) {
	s.t.Helper()
	bad := func(format string, args ...any) {
		s.t.Helper()
		s.t.Errorf("%s:%d: %s", apiPage, x.line, fmt.Sprintf(format, args...))
	}
	r, err := parseCurl(x.command, s.env)
	if err != nil {
		bad("%v: %s", err, x.command)
		return
	}
	path, ok := strings.CutPrefix(r.url, shopAddress)
	if !ok {
		bad("expected an address that begins with $STET_SERVER, found %s", r.url)
		return
	}
	rec := s.execute(r, path)
	if x.endpoint != "" && s.route != x.endpoint {
		bad("expected a request to %s, found one to %s", x.endpoint, s.route)
	}
	head, want, _ := strings.Cut(x.answer+"\n", "\n\n")
	status, headers, _ := strings.Cut(head, "\n")
	have := strings.TrimSpace(rec.Body.String())
	m := &mask{env: s.env}
	if found := fmt.Sprintf("HTTP/1.1 %d %s", rec.Code, http.StatusText(rec.Code)); strings.TrimSpace(status) != found {
		m.differ("expected %s, found %s", status, found)
	}
	media := rec.Header().Get("Content-Type")
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		m.text(name, value, strings.Join(rec.Header().Values(name), ", "))
	}
	isJSON := media == "application/json" || media == "application/problem+json"
	if !strings.Contains(headers, "Content-Type:") && media != "application/json" && have != "" {
		m.differ("expected the header Content-Type: %s", media)
	}
	if isJSON {
		m.document(want, have)
	} else {
		m.lines(strings.TrimSpace(want), have)
	}
	if len(m.problems) > 0 {
		var indented bytes.Buffer
		if isJSON && json.Indent(&indented, []byte(have), "", "  ") == nil {
			have = indented.String()
		}
		bad("%s\n%s\n%d %v\n%s", strings.Join(m.problems, "\n"), x.command, rec.Code, rec.Header(), have)
	}
}

// execute makes a request, and compares the answer with the OpenAPI document. A stream is left
// after a second.
func (s *shop) execute(r *request, path string) *httptest.ResponseRecorder {
	s.t.Helper()
	made := func(path string) *http.Request {
		h := httptest.NewRequest(r.method, shopAddress+path, strings.NewReader(r.body))
		h.Header = r.headers.Clone()
		return h
	}
	time.Sleep(shopSettles) // what the request before has led to is done
	synctest.Wait()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	s.route = ""
	rec := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.mounted.ServeHTTP(rec, made(path).WithContext(ctx))
	}()
	if strings.HasPrefix(path, endpoint.Base+"events?") {
		time.Sleep(time.Second)
		cancel()
	}
	<-done
	bare := made(path)
	bare.URL.Path = strings.TrimPrefix(bare.URL.Path, shopPrefix)
	bare.URL.RawPath = ""
	s.fits(bare, rec)
	return rec
}

// mask compares what a page shows with what is there. On the page … stands for anything, $NAME for a
// text that gets this name, the member "…" of an object for further members, "…" at the end of a list
// for further elements, and a last line … for further lines.
type mask struct {
	env      map[string]string
	problems []string
}

func (m *mask) differ(format string, args ...any) {
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

// text compares two texts. A name that has a value stands for this value.
func (m *mask) text(at, want, have string) {
	var names []string
	pattern := regexp.QuoteMeta(want)
	pattern = strings.ReplaceAll(pattern, "…", "(?s:.*)")
	pattern = regexp.MustCompile(`\\\$[A-Z][A-Z0-9_]*`).ReplaceAllStringFunc(pattern, func(name string) string {
		if names = append(names, name[2:]); m.env[name[2:]] != "" {
			return "(" + regexp.QuoteMeta(m.env[name[2:]]) + ")"
		}
		return "(.+?)"
	})
	found := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(have)
	if found == nil {
		m.differ("%s: expected %s, found %s", at, want, have)
		return
	}
	for i, name := range names {
		if m.env[name] != "" && m.env[name] != found[i+1] {
			m.differ("%s: expected one value of $%s, found %s and %s", at, name, m.env[name], found[i+1])
		}
		m.env[name] = found[i+1]
	}
}

func (m *mask) lines(want, have string) {
	if before, cut := strings.CutSuffix(want, "\n…"); cut {
		rows := strings.SplitAfter(have, "\n")
		want, have = before, strings.TrimSpace(strings.Join(rows[:min(strings.Count(want, "\n"), len(rows))], ""))
	}
	m.text("the body", want, have)
}

// document compares two JSON documents.
func (m *mask) document(want, have string) {
	var shown, there any
	for text, into := range map[string]*any{want: &shown, have: &there} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(into); err != nil {
			m.differ("%v: %s", err, text)
			return
		}
	}
	m.json("", shown, there)
}

func (m *mask) json(at string, want, have any) {
	switch want := want.(type) {
	case string:
		if text, ok := have.(string); ok {
			m.text(at, want, text)
			return
		}
		text, err := json.Marshal(have)
		if err != nil {
			panic(err) // it was decoded from JSON
		}
		m.text(at, want, string(text))
	case []any:
		list, ok := have.([]any)
		shown := want
		if n := len(want); ok && n > 0 && want[n-1] == "…" {
			shown, list = want[:n-1], list[:min(n-1, len(list))]
		}
		if !ok || len(list) != len(shown) {
			m.differ("%s: expected %d elements, found %v", at, len(shown), have)
			return
		}
		for i := range shown {
			m.json(fmt.Sprint(at, "/", i), shown[i], list[i])
		}
	case map[string]any:
		object, ok := have.(map[string]any)
		if !ok {
			m.differ("%s: expected an object, found %v", at, have)
			return
		}
		for name, value := range want {
			if found, ok := object[name]; ok {
				m.json(at+"/"+name, value, found)
			} else if name != "…" {
				m.differ("%s: expected %s, found none", at, name)
			}
		}
		for name := range object {
			if _, ok := want[name]; !ok && want["…"] == nil {
				m.differ("%s: found %s, which is not shown", at, name)
			}
		}
	default:
		if want != have {
			m.differ("%s: expected %v, found %v", at, want, have)
		}
	}
}

// TestAPIPageReader: what a shell or curl would read otherwise is refused, and so is a page whose
// examples are not whole.
func TestAPIPageReader(t *testing.T) {
	env := map[string]string{"A": "x y", "B": "z"}
	r, err := parseCurl("curl -X PUT -H \"X: $A\" \\\n  -d \"{\\\"a\\\": \\\"$B\\\"}\" 'https://h/p?q=$A'\"/$B\"", env)
	if err != nil || r.method != "PUT" || r.body != `{"a": "z"}` || r.headers.Get("X") != "x y" ||
		r.url != "https://h/p?q=$A/z" || r.headers.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, command := range []string{
		"", "wget u", "curl", "curl u v", "curl -k u", "curl -X", "curl -H X u", "curl $C", "curl 'u", "curl u | jq",
		"curl $(id)", "curl \"`id`\"", "curl u; id", "curl u > f", "curl u?a=b", "curl u&", "curl \\x",
	} {
		if r, err := parseCurl(command, env); err == nil {
			t.Errorf("%q is read as %+v", command, r)
		}
	}
	for _, page := range []string{
		"```sh\ncurl u\n```\n", "```http\nHTTP/1.1 200 OK\n```\n", "### `GET a`\n\ntext\n", "### `GET a`\n\n### `GET b`\n",
	} {
		if all, err := examplesOf(page); err == nil {
			t.Errorf("%q is read as %+v", page, all)
		}
	}
}

// TestAPIPageMask: what the page shows is compared, but for what it leaves out.
func TestAPIPageMask(t *testing.T) {
	for _, c := range []struct {
		want, have string
		same       bool
	}{
		{`{"a": 1, "b": [true, null]}`, `{"b": [true, null], "a": 1}`, true},
		{`{"a": 1}`, `{"a": 2}`, false}, {`{"a": 1}`, `{"a": "1"}`, false}, {`{"a": 1}`, `{"a": 1, "b": 2}`, false},
		{`{"a": 1, "…": "…"}`, `{"a": 1, "b": 2}`, true}, {`{"a": 1, "…": "…"}`, `{"b": 2}`, false},
		{`["x", "…"]`, `["x", "y", "z"]`, true}, {`["x", "…"]`, `["y", "x"]`, false}, {`["x", "…"]`, `[]`, false},
		{`["x"]`, `["x", "y"]`, false}, {`"…"`, `17`, true}, {`"a…c"`, `"abc"`, true}, {`"a…c"`, `"abcd"`, false},
		{`["$X", "$X"]`, `["a", "a"]`, true}, {`["$X", "$X"]`, `["a", "b"]`, false}, {`"$KNOWN"`, `"k"`, true},
		{`"$KNOWN"`, `"other"`, false}, {`{}`, `[]`, false}, {`[]`, `{}`, false}, {`nonsense`, `{}`, false},
	} {
		m := &mask{env: map[string]string{"KNOWN": "k"}}
		if m.document(c.want, c.have); (len(m.problems) == 0) != c.same {
			t.Errorf("%s, %s: expected the same: %t, found %q", c.want, c.have, c.same, m.problems)
		}
	}
	for have, same := range map[string]bool{"a\nb\nc": true, "a\nb": true, "a": false, "b\na": false} {
		m := &mask{env: map[string]string{}}
		if m.lines("a\nb\n…", have); (len(m.problems) == 0) != same {
			t.Errorf("%q: expected the same: %t, found %q", have, same, m.problems)
		}
	}
}
