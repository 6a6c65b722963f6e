// Package payload changes values between their users and the store: it compresses
// them, encrypts them, and puts large ones into objects outside the store. It knows
// which fields of the contract's types are values, and nothing of runs or engines.
//
// # The stored form
//
// A value that is not changed is stored as it is. Any other begins with
// [Marker], which no codec may use as its format:
//
//	Marker  flags  uvarint of the plain length
//	        [encrypted: length of the key's ID, 1 byte; the key's ID]
//	        [bound: the form of its place, 1 byte]
//	        [in an object: SHA-256 of the content; the object's name]
//	        [otherwise: the content]
//
// The content is the value, compressed if the flag says so, and then encrypted if
// the flag says so: 24 bytes of nonce, and the AES-256-GCM of the rest. The bytes
// before the hash and the content are authenticated with it. A value that itself begins
// with Marker is stored in this form without any flag.
//
// # The place of a value
//
// What is encrypted is bound: the place of the value, that is its run and which of the
// run's values it is, is authenticated with it and not stored. So a value that was put in
// the place of another one does not open. The run is named by what the writer knows of it
// and the reader finds with it; see byNo and the following. Values that were encrypted
// before that was so lack the flag, and open at any place.
//
// # Nonces
//
// The store compares: an equal second record is a no-op, a different one is refused. So
// equal values at the same place must give equal stored values: the nonce is derived
// from the value. It is derived from the place as well, so that equal values at
// different places look different. The first 12 bytes of the nonce choose the key of the
// value, the others are the nonce of GCM: with 192 bits no two values share a nonce by
// chance.
//
// With another key or other settings an equal value would have another stored form. Only
// entries that are final and have no number are written again. The stored form of such
// an entry is remembered when it is read.
package payload

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/stet-run/stet/store"
)

// Marker is the first byte of a sealed value.
const Marker = 2

const (
	compressed = 1 << iota
	encrypted
	offloaded
	bound
	allFlags = compressed | encrypted | offloaded | bound

	// refused stands in place of the flags of a value that Require refuses, once it was read.
	refused = 0xff
)

const (
	// KeySize is the length of a key's secret.
	KeySize = 32
	// MaxKeyID is the longest ID of a key.
	MaxKeyID  = 64
	nonceSize = 24
	// maxPlain is the longest plain length that a compressed value may claim.
	maxPlain = 1 << 28
)

// Key is a key with the ID that is stored with what it encrypts.
type Key struct {
	ID     string
	Secret []byte
}

// Config says how values are stored.
type Config struct {
	Compress int   // values of so many bytes are compressed, if that makes them smaller; 0: none
	Keys     []Key // the first one encrypts, all decrypt; none: values are not encrypted
	Objects  store.Objects
	Offload  int // stored values of so many bytes go to Objects, if there are any
	Require  Require
}

// ErrUnknownKey is wrapped by the error of a value whose key is not among the given
// ones.
var ErrUnknownKey = errors.New("unknown key")

// ErrNoObjects is wrapped by the error of a value that is in an object, if no Objects
// are given.
var ErrNoObjects = errors.New("no objects given")

// Policy seals and opens values. A nil Policy opens the values that need no key and no
// objects. A Policy is safe for concurrent use.
type Policy struct {
	cfg  Config
	keys map[string]*key
	coders

	mu         sync.Mutex
	remembered map[place]former
	collecting bool
	fresh      map[string]bool // objects written while unused ones are collected
}

// key is a Key with the secrets that are derived from its own.
type key struct {
	id     string
	nonces []byte // makes nonces
	values []byte // makes the keys of values
}

func newKey(k Key) *key {
	return &key{k.ID, mac(k.Secret, "stet: nonces"), mac(k.Secret, "stet: values")}
}

func mac(secret []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, secret)
	for _, p := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// New returns a policy. The config must be valid: see CheckKey.
func New(cfg Config) *Policy {
	p := &Policy{cfg: cfg, keys: map[string]*key{}, coders: newCoders(), remembered: map[place]former{}}
	for _, k := range cfg.Keys {
		p.keys[k.ID] = newKey(k)
	}
	return p
}

