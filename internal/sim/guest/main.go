// Command guest is what the machines of a simulated world execute. Its first argument is
// the machine's role.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // a machine has no files

	"github.com/stet-run/stet/internal/sim/guest/life"
)

func main() {} // it is not executed

func init() { life.Is(begin) }

func begin() error {
	roles := map[string]func() error{"store": serve, "node": work, "client": use}
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		return fmt.Errorf("expected a role: store, node or client; found %q", os.Args[1:])
	}
	return roles[os.Args[1]]()
}
