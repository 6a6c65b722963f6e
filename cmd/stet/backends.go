package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
	"github.com/stet-run/stet/store/redis"
	"github.com/stet-run/stet/store/sqlite"
)

// backend is a kind of store that --db can name. address is what --db says,
// without "sqlite:".
type backend struct {
	schemes []string // before :// in the address; none: the address is a path
	open    func(ctx context.Context, address string, log *slog.Logger) (store.Store, error)
	// schema returns the version of the store's schema, 0 if there is no store, and the
	// latest one, which this binary brings.
	schema func(ctx context.Context, address string) (have, latest int, err error)
	doctor func(ctx context.Context, s store.Store) ([]finding, error)
	// confirmFailover lets nodes use the store again after its server was replaced; nil:
	// they do not stop for that.
	confirmFailover func(ctx context.Context, address string) error
}

// finding is the result of one of a doctor's checks.
type finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

var backends = []*backend{
	{
		open: func(ctx context.Context, path string, log *slog.Logger) (store.Store, error) {
			return sqlite.Open(ctx, path, sqlite.Logger(log))
		},
		schema: func(ctx context.Context, path string) (int, int, error) {
			status, err := sqlite.ReadSchema(ctx, path)
			return status.Store, status.Latest, err
		},
		doctor: func(ctx context.Context, s store.Store) ([]finding, error) {
			found, err := s.(*sqlite.Store).Doctor(ctx)
			list := make([]finding, len(found))
			for i, f := range found {
				list[i] = finding(f)
			}
			return list, err
		},
	},
	{
		schemes: []string{"postgres", "postgresql"},
		open: func(ctx context.Context, dsn string, log *slog.Logger) (store.Store, error) {
			if dsns := strings.Fields(dsn); len(dsns) > 1 {
				return postgres.OpenAll(ctx, dsns, postgres.Logger(log))
			}
			return postgres.Open(ctx, dsn, postgres.Logger(log))
		},
		schema: schemaOfAll,
		confirmFailover: func(ctx context.Context, dsn string) error {
			for _, dsn := range strings.Fields(dsn) {
				if err := postgres.ConfirmFailover(ctx, dsn); err != nil {
					return err
				}
			}
			return nil
		},
		doctor: func(ctx context.Context, s store.Store) ([]finding, error) {
			found, err := s.(interface {
				Doctor(context.Context) ([]postgres.Finding, error)
			}).Doctor(ctx)
			list := make([]finding, len(found))
			for i, f := range found {
				list[i] = finding(f)
			}
			return list, err
		},
	},
	{
		schemes: redisSchemes,
		open: func(ctx context.Context, url string, log *slog.Logger) (store.Store, error) {
			return redis.Open(ctx, url, redis.Logger(log))
		},
		schema: func(ctx context.Context, url string) (int, int, error) {
			status, err := redis.ReadSchema(ctx, url)
			return status.Store, status.Latest, err
		},
		doctor: func(ctx context.Context, s store.Store) ([]finding, error) {
			found, err := s.(*redis.Store).Doctor(ctx)
			list := make([]finding, len(found))
			for i, f := range found {
				list[i] = finding(f)
			}
			return list, err
		},
	},
}

// redisSchemes are those of URLs of Redis and Valkey servers.
var redisSchemes = []string{"redis", "rediss", "valkey", "valkeys", "unix"}

// backend returns the kind of store that --db names, and its address.
func (o *opener) backend() (*backend, string, error) {
	address, isSQLite := strings.CutPrefix(o.db, "sqlite:")
	if o.db == "" || address == "" {
		return nil, "", usage(errors.New("no store given: " +
			"use --db FILE, --db postgres://HOST/DATABASE or --db redis://HOST, or set STET_DB"))
	}
	scheme, _, isURL := strings.Cut(address, "://")
	if !isURL || isSQLite {
		return backends[0], address, nil
	}
	var known []string
	for _, b := range backends {
		for _, s := range b.schemes {
			if s == scheme {
				return b, address, nil
			}
			known = append(known, s+"://")
		}
	}
	return nil, "", usage(fmt.Errorf("--db: expected an SQLite file or %s, found a %s URL: this version has no such store",
		strings.Join(known, ", "), scheme))
}

// address returns --db without passwords, to be shown.
func (o *opener) address() string {
	if dsns := strings.Fields(o.db); several(o.db) {
		for i := range dsns {
			dsns[i] = (&opener{db: dsns[i]}).address()
		}
		return strings.Join(dsns, " ")
	}
	if u, err := url.Parse(o.db); err == nil && u.User != nil {
		return u.Redacted()
	}
	return withoutPassword(o.db)
}

// parameter finds a password that is a parameter of an address.
var parameter = regexp.MustCompile(`(?i)(?:^|[\s?&])password=([^\s&]+)`)

