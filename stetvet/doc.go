// Package stetvet finds what a workflow's code must not do, before it runs: what differs
// from one replay to the next (the clock, random numbers, files, the order of a map), and
// what misuses a [github.com/stet-run/stet.Context].
//
// Workflow code is every function and literal with a parameter of type stet.Context, and
// what it calls. The bodies of steps, compensations and resources, which have a
// context.Context, are not. A team that has put a context of its own around stet's names it in
// the setting contexts, and the functions that take bodies without a context.Context in bodies.
//
// What the functions of other packages do is computed from their source, and kept as facts;
// what those of the standard library do stands in a table. A finding in code that is called
// is reported at the call, with the chain of calls that leads there.
//
// A finding is taken back by a comment on its line, or on the one above:
//
//	//stetvet:ignore RULE the reason
//
// Without a reason the comment is a finding itself, and so is one that takes nothing back.
//
// The package has the analyzer alone; the command is in cmd/stetvet, the module plugin of
// golangci-lint in plugin. docs/guide/checking.md has the rules, with examples.
package stetvet
