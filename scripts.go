package stet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/scripts"
	"github.com/stet-run/stet/internal/library"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Scripts are the records of code that the store itself keeps: for each name versions, which
// are numbered from 1 and never change, and one of which is current. What executes them is a
// Library; package script has one for JavaScript. Runs are bound to the version with which
// they began. Safe for concurrent use.
type Scripts struct{ engine *Engine }

// ScriptsOf returns the scripts of the engine's store.
func ScriptsOf(e *Engine) Scripts { return Scripts{e} }

// ScriptChange is the name of the change whose version, as Version records it, is the
// version of the script to which a run is bound.
const ScriptChange = "script"

// ScriptFile is a text from which the code of a script was made.
type ScriptFile struct{ Name, Text string }

// ScriptVersion is what is known of a version.
type ScriptVersion struct {
	Number  int
	Hash    [sha256.Size]byte // of the code
	Size    int               // of the code, in bytes
	By, Why string            // of the first deploy
	At      time.Time         `json:",omitzero"` // of the first deploy
	Left    time.Time         `json:",omitzero"` // when it ceased to be current; zero: it is, or never was
}

// ScriptInfo is how a script stands.
type ScriptInfo struct {
	Name     string
	Current  int // the version with which runs begin; 0: none
	By, Why  string
	At       time.Time       `json:",omitzero"` // since then it is the current one
	Versions []ScriptVersion // oldest first; List leaves them out
}

// ScriptCode is what a version holds.
type ScriptCode struct {
	Code  string
	Files []ScriptFile
}

// ScriptPlace is where a run of a script stands: the line that has begun an operation which is
// under way.
type ScriptPlace struct {
	File     string // as of ScriptCode.Files
	Line     int    // from 1
	Column   int    // from 1
	Location string // of the operation
}

// MaxScript is the most bytes that the code of a version may have, and what its files may
// have together. It is also bounded by Config.MaxValue.
const MaxScript = 512 << 10

// Deploy keeps code as the current version of a script, and returns its number. Code that
// the script has already gets no other number, and becomes current. Runs that have begun go
// on with the version that they have. It returns when some node has done so: ErrPending says
// that ctx has ended before, and the request stands.
//
// The name is that of the workflow, 1 to 64 bytes. Files are kept for people. Errors:
// ErrInvalid, ErrTooLarge, ErrRefused (a script has 1,000 versions at most), and those of the
// store. The act is in the version, and in the store's audit.
func (s Scripts) Deploy(ctx context.Context, name string, code ScriptCode, act Act) (number int, err error) {
	size := 0
	content := &scripts.Content{Code: code.Code}
	for _, f := range code.Files {
		size += len(f.Text)
		content.Source = append(content.Source, scripts.File{Name: f.Name, Text: f.Text})
	}
	switch {
	case code.Code == "":
		return 0, scriptError("deploy", name, fmt.Errorf("expected code, found none: %w", ErrInvalid))
	case len(code.Code) > MaxScript || size > MaxScript:
		return 0, scriptError("deploy", name, fmt.Errorf(
			"expected at most %d bytes of code and of files, found %d and %d: %w", MaxScript, len(code.Code), size, ErrTooLarge))
	}
	hash := sha256.Sum256([]byte(code.Code))
	content.Hash = hash[:]
	answer, err := s.change(ctx, name, scripts.Deploy, &scripts.Change{Content: content}, act)
	return answer.Version, err
}

// Use makes a version current that the script has. Errors: ErrNotFound, ErrInvalid,
// ErrPending, and those of the store.
func (s Scripts) Use(ctx context.Context, name string, number int, act Act) error {
	_, err := s.change(ctx, name, scripts.Use, &scripts.Change{Version: number}, act)
	return err
}

// Remove leaves a script without a current version: runs that have begun go on, and others
// wait until there is one. Versions stay for their runs, until Collect. Errors are those of
// Use.
func (s Scripts) Remove(ctx context.Context, name string, act Act) error {
	_, err := s.change(ctx, name, scripts.Remove, &scripts.Change{}, act)
	return err
}

// Collect deletes the versions of a script that are not current, have not been for ten
// minutes, and that no run in the store is bound to, and returns their numbers. Nothing else
// deletes a version. It reads all runs of the script. Errors are those of Use.
func (s Scripts) Collect(ctx context.Context, name string, act Act) ([]int, error) {
	info, err := s.Info(ctx, name)
	if err != nil {
		return nil, err
	}
	bound, err := s.bound(ctx, name)
	if err != nil {
		return nil, scriptError("collect", name, err)
	}
	var free []int
	for i := range info.Versions {
		if v := &info.Versions[i]; v.Number != info.Current && !bound[v.Number] {
			free = append(free, v.Number)
		}
	}
	if len(free) == 0 {
		return nil, nil
	}
	answer, err := s.change(ctx, name, scripts.Collect, &scripts.Change{Versions: free}, act)
	return answer.Deleted, err
}

