package postgres

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not have on all processors.
const tcpUserTimeout = 0x12

// limitSilence bounds how long sent data may be unconfirmed.
func limitSilence(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout,
			int(silentLimit.Milliseconds())))
	})
	return errors.Join(err, failed)
}