// CheckKey returns an error if a key cannot be used.
func CheckKey(k Key) error {
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if n := len(k.ID); n == 0 || n > MaxKeyID || strings.ContainsFunc(k.ID, unprintable) {
		return fmt.Errorf("key %.80q: expected an ID of 1 to %d printable ASCII characters without spaces", k.ID, MaxKeyID)
	}
	if len(k.Secret) != KeySize {
		return fmt.Errorf("key %q: expected a secret of %d bytes, found %d", k.ID, KeySize, len(k.Secret))
	}
	return nil
}

// coders compress and decompress. Each policy has its own, made when first needed. They
// hold channels, and a bubble of testing/synctest must not use those of another one.
type coders struct {
	encoder func() *zstd.Encoder
	decoder func() *zstd.Decoder
}

func newCoders() coders {
	return coders{
		encoder: sync.OnceValue(func() *zstd.Encoder {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
			if err != nil {
				panic(err) // the options are constants
			}
			return e
		}),
		decoder: sync.OnceValue(newDecoder),
	}
}

func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPlain), zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}

// decompress decodes a value of the given size.
func (p *Policy) decompress(content []byte, size int) ([]byte, error) {
	if p == nil {
		d := newDecoder()
		defer d.Close()
		return d.DecodeAll(content, make([]byte, 0, size))
	}
	return p.decoder().DecodeAll(content, make([]byte, 0, size))
}

// at is where a value is written. Its nonce is derived from the place; the group names
// the run to which its object belongs.
type at struct {
	place  string
	group  string // "": not to be put into an object
	secret bool   // only encrypted, never compressed
	holder holder
	what   what
}

// seal returns the stored form of a value.
func (p *Policy) seal(ctx context.Context, where at, plain []byte) ([]byte, error) {
	if plain == nil {
		return nil, nil
	}
	var cfg Config
	if p != nil {
		cfg = p.cfg
	}
	flags, content := byte(0), plain
	if cfg.Compress > 0 && len(plain) >= cfg.Compress && len(plain) <= maxPlain && !where.secret {
		if small := p.encoder().EncodeAll(plain, nil); len(small) < len(plain) {
			flags, content = flags|compressed, small
		}
	}
	if len(cfg.Keys) > 0 {
		flags |= encrypted | bound
	}
	if where.group != "" && cfg.Objects != nil && len(content) >= cfg.Offload {
		flags |= offloaded
	}
	if flags == 0 && (len(plain) == 0 || plain[0] != Marker) {
		return plain, nil
	}
	head := binary.AppendUvarint([]byte{Marker, flags}, uint64(len(plain)))
	if flags&encrypted != 0 {
		k := p.keys[cfg.Keys[0].ID]
		head = append(append(append(head, byte(len(k.id))), k.id...), where.holder.form)
		var err error
		if content, err = k.encrypt(where.place, head, where.holder.binding(&where.what), content); err != nil {
			return nil, err
		}
	}
	if flags&offloaded == 0 {
		return append(head, content...), nil
	}
	sum := sha256.Sum256(content)
	name := where.group + "/" + hex.EncodeToString(mac(sum[:], where.place))
	if err := p.put(ctx, name, content); err != nil {
		return nil, err
	}
	return append(append(head, sum[:]...), name...), nil
}

// put writes an object.
func (p *Policy) put(ctx context.Context, name string, content []byte) error {
	p.mu.Lock()
	if p.collecting {
		p.fresh[name] = true
	}
	p.mu.Unlock()
	return p.cfg.Objects.Put(ctx, name, content)
}

// encrypt returns the nonce and the encrypted content.
func (k *key) encrypt(place string, head, binding, content []byte) ([]byte, error) {
	nonce := mac(k.nonces, place, string(head), string(binding), string(content))[:nonceSize]
	gcm, err := k.gcm(nonce)
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, nonceSize+len(content)+gcm.Overhead()), nonce...)
	return gcm.Seal(out, nonce[12:], content, slices.Concat(head, binding)), nil
}

// decrypt opens what is bound to one of the bindings.
func (k *key) decrypt(head, content []byte, bindings [][]byte) ([]byte, error) {
	if len(content) < nonceSize {
		return nil, fmt.Errorf("%w: an encrypted value is too short", store.ErrDamaged)
	}
	gcm, err := k.gcm(content[:nonceSize])
	if err != nil {
		return nil, err
	}
	for _, binding := range bindings {
		plain, err := gcm.Open(nil, content[12:nonceSize], content[nonceSize:], slices.Concat(head, binding))
		if err == nil {
			return plain, nil
		}
	}
	return nil, fmt.Errorf("%w: the value was changed after it was encrypted with key %q, or put here from another "+
		"place, or the key has another secret", store.ErrDamaged, k.id)
}

