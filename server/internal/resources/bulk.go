package resources

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/server/internal/view"
	"github.com/stet-run/stet/store"
)

const (
	// bulkShown is how many examples a preview has, bulkCounted how far it counts.
	bulkShown   = 20
	bulkCounted = 1000
	// bulkAtOnce is how many runs a bulk acts on at the same time, maxBulk on how many in all.
	bulkAtOnce = 64
	maxBulk    = 10_000
	// maxBulks bounds the bulks that are under way in this process; an identity has half of them.
	maxBulks = 4
	// bulkFor is how long a preview is good for.
	bulkFor = 10 * time.Minute
)

var bulkVerbs = map[string]view.Act{
	"cancel": stet.Runs.Cancel, "terminate": stet.Runs.Terminate, "pause": stet.Runs.Pause,
	"resume": stet.Runs.Resume, "nudge": stet.Runs.Nudge, "retry": stet.Runs.Retry,
}

// bulks serves what acts on all runs that match.
type bulks struct{ *Server }

// bulkToken is what a preview hands out and a bulk takes. Its sum is no secret: it lets no
// one do what the identity may not do to each run by itself. It binds the bulk to what was
// shown.
type bulkToken struct {
	api.BulkRequest
	Who     string      `json:"who"`
	Newest  store.RunNo `json:"newest"`  // of the runs that matched; 0: none did
	Created store.Time  `json:"created"` // of that run
	Expires time.Time   `json:"expires"`
}

// shown notes that the preview has counted a run. Numbers alone have no order: each database of a store gives its own.
func (t *bulkToken) shown(run *stet.RunInfo) {
	if t.later(run) {
		t.Newest, t.Created = run.Number, store.TimeOf(run.Created)
	}
}

// later reports whether a run was created after all that the preview has counted.
func (t *bulkToken) later(run *stet.RunInfo) bool {
	created := store.TimeOf(run.Created)
	return created > t.Created || created == t.Created && run.Number > t.Newest
}

// bulkSum also has what the identity is limited to: with another limit it sees other runs.
func bulkSum(data []byte, who *access.Identity) []byte {
	limit, err := json.Marshal([]any{who.Role, slices.Sorted(slices.Values(who.Workflows))})
	if err != nil {
		panic(err) // texts always encode
	}
	sum := sha256.Sum256(slices.Concat([]byte("stet bulk\x00"), limit, data))
	return sum[:]
}

func (t *bulkToken) seal(who *access.Identity) (string, error) {
	data, err := json.Marshal(t)
	return base64.RawURLEncoding.EncodeToString(append(bulkSum(data, who), data...)), err
}

// openBulk returns what was previewed by the same identity.
func openBulk(sealed string, who *access.Identity, now time.Time) (*bulkToken, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	t := &bulkToken{}
	if err != nil || len(data) < sha256.Size || !bytes.Equal(bulkSum(data[sha256.Size:], who), data[:sha256.Size]) ||
		json.Unmarshal(data[sha256.Size:], t) != nil || t.Who != who.Name || bulkVerbs[t.Verb] == nil {
		return nil, invalid("token: expected that of a preview made by the same identity with the same rights")
	}
	if !now.Before(t.Expires) {
		return nil, invalid("token: the preview was good until %s; make another one", t.Expires.Format(time.RFC3339))
	}
	return t, nil
}

type bulkPreview struct {
	Body api.BulkRequest `body:""`
}

func (s bulks) preview(ctx context.Context, c *endpoint.Call, in bulkPreview) (*api.BulkPreview, error) {
	if bulkVerbs[in.Body.Verb] == nil {
		return nil, invalid("verb: expected cancel, terminate, pause, resume, nudge or retry, found %.100q", in.Body.Verb)
	}
	if err := (view.Bulk{View: c.View}).MayAct(in.Body.Act); err != nil {
		return nil, err
	}
	f, err := s.filter(ctx, c, in.Body.Query)
	if err != nil {
		return nil, err
	}
	f.Limit = bulkCounted + 1
	runs, _, err := view.Bulk{View: c.View}.Matching(ctx, f)
	if err != nil {
		return nil, err
	}
	t := bulkToken{BulkRequest: in.Body, Who: c.Who.Name, Expires: time.Now().Add(bulkFor).UTC().Round(time.Second)}
	p := &api.BulkPreview{Expires: t.Expires, Runs: len(runs), Examples: []api.BulkExample{}}
	for i := range runs {
		t.shown(&runs[i])
	}
	if p.More = len(runs) > bulkCounted; p.More {
		p.Runs = bulkCounted
	}
	for _, run := range runs[:min(len(runs), bulkShown)] {
		p.Examples = append(p.Examples, api.BulkExample{ID: run.ID, Workflow: run.Workflow, Status: run.Status.String()})
	}
	p.Token, err = t.seal(c.Who)
	return p, err
}

type bulk struct {
	Body api.Bulk `body:""`
}

