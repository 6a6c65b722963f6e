package planted

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/stet-run/stet"
)

type clock interface{ Now() time.Time }

type shop struct {
	clock clock
	ctx   stet.Context
	now   func() time.Time
}

var orders = map[string]int{}

func nothing(context.Context) error { return nil }

func one(ctx stet.Context, s *shop, m map[string]int, c chan int) error {
	begun := time.Now()      // fault
	_ = time.Since(begun)    // fault
	_ = stamped("x")         // fault
	_ = rand.IntN(6)         // fault
	_ = uuid.NewString()     // fault
	_, _ = os.ReadFile("f")  // fault
	_ = os.Getenv("MODE")    // fault
	_, _ = http.Get("http:") // fault
	fmt.Println("charged")   // fault
	slog.Info("charged")     // fault
	go nothing(nil)          // fault
	<-c                      // fault
	var wg sync.WaitGroup
	wg.Wait()         // fault
	orders["a"] = 1   // fault
	_ = len(orders)   // fault
	s.ctx = ctx       // fault
	_ = s.clock.Now() // fault: an interface call
	_ = s.now()       // fault: a function in a field
	for k := range m {
		if err := stet.Do(ctx, k, nothing); err != nil { // fault
			return err
		}
	}
	return nil
}

func two(ctx stet.Context, m map[string]int, items []string) ([]int, error) {
	var keys []string
	for k := range m {
		keys = append(keys, k) // fault
	}
	for _, v := range slices.Collect(maps.Values(m)) { // fault
		_ = v
	}
	n := 0
	if err := stet.Do(ctx, "count", func(context.Context) error {
		n++ // fault
		return nil
	}); err != nil {
		return nil, err
	}
	_ = stet.Sleep(ctx, "pause", time.Second)               // fault
	stet.Do(ctx, "notify", nothing)                         // fault
	if err := stet.Do(ctx, "notify", nothing); err != nil { // fault
		return nil, err
	}
	var all []*stet.Future[int]
	for range items {
		all = append(all, stet.Go(ctx, "item", func(inner stet.Context) (int, error) { // fault
			return 0, stet.Sleep(ctx, "s", 1) // fault
		}))
	}
	if err := stet.Do(ctx, "nested", func(context.Context) error {
		return stet.Sleep(ctx, "in a step", 1) // fault
	}); err != nil {
		return nil, err
	}
	again := stet.Go(ctx, "again", func(stet.Context) (int, error) {
		return 0, stet.ContinueAsNew(1) // fault
	})
	for k := range m {
		return []int{len(keys)}, fmt.Errorf("first %s", k) // fault
	}
	for name, m := range map[string]map[string]int{"a": m} {
		if keys = append(keys, name); len(m) > 3 { // fault
			break
		}
	}
	return stet.All(ctx, append(all, again)...)
}

func stamped(text string) string { return text + time.Now().String() }
