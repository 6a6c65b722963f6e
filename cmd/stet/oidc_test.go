package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServeRefusesAProvider whose flags would let nobody in, or that does not answer.
func TestServeRefusesAProvider(t *testing.T) {
	o := &opener{db: filepath.Join(t.TempDir(), "s.db"), log: slog.New(slog.DiscardHandler)}
	s, err := o.open(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"--oidc-client stet":                                                                {exitUsage, "--oidc-issuer"},
		"--oidc-issuer https://x --oidc-client stet":                                        {exitUsage, "nobody could log in"},
		"--oidc-issuer https://x --oidc-role groups=ops":                                    {exitUsage, "CLAIM=VALUE:ROLE"},
		"--oidc-issuer http://x.example --oidc-client stet --oidc-role groups=ops:operator": {exitUsage, "expected https"},
		"--oidc-issuer https://x --oidc-client stet --oidc-role groups=ops:root":            {exitUsage, "expected a claim"},
		"--oidc-issuer http://127.0.0.1:1 --oidc-client stet --oidc-role groups=a:b:viewer": {exitFailed, "identity provider"},
	} {
		var complaints bytes.Buffer
		line := append([]string{"--db", o.db, "serve", "--addr", "127.0.0.1:0"}, strings.Fields(args)...)
		if code := execute(ctx, line, nil, io.Discard, &complaints); code != want.code ||
			!strings.Contains(complaints.String(), want.says) {
			t.Errorf("stet serve %s: %d, %s", args, code, &complaints)
		}
	}
}
