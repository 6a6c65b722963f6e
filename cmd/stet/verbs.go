package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

func (cc controlCommands) cancelCommand() *cobra.Command {
	v := verb{name: "cancel", short: "cancel runs; their code sees it and cleans up", fits: may(store.ItemCancel)}
	v.ask = func(e *stet.Engine, ctx context.Context, id string) (bool, error) {
		return e.Runs().Cancel(ctx, id, v.act())
	}
	return v.command(cc.app)
}

func (cc controlCommands) terminateCommand() *cobra.Command {
	v := verb{
		name: "terminate", short: "end runs at once; no more of their code is executed",
		fits: may(store.ItemTerminate),
	}
	v.ask = func(e *stet.Engine, ctx context.Context, id string) (bool, error) {
		return e.Runs().Terminate(ctx, id, v.act())
	}
	return v.command(cc.app)
}

func (cc controlCommands) pauseCommand() *cobra.Command {
	v := verb{
		name: "pause", short: "pause runs until they are resumed",
		about: "Steps that are executing are waited for. Messages are kept, timers keep their due time.",
		fits:  may(store.ItemPause),
	}
	v.ask = func(e *stet.Engine, ctx context.Context, id string) (bool, error) {
		return e.Runs().Pause(ctx, id, v.act())
	}
	return v.command(cc.app, v.childrenFlag)
}

func (cc controlCommands) resumeCommand() *cobra.Command {
	v := verb{
		name: "resume", short: "resume paused runs, and stalled runs once the cause is fixed",
		about: "It says what a run waits for that no process can take up. After a rollback that may be a later\n" +
			"build, which has worked on the run: --any-build lets an earlier one take it up.",
		fits: may(store.ItemResume),
	}
	v.ask = func(e *stet.Engine, ctx context.Context, id string) (bool, error) {
		return e.Runs().Resume(ctx, id, v.act())
	}
	v.takesUp = true
	return v.command(cc.app, v.childrenFlag, v.anyBuildFlag)
}

func (cc controlCommands) nudgeCommand() *cobra.Command {
	v := verb{
		name: "nudge", short: "execute the code of suspended runs as far as it goes",
		about: "The code is executed as when a wait is over, and goes on if it does not wait any more: so where\n" +
			"a wait was removed from it. Waits, deadlines and messages stay.",
		fits: func(r *stet.RunInfo) bool { return r.Status == store.Suspended && may(store.ItemNudge)(r) },
	}
	v.ask = func(e *stet.Engine, ctx context.Context, id string) (bool, error) {
		return e.Runs().Nudge(ctx, id, v.act())
	}
	return v.command(cc.app)
}

// may returns a function that reports whether a verb makes sense for a run.
func may(verb store.ItemKind) func(*stet.RunInfo) bool {
	return func(r *stet.RunInfo) bool { return r.Refusal(verb) == nil }
}

// verb is a command whose request the owner of a run decides.
type verb struct {
	name, short, about string
	fits               func(*stet.RunInfo) bool // which runs of a query it is for
	ask                func(e *stet.Engine, ctx context.Context, id string) (bool, error)

	// askBy is ask by a server; nil: the verb has no arguments of its own.
	askBy func(ctx context.Context, c *client.Client, id string, act api.Act) (bool, error)

	reason   string
	who      string
	children bool
	anyBuild bool
	timeout  time.Duration
	takesUp  bool // the run goes on: what it lacks for that is said
	app      *app
	dryRun   bool
	kind     store.ItemKind // for a preview
	at       *string        // the place of which a preview is; nil: none
}

// previewed returns the place of which a preview is; "": none.
func (v *verb) previewed() string {
	if v.at == nil {
		return ""
	}
	return *v.at
}

// act returns who makes the request, why, and whether it includes the children.
func (v *verb) act() stet.Act {
	return stet.Act{By: v.who, Why: v.reason, Children: v.children, AnyBuild: v.anyBuild}
}

func (v *verb) childrenFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&v.children, "children", false, "the children of the runs too, and theirs")
}

func (v *verb) anyBuildFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&v.anyBuild, "any-build", false, "let a process of an earlier build take the runs up, too")
}

func (v *verb) dryRunFlag(cmd *cobra.Command) { dryRunFlag(cmd, &v.dryRun) }

// dryRunFlag adds the flag that shows what would be done.
func dryRunFlag(cmd *cobra.Command, dryRun *bool) {
	cmd.Flags().BoolVar(dryRun, "dry-run", false, "show what would be taken back, and change nothing")
}

// previews prints what would be done to the chosen runs. A query needs no --yes.
func (a *app) previews(
	ctx context.Context, from side, t *target, preview func(id string) (*api.Preview, error),
) error {
	t.yes = true
	ids, err := from.choose(ctx, t)
	if err != nil {
		return err
	}
	var problems []error
	g := &grid{headers: []string{"RUN", "FROM", "TAKEN BACK", "OWED", "MESSAGES", "CANCELLED", "RETRIED"}}
	for _, id := range ids {
		p, err := preview(id)
		switch {
		case errors.Is(err, stet.ErrRefused):
			problems = append(problems, conflictError{err})
		case err != nil:
			problems = append(problems, err)
		case a.output == formJSON:
			if err = a.json(p); err != nil {
				return err
			}
		default:
			list := func(names []string) string { return printable(strings.Join(names, ", ")) }
			g.add(printable(id), printable(p.From), list(p.TakenBack), list(p.Owed), fmt.Sprint(p.Messages), list(p.Cancelled),
				list(p.Retried))
		}
	}
	if a.output != formJSON && len(problems) < len(ids) {
		if err := a.print(g); err != nil {
			return err
		}
	}
	return joinRuns(problems)
}