// withoutPassword returns an address without its password.
func withoutPassword(address string) string {
	for _, secret := range passwordsOf(address) {
		address = strings.ReplaceAll(address, ":"+secret+"@", ":xxxxx@")
		address = strings.ReplaceAll(address, "="+secret, "=xxxxx")
	}
	return address
}

// passwordsOf returns the passwords in an address.
func passwordsOf(address string) (all []string) {
	if u, err := url.Parse(address); err == nil && u.User != nil {
		if password, _ := u.User.Password(); password != "" {
			all = append(all, password)
		}
	}
	if scheme, rest, ok := strings.Cut(address, ":"); ok && scheme != "sqlite" {
		// All from the second colon to the last @: a password that is not escaped has any character.
		if _, rest, ok := strings.Cut(strings.TrimLeft(rest, "/"), ":"); ok {
			if at := strings.LastIndex(rest, "@"); at > 0 {
				all = append(all, rest[:at])
			}
		}
	}
	for _, found := range parameter.FindAllStringSubmatch(address, -1) {
		all = append(all, found[1])
	}
	return all
}

// hideSecrets leaves the passwords of --db out of an error: what cannot read an address may quote it.
func (a *app) hideSecrets(err error) error {
	text := err.Error()
	for _, secret := range passwordsOf(a.db) {
		quoted := strconv.Quote(secret)
		for _, form := range []string{secret, quoted[1 : len(quoted)-1], url.QueryEscape(secret), url.PathEscape(secret)} {
			text = strings.ReplaceAll(text, ":"+form+"@", ":xxxxx@")
			if len(form) > 3 { // a shorter one is a part of other words
				text = strings.ReplaceAll(text, form, "xxxxx")
			}
			for i := range form { // a driver may have hidden what is before the first @
				if form[i] == '@' {
					text = strings.ReplaceAll(text, form[i:]+"@", "@")
				}
			}
		}
	}
	if text == err.Error() {
		return err
	}
	return shownError{err, text}
}

// shownError is an error that is shown with another text.
type shownError struct {
	error
	text string
}

func (e shownError) Error() string { return e.text }
func (e shownError) Unwrap() error { return e.error }

// several reports whether an address is those of several databases of one store, with spaces between them.
func several(address string) bool {
	dsns := strings.Fields(address)
	for _, dsn := range dsns {
		if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
			return false
		}
	}
	return len(dsns) > 1
}

// schemaOfAll returns the schema of the database with the oldest one that is there.
func schemaOfAll(ctx context.Context, address string) (have, latest int, err error) {
	var away error
	dsns := strings.Fields(address)
	found := 0
	for _, dsn := range dsns {
		status, err := postgres.ReadSchema(ctx, dsn)
		switch {
		case errors.Is(err, store.ErrUnavailable) && len(dsns) > 1:
			away = err // a store over several databases is opened without some of them
		case err != nil:
			return 0, 0, err
		case found == 0 || status.Store < have:
			have, latest, found = status.Store, status.Latest, found+1
		}
	}
	if found == 0 {
		return 0, 0, away
	}
	return have, latest, nil
}

// places is the flag --db, which may be repeated: what it adds is put behind a space.
type places struct {
	db    *string
	given bool
}

// String implements pflag.Value, as do the other methods. The default is of the environment, and not shown.
func (*places) String() string { return "" }

func (*places) Type() string { return "string" }

func (p *places) Set(address string) error {
	if !p.given {
		*p.db, p.given = address, true
		return nil
	}
	if *p.db == address || slices.Contains(strings.Fields(*p.db), address) {
		return nil // what completes a command line reads its flags twice
	}
	if both := *p.db + " " + address; several(both) {
		*p.db = both
		return nil
	}
	return errors.New("expected one store, or all Postgres databases of a store over several, found " +
		(&opener{db: *p.db}).address() + " and " + (&opener{db: address}).address())
}

// isFile reports whether the store is a file.
func (b *backend) isFile() bool { return len(b.schemes) == 0 }

// usable returns an error if there is no store at an address, or one with an older schema than
// this binary's. A command that reads must not be what changes a schema: that takes locks which
// stop all others for a moment, and shuts out binaries that do not know the new one.
func (b *backend) usable(ctx context.Context, address string) error {
	if b.isFile() {
		if _, err := os.Stat(address); os.IsNotExist(err) {
			return usage(fmt.Errorf("there is no store %s: %s", address, createIt))
		}
	}
	have, latest, err := b.schema(ctx, address)
	switch {
	case err != nil:
		return err
	case have == 0 && b.isFile():
		return nil // Open says what is in the file
	case have == 0:
		return usage(errors.New("there is no store in that database: " + createIt))
	case have < latest:
		return fmt.Errorf("%w: expected schema %d, found %d: use the stet of your applications' version, or bring the "+
			"store up to date with stet migrate", store.ErrSchema, latest, have)
	}
	return nil
}