// act acts on all runs that were previewed and match still, in pages, each of which is read
// just before it is acted on. It ends with its request.
func (s bulks) act(ctx context.Context, c *endpoint.Call, in bulk) error {
	t, err := openBulk(in.Body.Token, c.Who, time.Now())
	if err != nil {
		return err
	}
	f, err := s.filter(ctx, c, t.Query)
	if err != nil {
		return err
	}
	leave := s.bulks.Take(c.Who.Name)
	if leave == nil {
		return &endpoint.Error{Code: api.CodeBusy,
			Detail: "the server has as many bulks under way as it may, in all or of one identity", Wait: 10}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := newBulkWriter(c, stop)
	defer w.close() // after the place was given back: the client may read slowly
	defer leave()
	act := stet.Act{By: c.Who.Name, Why: t.Reason}
	if err := stet.AuditOf(s.Engine).Note(ctx, "bulk "+t.Verb, "runs "+cutText(t.Query), act); err != nil {
		return err
	}
	f.Limit = bulkAtOnce
	if before := t.Created.Add(time.Microsecond); f.CreatedBefore == 0 || before < f.CreatedBefore {
		f.CreatedBefore = before
	}
	for left := maxBulk; t.Newest > 0; left -= bulkAtOnce {
		if left <= 0 {
			w.end.More = true
			break
		}
		var runs []stet.RunInfo
		if err = s.Again(c); err == nil {
			runs, f.Cursor, err = view.Bulk{View: c.View}.Matching(ctx, f)
		}
		if err != nil {
			if !w.any { // nothing was sent: this is a refusal like any other
				return err
			}
			w.end.More = true
			w.end.Code, w.end.Detail = w.problem(err)
			break
		}
		runs = slices.DeleteFunc(runs, func(run stet.RunInfo) bool { return t.later(&run) })
		w.any = w.any || len(runs) > 0
		s.each(ctx, w, t, runs)
		if ctx.Err() != nil {
			return nil // the client is gone
		}
		if f.Cursor == "" {
			break
		}
	}
	w.end.End = true
	w.line(w.end)
	c.Log.Info("bulk", "request", c.RequestID, "identity", c.Who.Name, "verb", t.Verb, "done", w.end.Done,
		"pending", w.end.Pending, "refused", w.end.Refused)
	return nil
}

// each acts on runs at the same time, and writes each result when it is there.
func (s bulks) each(ctx context.Context, w *bulkWriter, t *bulkToken, runs []stet.RunInfo) {
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, decideWithin)
			defer cancel()
			w.result(runs[i].ID, w.call.View.Verb(ctx, runs[i].ID, t.Act, bulkVerbs[t.Verb]))
		})
	}
	all.Wait()
}

// bulkLine has the forms of a line of a bulk's answer.
type bulkLine struct {
	One api.BulkResult
	End api.BulkEnd
}

// bulkWriter writes the lines of a bulk's answer. Who adds a line does not wait for the client.
type bulkWriter struct {
	call  *endpoint.Call
	any   bool        // a line was added
	lines chan []byte // has room for all lines of a bulk; close closes it
	ended chan struct{}

	mu  sync.Mutex // guards end while runs are acted on
	end api.BulkEnd
}

// newBulkWriter returns a writer that calls gone when a line could not be written. close must be
// called.
func newBulkWriter(c *endpoint.Call, gone func()) *bulkWriter {
	w := &bulkWriter{call: c, lines: make(chan []byte, maxBulk+bulkAtOnce+1), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		if w.write() != nil {
			gone()
		}
	}()
	return w
}

// write writes lines until there are no more.
func (w *bulkWriter) write() error {
	control, begun := http.NewResponseController(w.call.Writer), false
	for line := range w.lines {
		if !begun {
			begun = true
			w.call.Writer.Header().Set("Content-Type", endpoint.Lines)
			w.call.Writer.Header().Set("X-Accel-Buffering", "no") // proxies would keep lines back
		}
		if _, err := w.call.Writer.Write(line); err != nil {
			return err
		}
		if len(w.lines) > 0 {
			continue
		}
		if err := control.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// close returns when all lines were written, or one could not be.
func (w *bulkWriter) close() {
	close(w.lines)
	<-w.ended
}

// problem returns an error as a client may see it.
func (w *bulkWriter) problem(err error) (code, detail string) {
	if own := (*endpoint.Error)(nil); errors.As(err, &own) {
		return own.Code, own.Detail
	}
	if errors.Is(err, view.ErrDenied) {
		return api.CodeForbidden, err.Error()
	}
	row := api.ErrorOf(err)
	if row.Status >= http.StatusInternalServerError {
		w.call.Log.Error("a part of a bulk has failed", "request", w.call.RequestID, "code", row.Code, "error", err)
		return row.Code, ""
	}
	return row.Code, err.Error()
}

func (w *bulkWriter) result(id string, err error) {
	r := api.BulkResult{ID: id, Done: err == nil, Pending: errors.Is(err, stet.ErrPending)}
	if err != nil && !r.Pending {
		r.Code, r.Detail = w.problem(err)
	}
	w.mu.Lock()
	switch {
	case r.Done:
		w.end.Done++
	case r.Pending:
		w.end.Pending++
	default:
		w.end.Refused++
	}
	w.mu.Unlock()
	w.line(r)
}

func (w *bulkWriter) line(value any) {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts, numbers and truths always encode
	}
	w.lines <- append(data, '\n')
}
