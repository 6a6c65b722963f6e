package sim

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/stet-run/stet/internal/sim/box"
)

// Compile compiles the program of the machines from the source of this module. overlay is a
// file for go build's flag of that name; "": none. What it makes is kept in the user's cache
// folder for the next time.
func Compile(ctx context.Context, overlay string) (*box.Program, error) {
	return compile(ctx, "github.com/stet-run/stet/internal/sim/guest", "none", overlay)
}

// CompileWithFile is Compile for worlds in which the store is a file.
func CompileWithFile(ctx context.Context, overlay string) (*box.Program, error) {
	p, err := Compile(ctx, overlay)
	if err != nil {
		return nil, err
	}
	// Where the system has no locks of files, SQLite's driver has its own with this tag.
	p.Store, err = compile(ctx, "github.com/stet-run/stet/internal/sim/guest/file", "sqlite3_dotlk", overlay)
	return p, err
}

func compile(ctx context.Context, program, tag, overlay string) (*box.Program, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("a folder for compiled programs: %w", err)
	}
	cache = filepath.Join(cache, "stet-simulation")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	made, err := os.MkdirTemp(cache, "guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(made)
	wasm := filepath.Join(made, "guest.wasm")
	// A program that is a library can initialise itself before it is told what to do.
	args := []string{"build", "-trimpath", "-buildmode=c-shared", "-tags", tag, "-o", wasm}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	build := exec.CommandContext(ctx, "go", append(args, program)...)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go %q: %w\n%s", build.Args[1:], err, out)
	}
	code, err := os.ReadFile(wasm)
	if err != nil {
		return nil, err
	}
	return box.Compile(ctx, code, cache)
}
