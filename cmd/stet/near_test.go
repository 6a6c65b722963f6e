package main

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stet-run/stet/api"
)

func TestDistanceOfNames(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"checkout", "checkout", 0}, {"chekout", "checkout", 1}, {"hcekout", "checkout", 2},
		{"limti", "limit", 1}, {"grüße", "grüsse", 2}, {"kitten", "sitting", 3},
	} {
		if there, back := distance(c.a, c.b), distance(c.b, c.a); there != c.want || back != c.want {
			t.Errorf("from %q to %q: %d, and back %d; want %d", c.a, c.b, there, back, c.want)
		}
	}
}

// TestMisspeltFlagsAreNearToOthers: each command knows the flag of its own that was meant, and those of all.
func TestMisspeltFlagsAreNearToOthers(t *testing.T) {
	for args, want := range map[string]string{
		"ls --limti 3":             "unknown flag: --limti, which is near to --limit",
		"ls --outptu json":         "unknown flag: --outptu, which is near to --output",
		"topics show --severs x":   "unknown flag: --severs, which is near to --server",
		"token create --rol admin": "unknown flag: --rol, which is near to --role",
		"ls --colour":              "unknown flag: --colour; stet ls --help lists those that there are",
		"ls -q":                    "unknown shorthand flag: 'q' in -q; stet ls --help",
	} {
		var complaints bytes.Buffer
		code := execute(t.Context(), strings.Fields(args), nil, io.Discard, &complaints)
		if code != exitUsage || !strings.Contains(complaints.String(), want) {
			t.Errorf("stet %s: exit code %d, %s; want %q", args, code, &complaints, want)
		}
	}
}

// TestPasswordsOfAddressesAreNotShown gives addresses that nothing can read, and some that cannot be reached.
func TestPasswordsOfAddressesAreNotShown(t *testing.T) {
	for _, address := range []string{
		"postgres://ada:s3cr3t@127.0.0.1:1/shop", "postgres://ada:s3cr3t@ho st/shop", "postgres://ada:s3cr3t%zz@host/shop",
		"postgres://ada:s3cr3t@host:port/shop", "postgres://ada:s3cr3t@[::1/shop", "postgres:/ada:s3cr3t@host/shop",
		"postgres:ada:s3cr3t@host", "postgre://ada:s3cr3t@host/shop", "redis://:s3cr3t@ho st", "redis://ada:s3cr3t@host:x",
		"redis://:s3cr3t@127.0.0.1:1/0", "postgres://ada:p@s3cr3t@host:port/shop", "postgres://ada:a/s3cr3t@host/shop",
		"host=127.0.0.1 password=s3cr3t", "postgres://127.0.0.1:port/shop?user=ada&password=s3cr3t",
		"postgres://ada:s3cr3t%@127.0.0.1:1/a postgres://ada:s3cr3t@127.0.0.1:1/b",
	} {
		for _, command := range []string{"ls", "doctor", "databases"} {
			var out bytes.Buffer
			if code := execute(t.Context(), []string{"--db", address, command}, nil, &out, &out); code == exitDone ||
				strings.Contains(out.String(), "s3cr3t") {
				t.Errorf("%s of %s: exit code %d, %s", command, address, code, &out)
			}
		}
		if shown := (&opener{db: address}).address(); strings.Contains(shown, "s3cr3t") {
			t.Errorf("%s is shown as %s", address, shown)
		}
	}
	if shown := (&opener{db: "/srv/a:b@c/app.db"}).address(); shown != "/srv/a:b@c/app.db" {
		t.Errorf("a file is shown as %s", shown)
	}
}

func TestTopicsSayWhatIsKnownOfTheirSettings(t *testing.T) {
	if text := settingsText(&api.Topic{}); !strings.HasPrefix(text, "no event has arrived: ") {
		t.Error(text)
	}
	const want = "expiry none, retention none, cap 3, cap in bytes none"
	if text := settingsText(&api.Topic{Accepted: 1, Cap: 3}); text != want {
		t.Error(text)
	}
	modes := modesOf(&api.Topic{Events: []*api.Event{{Mode: "consumed"}, {Mode: "broadcast"}, {Mode: "consumed"}}})
	if got := strings.Join(modes, ","); got != "broadcast,consumed" {
		t.Error(got)
	}
}

func TestTokensSayWhatTheyAreLimitedTo(t *testing.T) {
	if got := limitsOf(api.Token{}); got != "all" {
		t.Error(got)
	}
	if got := limitsOf(api.Token{Workflows: []string{"a", "b"}, Named: []string{"topic:jobs"}}); got != "a,b,topic:jobs" {
		t.Error(got)
	}
}

// TestThePrintedAddressCanBeOpened also where the server listens on all addresses.
func TestThePrintedAddressCanBeOpened(t *testing.T) {
	for listens, want := range map[string]string{
		"0.0.0.0:8080": "127.0.0.1:8080", "[::]:8080": "127.0.0.1:8080", "127.0.0.1:1": "127.0.0.1:1",
		"[::1]:8080": "[::1]:8080", "10.1.2.3:80": "10.1.2.3:80",
	} {
		if got := reachable(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(listens))); got != want {
			t.Errorf("a server that listens on %s says %s; want %s", listens, got, want)
		}
	}
}
