package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A shared server belongs to a keeper: a process that starts it, listens on a Unix socket, and ends it when nobody has
// been connected to that socket for some seconds. A test process holds one connection until it ends, however it ends.
// The first process that finds no keeper starts one, under a lock: the keeper is the same program again, which sees by
// an environment variable what it is to do before main begins.
//
//   - A keeper that dies takes its server with it (see process). The next test process finds nobody at the socket.
//   - A keeper stops listening before it ends its server. A process that connected too late reads no greeting, and
//     starts from the beginning.

const (
	keeperVariable = "STET_TEST_KEEPER"
	// linger is how long a keeper waits for another test process.
	linger = 5 * time.Second
)

func init() {
	kind := os.Getenv(keeperVariable)
	if kind == "" {
		return
	}
	_ = os.Unsetenv(keeperVariable) // its children are servers
	if err := keep(kind); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// sharedFolder has the sockets and locks of a user's keepers.
func sharedFolder() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("stet-servers-%d", os.Getuid()))
}

func socketOf(kind string) string { return filepath.Join(sharedFolder(), kind+".sock") }

func lockOf(kind string) string { return filepath.Join(sharedFolder(), kind+".lock") }

// attached are the connections to keepers. They end with the process.
var attached = make(chan net.Conn, 3)

// attach returns the address of the shared server of a kind, which it starts if there is none. ErrMissing: it is not
// installed.
func attach(kind string) (address string, err error) {
	for range 10 { // keepers that end just now
		if address, err = greet(kind); err == nil {
			return address, nil
		}
		if err = os.MkdirAll(sharedFolder(), 0o700); err != nil {
			return "", err
		}
		release, err := lockFile(lockOf(kind))
		if err != nil {
			return "", err
		}
		if address, err = greet(kind); err != nil {
			err = startKeeper(kind)
		}
		release()
		if err != nil || address != "" {
			return address, err
		}
	}
	return "", fmt.Errorf("the keeper of the shared %s: %w", kind, err)
}

// greet connects to a keeper and reads the address of its server.
func greet(kind string) (address string, err error) {
	conn, err := net.Dial("unix", socketOf(kind))
	if err != nil {
		return "", err
	}
	address, err = bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", errors.Join(err, conn.Close())
	}
	attached <- conn
	return strings.TrimSuffix(address, "\n"), nil
}

// startKeeper starts a keeper and waits until it listens.
func startKeeper(kind string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	keeper := exec.Command(program)
	keeper.Env = append(os.Environ(), keeperVariable+"="+kind)
	keeper.Dir = "/"
	detach(keeper)
	out, err := keeper.StdoutPipe()
	if err != nil {
		return err
	}
	if err := keeper.Start(); err != nil {
		return err
	}
	said, err := io.ReadAll(out) // until it closes its output
	go func() { _ = keeper.Wait() }()
	switch text := strings.TrimSpace(string(said)); {
	case err != nil:
		return err
	case text == "listens":
		return nil
	case strings.HasPrefix(text, ErrMissing.Error()):
		return fmt.Errorf("%w%s", ErrMissing, strings.TrimPrefix(text, ErrMissing.Error()))
	default:
		return fmt.Errorf("the keeper of the shared %s: %q", kind, text)
	}
}

// keep is a keeper's life. It says "listens" on its output when it does.
func keep(kind string) error {
	var server *sharedServer
	for _, s := range sharedServers {
		if s.kind == kind {
			server = s
		}
	}
	if server == nil {
		return fmt.Errorf("%s: expected a shared server, found %q", keeperVariable, kind)
	}
	address, end, err := server.start()
	if err != nil {
		return err
	}
	_ = os.Remove(socketOf(kind)) // of a keeper that was killed: this one has the lock
	listener, err := net.Listen("unix", socketOf(kind))
	if err != nil {
		return errors.Join(err, end())
	}
	fmt.Println("listens")
	_ = os.Stdout.Close()
	err = welcome(listener, address)
	if release, lockErr := lockFile(lockOf(kind)); lockErr == nil {
		_ = os.Remove(lockOf(kind))
		_ = os.Remove(sharedFolder()) // if it is empty
		release()
	}
	return errors.Join(err, end())
}

// welcome greets test processes until none has been connected for some seconds. It closes the listener, which removes
// the socket first, and the connections that it has not greeted.
func welcome(listener net.Listener, address string) error {
	joined, left, ended := make(chan net.Conn), make(chan struct{}), make(chan struct{})
	defer close(ended)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			select {
			case joined <- conn:
			case <-ended:
				_ = conn.Close()
			}
		}
	}()
	here := 0
	lonely := time.NewTimer(time.Minute) // the first must come from the process that waits for "listens"
	for {
		select {
		case conn := <-joined:
			here++
			lonely.Stop()
			go func() {
				_, _ = io.WriteString(conn, address+"\n") // if it fails, the process has ended
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
				left <- struct{}{}
			}()
		case <-left:
			if here--; here == 0 {
				lonely.Reset(linger)
			}
		case <-lonely.C:
			return listener.Close()
		}
	}
}
