package bench

import (
	"runtime"
	"runtime/debug"
)

// Machine is what the figures depend on besides the store. The server of a store may be on another one.
type Machine struct {
	System     string `json:"system"`              // "linux/amd64"
	Processor  string `json:"processor,omitempty"` // its model; "": the system does not say
	Processors int    `json:"processors"`          // that Go uses
	Memory     int64  `json:"memory_bytes"`        // 0: the system does not say
	Go         string `json:"go"`                  // "go1.26.1"
	Revision   string `json:"revision,omitempty"`  // of stet's source; "": the build does not say
	Modified   bool   `json:"modified,omitempty"`  // the source had changes beside the revision
	Version    string `json:"version,omitempty"`   // of the module with the command line
}

// thisMachine describes where this process is.
func thisMachine() Machine {
	m := Machine{
		System: runtime.GOOS + "/" + runtime.GOARCH, Processors: runtime.GOMAXPROCS(0), Go: runtime.Version(),
	}
	m.Processor, m.Memory = hardware()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return m
	}
	m.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			m.Revision = s.Value
		case "vcs.modified":
			m.Modified = s.Value == "true"
		}
	}
	return m
}
