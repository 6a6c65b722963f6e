package stet

import (
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/store"
)

// Payloads says what is done to values before they are stored: inputs, results,
// messages, answers, errors, progress of steps, values and streams. All processes
// on a store have the same. The zero Payloads stores values as the codec gives
// them. It may be changed at any time: each stored value says how it is to be read.
//
// IDs of runs and messages, names, locations with their keys, tags and headers are
// never encrypted: runs are found by them.
type Payloads struct {
	// Compress is the length from which on values are compressed with zstd, if that
	// makes them smaller. Default and None: no value is. 1024 is a good beginning.
	Compress int
	// Keys encrypt values, with AES-256-GCM: the first one those that are written,
	// all those that are read. To change the key put the new one before the others,
	// in all processes as a second one first; keep a former one as long as something
	// is stored that it has encrypted, which is as long as runs are. Default: values
	// are not encrypted.
	Keys []PayloadKey
	// Objects keeps large values outside the store, for example a folder, see
	// package store/files. A value is written there before the commit that refers to
	// it; what nothing refers to is deleted a day later. Default: nil, none is.
	Objects store.Objects
	// Require says which values are refused when they are read. Default: none, so that
	// what was stored before there were Keys can be read.
	Require PayloadRequire
	// Offload is the length from which on values go to Objects, counted after they
	// were compressed. Default 256 KiB. Answers, published values and streams stay
	// in the store.
	Offload int
}

// PayloadRequire says which stored values are refused. What is encrypted is bound to its
// place, which is its run and which of the run's values it is. It does not open if somebody
// who has no key puts it in the place of another value in the store. A run with a value or
// message that does not open, or is refused, stalls with CauseDamaged. What can be done
// without a key all the same is listed in
// docs/decisions/0046-values-are-bound-to-their-place.md.
type PayloadRequire int

const (
	// RequireNothing refuses no value: also those are read that are not encrypted, and
	// those that an earlier version has encrypted and not bound to their place.
	RequireNothing PayloadRequire = iota
	// RequireEncrypted refuses values that are not encrypted. Set it when no run is left
	// that began before there were Keys.
	RequireEncrypted
	// RequireBound also refuses encrypted values that are not bound to their place.
	RequireBound
)

// PayloadKey is a key that values are encrypted with.
type PayloadKey struct {
	// ID is stored with what the key has encrypted: 1 to 64 printable ASCII
	// characters without spaces. A key with another secret has another ID.
	ID string
	// Secret is 32 bytes from a good source of randomness.
	Secret []byte
}

// Check returns what is wrong with the key, or nil. The error does not show the secret.
func (k PayloadKey) Check() error { return payload.CheckKey(payload.Key(k)) }

// Unreadable returns why a stored value, as RawValue.Bytes returns it and Engine.Store
// reads it, cannot be read here, or nil. The message is short, to be shown in place of
// the value: it names the key and the object that are missing, and the size. The error
// wraps ErrSealed, or store.ErrDamaged if the value cannot be read anywhere.
func Unreadable(value []byte) error {
	sealed, is, err := payload.Look(value)
	if err != nil || !is {
		return err
	}
	return &sealedError{sealed.String()}
}

// sealedError is what is missing to read a value.
type sealedError struct{ missing string }

func (e *sealedError) Error() string { return e.missing }
func (e *sealedError) Unwrap() error { return ErrSealed }

// ErrUnknownKey: a stored value is encrypted with a key that Payloads.Keys lacks;
// the error names it. A run with such a value is left alone, not failed, and goes
// on in a process that has the key.
var ErrUnknownKey = payload.ErrUnknownKey

// ErrSealed: a stored value cannot be read, because its key or its object is not
// there.
var ErrSealed = payload.ErrSealed

func (p *Payloads) setDefaults() { pick(&p.Offload, 256<<10) }

// check reports everything that is wrong.
func (p *Payloads) check(bad func(format string, args ...any)) {
	if p.Compress < 0 && p.Compress != None {
		bad("Payloads.Compress: expected 1 or more, or None, found %d", p.Compress)
	}
	if p.Offload < store.LargeValue {
		bad("Payloads.Offload: expected %d or more, found %d", store.LargeValue, p.Offload)
	}
	switch {
	case p.Require < RequireNothing || p.Require > RequireBound:
		bad("Payloads.Require: expected RequireNothing, RequireEncrypted or RequireBound, found %d", p.Require)
	case p.Require > RequireNothing && len(p.Keys) == 0:
		bad("Payloads.Require: expected Keys, as no other value is encrypted, found none")
	}
	ids := map[string]bool{}
	for i, k := range p.Keys {
		if err := k.Check(); err != nil {
			bad("Payloads.Keys[%d]: %s", i, err)
		}
		if ids[k.ID] {
			bad("Payloads.Keys[%d]: expected another ID than those before, found %q", i, k.ID)
		}
		ids[k.ID] = true
	}
}

// policy returns what is done to values.
func (p *Payloads) policy() *payload.Policy {
	cfg := payload.Config{Compress: max(p.Compress, 0), Objects: p.Objects, Offload: p.Offload,
		Require: payload.Require(p.Require)}
	for _, k := range p.Keys {
		cfg.Keys = append(cfg.Keys, payload.Key(k))
	}
	return payload.New(cfg)
}

// Store returns the store as this engine sees it: values are as they were given
// where Config.Payloads can open them, and as they are stored where not.
func (e *Engine) Store() store.Store { return e.store }
