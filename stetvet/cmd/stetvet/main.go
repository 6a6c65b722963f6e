// Command stetvet checks workflows before they run.
//
//	stetvet ./...                        the packages, as go vet takes them
//	stetvet -rules=-log,-sync ./...      with rules turned off
//	stetvet -contexts=example.com/flow.Context -bodies=example.com/flow.Step ./...
//	go vet -vettool=$(which stetvet) -stetvet.rules=-log ./...
//
// It executes go vet with itself as the tool, so what has not changed is not analysed
// again. The exit code is that of go vet: not 0 if there are findings.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/stet-run/stet/stetvet"
)

func main() {
	args := os.Args[1:]
	if ofVet(args) {
		unitchecker.Main(stetvet.Analyzer)
		return
	}
	os.Exit(standalone(args))
}

// ofVet reports whether go vet calls: it asks for flags and version, and gives one unit.
func ofVet(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == "-flags" || strings.HasPrefix(arg, "-V=") || strings.HasSuffix(arg, ".cfg")
	})
}

// standalone executes go vet on the packages, with this program as its tool.
func standalone(args []string) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stetvet: find the own program:", err)
		return 2
	}
	vet := []string{"vet", "-vettool=" + self}
	for _, arg := range args { // go vet knows the flags by the analyzer's name
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && stetvet.Analyzer.Flags.Lookup(name) != nil {
			arg = "-stetvet." + strings.TrimLeft(arg, "-")
		}
		vet = append(vet, arg)
	}
	if !slices.ContainsFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") }) {
		vet = append(vet, "./...")
	}
	cmd := exec.Command("go", vet...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "stetvet: execute go vet:", err)
	return 2
}
