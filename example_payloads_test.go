package stet_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/files"
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
