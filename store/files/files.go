// Package files keeps large values as files in a folder, for stet.Payloads: a
// store.Objects for one machine, or for several on a shared file system.
//
//	objects, err := files.Open("shop.objects")
//
// The folder holds nothing else. A file is written under a temporary name, synced,
// renamed, and the folder synced, so that a name that exists has its content after any
// crash.
package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// Objects is an open folder. It is safe for concurrent use.
type Objects struct{ root *os.Root }

var _ store.Objects = (*Objects)(nil)

// Open opens the folder and creates it if it does not exist.
func Open(dir string) (*Objects, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open objects: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open objects: %w", err)
	}
	return &Objects{root}, nil
}

// Close closes the folder.
func (o *Objects) Close() error { return o.root.Close() }

// temporary is the prefix of the names of files that are being written.
const temporary = ".tmp-"

func checkName(name string) error {
	bad := name == "" || len(name) > 500 || strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/", r))
	})
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || part[0] == '.' || len(part) > 255
	}
	if bad {
		return fmt.Errorf("object %.100q: %w: expected letters, digits and ._- in parts divided by /", name, store.ErrInvalid)
	}
	return nil
}

// Put implements store.Objects.
func (o *Objects) Put(_ context.Context, name string, content []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := o.put(name, content); err != nil {
		return fmt.Errorf("write object %s: %w: %w", name, store.ErrUnavailable, err)
	}
	return nil
}

func (o *Objects) put(name string, content []byte) error {
	dir := path.Dir(name)
	if err := o.makeDir(dir); err != nil {
		return err
	}
	var random [8]byte
	rand.Read(random[:])
	temp := path.Join(dir, temporary+hex.EncodeToString(random[:]))
	f, err := o.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = o.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(o.root.Remove(temp)))
	}
	return o.sync(dir)
}

// makeDir makes a folder and its parents durably.
func (o *Objects) makeDir(dir string) error {
	if dir == "." {
		return nil
	}
	if _, err := o.root.Stat(dir); err == nil {
		return nil
	}
	parent := path.Dir(dir)
	if err := o.makeDir(parent); err != nil {
		return err
	}
	if err := o.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.sync(parent)
}

// sync makes the names in a folder durable.
func (o *Objects) sync(dir string) error {
	d, err := o.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get implements store.Objects.
func (o *Objects) Get(_ context.Context, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	content, err := o.root.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", name, err)
	}
	return content, nil
}

// Delete implements store.Objects. Folders that become empty stay.
func (o *Objects) Delete(_ context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := ignoreMissing(o.root.Remove(name)); err != nil {
		return fmt.Errorf("delete object %s: %w: %w", name, store.ErrUnavailable, err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// page is how many objects one List returns.
const page = 1000

// abandoned is the age from which on an incomplete file is taken for one that a crash left.
const abandoned = 24 * time.Hour

// List implements store.Objects. It removes the incomplete files that a crash left a day
// ago.
func (o *Objects) List(ctx context.Context, after string) ([]store.Object, error) {
	var list []store.Object
	var walk func(dir string) error
	walk = func(dir string) error {
		entries, err := fs.ReadDir(o.root.FS(), dir)
		if err != nil {
			return ignoreMissing(err)
		}
		key := func(e fs.DirEntry) string {
			name := path.Join(dir, e.Name())
			if e.IsDir() {
				name += "/"
			}
			return name
		}
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(key(a), key(b)) })
		for _, e := range entries {
			name := key(e)
			switch {
			case len(list) == page || ctx.Err() != nil:
				return ctx.Err()
			case e.IsDir():
				if name > after || strings.HasPrefix(after, name) {
					if err := walk(strings.TrimSuffix(name, "/")); err != nil {
						return err
					}
				}
				continue
			}
			info, err := e.Info()
			if err != nil {
				if err := ignoreMissing(err); err != nil {
					return err
				}
				continue
			}
			if strings.HasPrefix(e.Name(), temporary) {
				if time.Since(info.ModTime()) > abandoned {
					_ = o.root.Remove(name) // tried again by the next listing
				}
				continue
			}
			if name > after {
				list = append(list, store.Object{Name: name, Written: info.ModTime()})
			}
		}
		return nil
	}
	if err := walk("."); err != nil {
		return nil, fmt.Errorf("list objects: %w: %w", store.ErrUnavailable, err)
	}
	return list, nil
}
