package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
)

// policyFlags are what a start, or a schedule, says of its runs in place of the definition.
type policyFlags struct {
	maxRun, maxWait time.Duration
	keep            string
	stall, failBugs bool
}

// policyOption is an option of a start and of a schedule.
type policyOption interface {
	stet.StartOption
	stet.ScheduleOption
}

func (f *policyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.maxRun, "max-run-time", 0, "cancel a run when it has run this long; default: as it is defined")
	flags.DurationVar(&f.maxWait, "max-suspension", 0,
		"cancel a run when it has waited this long; default: as it is defined")
	flags.StringVar(&f.keep, "keep", "",
		"keep a run for this long after its end: a `duration`, none to keep it for ever, or at-once; default: as it is defined")
	flags.BoolVar(&f.stall, "stall-on-failure", false, "let a run stall for a person where it would fail")
	flags.BoolVar(&f.failBugs, "fail-on-bug", false, "let a run fail where a fault of its code would stall it")
}

func (f *policyFlags) options() (options []policyOption, err error) {
	if f.maxRun < 0 || f.maxWait < 0 {
		return nil, usage(errors.New("--max-run-time, --max-suspension: expected a positive duration, found a negative one"))
	}
	if f.maxRun > 0 {
		options = append(options, stet.MaxRunTime(f.maxRun))
	}
	if f.maxWait > 0 {
		options = append(options, stet.MaxSuspension(f.maxWait))
	}
	if f.keep != "" {
		keep, err := parseKeep(f.keep)
		if err != nil {
			return nil, usage(err)
		}
		options = append(options, stet.KeepFor(keep))
	}
	if f.stall {
		options = append(options, stet.StallOnFailure)
	}
	if f.failBugs {
		options = append(options, stet.FailOnBug)
	}
	return options, nil
}

// policy is what the options make, for those who take it in one piece.
func (f *policyFlags) policy() (p stet.RunPolicy, err error) {
	p = stet.RunPolicy{MaxRunTime: f.maxRun, MaxSuspension: f.maxWait}
	if f.keep != "" {
		keep, err := parseKeep(f.keep)
		if err != nil {
			return p, usage(err)
		}
		p.Retention = stet.KeepFor(keep)
	}
	if f.stall {
		p.OnFailure = stet.StallOnFailure
	}
	if f.failBugs {
		p.OnBug = stet.FailOnBug
	}
	return p, nil
}

func parseKeep(text string) (time.Duration, error) {
	switch text {
	case "none":
		return stet.None, nil
	case "at-once":
		return stet.AtOnce, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--keep: expected a duration like 72h, none or at-once, found %q", text)
	}
	return d, nil
}
