package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Postgres is a Postgres server of one's own. Its methods are called by one
// goroutine at a time.
type Postgres struct {
	dir      string
	bin      string
	port     int
	settings []string
	process  *process
}

// Settings are settings of a server, like "fsync=off".
type Settings []string

// Fast are the settings of a server whose data is disposable: it waits for no disk.
var Fast = Settings{"fsync=off", "full_page_writes=off", "synchronous_commit=off"}

// postgresFolders are where distributions put the server's programs.
var postgresFolders = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/opt/postgresql*/bin",
	"/opt/homebrew/opt/postgresql*/bin"}

// NewPostgres starts a server of a test's own. It ends with the test.
func NewPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	favor()
	p, err := StartPostgres(settings...)
	need(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// StartPostgres starts a server with an empty database. The caller closes it.
// ErrMissing: no Postgres is installed.
func StartPostgres(settings ...string) (*Postgres, error) {
	initdb, err := find("initdb", postgresFolders...)
	if err != nil {
		return nil, err
	}
	if initdb, err = filepath.EvalSymlinks(initdb); err != nil {
		return nil, err
	}
	p := &Postgres{bin: filepath.Dir(initdb), settings: settings} // the others are beside it
	if p.dir, err = folder("pg"); err != nil {
		return nil, err
	}
	if err := p.run("initdb", "-D", p.data(), "-U", "stet", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	if p.port, err = port(); err == nil {
		err = p.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	return p, nil
}

// NewStandby starts a standby of the server, which it reaches at a host and port: those
// of the server, or of something between. It ends with the test. Commits of the server
// wait for it if the server's synchronous_standby_names is "*".
func (p *Postgres) NewStandby(t testing.TB, addr string, settings ...string) *Postgres {
	t.Helper()
	s := &Postgres{bin: p.bin, settings: settings}
	_, err := find("pg_basebackup", p.bin)
	need(t, err)
	if s.dir, err = folder("standby"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	host, number, _ := strings.Cut(addr, ":")
	if err := s.run("pg_basebackup", "-D", s.data(), "-h", host, "-p", number, "-U", "stet", "-R", "-X", "stream", "-c",
		"fast", "--no-sync"); err != nil {
		t.Fatal(err)
	}
	if s.port, err = port(); err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Promote makes a standby a primary. Its former primary goes on.
func (p *Postgres) Promote() error { return p.run("pg_ctl", "promote", "-w", "-D", p.data()) }

// run executes one of the server's programs to its end.
func (p *Postgres) run(program string, args ...string) error {
	command := exec.Command(filepath.Join(p.bin, program), args...)
	command.Dir = "/"
	unprivileged(command)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w:\n%s", program, err, out)
	}
	return nil
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// Start starts a server that was stopped. It has recovered when Start returns.
func (p *Postgres) Start() error {
	args := []string{"-D", p.data(), "-c", "listen_addresses=127.0.0.1", "-c", fmt.Sprintf("port=%d", p.port),
		"-c", "unix_socket_directories=" + p.dir, "-c", "max_connections=300", "-c", "logging_collector=off", "-c", "log_destination=stderr"}
	for _, s := range p.settings {
		args = append(args, "-c", s)
	}
	var err error
	p.process, err = start(p.dir, "QUIT", "database system is ready to accept ", filepath.Join(p.bin, "postgres"), args...)
	return err
}

// Listen starts the server again, which then has an address more of this machine, such as that of a Network, and
// trusts all that comes there. It returns how to reach the server there.
func (p *Postgres) Listen(t testing.TB, host string) (dsn string) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	rules, err := os.OpenFile(filepath.Join(p.data(), "pg_hba.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = fmt.Fprintln(rules, "host all all 0.0.0.0/0 trust")
		err = errors.Join(err, rules.Close())
	}
	if err == nil {
		p.settings = append(p.settings, "listen_addresses=127.0.0.1,"+host)
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.TCP(fmt.Sprintf("%s:%d", host, p.port))
}

// Stop ends the server at once, as a crash would: connections are cut, nothing is
// written out, and it recovers from its log when it is started again.
func (p *Postgres) Stop() error { return p.process.stop() }

// Save stops the server as Stop does, keeps a copy of its disk, and starts it again.
// Restore puts that disk in the place of the server's, which is stopped and started too: the
// server has then lost what it wrote since, and does not know it.
func (p *Postgres) Save() (restore func() error, err error) {
	return saveDisk(p.data(), filepath.Join(p.dir, "saved"), p)
}

// Set changes settings from the next start on.
func (p *Postgres) Set(settings ...string) { p.settings = append(p.settings, settings...) }

// Log returns the last lines of the server's log.
func (p *Postgres) Log() string { return p.process.lines() }

// Close ends the server and deletes its files.
func (p *Postgres) Close() error {
	if p.process != nil {
		select {
		case <-p.process.ended:
		default:
			if err := p.process.stop(); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(p.dir)
}

// DSN returns the address of the server on its Unix socket.
func (p *Postgres) DSN() string {
	return fmt.Sprintf("host=%s port=%d user=stet dbname=postgres", p.dir, p.port)
}

// Addr returns the host and port that the server listens on.
func (p *Postgres) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// TCP returns the address of the server by way of a host and port: its own, or
// those of something between.
func (p *Postgres) TCP(addr string) string {
	host, port, _ := strings.Cut(addr, ":")
	return fmt.Sprintf("host=%s port=%s user=stet dbname=postgres sslmode=disable", host, port)
}
