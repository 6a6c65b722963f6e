package servers

import (
	"flag"
	"runtime"
	"strconv"
)

// Parallel lets twice as many tests of a package execute at once as there are processors, unless the
// command line says how many: tests of a server mostly wait for it. To be called by TestMain.
func Parallel() {
	flag.Parse()
	const name = "test.parallel"
	processors := strconv.Itoa(runtime.GOMAXPROCS(0))
	if flag.Lookup(name).Value.String() != processors {
		return
	}
	if err := flag.Set(name, strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err) // it is a number
	}
}
