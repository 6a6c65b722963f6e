package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet/store/sqlite"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "look for damage and broken invariants; changes nothing",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			findings, err := s.Doctor(cmd.Context())
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			bad := 0
			for _, f := range findings {
				mark := "ok"
				if !f.OK {
					mark, bad = "BAD", bad+1
				}
				if a.output == "json" {
					if err := a.json(map[string]any{"what": f.What, "ok": f.OK, "detail": f.Detail}); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", mark, f.What, f.Detail)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if bad > 0 {
				return fmt.Errorf("%d findings; restore a backup, or report this with the file", bad)
			}
			return nil
		},
	}
}

func (a *app) migrateCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "bring the store's schema up to date, or create the store",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			before, err := sqlite.Schema(cmd.Context(), strings.TrimPrefix(a.db, "sqlite:"))
			if err != nil {
				return err
			}
			if !check {
				s, err := a.open(cmd.Context(), true)
				if err != nil {
					return err
				}
				if err := s.Close(); err != nil {
					return err
				}
			}
			if a.output == "json" {
				return a.json(map[string]any{"before": before.File, "latest": before.Latest, "migrated": !check && before.File != before.Latest})
			}
			_, err = fmt.Fprintf(a.out, "schema was %d, latest is %d\n", before.File, before.Latest)
			return err
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "only say what would be done")
	return cmd
}

func (a *app) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "write a consistent copy to a new file, while others work",
		Args:  exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			s, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			return s.Backup(cmd.Context(), args[0])
		},
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version of this binary",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			version := "(unknown)"
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						version += " " + s.Value
					}
				}
			}
			_, err := fmt.Fprintf(a.out, "stet %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
