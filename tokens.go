package stet

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/entity/tokens"
	"github.com/stet-run/stet/store"
)

// Tokens are the access tokens of the servers of a store (package server). The store keeps
// their hashes and what they allow, never the tokens. Safe for concurrent use.
type Tokens struct{ engine *Engine }

// TokensOf returns the access tokens of the engine's store.
func TokensOf(e *Engine) Tokens { return Tokens{e} }

// TokenInfo is what is known of an access token.
type TokenInfo struct {
	ID   string            // names it; it is no secret
	Hash [sha256.Size]byte // of the token, by which a server recognises it
	// Name of the identity that the token stands for: 1 to 255 bytes without control
	// characters.
	Name string
	Role string // viewer, caller, operator, admin or worker
	// Workflows limit the token to their runs; Named are the topics, queues and schedules
	// within that limit, as "topic:jobs". None: no limit. A worker has no Workflows, and Named
	// are the tasks that it may lease: "task:resize", or "task:media-*" for all that begin so.
	Workflows, Named []string
	Created          time.Time `json:",omitzero"`
	Expires          time.Time `json:",omitzero"` // zero: never
	By               string    // who has created it
}

// tokenPrefix begins a token, so that a scan for secrets finds one that has leaked.
const tokenPrefix = "stet_"

// Create makes a token of 256 random bits for t, of which ID, Hash, Created and By are set by
// it, and returns it. It counts at once, on every server of the store. Nobody can ask for it
// again. Errors: ErrInvalid, and those of the store.
func (t Tokens) Create(ctx context.Context, info TokenInfo, act Act) (token string, err error) {
	if err := store.CheckRunID(info.Name); err != nil {
		return "", fmt.Errorf("create token: name: expected 1 to 255 bytes without control characters, found %q: %w",
			info.Name, ErrInvalid)
	}
	if err := act.check(); err != nil {
		return "", fmt.Errorf("create token: %w", err)
	}
	switch info.Role {
	case "viewer", "caller", "operator", "admin":
	case "worker":
		if err := checkWorkerToken(&info); err != nil {
			return "", err
		}
	default:
		return "", fmt.Errorf("create token: role: expected viewer, caller, operator, admin or worker, found %q: %w",
			info.Role, ErrInvalid)
	}
	d, err := t.engine.store.Describe(ctx)
	if err != nil {
		return "", fmt.Errorf("create token: %w", err)
	}
	if !info.Expires.IsZero() && store.TimeOf(info.Expires) <= d.Now {
		return "", fmt.Errorf("create token: expires: expected a time to come, found %s: %w",
			info.Expires.Format(time.RFC3339), ErrInvalid)
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	token = tokenPrefix + new(big.Int).SetBytes(secret).Text(62)
	hash := sha256.Sum256([]byte(token))
	record := &tokens.Token{
		ID: hex.EncodeToString(hash[:8]), Hash: hash[:], Name: info.Name, Role: info.Role, Workflows: info.Workflows,
		Named: info.Named, Created: d.Now, By: cmp.Or(act.By, t.engine.node),
	}
	if !info.Expires.IsZero() {
		record.Expires = store.TimeOf(info.Expires)
	}
	err = tokens.All.Put(ctx, t.engine.inner, record, recordOf(t.engine, "create", "token", record.ID, act))
	if err != nil {
		return "", fmt.Errorf("create token: %w", err)
	}
	t.engine.logged(ctx, "create", "token", record.ID, act, nil)
	return token, nil
}

// checkWorkerToken returns what is wrong with the bounds of a worker's token.
func checkWorkerToken(info *TokenInfo) error {
	bound := len(info.Named) > 0 && len(info.Workflows) == 0
	for _, name := range info.Named {
		task, ok := strings.CutPrefix(name, "task:")
		bound = bound && ok && task != ""
	}
	if !bound {
		return fmt.Errorf("create token: expected a worker with the names of its tasks and no workflows, as task:resize "+
			"or task:media-*, found %q and %q: %w", info.Named, info.Workflows, ErrInvalid)
	}
	return nil
}

// Revoke has a token count no more, within a second on every server. ErrNotFound: there is
// no token with the ID.
func (t Tokens) Revoke(ctx context.Context, id string, act Act) error {
	if err := act.check(); err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	list, err := t.List(ctx)
	if err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	for i := range list {
		if list[i].ID == id {
			err := tokens.All.Delete(ctx, t.engine.inner, id, recordOf(t.engine, "revoke", "token", id, act))
			t.engine.logged(ctx, "revoke", "token", id, act, err)
			return err
		}
	}
	return fmt.Errorf("token %q: %w", id, ErrNotFound)
}

// List returns the tokens that were created and not revoked, newest first, and by their IDs where
// they were created at the same time; those that have expired may be among them.
func (t Tokens) List(ctx context.Context) ([]TokenInfo, error) {
	entries, inbox, err := t.engine.standing(ctx, tokens.ID)
	var records []tokens.Token
	if err == nil {
		records, err = tokens.All.Read(entries, inbox)
	}
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	list := make([]TokenInfo, len(records))
	for i := range records {
		r := &records[i]
		list[i] = TokenInfo{
			ID: r.ID, Name: r.Name, Role: r.Role, Workflows: r.Workflows, Named: r.Named,
			Created: r.Created.Time(), Expires: r.Expires.Time(), By: r.By,
		}
		copy(list[i].Hash[:], r.Hash)
	}
	slices.SortFunc(list, func(a, b TokenInfo) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}
