package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/files"
)

// The environment variables that say how an application keeps its values.
const (
	keysVariable    = "STET_KEYS"
	objectsVariable = "STET_OBJECTS"
)

// payloads returns how values are read and written, as the environment says, and the
// function that releases it.
func payloads() (p stet.Payloads, done func() error, err error) {
	done = func() error { return nil }
	if p.Keys, err = parseKeys(os.Getenv(keysVariable)); err != nil {
		return p, done, usage(fmt.Errorf("%s: %w", keysVariable, err))
	}
	dir := os.Getenv(objectsVariable)
	if dir == "" {
		return p, done, nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return p, done, usage(fmt.Errorf("%s: expected the folder of an application's objects, found none at %s",
			objectsVariable, dir))
	}
	objects, err := files.Open(dir)
	if err != nil {
		return p, done, err
	}
	p.Objects = objects
	return p, objects.Close, nil
}

// parseKeys reads keys: ID:SECRET, with the secret in base64, divided by spaces or
// commas. The first one encrypts. Errors do not show secrets.
func parseKeys(text string) ([]stet.PayloadKey, error) {
	var keys []stet.PayloadKey
	for i, field := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' }) {
		id, secret, ok := strings.Cut(field, ":")
		if !ok {
			return nil, fmt.Errorf("key %d: expected ID:SECRET, found no colon", i+1)
		}
		data, err := base64.StdEncoding.DecodeString(secret)
		if err != nil {
			return nil, fmt.Errorf("key %q: expected a secret in base64", id)
		}
		key := stet.PayloadKey{ID: id, Secret: data}
		if err := key.Check(); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}
