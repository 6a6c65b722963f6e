package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/store"
)

func (sc sourceCommands) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "script",
		Short: "deploy and change workflows that are written as scripts",
		Long: `Scripts are workflows of JavaScript or TypeScript, which the store keeps in versions. A run
goes on with the version with which it has begun. A program that has script.Open as its
Library executes them, or stet serve --scripts.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sc.initCommand(), sc.deployCommand(), sc.listCommand(), sc.showCommand(), sc.diffCommand(),
		sc.useCommand(), sc.moveCommand(), sc.checkCommand(), sc.collectCommand(), sc.removeCommand())
	return cmd
}

// scriptFlags are those of what changes scripts.
type scriptFlags struct {
	name, who, reason string
	timeout           time.Duration
}

func (f *scriptFlags) add(cmd *cobra.Command) {
	whoFlag(cmd, &f.who)
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for people")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for a decision")
}

func (f *scriptFlags) act() stet.Act { return stet.Act{By: f.who, Why: f.reason} }

// deciding makes a request about scripts and waits for the decision.
func (sc sourceCommands) decide(
	cmd *cobra.Command, f *scriptFlags, act string, ask func(context.Context, *stet.Engine, store.Store) error,
) error {
	if err := errors.Join(checkTimeout(f.timeout, false), checkWho(cmd, f.who)); err != nil {
		return err
	}
	return sc.deciding(cmd.Context(), func(e *stet.Engine, s store.Store) error {
		wait, cancel := context.WithTimeout(cmd.Context(), f.timeout)
		defer cancel()
		err := ask(wait, e, s)
		switch {
		case errors.Is(err, stet.ErrPending):
			return hintedError{fmt.Errorf("%s: nobody has decided within %s", act, f.timeout),
				"the request stands until an application works on the store"}
		case errors.Is(err, stet.ErrRefused):
			return conflictError{err}
		case errors.Is(err, script.ErrSource), errors.Is(err, bundle.ErrSource):
			return usage(err)
		}
		return err
	})
}

const firstScript = `// stet script deploy order.ts
export default async function (order: { id: string }) {
  const r = await Task.race({ ok: Signal.next("approved"), late: Task.delay(72 * 3600) });
  if (r.key === "late") throw new Error("nobody has decided about " + order.id);
  return { order: order.id, approved: r.value };
}
`

func (sc sourceCommands) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "write stet.d.ts, the types of what scripts have, and a first script if there is none",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			found, err := scriptsIn(dir)
			if err != nil {
				return err
			}
			files := map[string]string{"stet.d.ts": script.Types}
			if len(found) == 0 {
				files["order.ts"] = firstScript
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					return err
				}
				sc.say("%s", filepath.Join(dir, name))
			}
			return nil
		},
	}
}

// scriptsIn returns the scripts of a folder.
func scriptsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var paths []string
	for _, e := range entries {
		if _, ok := scriptName(e.Name()); ok && e.Type().IsRegular() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// scriptName returns the name of the script in a file; false: it is none.
func scriptName(path string) (string, bool) {
	base := filepath.Base(path)
	for _, end := range []string{".js", ".mjs", ".ts", ".mts"} {
		if name, ok := strings.CutSuffix(base, end); ok {
			return name, name != "" && !strings.HasSuffix(name, ".d") && !strings.HasPrefix(name, ".")
		}
	}
	return "", false
}

// bundled returns the name and the code of a script.
func bundledScript(path, name string) (string, stet.ScriptCode, error) {
	if name == "" {
		var ok bool
		if name, ok = scriptName(path); !ok {
			return "", stet.ScriptCode{}, usage(fmt.Errorf("expected a file that ends in .js or .ts, found %s", path))
		}
	}
	if _, err := os.Stat(path); err != nil {
		return "", stet.ScriptCode{}, usage(err)
	}
	code, files, err := bundle.Read(path)
	out := stet.ScriptCode{Code: code}
	for _, f := range files {
		out.Files = append(out.Files, stet.ScriptFile(f))
	}
	return name, out, err
}

func (sc sourceCommands) deployCommand() *cobra.Command {
	var f scriptFlags
	var strict bool
	cmd := &cobra.Command{
		Use:   "deploy FILE...",
		Short: "make files the current versions of the scripts that they are named for",
		Long: `Bundles each file with what it imports by a relative path, and makes it the current version