// whoFlag adds the flag that names the operator.
func whoFlag(cmd *cobra.Command, who *string) {
	name := ""
	if u, err := user.Current(); err == nil && store.CheckRunID(u.Username) == nil {
		name = u.Username
	}
	cmd.Flags().StringVar(who, "by", name, "`name` of the operator, kept with the run; default: the user")
	cmd.Flags().Lookup("by").DefValue = "" // it comes from the environment; the text says so
}

// checkWho refuses an empty name that was given.
func checkWho(cmd *cobra.Command, who string) error {
	if who == "" && cmd.Flags().Changed("by") {
		return usage(errors.New("--by: expected a name, found none"))
	}
	return nil
}

func (v *verb) command(a *app, more ...func(*cobra.Command)) *cobra.Command {
	var t target
	v.app = a
	cmd := &cobra.Command{
		Use:   v.name + " RUN...",
		Short: v.short,
		Long: strings.TrimSpace(v.short+".\n"+v.about) + `

With - the IDs are read from standard input; with --query it is done for all runs
that match. The request is durable at once, and the application that works on the
store decides it. If none does, stet decides requests that need no code; others
stand until an application comes.`,
		Args: t.args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkTimeout(v.timeout, false); err != nil {
				return err
			}
			if err := checkWho(cmd, v.who); err != nil {
				return err
			}
			if c, err := a.client(); c != nil || err != nil {
				return orBy(errors.Join(err, refuseLocal(cmd)), func() error {
					if v.dryRun {
						return a.previews(cmd.Context(), serverSide{a, c}, &t, func(id string) (*api.Preview, error) {
							return c.Preview(cmd.Context(), id, v.name, v.previewed())
						})
					}
					return a.eachBy(cmd.Context(), c, &t, func(ctx context.Context, id string) error { return v.doBy(ctx, c, id) })
				})
			}
			if v.dryRun {
				return a.with(cmd.Context(), func(e *stet.Engine, s store.Store) error {
					return a.previews(cmd.Context(), storeSide{a, e, s}, &t, func(id string) (*api.Preview, error) {
						p, err := e.Runs().Preview(cmd.Context(), id, v.kind, v.previewed())
						if err != nil {
							return nil, err
						}
						return api.PreviewOf(id, p), nil
					})
				})
			}
			return a.deciding(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				return a.each(cmd.Context(), e, &t, func(ctx context.Context, id string) error { return v.do(ctx, e, id) })
			})
		},
	}
	t.flags(cmd, v.name, v.fits)
	cmd.Flags().DurationVar(&v.timeout, "timeout", 10*time.Second, "how long to wait for a decision")
	cmd.Flags().StringVar(&v.reason, "reason", "", "`text` that is kept with the run")
	whoFlag(cmd, &v.who)
	for _, add := range more {
		add(cmd)
	}
	return cmd
}

// do makes the request and waits for the decision.
func (v *verb) do(ctx context.Context, e *stet.Engine, id string) error {
	wait, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	ok, err := v.ask(e, wait, id)
	switch {
	case err == nil && ok && v.takesUp:
		return v.sayLack(wait, e, id)
	case err == nil && ok:
		return nil
	case v.takesUp && errors.Is(err, stet.ErrRefused):
		return v.hintBuild(wait, e, id, conflictError{err})
	case errors.Is(err, stet.ErrPending):
		what := fmt.Sprintf("nobody has decided within %s", v.timeout)
		if ctx.Err() != nil {
			what = "interrupted before the decision"
		}
		return hintedError{fmt.Errorf("%s run %q: %s", v.name, id, what),
			"the request stands until an application with the code works on the store"}
	case isAny(err, stet.ErrNotFound, stet.ErrTerminal, stet.ErrInvalid, context.Canceled, context.DeadlineExceeded,
		store.ErrUnavailable, store.ErrUnknown, store.ErrClosed, store.ErrDamaged, store.ErrSchema,
		stet.ErrSealed):
		return err
	}
	return conflictError{err} // the owner has refused
}

// lackOf returns what a run that goes on lacks for that; nil: nothing, or it has ended.
func lackOf(ctx context.Context, e *stet.Engine, id string) error {
	info, err := e.Runs().Info(ctx, id)
	if err != nil {
		return nil // it was deleted, or the store is away: the request is carried out all the same
	}
	nodes, err := e.Nodes().Info(ctx)
	if err != nil || info.Status == store.Stalled || info.Marks&store.Paused != 0 {
		return nil
	}
	return nodes.Unserved(info)
}

// sayLack says what a run that goes on waits for, if no process can take it up.
func (v *verb) sayLack(ctx context.Context, e *stet.Engine, id string) error {
	lack := (*stet.UnservedError)(nil)
	switch err := lackOf(ctx, e, id); {
	case !errors.As(err, &lack):
	case lack.Build != "":
		v.app.say("%s: done; it %s. To let an earlier one take it up: stet pause %[1]s; stet resume %[1]s --any-build",
			printable(id), printable(lack.Error()))
	default:
		v.app.say("%s: done; %s", printable(id), printable(lack.Error()))
	}
	return nil
}

// hintBuild adds to a refusal what helps a run that goes on, and waits for a later build.
func (v *verb) hintBuild(ctx context.Context, e *stet.Engine, id string, refused error) error {
	lack := (*stet.UnservedError)(nil)
	if err := lackOf(ctx, e, id); errors.As(err, &lack) && lack.Build != "" {
		return hintedError{refused, "it " + lack.Error() + "; to let an earlier one take it up: " +
			"stet pause RUN, then stet resume RUN --any-build"}
	}
	return refused
}