// bound returns the versions that runs of a script are bound to, or ask for by a header.
func (s Scripts) bound(ctx context.Context, name string) (map[int]bool, error) {
	bound := map[int]bool{}
	at := []string{library.VersionPlace(ScriptChange)}
	f := store.Filter{Workflows: []string{name}, Limit: store.MaxPage}
	for {
		page, err := s.engine.store.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			run := &page.Runs[i]
			entries, err := s.engine.store.History(ctx, store.HistoryQuery{
				Run: run.No, Incarnation: run.Incarnation, Locs: at, Values: true,
			})
			if err != nil {
				return nil, err
			}
			of := &LibraryRun{ID: run.ID, Workflow: name, headers: run.Headers, entries: entries}
			n, err := of.Version(ScriptChange)
			if err != nil {
				return nil, err
			}
			bound[n] = true
			bound[asked(of)] = true
		}
		if f.Cursor = page.Next; page.Next == "" {
			return bound, nil
		}
	}
}

// asked returns the version that a header of the run asks for; 0: none.
func asked(run *LibraryRun) (n int) {
	if text := run.Header(ScriptHeader(run.Workflow)); text != "" {
		_, _ = fmt.Sscanf(text, "%d", &n) // what is no number binds nothing
	}
	return n
}

// ScriptHeader returns the key of the header that binds a run of the script to a version in
// place of the current one: Headers{ScriptHeader("order"): "3"}, given to a start.
func ScriptHeader(name string) string { return "script." + name }

