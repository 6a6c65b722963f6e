package api

import (
	"time"

	"github.com/stet-run/stet"
)

// Ways say how to log in.
type Ways struct {
	// Provider names the identity provider to which login/provider sends a browser; "": there
	// is none.
	Provider string `json:"provider,omitempty"`
	Token    bool   `json:"token"` // a token may be changed for a cookie
}

// Login changes a token for a cookie.
type Login struct {
	Token string `json:"token"`
}

// CreateToken asks for an access token.
type CreateToken struct {
	Name        string   `json:"name"`                    // of the identity
	Role        string   `json:"role" words:"Role"`       // viewer, caller, operator, admin or worker
	Workflows   []string `json:"workflows,omitempty"`     // default: no limit
	Named       []string `json:"named,omitempty"`         // topics, queues, schedules; of a worker its tasks: task:resize
	ExpiresInMS int64    `json:"expires_in_ms,omitempty"` // default: 90 days; -1: never
	Reason      string   `json:"reason,omitempty"`
}

// CreatedToken is a new access token, which nobody can ask for again.
type CreatedToken struct {
	Token string `json:"token"`
}

// Token is what is known of an access token.
type Token struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Role      string    `json:"role" words:"Role"`
	Workflows []string  `json:"workflows,omitempty"`
	Named     []string  `json:"named,omitempty"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"`
	By        string    `json:"by"`
}

// TokenOf returns the form of a token.
func TokenOf(t *stet.TokenInfo) Token {
	return Token{t.ID, t.Name, t.Role, t.Workflows, t.Named, t.Created, t.Expires, t.By}
}

// Tokens are the access tokens of a store.
type Tokens struct {
	Tokens []Token `json:"tokens"`
}
