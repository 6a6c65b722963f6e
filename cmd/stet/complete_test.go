package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet"
)

// TestShellsAreOfferedWhatTheStoreHas asks as the script of stet completion does, on a store and by a server.
func TestShellsAreOfferedWhatTheStoreHas(t *testing.T) {
	for _, byServer := range []bool{false, true} {
		p := newPlace(t, byServer)
		for _, id := range []string{"g-1", "g-2", "other"} {
			if _, err := greet.Start(t.Context(), p.e, nil, stet.ID(id)); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.e.Queues().Create(t.Context(), "model", stet.QueueSettings{Concurrency: 1}); err != nil {
			t.Fatal(err)
		}
		for line, want := range map[string]string{
			"show g":                    "g-1 g-2",
			"show g-1 g":                "g-2",
			"send g-1 ":                 "",
			"start gr":                  "greet",
			"start greet ":              "",
			"ls workflow=d":             "workflow=double",
			"ls status=s":               "status=stalled status=succeeded status=suspended",
			"ls workflow=greet wor":     "workflow=",
			"cancel --query id=g":       "id=g-1 id=g-2",
			"queue show ":               "model",
			"queue create ":             "",
			"start greet --queue m":     "model",
			"ls -o ":                    "ids json table",
			"watch g-1 --until p":       "paused",
			"start greet --existing re": "refuse replace-ended replace-failed",
			"topics show ":              "",
			"schedule show ":            "",
		} {
			var out bytes.Buffer
			words := strings.Split(line, " ")
			args := slices.Concat([]string{"__complete"}, words[:1], p.args, words[1:])
			if words[0] == "queue" || words[0] == "topics" || words[0] == "schedule" {
				args = slices.Concat([]string{"__complete"}, words[:2], p.args, words[2:])
			}
			if code := execute(t.Context(), args, nil, &out, io.Discard); code != exitDone {
				t.Errorf("stet %s: exit code %d", line, code)
			}
			var got []string
			for word := range strings.Lines(out.String()) {
				if word = strings.TrimSpace(word); !strings.HasPrefix(word, ":") {
					got = append(got, word)
				}
			}
			slices.Sort(got)
			if found := strings.Join(got, " "); found != want {
				t.Errorf("by a server: %t: stet %s is completed by %q, want %q", byServer, line, found, want)
			}
		}
	}
}

// TestShellsAreOfferedNothingWithoutAStore: what cannot be read is no error of the shell.
func TestShellsAreOfferedNothingWithoutAStore(t *testing.T) {
	var out bytes.Buffer
	code := execute(t.Context(), []string{"__complete", "show", "--db", "none.db", ""}, nil, &out, io.Discard)
	if code != exitDone || strings.TrimSpace(out.String()) != ":4" {
		t.Errorf("exit code %d, %q", code, &out)
	}
}

// TestHelpHasEachCommandInAGroup: what help lists is short, and each topic of it has its page.
func TestHelpHasEachCommandInAGroup(t *testing.T) {
	help := func(args ...string) string {
		var out bytes.Buffer
		if code := execute(t.Context(), args, nil, &out, &out); code != exitDone {
			t.Errorf("stet %q: exit code %d, %s", args, code, &out)
		}
		return out.String()
	}
	text := help("--help")
	root := (&app{}).rootCommand()
	for _, g := range groups {
		_, example, _ := strings.Cut(g.title, ", as in: stet ")
		args := wordsOf(example)
		cmd, rest, err := root.Find(args)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || !cmd.Runnable() || !slices.Contains(g.commands, args[0]) {
			t.Errorf("expected an example of a command of the group that parses, found %q: %v", g.title, err)
		}
		if !strings.Contains(text, "\n"+g.title+"\n") {
			t.Errorf("help does not list: %s", g.title)
		}
	}
	grouped := map[string]bool{"version": true} // and what cobra adds
	for _, g := range groups {
		for _, name := range g.commands {
			grouped[name] = true
		}
	}
	for _, cmd := range (&app{}).commands() {
		if !grouped[cmd.Name()] {
			t.Errorf("command %s is in no group", cmd.Name())
		}
		delete(grouped, cmd.Name())
	}
	for name := range grouped {
		t.Errorf("there is no command %s", name)
	}
	for name, want := range map[string]string{
		"filters": "waits=queue:model", "values": "STET_KEYS", "exit-codes": "wrong usage",
	} {
		if text := help("help", name); !strings.Contains(text, want) {
			t.Errorf("help %s: %s", name, text)
		}
	}
}

// TestServersThatWantATokenNameIt: the first thing that a user of --server forgets.
func TestServersThatWantATokenNameIt(t *testing.T) {
	t.Setenv("STET_TOKEN", "")
	p := newPlace(t, true)
	for want, args := range map[string][]string{
		"hint: give an access token in STET_TOKEN or with --token":  p.args[:2],
		"hint: the token of STET_TOKEN or --token is unknown, revo": append(slices.Clone(p.args[:3]), "stet_wrong"),
	} {
		for _, command := range []string{"ls", "nodes", "count"} {
			var complaints bytes.Buffer
			code := execute(t.Context(), append(slices.Clone(args), command), nil, io.Discard, &complaints)
			if code != exitFailed || !strings.Contains(complaints.String(), want) {
				t.Errorf("stet %s: exit code %d, %s", command, code, &complaints)
			}
		}
	}
}
