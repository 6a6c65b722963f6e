package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// machine is what the figures depend on besides the subjects. What the system does not say is "".
type machine struct {
	System, Processor, Memory, Go, Revision string
	Processors                              int
}

func thisMachine() machine {
	m := machine{System: runtime.GOOS + "/" + runtime.GOARCH, Processors: runtime.NumCPU(), Go: runtime.Version(),
		Processor: valueIn("/proc/cpuinfo", "model name"), Revision: revision()}
	var kib float64
	if _, err := fmt.Sscanf(valueIn("/proc/meminfo", "MemTotal"), "%f kB", &kib); err == nil {
		m.Memory = fmt.Sprintf("%.1f GiB", kib/(1<<20))
	}
	return m
}

// revision returns the commit of the folder that this is executed in.
func revision() string {
	text, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// valueIn returns what stands behind a name and a colon in a file of lines; "": nothing.
func valueIn(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// load returns the load averages of 1, 5 and 15 minutes; "": the system does not say.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return ""
	}
	return strings.Join(fields[:3], " ")
}

// fileSystem returns the kind of the file system that a folder is on.
func fileSystem(dir string) string {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "unknown"
	}
	kind, longest := "unknown", ""
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < len(longest) {
			continue
		}
		if within, err := filepath.Rel(f[1], dir); err == nil && within != ".." && !strings.HasPrefix(within, "../") {
			kind, longest = f[2], f[1]
		}
	}
	return kind
}

// measured are the modules whose versions decide the figures.
var measured = []string{"github.com/riverqueue/river", "github.com/dbos-inc/dbos-transact-golang",
	"github.com/jackc/pgx/v5", "github.com/ncruces/go-sqlite3", "modernc.org/sqlite"}

// versions returns a line for each of the measured modules that this program is built from.
func versions() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var lines []string
	for _, path := range measured {
		for _, m := range info.Deps {
			if m.Path == path {
				lines = append(lines, path+" "+m.Version)
			}
		}
	}
	return lines
}
