package box

import (
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/experimental/sys"
	wsys "github.com/tetratelabs/wazero/sys"
)

// Disk is the file system of a machine: one folder, in memory. It outlives the machine. What was
// not synced when the power fails may be lost, in any order, and in the middle of a write.
//
// That a file was made, renamed or removed is durable at once.
type Disk struct {
	sys.UnimplementedFS
	files map[string]*file
	// Room is how many bytes all files may have together; 0: as many as they like.
	Room int64
	// Refused is how many writes found no room.
	Refused int
	// Lies: what is synced is as little durable as what is not.
	Lies bool

	call func() // each change and each sync is a call of the outside, in which its machine may die
}

type file struct {
	folder bool // it is an empty folder, which SQLite's driver takes for a lock
	no     wsys.Inode
	data   []byte
	synced []byte
	since  []write // not synced yet, in their order
}

// write is a change of a file. Without data it is a truncation.
type write struct {
	at   int64
	data []byte
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{files: map[string]*file{}} }

const sector = 512

// Unlock removes the locks of a machine that has ended.
func (d *Disk) Unlock() {
	for name, f := range d.files {
		// On other systems they are locks of files, which die with their process.
		if f.folder || strings.Contains(name, ".lock") {
			delete(d.files, name)
		}
	}
}

// Cut lets the power fail: files are then as synced, with some of what was written since.
func (d *Disk) Cut(r *rand.Rand) (lost int) {
	d.Unlock()
	names := make([]string, 0, len(d.files))
	for name := range d.files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := d.files[name]
		f.data = slices.Clone(f.synced)
		kept := r.IntN(len(f.since) + 1) // a prefix, or any of them
		any := r.IntN(2) == 0
		for i, w := range f.since {
			switch {
			case any && r.IntN(2) == 0, !any && i > kept:
				lost++
				continue
			case !any && i == kept && len(w.data) > 0: // in the middle of this one
				lost++
				w.data = w.data[:r.IntN(len(w.data)/sector+1)*sector]
			}
			f.apply(w)
		}
		f.synced, f.since = slices.Clone(f.data), nil
	}
	return lost
}

func (f *file) apply(w write) {
	if w.data == nil {
		f.resize(w.at)
		return
	}
	if end := w.at + int64(len(w.data)); end > int64(len(f.data)) {
		f.resize(end)
	}
	copy(f.data[w.at:], w.data)
}

func (f *file) resize(size int64) {
	if size <= int64(len(f.data)) {
		f.data = f.data[:size]
		return
	}
	f.data = append(f.data, make([]byte, size-int64(len(f.data)))...)
}

func (f *file) change(w write) {
	f.apply(w)
	f.since = append(f.since, w)
}

func (f *file) stat() wsys.Stat_t {
	if f.folder {
		return wsys.Stat_t{Ino: f.no, Mode: fs.ModeDir | 0o755, Nlink: 1}
	}
	return wsys.Stat_t{Ino: f.no, Mode: 0o644, Nlink: 1, Size: int64(len(f.data))}
}

var folder = wsys.Stat_t{Ino: 1, Mode: fs.ModeDir | 0o755, Nlink: 1}

func (d *Disk) find(name string) *file { return d.files[path.Base(name)] }

func isFolder(name string) bool { return name == "" || name == "." || name == "/" }

// OpenFile implements sys.FS.
func (d *Disk) OpenFile(name string, flag sys.Oflag, _ fs.FileMode) (sys.File, sys.Errno) {
	if isFolder(name) {
		return &opened{}, 0
	}
	f := d.find(name)
	switch {
	case f == nil && flag&sys.O_CREAT == 0:
		return nil, sys.ENOENT
	case f != nil && flag&sys.O_CREAT != 0 && flag&sys.O_EXCL != 0:
		return nil, sys.EEXIST
	case f == nil:
		f = &file{no: wsys.Inode(len(d.files) + 2)}
		d.files[path.Base(name)] = f
	case flag&sys.O_TRUNC != 0:
		f.change(write{})
	}
	return &opened{disk: d, file: f}, 0
}

