package enginetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stet-run/stet"
)

// lists is a library whose scripts are lists of steps, a word each.
type lists struct{}

func (lists) Names(ctx context.Context, e *stet.Engine) ([]string, error) {
	return stet.ScriptsOf(e).Names(ctx)
}

func (lists) Definition(ctx context.Context, e *stet.Engine, run *stet.LibraryRun) (stet.Definition, error) {
	version, err := run.Version(stet.ScriptChange)
	if version == 0 && err == nil {
		version, err = stet.ScriptsOf(e).Current(ctx, run.Workflow)
	}
	if err != nil {
		return nil, err
	}
	code, err := stet.ScriptsOf(e).Code(ctx, run.Workflow, version)
	if err != nil {
		return nil, err
	}
	return define(run.Workflow, func(ctx stet.Context, _ string) (string, error) {
		stet.Version(ctx, stet.ScriptChange, version)
		var all []string
		for _, name := range strings.Fields(code.Code) {
			out, err := name, error(nil)
			if name == "wait" {
				_, err = word.Receive(ctx)
			} else {
				out, err = say(ctx, name, name)
			}
			if err != nil {
				return "", err
			}
			all = append(all, out)
		}
		return strings.Join(all, " "), nil
	})[0], nil
}

// scripted deploys a script, starts a run of it, deploys another version while that waits, and
// starts a second run: the first one goes on with its version.
func scripted(outside *stet.Engine) []stet.Definition {
	return define("scripted", func(ctx stet.Context, _ string) (string, error) {
		name := "list-" + stet.RunID(ctx)
		deploy := func(step, code string) error {
			return stet.Do(ctx, step, func(ctx context.Context) error {
				_, err := stet.ScriptsOf(outside).Deploy(ctx, name, stet.ScriptCode{Code: code}, stet.Act{})
				return err
			}, stet.Retry{Attempts: stet.None, First: time.Millisecond, Max: poll})
		}
		list := stet.Ref[string, string](name)
		if err := deploy("deploy", "a wait b"); err != nil {
			return "", err
		}
		id, err := list.Detach(ctx, "")
		if err != nil {
			return "", err
		}
		err = stet.Do(ctx, "bound", func(ctx context.Context) error {
			n, err := stet.ScriptsOf(outside).BoundTo(ctx, id)
			if n == 0 && err == nil {
				err = errors.New("not yet")
			}
			return err
		}, stet.Retry{Attempts: stet.None, First: time.Millisecond, Max: poll})
		if err == nil {
			err = deploy("deploy again", "c")
		}
		if err != nil {
			return "", err
		}
		second, err := list.Call(ctx, "", stet.Named("second"))
		if err != nil {
			return "", err
		}
		if err := word.SendFrom(ctx, id, "go on"); err != nil {
			return "", err
		}
		former, err := stet.Await[string](ctx, "first", id)
		return former + ", " + second, err
	})
}
