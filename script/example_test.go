package script_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

const orderScript = `
export default async function (order) {
  const charge = await Task.run("charge", order, { attempts: 8 });
  await Task.delay(0.01);
  const parcels = await Task.all(order.lines.map(line => () => Task.run("pack", line, { key: line })));
  return { charge, parcels };
}`

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	order, err := compileOrder()
	if err != nil {
		log.Fatal(err)
	}
	engine, err := stet.New(ctx, stet.Config{
		Store: memory.New(), Workflows: []stet.Definition{order}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Run(ctx) }()
	run, err := order.Start(ctx, engine, json.RawMessage(`{"id":"o1","lines":["tea","pot"]}`))
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(receipt))
	// Output: {"charge":"charged o1","parcels":["packed tea","packed pot"]}
}

type scriptOrder struct{ ID string }

func compileOrder() (*script.Workflow, error) {
	source, err := bundle.Source("order.js", orderScript) // bundle.File("order.ts") follows its imports
	if err != nil {
		return nil, err
	}
	return script.Compile("order", source, []script.Task{
		script.Func("charge", func(_ context.Context, o scriptOrder) (string, error) { return "charged " + o.ID, nil }),
		script.Func("pack", func(_ context.Context, line string) (string, error) { return "packed " + line, nil }),
	})
}

// Scripts that the store keeps, in versions: a run goes on with the one with which it began.
func ExampleOpen() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := withScripts(memory.New())
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Run(ctx) }()
	source, err := bundle.Source("order.ts", `export default (order) => Task.run("charge", order)`)
	if err != nil {
		log.Fatal(err)
	}
	version, err := script.Deploy(ctx, engine, "order", stet.ScriptCode{Code: source}, stet.Act{Why: "begin"})
	if err != nil {
		log.Fatal(err)
	}
	order := stet.Ref[json.RawMessage, json.RawMessage]("order")
	run, err := order.Start(ctx, engine, json.RawMessage(`{"id":"o1"}`))
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(version, string(receipt))
	// Output: 1 "charged o1"
}

func withScripts(s store.Store) (*stet.Engine, error) {
	lib, err := script.Open(script.Config{Tasks: []script.Task{
		script.Func("charge", func(_ context.Context, o scriptOrder) (string, error) { return "charged " + o.ID, nil }),
	}})
	if err != nil {
		return nil, err
	}
	return stet.New(context.Background(), stet.Config{Store: s, Library: lib})
}

// The code of isolated scripts executes in child processes, in which Child does not return.
func ExampleChild() {
	main()
	// Output: "charged o1"
}

func main() {
	script.Child() // first: a process that the library has started executes scripts here, and does not return
	if err := serveScripts(); err != nil {
		log.Fatal(err)
	}
}

func openIsolated() (*script.Library, error) {
	return script.Open(script.Config{Isolated: true, Tasks: []script.Task{
		script.Func("charge", func(_ context.Context, o scriptOrder) (string, error) { return "charged " + o.ID, nil }),
	}})
}

func serveScripts() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	lib, err := openIsolated()
	if err != nil {
		return err
	}
	engine, err := stet.New(ctx, stet.Config{Store: memory.New(), Library: lib, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	go func() { _ = engine.Run(ctx) }()
	source := `async function workflow(order) { return await Task.run("charge", order) }`
	if _, err := script.Deploy(ctx, engine, "order", stet.ScriptCode{Code: source}, stet.Act{Why: "begin"}); err != nil {
		return err
	}
	run, err := stet.Ref[json.RawMessage, json.RawMessage]("order").Start(ctx, engine, json.RawMessage(`{"id":"o1"}`))
	if err != nil {
		return err
	}
	receipt, err := run.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Println(string(receipt))
	return nil
}
