// Strip prints a TypeScript file as JavaScript, with the compiler of the module tools. In the folder clients:
//
//	GOWORK=off go run -modfile=../tools/go.mod testdata/strip/main.go typescript/worker.ts >typescript/worker.mjs
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "expected the name of a file")
		os.Exit(2)
	}
	source, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := api.Transform(string(source), api.TransformOptions{Loader: api.LoaderTS, Target: api.ES2022,
		Banner: "// " + filepath.Base(os.Args[1]) + " without its types, for what does not read TypeScript."})
	for _, e := range out.Errors {
		fmt.Fprintf(os.Stderr, "%s: %s\n", os.Args[1], e.Text)
	}
	if len(out.Errors) > 0 {
		os.Exit(1)
	}
	os.Stdout.Write(out.Code)
}