// List returns the scripts by name, without their versions.
func (s Scripts) List(ctx context.Context) ([]ScriptInfo, error) {
	names, err := s.records(ctx, "")
	if err != nil {
		return nil, err
	}
	list := make([]ScriptInfo, 0, len(names))
	for i := range names {
		entries, err := s.entries(ctx, names[i].No, scripts.HeadLocs())
		if err != nil {
			return nil, scriptError("read", names[i].ID, err)
		}
		info, err := scriptInfo(names[i].ID, entries)
		if err != nil {
			return nil, scriptError("read", names[i].ID, err)
		}
		list = append(list, *info)
	}
	slices.SortFunc(list, func(a, b ScriptInfo) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Names returns the names of all scripts, also of those that were removed. It is for a
// Library.
func (s Scripts) Names(ctx context.Context) ([]string, error) {
	records, err := s.records(ctx, "")
	names := make([]string, 0, len(records))
	for i := range records {
		if name, ok := scripts.Name(records[i].ID); ok {
			names = append(names, name)
		}
	}
	return names, err
}

// Info returns a script with its versions. ErrNotFound: there is none of the name.
func (s Scripts) Info(ctx context.Context, name string) (*ScriptInfo, error) {
	run, err := s.record(ctx, name)
	if err != nil {
		return nil, err
	}
	heads, err := s.engine.store.History(ctx, store.HistoryQuery{Run: run.No})
	if err != nil {
		return nil, scriptError("read", name, err)
	}
	var locs []string
	for i := range heads {
		if !scripts.IsContent(&heads[i]) {
			locs = append(locs, heads[i].Loc)
		}
	}
	entries, err := s.entries(ctx, run.No, locs)
	if err != nil {
		return nil, scriptError("read", name, err)
	}
	info, err := scriptInfo(run.ID, entries)
	if err != nil {
		return nil, scriptError("read", name, err)
	}
	versions, err := scripts.ReadVersions(entries)
	for i := range versions {
		v := &versions[i]
		out := ScriptVersion{Number: v.Number, Size: v.Size, By: v.By, Why: v.Why, At: v.At.Time(), Left: v.Left.Time()}
		if v.Left == 0 {
			out.Left = time.Time{}
		}
		copy(out.Hash[:], v.Hash)
		info.Versions = append(info.Versions, out)
	}
	return info, err
}

// Current returns the number of the current version; 0: none. It is one read. ErrNotFound:
// there is no script of the name.
func (s Scripts) Current(ctx context.Context, name string) (int, error) {
	run, err := s.record(ctx, name)
	if err != nil {
		return 0, err
	}
	entries, err := s.entries(ctx, run.No, scripts.HeadLocs())
	if err != nil {
		return 0, scriptError("read", name, err)
	}
	current, err := scripts.ReadCurrent(entries)
	return current.Number, err
}

// Code returns what a version holds. ErrNotFound: there is no such script or version.
func (s Scripts) Code(ctx context.Context, name string, number int) (*ScriptCode, error) {
	run, err := s.record(ctx, name)
	if err != nil {
		return nil, err
	}
	entries, err := s.entries(ctx, run.No, []string{scripts.ContentLoc(number)})
	if err != nil {
		return nil, scriptError("read", name, err)
	}
	content, err := scripts.ReadContent(entries, number)
	switch {
	case err != nil:
		return nil, scriptError("read", name, err)
	case content == nil:
		return nil, scriptError("read", name, fmt.Errorf("version %d: %w", number, ErrNotFound))
	}
	code := &ScriptCode{Code: content.Code}
	for _, f := range content.Source {
		code.Files = append(code.Files, ScriptFile(f))
	}
	return code, nil
}

// BoundTo returns the version of its script that a run is bound to; 0: none yet. Errors:
// ErrNotFound, and those of the store.
func (s Scripts) BoundTo(ctx context.Context, runID string) (int, error) {
	run, ok, err := s.engine.inner.Get(ctx, runID)
	if err != nil || !ok {
		return 0, fmt.Errorf("run %q: %w", runID, cmp.Or(err, ErrNotFound))
	}
	entries, err := s.engine.store.History(ctx, store.HistoryQuery{
		Run: run.No, Incarnation: run.Incarnation, Locs: []string{library.VersionPlace(ScriptChange)}, Values: true,
	})
	if err != nil {
		return 0, fmt.Errorf("run %q: %w", runID, err)
	}
	return library.VersionIn(entries, ScriptChange)
}

// Move binds a run to another version of its script: an edit of what the run has recorded,
// with an audit entry. The engine's Library must have the code. The run is paused meanwhile,
// and its history replayed against the version: a *ReplayError says where it does not fit,
// and the run stays as it was. Other errors: ErrNotFound for the run or version, ErrRefused
// for a run that has ended or has not begun, ErrInvalid, ErrPending, and those of the store. The
// run goes on after an error as after a success; if the process is killed meanwhile, the run stays
// paused until the same move is made again, or a person resumes it.
func (s Scripts) Move(ctx context.Context, runID string, to int, act Act) error {
	err := s.move(ctx, runID, to, act)
	if err != nil && !errors.As(err, new(*ReplayError)) {
		return fmt.Errorf("move run %q to version %d: %w", runID, to, err)
	}
	return err
}

// moving begins the reason of a pause that Move makes.
const moving = "moved to another version of its script"

// resumeWithin is how long Move waits until a run that it has paused goes on. The request is durable before.
const resumeWithin = 10 * time.Second

func (s Scripts) move(ctx context.Context, runID string, to int, act Act) error {
	e := s.engine
	if e.library == nil || to < 1 {
		return fmt.Errorf("expected an engine with a Library, and a version from 1: %w", ErrInvalid)
	}
	if err := act.check(); err != nil {
		return err
	}
	run, ok, err := e.inner.Get(ctx, runID)
	switch {
	case err != nil:
		return err
	case !ok:
		return ErrNotFound
	case run.Status.Terminal():
		return fmt.Errorf("%w: the run is %s", ErrRefused, run.Status)
	case run.Status == store.Queued && run.Incarnation == 0 && run.Generation == 0 && run.Waits == nil:
		return fmt.Errorf("%w: it has not begun, and will take the version that is current then", ErrRefused)
	}
	if _, err := s.Code(ctx, run.Workflow, to); err != nil {
		return err
	}
	if _, err := e.inner.Workflows().Code.Look(ctx); err != nil {
		return err
	}
	isPaused := run.Marks&store.Paused != 0
	byMove, err := s.pausedByMove(ctx, &run)
	switch {
	case err != nil:
		return err
	case run.Status == store.Stalled || isPaused && !byMove:
		return s.rebind(ctx, run.No, to, act) // it stays so: a person resumes it
	}
	pause := act
	if pause.Why = moving; act.Why != "" {
		pause.Why = stored.Cut(moving+": "+act.Why, store.MaxWhy-4)
	}
	if !isPaused {
		_, err = e.Runs().Pause(ctx, runID, pause)
		if errors.Is(err, ErrRefused) || errors.Is(err, ErrTerminal) || errors.Is(err, ErrNotFound) {
			return err
		}
	}
	if err == nil {
		err = s.rebind(ctx, run.No, to, act)
	}
	return errors.Join(err, s.resumeMoved(ctx, runID, pause))
}

// pausedByMove reports whether the last pause of a paused run was a move's.
func (s Scripts) pausedByMove(ctx context.Context, run *store.Run) (bool, error) {
	if run.Marks&store.Paused == 0 {
		return false, nil
	}
	audit, err := s.engine.store.Audit(ctx, run.No)
	byMove := false
	for i := range audit {
		if audit[i].Verb == store.ItemPause.String() {
			byMove = strings.HasPrefix(audit[i].Why, moving)
		}
	}
	return byMove, err
}

// resumeMoved resumes a run that a move has paused. A pause whose answer did not come may be granted later, so the
// resume is asked for then, too, and withdraws it.
func (s Scripts) resumeMoved(ctx context.Context, runID string, act Act) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeWithin)
	defer cancel()
	_, err := s.engine.Runs().Resume(ctx, runID, act)
	if err == nil || errors.Is(err, ErrTerminal) || errors.Is(err, ErrRefused) || errors.Is(err, ErrPending) {
		return nil // it has ended, was resumed by a person, or goes on as soon as a process executes it
	}
	return fmt.Errorf("the run may be paused; move it again, or resume it: %w", err)
}

