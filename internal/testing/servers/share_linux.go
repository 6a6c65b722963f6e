package servers

import (
	"os"
	"strings"
)

// favor gives the session of this process, which is that of all tests, more of the processors than a server's. Linux
// shares them out by session where it groups processes by it (sched(7), "The autogroup feature"), and each process of
// Postgres makes itself one: beside ten that are busy all tests together had an eleventh. So they count as three. Only
// root may do that; the session, such as that of a terminal, keeps it.
func favor() {
	const file = "/proc/self/autogroup"
	if now, err := os.ReadFile(file); err == nil && strings.HasSuffix(strings.TrimSpace(string(now)), " nice 0") {
		_ = os.WriteFile(file, []byte("-5"), 0)
	}
}
