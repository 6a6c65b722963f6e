package bench

import (
	"fmt"
	"os"
	"strings"
)

// hardware returns the model of the processor and the size of the memory in bytes, as far as the system says them.
func hardware() (processor string, memory int64) {
	processor = valueIn("/proc/cpuinfo", "model name")
	var kib int64
	if _, err := fmt.Sscanf(valueIn("/proc/meminfo", "MemTotal"), "%d kB", &kib); err == nil {
		memory = kib << 10
	}
	return processor, memory
}

// valueIn returns what stands behind a name and a colon in a file of lines; "": nothing.
func valueIn(file, name string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