func (k *key) gcm(nonce []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(mac(k.values, string(nonce[:12])))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Sealed describes a sealed value without opening it.
type Sealed struct {
	Key    string // with which it is encrypted; "": none
	Object string // in which it is; "": none
	Size   int    // of the plain value

	flags         byte
	form          byte // of the place it is bound to; 0: to none
	head, content []byte
	sum           [sha256.Size]byte
}

// Look reports whether a value is sealed, and how. The error wraps store.ErrDamaged.
func Look(value []byte) (s Sealed, sealed bool, err error) {
	if len(value) == 0 || value[0] != Marker {
		return s, false, nil
	}
	damaged := fmt.Errorf("%w: the head of a sealed value of %d bytes cannot be read", store.ErrDamaged, len(value))
	if len(value) == 2 && value[1] == refused {
		return s, true, errPlain
	}
	if len(value) < 3 || value[1]&^allFlags != 0 {
		return s, true, damaged
	}
	s.flags = value[1]
	size, n := binary.Uvarint(value[2:])
	if n <= 0 || size > 1<<40 {
		return s, true, damaged
	}
	s.Size = int(size)
	rest := value[2+n:]
	if s.flags&encrypted != 0 {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return s, true, damaged
		}
		s.Key, rest = string(rest[1:1+int(rest[0])]), rest[1+int(rest[0]):]
	}
	if s.flags&bound != 0 {
		if s.flags&encrypted == 0 || len(rest) == 0 || rest[0] < byNo || rest[0] > byID {
			return s, true, damaged
		}
		s.form, rest = rest[0], rest[1:]
	}
	s.head = value[:len(value)-len(rest)]
	if s.flags&offloaded != 0 {
		if len(rest) <= sha256.Size {
			return s, true, damaged
		}
		s.Object = string(rest[copy(s.sum[:], rest):])
		return s, true, nil
	}
	s.content = rest
	return s, true, nil
}

// String says what keeps a value from being read.
func (s *Sealed) String() string {
	var parts []string
	if s.Key != "" {
		parts = append(parts, "encrypted with key "+s.Key)
	}
	if s.Object != "" {
		parts = append(parts, "in object "+s.Object)
	}
	return strings.Join(append(parts, fmt.Sprintf("%d bytes", s.Size)), ", ")
}

// ErrSealed says that a stored value cannot be read here, because its key or its object is
// missing.
var ErrSealed = errors.New("value sealed")

// Readable returns nil if a value, as it was read through a store of this package, is in
// its plain form. Otherwise its key or its object is missing here, and the error wraps
// ErrSealed and names it; or the value is damaged, and the error wraps store.ErrDamaged.
func Readable(value []byte) error {
	s, sealed, err := Look(value)
	switch {
	case err != nil:
		return err
	case sealed:
		return fmt.Errorf("the value cannot be read (%s): %w", s.String(), ErrSealed)
	}
	return nil
}

// ReadableEntries returns the error of the first entry of an entity whose value's key or
// object is missing here. An entity's values have no format byte: a plain one may begin
// like a sealed one, as the number 2 does in CBOR. So a value that only begins like one
// is left to the caller, which finds out by decoding it whether it is damaged.
func ReadableEntries(entries []store.Entry) error {
	for i := range entries {
		if err := Readable(entries[i].Value); errors.Is(err, ErrSealed) {
			return err
		}
	}
	return nil
}

// errPlain and errUnbound are those of values that Require refuses.
var (
	errPlain = fmt.Errorf("%w: the value is not encrypted, and Payloads.Require refuses such values", store.ErrDamaged)

	errUnbound = fmt.Errorf("%w: the value is not bound to its place, and Payloads.Require refuses such values",
		store.ErrDamaged)
)

