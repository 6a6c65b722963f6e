package stet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

type connection struct{ name string }

func (c *connection) close() error {
	fmt.Println("close", c.name)
	return nil
}

// A local resource is not recorded. The first step that asks for it opens it, and
// it is closed when the branch ends, in whichever way.
func ExampleNewLocal() {
	report := stet.Define("report", func(ctx stet.Context, _ int) (string, error) {
		db := stet.NewLocal(ctx, func(context.Context) (*connection, error) {
			fmt.Println("open warehouse")
			return &connection{"warehouse"}, nil
		}, (*connection).close)
		for _, table := range []string{"orders", "returns"} {
			err := stet.Do(ctx, "read", func(ctx context.Context) error {
				c, err := db.Get(ctx)
				if err != nil {
					return err
				}
				fmt.Println("read", table, "from", c.name)
				return nil
			}, stet.Key(table))
			if err != nil {
				return "", err
			}
		}
		return "two tables", nil
	})
	engine, stop := background(report)

	fmt.Println(result(engine, report, 0))
	stop()
	// Unordered output:
	// open warehouse
	// read orders from warehouse
	// read returns from warehouse
	// close warehouse
	// two tables <nil>
}

// A heartbeat renews the attempt's timeout. What it says is there in the next
// attempt, which goes on from it.
func ExampleHeartbeat() {
	upload := stet.Define("upload", func(ctx stet.Context, parts int) (string, error) {
		return stet.Step(ctx, "parts", func(ctx context.Context) (string, error) {
			done, resumed, err := stet.LastDetail[int](ctx)
			if err != nil {
				return "", err
			}
			for done < parts {
				done++
				if err := stet.Heartbeat(ctx, done); err != nil {
					return "", err
				}
				if done == 2 && !resumed {
					<-ctx.Done() // the network hangs, and so no heartbeat comes
					return "", ctx.Err()
				}
			}
			return fmt.Sprintf("all %d parts; went on: %v", done, resumed), nil
		}, stet.Retry{Timeout: 100 * time.Millisecond, First: time.Millisecond})
	})
	engine, stop := background(upload)
	defer stop()

	fmt.Println(result(engine, upload, 3))
	// Output: all 3 parts; went on: true <nil>
}
