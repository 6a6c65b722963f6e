package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// byServerVar is set where the scripts' commands are carried out by a server.
const byServerVar = "STET_TEST_BY_SERVER"

// storeScripts are the scripts that are for a store alone, with the reason.
var storeScripts = map[string]string{
	"admin":   "doctor, migrate and backup: they need the file",
	"files":   "which files are stores: a server has one already",
	"check":   "it reads a run's code and all that is stored",
	"measure": "bench and torture make stores of their own",
}

// storeFlags are flags that a command has only for a store: a line with one is executed there
// in the scripts of both ways.
var storeFlags = map[string][]string{"start": {"--force"}}

// partsByServer is how many days make test needs for all scripts by a server; make faults executes all.
const partsByServer = 4

// TestScriptsByServer executes each script a second time, by a server.
func TestScriptsByServer(t *testing.T) {
	today := soak.Part(t, 0, partsByServer)
	all, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for i, file := range all {
		if !soak.WithFaults() && i%partsByServer != today {
			continue
		}
		if storeScripts[strings.TrimSuffix(filepath.Base(file), ".txtar")] == "" {
			files = append(files, file)
		}
	}
	runScripts(t, testscript.Params{
		Files: files,
		Setup: func(e *testscript.Env) error { e.Setenv(byServerVar, "1"); return nil },
	})
}

// TestScriptsForAStoreAlone: what is left out by a server is there, has a reason, and hardly a
// command that a server carries out.
func TestScriptsForAStoreAlone(t *testing.T) {
	for name, reason := range storeScripts {
		if _, err := os.Stat(filepath.Join("testdata/script", name+".txtar")); err != nil || reason == "" {
			t.Errorf("storeScripts: %s: %q, %v", name, reason, err)
		}
	}
	for name, flags := range storeFlags {
		i := slices.IndexFunc((&app{}).commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 || !remoteForms[name] {
			t.Errorf("storeFlags: stet %s has no remote form", name)
			continue
		}
		for _, flag := range flags {
			if (&app{}).commands()[i].Flags().Lookup(strings.TrimPrefix(flag, "--")) == nil {
				t.Errorf("storeFlags: stet %s has no %s", name, flag)
			}
		}
	}
}

// place of a command line: its store, whether a server is to carry it out, and its arguments
// for that. --by becomes the identity: a server knows who calls.
type commandLine struct {
	db, by   string
	byServer bool
	args     []string
}

var globalFlag = regexp.MustCompile(`^--?(db|by)(=.*)?$`)

func parseLine(args []string) commandLine {
	line := commandLine{db: os.Getenv("STET_DB")}
	name := ""
	for i := 0; i < len(args); i++ {
		flag := globalFlag.FindStringSubmatch(args[i])
		switch {
		case flag == nil:
			if name == "" && !strings.HasPrefix(args[i], "-") {
				name = args[i]
			}
			line.args = append(line.args, args[i])
			continue
		case flag[2] == "" && i+1 < len(args):
			i++
			flag[2] = "=" + args[i]
		}
		if flag[1] == "db" {
			line.db = flag[2][1:]
		} else if line.by = flag[2][1:]; line.by == "" {
			line.args = append(line.args, "--by=") // to be refused
		}
	}
	local := slices.ContainsFunc(storeFlags[name], func(flag string) bool { return slices.Contains(args, flag) })
	for _, cmd := range (&app{}).commands() {
		if cmd.Name() == name || slices.Contains(cmd.Aliases, name) {
			line.byServer = remoteForms[cmd.Name()] && !local
		}
	}
	return line
}

// commandByServer is command, but a server of the store carries it out, as far as one does.
func commandByServer() int {
	return executeByServer(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, command)
}

// executeByServer is execute, but a server of the store carries it out. It calls local if none can.
func executeByServer(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer, local func() int) int {
	line := parseLine(args)
	o := &opener{db: line.db, log: slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: slog.LevelError}))}
	code := -1
	if line.byServer {
		err := o.with(ctx, func(e *stet.Engine, s store.Store) error {
			return served(e, s, o.log, line.by, func(url string) {
				code = execute(ctx, append([]string{"--server", url, "--token", "x"}, line.args...), in, out, errOut)
			})
		})
		if code >= 0 && err != nil {
			fmt.Fprintln(errOut, "the server:", err)
			return exitFailed
		}
	}
	if code < 0 { // it is for a store, or there is none to serve
		code = local()
	}
	return code
}

// served calls fn with the address of a server of the store, as stet serve is one, at which
// everybody is an administrator with a name.
func served(e *stet.Engine, s store.Store, log *slog.Logger, by string, fn func(url string)) error {
	if u, err := user.Current(); err == nil && by == "" {
		by = u.Username
	}
	handler, err := server.New(e, server.Options{
		Access: []access.Authenticator{server.Func(func(*http.Request) (*access.Identity, error) {
			return &access.Identity{Name: by, Role: access.Administrator}, nil
		})},
		Logger: log,
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d := &decider{engine: e, store: s, log: log}
	web := &http.Server{Handler: d.around(handler), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	fn("http://" + listener.Addr().String())
	err = web.Close()
	if ended := <-ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	d.wait()
	return err
}
