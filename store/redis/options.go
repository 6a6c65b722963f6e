package redis

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stet-run/stet/store"
)

type config struct {
	prefix   string
	slots    int
	parts    int
	lanes    int                         // in tests: so many on one server; 0: those of a cluster
	client   func(*rueidis.ClientOption) // in tests: changes how the client connects
	volatile bool
	now      func() time.Time
	log      *slog.Logger
	seen     *numbers
	conns    *conns
	secret   func(context.Context) (user, password string, err error) // nil: those of the URL
}

// Option is an option of Open.
type Option func(*config)

// Prefix is the beginning of the names of the store's keys, so that several stores
// can be on one server. It must not contain braces. The default is "stet".
func Prefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// Slots is how many slots a new store gets; the default is 256. An existing store
// keeps its own.
func Slots(n int) Option { return func(c *config) { c.slots = n } }

// Spread gives a new store on a single server a hash tag for each slot, as it would
// have on a cluster, so that its keys can be moved to one later. Acts on several
// slots are then not atomic, as described in the package documentation. On a cluster
// a new store is always spread.
func Spread() Option { return func(c *config) { c.parts = -1 } }

// AllowLoss accepts a server without an append-only file: acknowledged acts may be lost
// when the server ends. For tests, and for work that can be done again.
func AllowLoss() Option { return func(c *config) { c.volatile = true } }

// Logger receives events outside of calls. The default is slog.Default.
func Logger(log *slog.Logger) Option { return func(c *config) { c.log = log } }

// Credentials is called for each connection that is made, in place of the user and the password
// of the URL: for a password that is valid for minutes, or that is replaced while the process
// runs. An empty user is the server's default one. Its context ends after five seconds. It may be
// called concurrently, and its error fails the connection. Servers end no connection when a
// password is replaced, so those that are open stay. Sentinels get the same credentials.
func Credentials(fn func(ctx context.Context) (user, password string, err error)) Option {
	return func(c *config) { c.secret = fn }
}

// Clock makes the store read the time from now instead of asking the server; it is
// safe for concurrent use. The time that it returns may go back; the store's time does not.
// For tests.
func Clock(now func() time.Time) Option { return func(c *config) { c.now = now } }

// credentialsLimit bounds a call of the function that Credentials has.
const credentialsLimit = 5 * time.Second

// configure returns the configuration of a store and of its client.
func configure(url string, opts []Option) (config, rueidis.ClientOption, error) {
	cfg := config{prefix: "stet", slots: defaultSlots, parts: 1, log: slog.Default(), seen: &numbers{}, conns: &conns{}}
	option, err := parse(&cfg, url)
	if err != nil {
		return cfg, option, err
	}
	for _, opt := range opts {
		opt(&cfg)
	}
	if cfg.client != nil {
		cfg.client(&option)
	}
	cfg.conns.watch(&option)
	if cfg.secret != nil {
		option.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			ctx, cancel := context.WithTimeout(context.Background(), credentialsLimit)
			defer cancel()
			user, password, err := cfg.secret(ctx)
			return rueidis.AuthCredentials{Username: user, Password: password}, err
		}
	}
	if strings.ContainsAny(cfg.prefix, "{}") || cfg.prefix == "" || len(cfg.prefix) > 100 {
		return cfg, option, fmt.Errorf("open %s: %w: expected a prefix of 1 to 100 bytes without braces, found %q",
			redact(url), store.ErrInvalid, cfg.prefix)
	}
	if cfg.slots < 1 || cfg.slots > maxSlots {
		return cfg, option, fmt.Errorf("open %s: %w: expected 1 to %d slots, found %d", redact(url), store.ErrInvalid,
			maxSlots, cfg.slots)
	}
	return cfg, option, nil
}

const (
	// keepAlive is how long a connection is idle before it is asked whether it lives: each question wakes the process.
	keepAlive = 2 * time.Second
	// silence is how long an answer is waited for before a connection counts as cut.
	silence = 10 * time.Second
)

// parse reads the URL, of which the client does not know the parameter prefix.
func parse(cfg *config, text string) (rueidis.ClientOption, error) {
	option, err := rueidis.ParseURL(text)
	if err != nil {
		return option, fmt.Errorf("open %s: %w: expected the URL of a Redis server: %w", redact(text), store.ErrInvalid, err)
	}
	if _, query, ok := strings.Cut(text, "?"); ok {
		for pair := range strings.SplitSeq(query, "&") {
			if prefix, ok := strings.CutPrefix(pair, "prefix="); ok {
				cfg.prefix = prefix
			}
			cfg.volatile = cfg.volatile || pair == "volatile=1"
		}
	}
	option.DisableCache = true
	option.DisableRetry = true // an act that may have happened is not repeated behind the caller's back
	option.PipelineMultiplex = -1
	option.Dialer.KeepAlive = keepAlive
	option.ConnWriteTimeout = silence
	if option.Sentinel.MasterSet != "" {
		option.Sentinel.Username, option.Sentinel.Password = option.Username, option.Password
		option.Sentinel.TopologyRefreshInterval = 5 * time.Second
	}
	option.ClusterOption.ShardsRefreshInterval = 5 * time.Second
	option.ClusterOption.MaxMovedRedirections = 16 // while servers disagree about a slot they send on in a circle
	return option, nil
}

// redact leaves a password out of a URL.
func redact(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "…@" + rest[at+1:]
	}
	return scheme + "://" + rest
}