of the script with the file's name. Runs that have begun go on with their versions. What
the script has already gets no other number. It prints name and number, and warns of names that
are not defined, of promises that nothing awaits, and of what the TypeScript compiler finds, if
there is a tsc in node_modules or in the PATH. With --strict nothing is deployed then. To see
whether runs that have begun would fit the file, use stet script check.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.name != "" && len(args) > 1 {
				return usage(errors.New("--name is for one file"))
			}
			return sc.decide(cmd, &f, "deploy", func(ctx context.Context, e *stet.Engine, _ store.Store) error {
				sources, err := sc.sources(ctx, args, f.name, strict)
				if err != nil {
					return err
				}
				for _, source := range sources {
					n, err := script.Deploy(ctx, e, source.name, source.code, f.act())
					if err != nil {
						return err
					}
					if sc.output == formJSON {
						err = sc.json(map[string]any{"name": source.name, "version": n})
					} else {
						_, err = fmt.Fprintln(sc.out, source.name, n)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "deploy nothing if there is a warning, or no compiler for TypeScript")
	cmd.Flags().StringVar(&f.name, "name", "", "`name` of the script; default: that of the file")
	f.add(cmd)
	return cmd
}

// source is a script to deploy.
type source struct {
	name string
	code stet.ScriptCode
}

// sources reads the scripts in files, and warns of what is probably wrong in them. If strict, a warning is an error,
// and so is a file whose types cannot be checked.
func (sc sourceCommands) sources(ctx context.Context, paths []string, name string, strict bool) ([]source, error) {
	var all []source
	warned := 0
	for _, path := range paths {
		var s source
		var err error
		if s.name, s.code, err = bundledScript(path, name); err != nil {
			return nil, err
		}
		warnings, err := script.Warnings(s.name, s.code.Code)
		if err != nil {
			return nil, err
		}
		types, checked, err := checkTypes(ctx, path)
		switch {
		case err != nil:
			return nil, err
		case !checked && strict:
			return nil, fmt.Errorf("%s: --strict checks types: expected tsc in node_modules or in the PATH, found none; "+
				"npm install typescript", path)
		}
		for _, text := range append(warnings, types...) {
			sc.say("warning: %s", text)
			warned++
		}
		all = append(all, s)
	}
	if strict && warned > 0 {
		return nil, fmt.Errorf("nothing is deployed: expected no warnings with --strict, found %d", warned)
	}
	return all, nil
}

// shownScript is a script as JSON.
type shownScript struct {
	Name     string         `json:"name"`
	Current  int            `json:"current"`
	By       string         `json:"by"`
	Why      string         `json:"why,omitempty"`
	At       time.Time      `json:"at"`
	Versions []shownVersion `json:"versions,omitempty"`
}

type shownVersion struct {
	Number int       `json:"number"`
	Hash   string    `json:"hash"`
	Size   int       `json:"size"`
	By     string    `json:"by"`
	Why    string    `json:"why,omitempty"`
	At     time.Time `json:"at"`
}

func shownScriptOf(s *stet.ScriptInfo) shownScript {
	out := shownScript{Name: s.Name, Current: s.Current, By: s.By, Why: s.Why, At: s.At}
	for i := range s.Versions {
		v := &s.Versions[i]
		out.Versions = append(out.Versions, shownVersion{v.Number, fmt.Sprintf("%x", v.Hash), v.Size, v.By, v.Why, v.At})
	}
	return out
}

func (sc sourceCommands) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "list scripts, with their current versions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sc.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				list, err := stet.ScriptsOf(e).List(cmd.Context())
				if err != nil {
					return err
				}
				var g grid
				g.add("SCRIPT", "CURRENT", "SINCE", "BY", "WHY")
				for i := range list {
					s := &list[i]
					if sc.output == formJSON {
						if err := sc.json(shownScriptOf(s)); err != nil {
							return err
						}
						continue
					}
					g.add(s.Name, numberText(s.Current), moment(store.TimeOf(s.At)), s.By, s.Why)
				}
				if sc.output == formJSON {
					return nil
				}
				return sc.print(&g)
			})
		},
	}
}

