//go:build unix

package servers

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that servers run as when this process is root's, which they
// refuse.
func account() (uid, gid int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"nobody", "daemon"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUser := strconv.Atoi(u.Uid)
		gid, errGroup := strconv.Atoi(u.Gid)
		if errUser == nil && errGroup == nil {
			return uid, gid, true
		}
	}
	return 65534, 65534, true
}

// unprivileged makes a command run as an unprivileged user, in a process group of
// its own, so that an interrupt from the keyboard does not reach it.
func unprivileged(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if uid, gid, ok := account(); ok {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
}

// own gives a folder to that user.
func own(path string) error {
	if uid, gid, ok := account(); ok {
		return os.Chown(path, uid, gid)
	}
	return nil
}

// pause makes a process stand still, or go on.
func pause(id int, on bool) error {
	if on {
		return syscall.Kill(id, syscall.SIGSTOP)
	}
	return syscall.Kill(id, syscall.SIGCONT)
}
