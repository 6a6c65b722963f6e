package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stet-run/stet/store"
)

// unprivileged makes this thread one that permissions hold for, until the test
// ends.
func unprivileged(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	runtime.LockOSThread()
	const nobody = 65534
	if err := syscall.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setfsuid(0); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
}

func TestFileThatMayNotBeWritten(t *testing.T) {
	path := testPath(t)
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	unprivileged(t)
	_, err := Open(context.Background(), path)
	if err == nil {
		t.Fatal("expected an error")
	}
	wantErr(t, err, store.ErrUnavailable, os.ErrPermission)
	if want := "expected a file that this process may write"; !strings.Contains(err.Error(), want) {
		t.Errorf("expected the error to say %q, got %v", want, err)
	}
}
