package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
)

// TestEveryCommandIsLocalOrRemote: a new command says whether a server carries it out, or why
// not.
func TestEveryCommandIsLocalOrRemote(t *testing.T) {
	known := map[string]bool{}
	for _, cmd := range (&app{}).commands() {
		name := cmd.Name()
		known[name] = true
		if _, local := localForms[name]; local == remoteForms[name] {
			t.Errorf("stet %s: expected it in one of remoteForms and localForms", name)
		}
	}
	for name := range remoteForms {
		if !known[name] {
			t.Errorf("remoteForms: there is no stet %s", name)
		}
	}
	for name := range localForms {
		if !known[name] {
			t.Errorf("localForms: there is no stet %s", name)
		}
	}
}

// place is where commands are executed: a store with an application, reached by its file or
// by a server.
type place struct {
	t    *testing.T
	args []string
	e    *stet.Engine
}

func newPlace(t *testing.T, byServer bool) *place {
	t.Helper()
	o := &opener{db: filepath.Join(t.TempDir(), "s.db"), log: slog.New(slog.DiscardHandler)}
	s, err := o.open(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	e, err := stet.New(t.Context(), stet.Config{
		Store: s, Workflows: []stet.Definition{double, fails, greet, sleepy, approve}, Logger: o.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	if _, err := e.RunOnce(ctx); err != nil { // from now on the store has the names of its workflows
		t.Fatal(err)
	}
	go func() { ended <- e.Run(ctx) }()
	p := &place{t, []string{"--db", o.db}, e}
	if byServer {
		h, err := server.New(e, server.Options{Access: []access.Authenticator{server.Tokens(e)}, Logger: o.log,
			Rate: stet.None})
		if err != nil {
			t.Fatal(err)
		}
		ada := stet.TokenInfo{Name: "ada", Role: "operator"}
		secret, err := stet.TokensOf(e).Create(t.Context(), ada, stet.Act{By: "test"})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(h)
		t.Cleanup(web.Close)
		p.args = []string{"--server", web.URL, "--token", secret}
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// stet executes a command line and returns its exit code and what it prints.
func (p *place) stet(in string, args ...string) (code int, out, complaints string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	var o, c bytes.Buffer
	code = execute(ctx, append(append([]string{}, p.args...), args...), strings.NewReader(in), &o, &c)
	return code, o.String(), c.String()
}

// until waits until a run has a status.
func (p *place) until(id, status string) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		info, err := p.e.Runs().Info(p.t.Context(), id)
		if err == nil && info.Status.String() == status {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("run %s is not %s: %+v, %v", id, status, info, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestRemoteIsAsLocal executes the same command lines on a store and by a server: exit codes
// and data are the same.
func TestRemoteIsAsLocal(t *testing.T) {
	t.Chdir(t.TempDir()) // the workflow approve writes a file
	places := map[string]*place{"store": newPlace(t, false), "server": newPlace(t, true)}
	for _, row := range []struct {
		line  string // arguments; ' is for JSON with spaces
		in    string
		code  int
		out   string // equal; "": whatever, but the same length of lines
		until string // RUN STATUS that is waited for before
	}{
		{line: "start double 21 --id d1", out: "d1\n"},
		{line: "start double 21 --id d1", out: "d1\n"},
		{line: "start double 22 --id d1", code: exitConflict},
		{line: "start double 21 --id d1 --existing refuse", code: exitConflict},
		{line: "start nothing 1", code: exitNotFound},
		{line: "start double {", code: exitUsage},
		{line: "wait d1", out: "42\n"},
		{line: "wait d1 -o ids", out: "d1\n"},
		{line: "wait missing", code: exitNotFound},
		{line: "start double 4 --wait --tag team=a --queue-key x", code: exitUsage},
		{line: "start double 4 --id d2 --wait --tag team=a --keep 72h", out: "8\n"},
		{line: "start fails --id f1 --wait", code: exitUnsuccessful},
		{line: "ls status=failed -o ids", out: "f1\n"},
		{line: "ls -o ids tag.team=a", out: "d2\n"},
		{line: "ls -o ids --limit 1", out: "f1\n"},
		{line: "ls nonsense", code: exitUsage},
		{line: "count workflow=double -o json", out: `{"workflow":"double","status":"succeeded","runs":2}` + "\n"},
		{line: "start greet --id g1", out: "g1\n"},
		{line: "send g1 name - --key k", in: `"Ada"`, until: "g1 suspended"},
		{line: "wait g1", out: "\"hello Ada\"\n"},
		{line: "send g1 name \"again\"", code: exitConflict},
		{line: "send missing name 1", code: exitNotFound},
		{line: "retry f1 --reason again -o json", out: `{"id":"f1","done":true}` + "\n"},
		{line: "retry d1", code: exitConflict},
		{line: "fork d1 --before / --id d1-fork", out: "d1-fork\n", until: "f1 failed"},
		{line: "wait d1-fork", out: "42\n"},
		{line: "rewind d1 --before double"},
		{line: "wait d1", out: "42\n"},
		{line: "edit d1 --step double --result 43"},
		{line: "wait d1", out: "43\n"},
		{line: "edit f1 --step charge --error x --result 1", code: exitUsage},
		{line: "rewind d1", code: exitUsage},
		{line: "start sleepy --id s1", out: "s1\n"},
		{line: "pause s1 -o ids", out: "s1\n", until: "s1 suspended"},
		{line: "ls mark=paused -o ids", out: "s1\n"},
		{line: "resume s1 -o ids", out: "s1\n"},
		{line: "nudge s1 -o ids", out: "s1\n", until: "s1 suspended"},
		{line: "cancel --query workflow=sleepy", code: exitUsage},
		{line: "cancel --query workflow=sleepy --yes -o ids", out: "s1\n"},
		{line: "wait s1", code: exitUnsuccessful},
		{line: "terminate -", in: "s1\nmissing\n", code: exitFailed},
		{line: "start sleepy --id s2", out: "s2\n"},
		{line: "terminate s2 -o ids", out: "s2\n", until: "s2 suspended"},
		{line: "rm s2 s1 -o ids", out: "s2\ns1\n", until: "s2 cancelled"},
		{line: "rm s2", code: exitNotFound},
		{line: "update d1 x 1", code: exitConflict},
		{line: "start approve --id p1", out: "p1\n"},
		{line: "resolve TOKEN-OF-p1 \"yes\"", until: "p1 suspended"},
		{line: "wait p1", out: "\"yes\"\n"},
		{line: "promises missing", code: exitNotFound},
		{line: "resolve nonsense 1", code: exitNotFound},
		{line: "reject nonsense -m no", code: exitNotFound},
		{line: "ls -o ids --cursor nonsense", code: exitUsage},
	} {
		for name, p := range places {
			if id, status, ok := strings.Cut(row.until, " "); ok {
				p.until(id, status)
			}
			line := row.line
			if strings.Contains(line, "TOKEN-OF-p1") {
				_, token, _ := p.stet("", "promises", "p1", "-o", "ids")
				line = strings.ReplaceAll(line, "TOKEN-OF-p1", strings.TrimSpace(token))
			}
			code, out, complaints := p.stet(row.in, strings.Fields(line)...)
			if code != row.code || row.out != "" && out != row.out {
				t.Errorf("by the %s: stet %s: expected %d %q, found %d %q, %s", name, row.line, row.code, row.out, code, out,
					complaints)
			}
		}
	}
}

// TestPlaceOfACommand: what needs the store says so, and two places are one too many.
func TestPlaceOfACommand(t *testing.T) {
	p := newPlace(t, true)
	for line, want := range map[string]string{
		"doctor":                 "stet doctor does not work by a server: it works on the store's file",
		"export x":               "stet export does not work by a server",
		"ls --db x":              "expected one of --db and --server, found both",
		"cancel x --by bob":      "--by does not work by a server",
		"queue pause x --by bob": "--by does not work by a server",
		"start double 1 --force": "--force does not work by a server",
		"ls --server ftp://x":    "expected http://HOST or https://HOST",
	} {
		code, _, complaints := p.stet("", strings.Fields(line)...)
		if code != exitUsage || !strings.Contains(complaints, want) {
			t.Errorf("stet %s: expected %d %q, found %d %q", line, exitUsage, want, code, complaints)
		}
	}
	if code, out, complaints := p.stet("", "version"); code != 0 || out == "" {
		t.Errorf("stet version: %d %q %q", code, out, complaints)
	}
	p.args[3] = "stet_wrong"
	code, _, complaints := p.stet("", "ls")
	if code != exitFailed || !strings.Contains(complaints, "the credential is not valid") {
		t.Errorf("a wrong token: %d %q", code, complaints)
	}
}

// TestPlaceOfTheEnvironment: a flag is stronger than the environment, which may name one.
func TestPlaceOfTheEnvironment(t *testing.T) {
	for _, row := range []struct {
		db, server string // of the environment
		args       string
		wrong      bool
		byServer   bool
	}{
		{db: "x.db", args: "ls"},
		{server: "http://x", args: "ls", byServer: true},
		{db: "x.db", server: "http://x", args: "ls", wrong: true},
		{db: "x.db", server: "http://x", args: "ls --db y.db"},
		{db: "x.db", server: "http://x", args: "ls --server http://y", byServer: true},
		{db: "x.db", server: "http://x", args: "doctor"},
		{server: "http://x", args: "doctor", wrong: true},
		{server: "http://x", args: "version", byServer: true},
	} {
		a := &app{opener: opener{db: row.db}, remote: remote{server: row.server}}
		root := &cobra.Command{Use: "stet"}
		root.PersistentFlags().StringVar(&a.db, "db", row.db, "")
		root.PersistentFlags().StringVar(&a.server, "server", row.server, "")
		for _, name := range []string{"ls", "doctor", "version"} {
			check := func(cmd *cobra.Command, _ []string) error { return a.checkPlace(cmd) }
			root.AddCommand(&cobra.Command{Use: name, RunE: check})
		}
		root.SetArgs(strings.Fields(row.args))
		root.SilenceErrors, root.SilenceUsage = true, true
		err := root.Execute()
		if (err != nil) != row.wrong || err == nil && (a.server != "") != row.byServer {
			t.Errorf("%+v: server %q, db %q, %v", row, a.server, a.db, err)
		}
	}
}
