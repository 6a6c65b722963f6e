// Package scripts holds the rules of the entities that keep the versions of scripts: one for
// each name. A version is numbered from 1, and never changes. One of them is current: new
// runs begin with it.
//
// Each item is a [Change], an update that is answered with an [Answer].
package scripts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/store"
)

// Workflow is the name that the entities have.
const Workflow = store.EntityPrefix + "script"

// Most is how many versions a name has at most.
const Most = 1000

// Settled is how long a version that is not current any more cannot be deleted: a run that
// was loaded with it may be about to record that.
const Settled = store.Delay(10 * time.Minute / time.Microsecond)

// ID returns the ID of the entity of a script.
func ID(name string) string { return entity.ID(Workflow, name) }

// Name returns the script's name; ok is false for the ID of another entity.
func Name(id string) (name string, ok bool) {
	const prefix = Workflow + "/"
	if len(id) <= len(prefix) || id[:len(prefix)] != prefix {
		return "", false
	}
	return id[len(prefix):], true
}

// The names of items.
const (
	Deploy  = "deploy"  // a version of the Content, which becomes current
	Use     = "use"     // makes a version current
	Remove  = "remove"  // makes none current
	Collect = "collect" // deletes versions
)

// Change is what is requested.
type Change struct {
	Content  *Content `json:"content,omitempty"` // of Deploy
	Version  int      `json:"version,omitempty"` // of Use
	Versions []int    `json:"versions,omitempty"`
	By       string   `json:"by"`
	Why      string   `json:"why,omitempty"`
}

// Content is what a version holds.
type Content struct {
	Hash   []byte `json:"hash"` // SHA-256 of Code
	Code   string `json:"code"`
	Source []File `json:"source,omitempty"`
}

// File is a text from which the code was made.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Version is what is known of a version without its content.
type Version struct {
	Number int        `json:"number"`
	Hash   []byte     `json:"hash"`
	Size   int        `json:"size"` // of the code, in bytes
	By     string     `json:"by"`
	Why    string     `json:"why,omitempty"`
	At     store.Time `json:"at"`
	Left   store.Time `json:"left,omitempty"` // when it ceased to be current; 0: it is, or never was
}

// Current says which version is current, and since when.
type Current struct {
	Number int        `json:"number"` // 0: none
	By     string     `json:"by"`
	Why    string     `json:"why,omitempty"`
	At     store.Time `json:"at"`
	Last   int        `json:"last"` // the highest number that was given
}

// Answer is the answer to a change.
type Answer struct {
	Refused string `json:"refused,omitempty"`
	Missing bool   `json:"missing,omitempty"` // there is no such version
	Version int    `json:"version,omitempty"`
	New     bool   `json:"new,omitempty"`
	Deleted []int  `json:"deleted,omitempty"`
}

// The locations of the entries. Numbers sort as texts.
const currentLoc = "current"

func versionLoc(n int) string { return fmt.Sprintf("version-%08d", n) }

// ContentLoc is where the content of a version stands.
func ContentLoc(n int) string { return fmt.Sprintf("content-%08d", n) }

// HeadLocs are where Current stands.
func HeadLocs() []string { return []string{currentLoc} }

// ReadCurrent returns which version is current, of entries that may have it.
func ReadCurrent(entries []store.Entry) (c Current, err error) {
	for i := range entries {
		if entries[i].Loc == currentLoc {
			return c, decode(&entries[i], &c)
		}
	}
	return c, nil
}

// ReadContent returns the content of a version, of entries that may have it.
func ReadContent(entries []store.Entry, n int) (c *Content, err error) {
	for i := range entries {
		if entries[i].Loc == ContentLoc(n) {
			c = &Content{}
			return c, decode(&entries[i], c)
		}
	}
	return nil, nil
}

// IsContent reports whether an entry has a content, which lists leave out.
func IsContent(e *store.Entry) bool { return len(e.Loc) > 8 && e.Loc[:8] == "content-" }