// rebind replays a run that stands still against a version, and binds it to that.
func (s Scripts) rebind(ctx context.Context, no store.RunNo, to int, act Act) error {
	e := s.engine
	snapshot, err := e.snapshot(ctx, no)
	if err != nil {
		return err
	}
	at := library.VersionAt(snapshot.Entries, ScriptChange)
	if at < 0 {
		return fmt.Errorf("%w: it is bound to no version", ErrRefused)
	}
	value := stored.EncodeVersion(to)
	snapshot.Entries[at].Value, snapshot.Entries[at].Size = value, len(value)
	if err := e.replay(ctx, snapshot, nil); err != nil {
		return err
	}
	place := location.Loc(snapshot.Entries[at].Loc).String()
	_, err = e.edit(ctx, snapshot.Run.ID, place, stored.Request{Value: value}, act)
	return err
}

// change asks the record of a script for something.
func (s Scripts) change(
	ctx context.Context, name, verb string, c *scripts.Change, act Act,
) (answer scripts.Answer, err error) {
	defer func() {
		if s.engine.logged(ctx, verb, "script", name, act, err); err != nil {
			err = scriptError(verb, name, err)
		}
	}()
	if err := act.check(); err != nil {
		return answer, err
	}
	if err := location.CheckName(name); err != nil {
		return answer, fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	if store.IsEntity(name) {
		return answer, fmt.Errorf("expected no %q at the beginning of the name: %w", store.EntityPrefix, ErrInvalid)
	}
	if verb != scripts.Deploy { // asked of nobody it would make a record
		if _, err := s.record(ctx, name); err != nil {
			return answer, err
		}
	}
	c.By, c.Why = cmp.Or(act.By, s.engine.node), act.Why
	value, err := json.Marshal(c)
	if err == nil {
		err = s.engine.checkSize("script "+name, value)
	}
	if err != nil {
		return answer, err
	}
	verdict, err := entity.AskWith(ctx, s.engine.inner, scripts.ID(name), verb, value,
		recordOf(s.engine, verb, "script", name, act).Encode())
	if err != nil {
		return answer, err
	}
	answer, err = scripts.DecodeAnswer(verdict)
	switch {
	case err != nil:
	case answer.Missing:
		err = fmt.Errorf("version %d: %w", c.Version, ErrNotFound)
	case answer.Refused != "":
		err = fmt.Errorf("%w: %s", ErrRefused, answer.Refused)
	}
	return answer, err
}

func scriptError(verb, name string, err error) error {
	return fmt.Errorf("%s script %q: %w", verb, name, err)
}

func scriptInfo(id string, entries []store.Entry) (*ScriptInfo, error) {
	name, _ := scripts.Name(id)
	current, err := scripts.ReadCurrent(entries)
	return &ScriptInfo{Name: name, Current: current.Number, By: current.By, Why: current.Why, At: current.At.Time()}, err
}

// record returns the record of a script.
func (s Scripts) record(ctx context.Context, name string) (*store.Run, error) {
	records, err := s.records(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case len(records) == 0:
		return nil, scriptError("read", name, ErrNotFound)
	}
	return &records[0], nil
}

// records returns the record of a script, or those of all if no name is given.
func (s Scripts) records(ctx context.Context, name string) ([]store.Run, error) {
	f := store.Filter{Workflows: []string{scripts.Workflow}, Limit: store.MaxPage}
	if name != "" {
		if err := store.CheckRunID(scripts.ID(name)); err != nil {
			return nil, scriptError("read", name, fmt.Errorf("%w: %w", err, ErrInvalid))
		}
		f = store.Filter{IDs: []string{scripts.ID(name)}, Limit: 1}
	}
	var all []store.Run
	for {
		page, err := s.engine.store.List(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("list scripts: %w", err)
		}
		all = append(all, page.Runs...)
		if f.Cursor = page.Next; page.Next == "" || name != "" {
			return all, nil
		}
	}
}

// entries reads what a record has at some locations.
func (s Scripts) entries(ctx context.Context, no store.RunNo, locs []string) ([]store.Entry, error) {
	if len(locs) == 0 {
		return nil, nil
	}
	entries, err := s.engine.store.History(ctx, store.HistoryQuery{Run: no, Locs: locs, Values: true})
	if err == nil {
		err = payload.ReadableEntries(entries)
	}
	return entries, err
}
