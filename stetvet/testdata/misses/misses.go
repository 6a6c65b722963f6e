package misses

import (
	"context"
	"reflect"
	"time"

	"github.com/stet-run/stet"
)

type clock interface{ Now() time.Time }

type shop struct {
	clock clock
	now   func() time.Time
}

func misses(ctx stet.Context, s *shop, f func() time.Time, m map[string]float64) (float64, error) {
	_ = s.clock.Now() // miss: an interface call
	_ = s.now()       // miss: a function in a field
	_ = f()           // miss: a function that somebody gives
	sum := 0.0
	for _, v := range m {
		sum += v // miss: the sum of floats depends on their order
	}
	for _, k := range reflect.ValueOf(m).MapKeys() { // miss: the keys of a map by reflect
		if err := stet.Do(ctx, k.String(), func(context.Context) error { return nil }); err != nil {
			return 0, err
		}
	}
	_ = time.Unix(0, 0).String() // miss: the zone of the node
	return sum, nil
}