// ReadVersions returns all versions, oldest first.
func ReadVersions(entries []store.Entry) (list []Version, err error) {
	for i := range entries {
		if IsContent(&entries[i]) || entries[i].Loc == currentLoc {
			continue
		}
		var v Version
		if err := decode(&entries[i], &v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func decode(e *store.Entry, v any) error {
	if err := json.Unmarshal(e.Value, v); err != nil {
		return fmt.Errorf("entry %q: %w: %w", e.Loc, store.ErrDamaged, err)
	}
	return nil
}

// DecodeAnswer reads the answer to a change.
func DecodeAnswer(verdict []byte) (a Answer, err error) {
	if err := json.Unmarshal(verdict, &a); err != nil {
		return a, fmt.Errorf("%w: its answer: %w", store.ErrDamaged, err)
	}
	return a, nil
}

// Rules are the rules of the entity. They implement entity.Rules.
type Rules struct {
	current  Current
	versions []Version // by number
}

// New returns its rules.
func New(*store.Run) entity.Rules { return &Rules{} }

// Load implements entity.Rules.
func (r *Rules) Load(entries []store.Entry) (err error) {
	if r.current, err = ReadCurrent(entries); err == nil {
		r.versions, err = ReadVersions(entries)
	}
	return err
}

// Take implements entity.Rules.
func (r *Rules) Take(it *store.Item, now store.Time, w *entity.Writer) {
	if it.Kind != store.ItemUpdate {
		w.Consume(it.No, nil)
		return
	}
	var c Change
	answer := Answer{}
	if err := json.Unmarshal(it.Value, &c); err != nil {
		answer.Refused = "the request does not decode: " + err.Error()
	} else {
		answer = r.change(it.Name, &c, now, w)
	}
	if answer.Refused == "" && !answer.Missing {
		acts.CarriedOut(it, w)
	}
	w.Consume(it.No, encode(&answer))
}

func (r *Rules) change(verb string, c *Change, now store.Time, w *entity.Writer) Answer {
	switch verb {
	case Deploy:
		return r.deploy(c, now, w)
	case Use:
		if r.find(c.Version) == nil {
			return Answer{Missing: true}
		}
		r.use(c.Version, c, now, w)
		return Answer{Version: c.Version}
	case Remove:
		r.use(0, c, now, w)
		return Answer{}
	case Collect:
		return r.collect(c, now, w)
	}
	return Answer{Refused: "a script knows no " + strconv.Quote(verb)}
}

func (r *Rules) deploy(c *Change, now store.Time, w *entity.Writer) Answer {
	if c.Content == nil || len(c.Content.Hash) == 0 {
		return Answer{Refused: "there is no content"}
	}
	for i := range r.versions {
		if v := &r.versions[i]; slices.Equal(v.Hash, c.Content.Hash) {
			r.use(v.Number, c, now, w)
			return Answer{Version: v.Number}
		}
	}
	if len(r.versions) >= Most {
		return Answer{Refused: fmt.Sprintf("it has %d versions, and more are not kept: delete those without runs with gc",
			Most)}
	}
	r.current.Last++
	v := Version{
		Number: r.current.Last, Hash: c.Content.Hash, Size: len(c.Content.Code), By: c.By, Why: c.Why, At: now,
	}
	r.versions = append(r.versions, v)
	w.Put(versionLoc(v.Number), encode(&v))
	w.Put(ContentLoc(v.Number), encode(c.Content))
	r.use(v.Number, c, now, w)
	return Answer{Version: v.Number, New: true}
}

// use makes a version current; 0: none.
func (r *Rules) use(n int, c *Change, now store.Time, w *entity.Writer) {
	if former := r.find(r.current.Number); former != nil && former.Number != n {
		former.Left = now
		w.Put(versionLoc(former.Number), encode(former))
	}
	if v := r.find(n); v != nil && v.Left != 0 {
		v.Left = 0
		w.Put(versionLoc(n), encode(v))
	}
	r.current.Number, r.current.By, r.current.Why, r.current.At = n, c.By, c.Why, now
	w.Put(currentLoc, encode(&r.current))
}

// collect deletes those of the versions that may be.
func (r *Rules) collect(c *Change, now store.Time, w *entity.Writer) Answer {
	var a Answer
	for _, n := range c.Versions {
		v := r.find(n)
		if v == nil || n == r.current.Number || v.Left == 0 || now < v.Left.Add(time.Duration(Settled)*time.Microsecond) {
			continue
		}
		r.versions = slices.DeleteFunc(r.versions, func(v Version) bool { return v.Number == n })
		w.Delete(versionLoc(n))
		w.Delete(ContentLoc(n))
		a.Deleted = append(a.Deleted, n)
	}
	return a
}

func (r *Rules) find(n int) *Version {
	for i := range r.versions {
		if r.versions[i].Number == n {
			return &r.versions[i]
		}
	}
	return nil
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts, numbers and bytes
	}
	return data
}

// Tick implements entity.Rules.
func (*Rules) Tick(store.Time, *entity.Writer) {}

// Wake implements entity.Rules.
func (*Rules) Wake() store.Time { return 0 }