// open returns the plain form of a value that belongs to a run, where it is one of those
// that the list says. The error wraps ErrUnknownKey, ErrNoObjects or store.ErrDamaged, or
// it is that of Objects or of finding the run.
func (p *Policy) open(ctx context.Context, value []byte, of *owner, list ...what) ([]byte, error) {
	s, sealed, err := Look(value)
	switch {
	case err != nil:
		return nil, err
	case !sealed && p.requires(RequireEncrypted):
		return nil, errPlain
	case !sealed:
		return value, nil
	case s.Key == "" && p.requires(RequireEncrypted):
		return nil, errPlain
	case s.form == 0 && p.requires(RequireBound):
		return nil, errUnbound
	}
	var k *key
	if s.flags&encrypted != 0 {
		if p != nil {
			k = p.keys[s.Key]
		}
		if k == nil {
			return nil, fmt.Errorf("a value is encrypted with key %q: %w: expected one of %s", s.Key, ErrUnknownKey, p.known())
		}
	}
	content := s.content
	if s.flags&offloaded != 0 {
		if content, err = p.get(ctx, &s); err != nil {
			return nil, err
		}
	}
	if k != nil {
		bindings := [][]byte{nil}
		if s.form != 0 {
			if bindings, err = of.bindings(ctx, s.form, list); err != nil {
				return nil, err
			}
		}
		if content, err = k.decrypt(s.head, content, bindings); err != nil {
			return nil, err
		}
	}
	if s.flags&compressed != 0 {
		if s.Size > maxPlain {
			return nil, fmt.Errorf("%w: a compressed value claims to have %d bytes", store.ErrDamaged, s.Size)
		}
		if content, err = p.decompress(content, s.Size); err != nil {
			return nil, fmt.Errorf("%w: a value cannot be decompressed: %w", store.ErrDamaged, err)
		}
	}
	if len(content) != s.Size {
		return nil, fmt.Errorf("%w: a value has %d bytes, and claims to have %d", store.ErrDamaged, len(content), s.Size)
	}
	return append([]byte{}, content...), nil // of its own, and not nil
}

// requires reports whether values are refused that are less safe.
func (p *Policy) requires(r Require) bool { return p != nil && p.cfg.Require >= r }

// get reads the content of a value from its object.
func (p *Policy) get(ctx context.Context, s *Sealed) ([]byte, error) {
	if p == nil || p.cfg.Objects == nil {
		return nil, fmt.Errorf("a value of %d bytes is in object %s: %w: give those that it was written with",
			s.Size, s.Object, ErrNoObjects)
	}
	content, err := p.cfg.Objects.Get(ctx, s.Object)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: a value of %d bytes is in object %s, which is not there: %w",
			store.ErrDamaged, s.Size, s.Object, err)
	case err != nil:
		return nil, err
	case sha256.Sum256(content) != s.sum:
		return nil, fmt.Errorf("%w: object %s has been changed", store.ErrDamaged, s.Object)
	}
	return content, nil
}

// known lists the IDs of the given keys.
func (p *Policy) known() string {
	if p == nil || len(p.keys) == 0 {
		return "none, because no keys are given"
	}
	var ids []string
	for _, k := range p.cfg.Keys {
		ids = append(ids, fmt.Sprintf("%q", k.ID))
	}
	return strings.Join(ids, ", ")
}

// place identifies an entry, and what of it its stored value is bound to.
type place struct {
	run  store.RunNo
	what what
}

// former is an entry's value, plain and as it is stored.
type former struct{ plain, stored []byte }

// maxRemembered bounds the memory for values that may be written again.
const maxRemembered = 10_000

// remember keeps the stored form of the value of a final entry without a number: the
// store refuses a different one.
func (p *Policy) remember(run store.RunNo, incarnation int, e *store.Entry, stored []byte) {
	final := e.State == store.Done || e.State == store.FailedEntry
	if p == nil || !final || e.Seq != 0 || e.Value == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.remembered) >= maxRemembered {
		clear(p.remembered)
	}
	p.remembered[place{run, ofEntry(incarnation, e)}] = former{slices.Clone(e.Value), stored}
}

// recall returns the stored form of a value that is written again, or nil.
func (p *Policy) recall(at place, plain []byte) []byte {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.remembered[at]
	if !ok {
		return nil
	}
	delete(p.remembered, at)
	if bytes.Equal(f.plain, plain) {
		return f.stored
	}
	return nil
}
