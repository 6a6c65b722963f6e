package ignore

import (
	"time"

	"github.com/stet-run/stet"
)

func f(ctx stet.Context) {
	_ = time.Now() //stetvet:ignore clock the test wants the time of the process
	//stetvet:ignore clock the test wants the time of the process
	_ = time.Now()
	/* want `ignore: expected a reason after` */ //stetvet:ignore clock
	_ = time.Now()                               // want `clock: time.Now`
	/* want `ignore: this takes nothing back` */ //stetvet:ignore clock there is none
	_ = 1
	/* want `ignore: expected a rule and a reason` */ //stetvet:ignore tempo why not
	_ = stamp()
}

// Taken back where it is, it is so for all that call it.
func stamp() time.Time {
	return time.Now() //stetvet:ignore clock a label that nobody compares
}