func numberText(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

func (sc sourceCommands) showCommand() *cobra.Command {
	var source int
	cmd := &cobra.Command{
		Use: "show NAME", Short: "show the versions of a script, or the source of one", Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sc.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				if source != 0 {
					text, err := sourceOf(cmd.Context(), e, args[0], source)
					if err == nil {
						_, err = fmt.Fprint(sc.out, text)
					}
					return err
				}
				info, err := stet.ScriptsOf(e).Info(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if sc.output == formJSON {
					return sc.json(shownScriptOf(info))
				}
				var g grid
				g.add("VERSION", "", "DEPLOYED", "BY", "HASH", "BYTES", "WHY")
				for i := range slices.Backward(info.Versions) {
					v, mark := &info.Versions[i], ""
					if v.Number == info.Current {
						mark = "current"
					}
					g.add(strconv.Itoa(v.Number), mark, moment(store.TimeOf(v.At)), v.By, fmt.Sprintf("%x", v.Hash[:6]),
						strconv.Itoa(v.Size), v.Why)
				}
				return sc.print(&g)
			})
		},
	}
	cmd.Flags().IntVar(&source, "source", 0, "print the source of this `version`")
	return cmd
}

// sourceOf returns the files of a version as one text; of several each has its name before it.
func sourceOf(ctx context.Context, e *stet.Engine, name string, n int) (string, error) {
	code, err := stet.ScriptsOf(e).Code(ctx, name, n)
	if err != nil {
		return "", err
	}
	if len(code.Files) == 0 {
		return code.Code, nil
	}
	var b strings.Builder
	for _, f := range code.Files {
		if len(code.Files) > 1 {
			fmt.Fprintf(&b, "// %s\n", f.Name)
		}
		b.WriteString(f.Text)
	}
	return b.String(), nil
}

func (sc sourceCommands) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff NAME A B", Short: "show which lines differ between two versions", Args: exactly("NAME", "A", "B"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, errA := strconv.Atoi(args[1])
			b, errB := strconv.Atoi(args[2])
			if errA != nil || errB != nil {
				return usage(fmt.Errorf("expected the numbers of two versions, found %s and %s", args[1], args[2]))
			}
			return sc.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				before, err := sourceOf(cmd.Context(), e, args[0], a)
				if err != nil {
					return err
				}
				after, err := sourceOf(cmd.Context(), e, args[0], b)
				if err == nil {
					_, err = fmt.Fprint(sc.out, differing(before, after))
				}
				return err
			})
		},
	}
}

// differing returns the lines of two texts that only one of them has, in their order.
func differing(before, after string) string {
	a, b := strings.Split(strings.TrimSuffix(before, "\n"), "\n"), strings.Split(strings.TrimSuffix(after, "\n"), "\n")
	length := make([][]int, len(a)+1) // of the longest common rest
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if length[i][j] = max(length[i+1][j], length[i][j+1]); a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			}
		}
	}
	var out strings.Builder
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			fmt.Fprintf(&out, "-%d %s\n", i+1, a[i])
			i++
		default:
			fmt.Fprintf(&out, "+%d %s\n", j+1, b[j])
			j++
		}
	}
	return out.String()
}

