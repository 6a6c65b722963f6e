package stet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/files"
	"github.com/stet-run/stet/store/memory"
)

// Values are compressed, encrypted, and kept outside the store if they are large.
// To change the key, put the new one before the old one.
func ExamplePayloads() {
	dir, err := os.MkdirTemp("", "objects")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	objects, err := files.Open(dir)
	if err != nil {
		panic(err)
	}
	defer objects.Close()

	report := stet.Define("report", func(ctx stet.Context, lines int) (string, error) {
		text, err := stet.Step(ctx, "write", func(context.Context) (string, error) {
			return strings.Repeat("a line of the report\n", lines), nil
		})
		return fmt.Sprint(len(text), " bytes"), err
	})
	engine, stop := backgroundWith(stet.Config{
		Workflows: []stet.Definition{report},
		Payloads: stet.Payloads{
			Compress: 1024,
			Keys: []stet.PayloadKey{ // 32 bytes each, from where the application keeps its secrets
				{ID: "2026-11", Secret: []byte("the newest key: it encrypts all ")},
				{ID: "2025-11", Secret: []byte("a former one, which only decrypt")},
			},
			Objects: objects,
		},
	})
	defer stop()

	fmt.Println(result(engine, report, 90_000))
	// Output: 1890000 bytes <nil>
}

// An operator's process without the application's key sees that there is a value, and
// which key would open it.
func ExampleUnreadable() {
	key := stet.PayloadKey{ID: "2026-11", Secret: []byte("32 bytes that nobody else knows!")}
	fmt.Println(key.Check())
	fmt.Println(stet.PayloadKey{ID: "short", Secret: []byte("secret")}.Check())

	db := memory.New()
	ctx := context.Background()
	pay := stet.Define("pay", func(_ stet.Context, card string) (string, error) { return "paid", nil })
	application, err := stet.New(ctx, stet.Config{
		Store: db, Workflows: []stet.Definition{pay}, Payloads: stet.Payloads{Keys: []stet.PayloadKey{key}},
	})
	if err == nil {
		_, err = pay.Start(ctx, application, "4711", stet.ID("order-1"))
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	operator, err := stet.New(ctx, stet.Config{Store: db})
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := operator.Runs().Info(ctx, "order-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	why := stet.Unreadable(info.Input.Bytes())
	fmt.Println(why, errors.Is(why, stet.ErrSealed))
	// Output:
	// <nil>
	// key "short": expected a secret of 32 bytes, found 6
	// encrypted with key 2026-11, 7 bytes true
}