// Stat implements sys.FS.
func (d *Disk) Stat(name string) (wsys.Stat_t, sys.Errno) {
	if isFolder(name) {
		return folder, 0
	}
	if f := d.find(name); f != nil {
		return f.stat(), 0
	}
	return wsys.Stat_t{}, sys.ENOENT
}

// Lstat implements sys.FS.
func (d *Disk) Lstat(name string) (wsys.Stat_t, sys.Errno) { return d.Stat(name) }

// Unlink implements sys.FS.
func (d *Disk) Unlink(name string) sys.Errno {
	if d.find(name) == nil {
		return sys.ENOENT
	}
	delete(d.files, path.Base(name))
	return 0
}

// Mkdir implements sys.FS.
func (d *Disk) Mkdir(name string, _ fs.FileMode) sys.Errno {
	if d.find(name) != nil {
		return sys.EEXIST
	}
	d.files[path.Base(name)] = &file{no: wsys.Inode(len(d.files) + 2), folder: true}
	return 0
}

// Rmdir implements sys.FS.
func (d *Disk) Rmdir(name string) sys.Errno { return d.Unlink(name) }

// Rename implements sys.FS.
func (d *Disk) Rename(from, to string) sys.Errno {
	f := d.find(from)
	if f == nil {
		return sys.ENOENT
	}
	delete(d.files, path.Base(from))
	d.files[path.Base(to)] = f
	return 0
}

func (d *Disk) full(more int64) bool {
	if d.Room == 0 {
		return false
	}
	for _, f := range d.files {
		more += int64(len(f.data))
	}
	if more > d.Room {
		d.Refused++
	}
	return more > d.Room
}

// opened is a file that a machine has open; of the folder it has none.
type opened struct {
	sys.UnimplementedFile
	disk *Disk
	file *file
	at   int64
}

func (o *opened) IsDir() (bool, sys.Errno) { return o.file == nil, 0 }
func (o *opened) Ino() (wsys.Inode, sys.Errno) {
	s, _ := o.Stat()
	return s.Ino, 0
}

func (o *opened) Stat() (wsys.Stat_t, sys.Errno) {
	if o.file == nil {
		return folder, 0
	}
	return o.file.stat(), 0
}

func (o *opened) Pread(b []byte, at int64) (int, sys.Errno) {
	if at >= int64(len(o.file.data)) {
		return 0, 0
	}
	return copy(b, o.file.data[at:]), 0
}

func (o *opened) Pwrite(b []byte, at int64) (int, sys.Errno) {
	o.disk.call()
	if o.disk.full(max(0, at+int64(len(b))-int64(len(o.file.data)))) {
		return 0, sys.EIO
	}
	o.file.change(write{at, append([]byte{}, b...)})
	return len(b), 0
}

func (o *opened) Read(b []byte) (int, sys.Errno) {
	n, err := o.Pread(b, o.at)
	o.at += int64(n)
	return n, err
}

func (o *opened) Write(b []byte) (int, sys.Errno) {
	n, err := o.Pwrite(b, o.at)
	o.at += int64(n)
	return n, err
}

// offset is an alias so that go vet does not take Seek for io.Seeker's.
type offset = int64

func (o *opened) Seek(by offset, whence int) (int64, sys.Errno) {
	switch whence {
	case 0:
		o.at = by
	case 1:
		o.at += by
	case 2:
		o.at = int64(len(o.file.data)) + by
	}
	return o.at, 0
}

func (o *opened) Truncate(size int64) sys.Errno {
	o.disk.call()
	o.file.change(write{at: size})
	return 0
}

func (o *opened) Sync() sys.Errno {
	if o.file != nil && !o.disk.Lies {
		o.disk.call()
		o.file.synced, o.file.since = slices.Clone(o.file.data), nil
	}
	return 0
}

func (o *opened) Datasync() sys.Errno { return o.Sync() }
func (o *opened) Close() sys.Errno    { return 0 }
