package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// File is a file of the listing.
type File struct {
	Path Path  `json:"path"` // relative, with slashes
	Size int64 `json:"size"`
}

// FileSum is what one file contributes.
type FileSum struct {
	Path   Path   `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	Bytes  int64  `json:"bytes"`
	Lines  int64  `json:"lines"`
	Error  string `json:"error,omitempty"` // it could not be read
}

// Unreadable is a file or folder that could not be read.
type Unreadable struct {
	Path  Path   `json:"path"`
	Error string `json:"error"`
}

// A batch is the work of one step: the most that is lost when the program is killed. Both bounds also keep its stored
// result small.
const (
	batchFiles = 100
	batchBytes = 64 << 20
)

// batches splits a listing. A file that is larger than a batch has its own.
func batches(files []File) [][]File {
	var split [][]File
	first, size := 0, int64(0)
	for i, file := range files {
		if i > first && (i-first == batchFiles || size+file.Size > batchBytes) {
			split = append(split, files[first:i])
			first, size = i, 0
		}
		size += file.Size
	}
	if first < len(files) {
		split = append(split, files[first:])
	}
	return split
}

// sumFiles sums up files. A file that cannot be read carries its error.
func sumFiles(ctx context.Context, dir string, files []File) ([]FileSum, error) {
	sums := make([]FileSum, len(files))
	for i, file := range files {
		sum, err := sumFile(ctx, filepath.Join(dir, filepath.FromSlash(string(file.Path))))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			sum.Error = reason(err)
		}
		sum.Path = file.Path
		sums[i] = sum
	}
	return sums, nil
}

func sumFile(ctx context.Context, name string) (FileSum, error) {
	// The listing may be old, and opening a file that has become a pipe would block.
	info, err := os.Lstat(name)
	if err != nil {
		return FileSum{}, err
	}
	if !info.Mode().IsRegular() {
		return FileSum{}, errors.New("no longer a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return FileSum{}, err
	}
	defer f.Close()
	hash, lines := sha256.New(), &lineCounter{}
	n, err := io.Copy(io.MultiWriter(hash, lines), &reader{ctx, f})
	if err != nil {
		return FileSum{}, err
	}
	return FileSum{SHA256: hex.EncodeToString(hash.Sum(nil)), Bytes: n, Lines: lines.n}, nil
}

// reader reads until its context ends.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// lineCounter counts newlines, as wc -l does.
type lineCounter struct{ n int64 }

func (c *lineCounter) Write(p []byte) (int, error) {
	c.n += int64(bytes.Count(p, []byte{'\n'}))
	return len(p), nil
}

// extension returns the file's extension with its dot, or "" without one. The
// dot of a dotfile begins a name, not an extension.
func extension(p Path) string {
	base := strings.TrimLeft(path.Base(string(p)), ".")
	return strings.ToValidUTF8(path.Ext(base), "\uFFFD") // it becomes a key in JSON
}

var checksumEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)

// checksumLine returns the line that sha256sum prints for a file. It escapes names with a backslash, a newline or a
// carriage return, and marks that by a backslash at the beginning of the line.
func checksumLine(sum string, p Path) string {
	name, mark := checksumEscapes.Replace(string(p)), ""
	if name != string(p) {
		mark = `\`
	}
	return mark + sum + "  " + name + "\n"
}

// reason is an error without the path, which stands beside it.
func reason(err error) string {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}
