package main

import "github.com/spf13/cobra"

// groups are the commands as help lists them, each with an example.
var groups = []struct {
	title    string
	commands []string
}{
	{"Start runs and look at them, as in: stet ls workflow=order status=failed",
		[]string{"start", "ls", "count", "show", "tree", "wait", "watch", "tail"}},
	{"Send to runs, as in: stet send order-7 approval '\"yes\"'",
		[]string{"send", "update", "promises", "resolve", "reject", "publish", "topics", "deadletters"}},
	{"Change what runs do, as in: stet retry order-7",
		[]string{"cancel", "terminate", "pause", "resume", "retry", "rewind", "edit", "fork", "nudge", "rm", "deletions"}},
	{"Decide when runs begin, as in: stet schedule create nightly report --cron '0 3 * * *'",
		[]string{"schedule", "queue"}},
	{"Work on code, as in: stet script deploy order.ts", []string{"dev", "script", "check", "export"}},
	{"Serve a store, as in: stet serve --db shop.db", []string{"serve", "mcp", "token", "hook", "nodes", "audit"}},
	{"Look after a store, as in: stet doctor --db shop.db",
		[]string{"migrate", "doctor", "backup", "databases", "confirm-failover", "bench", "torture"}},
}

// arrange sorts the commands below root into their groups, and adds the topics of help.
func arrange(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, name := range g.commands {
			for _, cmd := range root.Commands() {
				if cmd.Name() == name {
					cmd.GroupID = g.title
				}
			}
		}
	}
	for _, topic := range topics {
		root.AddCommand(&cobra.Command{Use: topic.name, Short: topic.short, Long: topic.text})
	}
}

// topics of help are no commands.
var topics = []struct{ name, short, text string }{
	{"filters", "how runs are chosen", filterHelp},
	{"values", "how encrypted values are read", valueHelp},
	{"exit-codes", "what a script can rely on", exitHelp},
}

const filterHelp = `A filter is written as terms, all of which must hold:

  id=a,b  id=order-*      these IDs, or those that begin so
  workflow=checkout,pay   one of these workflows
  status=failed,stalled   one of these statuses
  mark=cancelling         has the mark: paused, cancelling, undoing, held, failing (a step has failed 5 times or more),
                          locked (waits for a permit that its parents hold, which wait for it)
  tag.tenant=acme,ibm     has the tag tenant with one of these values
  parent=order-7          children of the run with this ID, or number
  created>2026-01-31      created then or later; also 2026-01-31T12:00:00Z
  created<2026-02-01      created before
  ended>2026-01-31        has ended, then or later
  ended<2026-02-01        has ended before

  waits=topic:jobs        waits for an event of this topic; ls and --query alone
  waits=message:approved  waits for messages of this name, likewise
  waits=queue:model       waits for a permit of this queue, likewise

Values with spaces or commas are put in double quotes. waits=topic: reads the topic;
the others look at each suspended run that the other terms leave.

On SQLite and Postgres a filter reads about as much as its rarest term selects. A list
goes through the store, from the newest run on, if it has no other term than id= with a
star or a time of the end, and more than 10,000 runs match. On Redis these two terms
always do so, and so do mark= and created.`

const valueHelp = `Values that an application encrypts or keeps outside the store are shown as such.
To read them, and to encrypt what is started and sent, give its keys in STET_KEYS,
as ID:SECRET with the secret in base64, divided by spaces, the first one for
writing; and its folder of objects in STET_OBJECTS.`

const exitHelp = `Exit codes:

  0  done
  1  failed
  2  wrong usage or input; nothing has changed
  3  not found: the run, the promise or the workflow
  4  conflict: it exists, has ended, was resolved already, or was refused
  5  the awaited run did not succeed
  6  a torture could not be carried out: it says nothing of the store

A command for several runs goes on after an error. Its exit code is that of the
errors if they agree, otherwise 1.`
