package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path is the name of a file. It may be any bytes, where JSON holds UTF-8 alone:
// a name that is not UTF-8, or begins with a quote, stands there quoted as in Go.
type Path string

// MarshalText returns the form of the name in JSON.
func (p Path) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(p)) && !strings.HasPrefix(string(p), `"`) {
		return []byte(p), nil
	}
	return strconv.AppendQuote(nil, string(p)), nil
}

// UnmarshalText is the inverse of MarshalText.
func (p *Path) UnmarshalText(text []byte) error {
	name := string(text)
	if strings.HasPrefix(name, `"`) {
		var err error
		if name, err = strconv.Unquote(name); err != nil {
			return fmt.Errorf("path %s: %w", text, err)
		}
	}
	*p = Path(name)
	return nil
}

// Page is a part of a listing, in the order of the walk.
type Page struct {
	Files      []File       `json:"files"`
	Unreadable []Unreadable `json:"unreadable,omitempty"`
	End        Path         `json:"end"`  // where the next page goes on
	Last       bool         `json:"last"` // there is no next page
}

// The bounds of a page keep its stored form well below the limit of a value.
const (
	pageFiles = 2000
	pageBytes = 256 << 10 // of names, each of which may take six times its length in JSON
)

// listPage lists the files after the given path, up to the bounds of a page.
func listPage(dir string, own []string, after Path) (Page, error) {
	page, size := Page{Last: true}, 0
	err := walk(dir, own, after, func(p Path, info fs.FileInfo, err error) error {
		if len(page.Files)+len(page.Unreadable) == pageFiles || size >= pageBytes {
			page.Last = false
			return fs.SkipAll
		}
		size += len(p)
		page.End = p
		if err != nil {
			page.Unreadable = append(page.Unreadable, Unreadable{p, reason(err)})
		} else {
			page.Files = append(page.Files, File{p, info.Size()})
		}
		return nil
	})
	return page, err
}

// walk calls fn for every regular file after the given path, and with an error
// for everything that cannot be read. The paths that it gives are relative, with
// slashes. It follows no symbolic links and leaves out the program's own files.
func walk(dir string, own []string, after Path, fn func(p Path, info fs.FileInfo, err error) error) error {
	return filepath.WalkDir(dir, func(full string, entry fs.DirEntry, err error) error {
		if full == dir {
			return err
		}
		rel, relErr := filepath.Rel(dir, full)
		if relErr != nil {
			return relErr
		}
		p := Path(filepath.ToSlash(rel))
		switch {
		case entry.IsDir() && err == nil:
			if before(p, after) && !strings.HasPrefix(string(after), string(p)+"/") {
				return fs.SkipDir
			}
			return nil
		case !before(after, p):
			return nil
		case err != nil:
			return fn(p, nil, err)
		case !entry.Type().IsRegular() || slices.Contains(own, full):
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while walking
		}
		return fn(p, info, err)
	})
}

// before reports whether a comes before b in the order of the walk, which
// compares folder by folder.
func before(a, b Path) bool {
	return slices.Compare(strings.Split(string(a), "/"), strings.Split(string(b), "/")) < 0
}

// defaultID derives a run's ID from the folder and its listing, so that the same
// tree gives the same run.
func defaultID(dir string, own []string) (string, error) {
	var list []string
	err := walk(dir, own, "", func(p Path, info fs.FileInfo, err error) error {
		if err == nil {
			list = append(list, fmt.Sprintf("%s\x00%d\n", p, info.Size()))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.Sort(list)
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\x00%s", dir, strings.Join(list, ""))
	return "treesum-" + hex.EncodeToString(hash.Sum(nil)[:8]), nil
}
