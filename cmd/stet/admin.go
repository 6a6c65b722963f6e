package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

func (ac adminCommands) doctorCommand() *cobra.Command {
	var repair bool
	var who string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "look for damage and broken invariants; changes nothing without --repair",
		Long: `Looks for damage and broken invariants. With --repair a suspended run that has lost the
time at which it wakes is loaded once by its application (see stet help nudge), and finds
it again; nothing else is changed.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(ac.checkNoIDs(), checkWho(cmd, who)); err != nil {
				return err
			}
			kind, _, err := ac.backend()
			if err != nil {
				return err
			}
			var findings []finding
			err = ac.withStore(cmd.Context(), func(s store.Store) (err error) {
				findings, err = kind.doctor(cmd.Context(), s)
				return err
			})
			if err != nil {
				return errors.Join(ac.findings(findings), err)
			}
			var problems []error
			err = ac.withStore(cmd.Context(), func(s store.Store) error {
				// It needs no value, so no key.
				e, err := stet.New(cmd.Context(), stet.Config{Store: s, Logger: ac.log, Poll: 200 * time.Millisecond})
				if err != nil {
					return err
				}
				lost, err := lostWakes(cmd.Context(), e)
				if err != nil {
					return err
				}
				if repair {
					act := stet.Act{By: who, Why: "the doctor: its wake time was lost"}
					lost = slices.DeleteFunc(lost, func(id string) bool {
						done, err := e.Runs().Nudge(cmd.Context(), id, act)
						if err != nil {
							problems = append(problems, err)
						}
						return done
					})
				}
				detail := fmt.Sprintf("%d exceptions", len(lost))
				if len(lost) > 0 {
					some := strings.Join(lost[:min(len(lost), 3)], " ")
					detail += ": " + some + "; stet doctor --repair lets them find it again"
				}
				findings = append(findings, finding{wakes, len(lost) == 0, detail})
				c, err := clusterOf(cmd.Context(), s)
				if err == nil {
					findings = append(findings, c.findings()...)
				}
				return err
			})
			if err != nil {
				findings = append(findings, finding{wakes, false, fmt.Sprintf("cannot be checked: %v", err)})
			}
			return errors.Join(ac.findings(findings), joinRuns(problems))
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "let runs that have lost their wake time find it again")
	whoFlag(cmd, &who)
	return cmd
}

// wakes is what the doctor checks of suspended runs.
const wakes = "runs that wait until a time wake then"

// lostWakes returns the IDs of the suspended runs that would never wake.
func lostWakes(ctx context.Context, e *stet.Engine) (ids []string, err error) {
	f := store.Filter{Statuses: []store.Status{store.Suspended}, Limit: 500}
	for {
		page, next, err := e.Runs().List(ctx, f)
		if err != nil {
			return nil, err
		}
		page = slices.DeleteFunc(page, func(r stet.RunInfo) bool { return !r.Wake.IsZero() })
		for some := range slices.Chunk(page, 20) {
			var nos []store.RunNo
			for i := range some {
				nos = append(nos, some[i].Number)
			}
			full, _, err := e.Runs().List(ctx, store.Filter{Nos: nos, Limit: len(nos), Values: true})
			if err != nil {
				return nil, err
			}
			for i := range full {
				if full[i].LostWake() {
					ids = append(ids, full[i].ID)
				}
			}
		}
		if f.Cursor = next; next == "" {
			return ids, nil
		}
	}
}

// findings prints the findings of a doctor. It returns an error if one is bad.
func (ac adminCommands) findings(findings []finding) error {
	g := &grid{}
	bad := 0
	for _, f := range findings {
		mark := "ok"
		if !f.OK {
			mark, bad = "BAD", bad+1
		}
		g.add(mark, f.What, short(f.Detail, 200))
		if ac.output != formJSON {
			continue
		}
		if err := ac.json(f); err != nil {
			return err
		}
	}
	g.style = func(row, column int) lipgloss.Style {
		switch {
		case column > 0:
			return lipgloss.NewStyle()
		case findings[row].OK:
			return statusStyle(store.Succeeded)
		}
		return statusStyle(store.Failed)
	}
	if ac.output == formTable {
		if err := ac.print(g); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d findings are bad: restore a backup, or report this with the file", bad, len(findings))
	}
	return nil
}

func (ac adminCommands) migrateCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "bring the store's schema up to date, or create the store",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			kind, address, err := ac.backend()
			if err == nil {
				err = ac.checkNoIDs()
			}
			if err != nil {
				return err
			}
			have, latest, err := kind.schema(cmd.Context(), address)
			if err != nil {
				return err
			}
			due := have < latest
			if due && !check {
				s, err := ac.open(cmd.Context(), true)
				if err != nil {
					return err
				}
				if err := s.Close(); err != nil {
					return err
				}
			}
			if ac.output == formJSON {
				return ac.json(struct {
					Before   int  `json:"before"`
					Latest   int  `json:"latest"`
					Migrated bool `json:"migrated"`
				}{have, latest, due && !check})
			}
			_, err = fmt.Fprintf(ac.out, "the schema was %d, the latest is %d\n", have, latest)
			return err
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "only say what would be done")
	return cmd
}

func (ac adminCommands) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "write a consistent copy to a new file, while others work",
		Args:  exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Lstat(args[0]); err == nil {
				return conflictError{fmt.Errorf("%s exists: give the name of a new file", args[0])}
			}
			return ac.withStore(cmd.Context(), func(s store.Store) error {
				file, ok := s.(*sqlite.Store)
				if !ok {
					return usage(errors.New("backup: expected an SQLite file; " +
						"back up a database with its own means, such as pg_dump or pg_basebackup"))
				}
				return file.Backup(cmd.Context(), args[0])
			})
		},
	}
}

func (ac adminCommands) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version of this binary",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			if err := ac.checkNoIDs(); err != nil {
				return err
			}
			version, revision := buildVersion(), ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = s.Value
					}
				}
			}
			if ac.output == formJSON {
				return ac.json(struct {
					Version  string `json:"version"`
					Revision string `json:"revision,omitempty"`
					Go       string `json:"go"`
					Platform string `json:"platform"`
				}{version, revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
			}
			if revision != "" {
				version += " " + revision
			}
			_, err := fmt.Fprintf(ac.out, "stet %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// buildVersion returns the version of this binary.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "(unknown)"
}
