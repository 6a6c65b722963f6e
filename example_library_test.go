package stet_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// lists is a library whose scripts are lists of steps, one a line: the store keeps them, and
// a run goes on with the version with which it began.
type lists struct{}

func (lists) Names(ctx context.Context, e *stet.Engine) ([]string, error) {
	return stet.ScriptsOf(e).Names(ctx)
}

func (lists) Definition(ctx context.Context, e *stet.Engine, run *stet.LibraryRun) (stet.Definition, error) {
	version, err := run.Version(stet.ScriptChange)
	if version == 0 && err == nil {
		version, err = strconv.Atoi(run.Header(stet.ScriptHeader(run.Workflow)))
		if err != nil {
			version, err = stet.ScriptsOf(e).Current(ctx, run.Workflow)
		}
	}
	if err != nil {
		return nil, err
	}
	code, err := stet.ScriptsOf(e).Code(ctx, run.Workflow, version)
	if err != nil {
		return nil, err
	}
	return listed(run.Workflow, version, code.Code), nil
}

func listed(name string, version int, code string) *stet.Workflow[string, string] {
	return stet.Define(name, func(ctx stet.Context, in string) (string, error) {
		stet.Version(ctx, stet.ScriptChange, version) // binds the run
		var done []string
		for _, line := range strings.Fields(code) {
			if line == "wait" {
				if _, err := stet.Message[bool]("go on").Receive(ctx); err != nil {
					return "", err
				}
				continue
			}
			out, err := stet.Step(ctx, line, func(context.Context) (string, error) { return line + " " + in, nil })
			if err != nil {
				return "", err
			}
			done = append(done, out)
		}
		return strings.Join(done, ", "), nil
	})
}

// Workflows that are kept in the store, and change while runs go on with the version that
// they have.
func ExampleLibrary() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := stet.New(ctx, stet.Config{
		Store: memory.New(), Library: lists{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = engine.Run(ctx) }()
	scripts := stet.ScriptsOf(engine)
	pack := stet.Ref[string, string]("pack")

	first, _ := scripts.Deploy(ctx, "pack", stet.ScriptCode{Code: "wrap wait label"}, stet.Act{Why: "begin"})
	run, err := pack.Start(ctx, engine, "tea", stet.ID("p1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for suspended := false; !suspended && err == nil; { // until it waits
		var info *stet.RunInfo
		if info, err = run.Info(ctx); err == nil {
			suspended = info.Status == store.Suspended
		}
	}
	fmt.Println(scripts.BoundTo(ctx, "p1"))
	second, _ := scripts.Deploy(ctx, "pack", stet.ScriptCode{Code: "wrap wait weigh"}, stet.Act{Why: "law"})
	fmt.Println(first, second)

	report, err := engine.Check(ctx, stet.CheckQuery{Definition: listed("pack", 9, "fold wait")})
	fmt.Println(len(report.Breaks), err)
	fmt.Println(scripts.Move(ctx, "p1", second, stet.Act{Why: "it is weighed, too"}))
	if err := stet.Message[bool]("go on").Send(ctx, engine, "p1", true); err != nil {
		fmt.Println(err)
	}
	fmt.Println(run.Wait(ctx))

	old, err := pack.Start(ctx, engine, "pot", stet.Headers{stet.ScriptHeader("pack"): "1"})
	if err == nil {
		err = stet.Message[bool]("go on").Send(ctx, engine, old.ID(), true)
	}
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(old.Wait(ctx))

	fmt.Println(scripts.Use(ctx, "pack", 1, stet.Act{}), scripts.Remove(ctx, "pack", stet.Act{}))
	gone, err := scripts.Collect(ctx, "pack", stet.Act{})
	fmt.Println(gone, err)
	info, _ := scripts.Info(ctx, "pack")
	all, _ := scripts.List(ctx)
	fmt.Println(info.Current, len(info.Versions), info.Versions[1].Why, len(all))
	// Output:
	// 1 <nil>
	// 1 2
	// 1 <nil>
	// <nil>
	// wrap tea, weigh tea <nil>
	// wrap pot, label pot <nil>
	// <nil> <nil>
	// [] <nil>
	// 0 2 law 1
}
