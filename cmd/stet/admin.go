package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

func (ac adminCommands) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "look for damage and broken invariants; changes nothing",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ac.checkNoIDs(); err != nil {
				return err
			}
			return ac.withStore(cmd.Context(), func(s store.Store) error {
				kind, _, err := ac.backend()
				if err != nil {
					return err
				}
				findings, err := kind.doctor(cmd.Context(), s)
				return errors.Join(ac.findings(findings), err)
			})
		},
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
			version, revision := "(unknown)", ""
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
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