func (sc sourceCommands) useCommand() *cobra.Command {
	var f scriptFlags
	cmd := &cobra.Command{
		Use: "use NAME VERSION", Short: "make a former version current", Args: exactly("NAME", "VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return usage(fmt.Errorf("expected the number of a version, found %s", args[1]))
			}
			return sc.decide(cmd, &f, "use", func(ctx context.Context, e *stet.Engine, _ store.Store) error {
				return stet.ScriptsOf(e).Use(ctx, args[0], n, f.act())
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (sc sourceCommands) removeCommand() *cobra.Command {
	var f scriptFlags
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "leave a script without a current version: no run begins, those that have begun go on",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sc.decide(cmd, &f, "rm", func(ctx context.Context, e *stet.Engine, _ store.Store) error {
				return stet.ScriptsOf(e).Remove(ctx, args[0], f.act())
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (sc sourceCommands) collectCommand() *cobra.Command {
	var f scriptFlags
	cmd := &cobra.Command{
		Use:   "gc NAME...",
		Short: "delete versions that are not current, and that no run in the store is bound to",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sc.decide(cmd, &f, "gc", func(ctx context.Context, e *stet.Engine, _ store.Store) error {
				for _, name := range args {
					gone, err := stet.ScriptsOf(e).Collect(ctx, name, f.act())
					if err != nil {
						return err
					}
					for _, n := range gone {
						fmt.Fprintln(sc.out, name, n)
					}
				}
				return nil
			})
		},
	}
	f.add(cmd)
	return cmd
}

// replaying returns an engine that has the code of scripts, and executes nothing.
func (sc sourceCommands) replaying(
	ctx context.Context, s store.Store,
) (*stet.Engine, *script.Library, func() error, error) {
	lib, err := script.Open(script.Config{Replay: true})
	if err != nil {
		return nil, nil, nil, err
	}
	values, done, err := payloads()
	if err != nil {
		return nil, nil, nil, err
	}
	e, err := stet.New(ctx, stet.Config{Store: s, Library: lib, Logger: sc.log, Payloads: values})
	return e, lib, done, err
}

func (sc sourceCommands) moveCommand() *cobra.Command {
	var f scriptFlags
	var to int
	cmd := &cobra.Command{
		Use:   "move RUN... --to VERSION",
		Short: "bind runs to another version of their script, if their histories fit it",
		Long: `Replays each run against the version first. One that would break is left as it is, with where
and why; the exit code is 4 then. The others are bound to the version, with an entry in
their audits, and go on. A run is paused meanwhile.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := sc.runIDs(args)
			if err == nil && to < 1 {
				err = usage(errors.New("expected --to and the number of a version"))
			}
			if err != nil {
				return err
			}
			return sc.decide(cmd, &f, "move", func(ctx context.Context, _ *stet.Engine, s store.Store) (err error) {
				e, _, done, err := sc.replaying(ctx, s)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, done()) }()
				for _, id := range ids {
					moved := stet.ScriptsOf(e).Move(ctx, id, to, f.act())
					if broken, ok := errors.AsType[*stet.ReplayError](moved); ok {
						moved = conflictError{fmt.Errorf("run %s stays: at %s: %s", id, broken.Location, broken.Reason)}
					} else if errors.Is(moved, stet.ErrRefused) {
						moved = conflictError{moved}
					}
					err = errors.Join(err, moved)
				}
				return err
			})
		},
	}
	cmd.Flags().IntVar(&to, "to", 0, "the `version`")
	f.add(cmd)
	return cmd
}

func (sc sourceCommands) checkCommand() *cobra.Command {
	var name string
	var sample int
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "replay live runs of scripts: against their own versions, or a file that is not deployed",
		Long: `Replays the live runs of scripts, and lists those that would break, where and why. Without a
FILE each run is replayed against its own version: a new release of stet must not change
what a script does. Nothing is executed or written. Exit codes: 0 all fit, 4 at least one
would break.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sc.withStore(cmd.Context(), func(s store.Store) (err error) {
				e, lib, done, err := sc.replaying(cmd.Context(), s)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, done()) }()
				q := stet.CheckQuery{Sample: sample}
				names, err := stet.ScriptsOf(e).Names(cmd.Context())
				if err != nil {
					return err
				}
				if q.Filter.Workflows = names; len(names) == 0 {
					sc.say("there are no scripts")
					return nil
				}
				if len(args) > 0 {
					of, code, err := bundledScript(args[0], name)
					if err != nil {
						return usage(err)
					}
					candidate, err := lib.Candidate(of, code.Code)
					if err != nil {
						return usage(err)
					}
					q.Definition, q.Filter.Workflows = candidate, []string{of}
				}
				report, err := e.Check(cmd.Context(), q)
				if err != nil {
					return err
				}
				return sc.printReport(report)
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`name` of the script; default: that of the file")
	cmd.Flags().IntVar(&sample, "sample", 1000, "how many runs of each script, at most, chosen at random; -1: all")
	return cmd
}

func (sc sourceCommands) printReport(r *stet.CheckReport) error {
	sc.say("%d of %d live runs were replayed", r.Replayed, r.Found)
	for _, g := range r.Groups() {
		var err error
		if sc.output == formJSON {
			err = sc.json(map[string]any{
				"workflow": g.Workflow, "location": g.Location, "reason": g.Reason, "runs": g.Runs, "run_ids": g.RunIDs,
			})
		} else {
			_, err = fmt.Fprintf(sc.out, "%s: %d runs, like %s: at %s: %s\n", g.Workflow, g.Runs, strings.Join(g.RunIDs, ", "),
				g.Location, g.Reason)
		}
		if err != nil {
			return err
		}
	}
	if len(r.Breaks) > 0 {
		return conflictError{fmt.Errorf("%d runs would break", len(r.Breaks))}
	}
	return nil
}
