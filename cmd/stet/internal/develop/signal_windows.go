package develop

import "os"

// terminate ends a process: there is no request that a process of Windows could hear.
func terminate(p *os.Process) error { return p.Kill() }
