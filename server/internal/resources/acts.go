package resources

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/server/internal/view"
	"github.com/stet-run/stet/store"
)

// decideWithin is how long a request about a run waits for its owner.
const decideWithin = 10 * time.Second

// verb is a request about a run.
type verb[Body any] struct {
	oneRun
	Wait time.Duration `query:"wait" doc:"how long to wait for the owner's decision; default 10s, at most 60s"`
	Body Body          `body:""`
}

// within returns how long a request waits: the default is usual.
func within(wait, usual time.Duration) (time.Duration, error) {
	switch {
	case wait == 0:
		return usual, nil
	case wait > maxWait:
		return 0, invalid("wait: expected at most %s, found %s", maxWait, wait)
	}
	return wait, nil
}

// decided makes a request, and waits until its owner has decided. If nobody does, the
// request stands: that is 202, and shows, relative to the request, is the address of what
// shows what becomes of it.
func decided(
	ctx context.Context, c *endpoint.Call, shows string, wait time.Duration, do func(context.Context) error,
) (*api.Done, error) {
	wait, err := within(wait, decideWithin)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err = do(ctx)
	if errors.Is(err, stet.ErrPending) {
		c.Answered(http.StatusAccepted)
		c.Writer.Header().Set("Location", shows)
		return &api.Done{Pending: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return &api.Done{Done: true}, nil
}

// fromVerb returns the address of the run relative to that of one of its verbs.
func (r oneRun) fromVerb() string { return "../" + api.PathSegment(r.ID) }

// act makes a request that has no arguments of its own.
func act(do view.Act) func(context.Context, *endpoint.Call, verb[api.Act]) (*api.Done, error) {
	return func(ctx context.Context, c *endpoint.Call, in verb[api.Act]) (*api.Done, error) {
		return decided(ctx, c, in.fromVerb(), in.Wait, func(ctx context.Context) error {
			return c.View.Verb(ctx, in.ID, in.Body, do)
		})
	}
}

func (s *Server) rewind(ctx context.Context, c *endpoint.Call, in verb[api.Rewind]) (*api.Done, error) {
	return decided(ctx, c, in.fromVerb(), in.Wait, func(ctx context.Context) error {
		return c.View.Verb(ctx, in.ID, in.Body.Act,
			func(r stet.Runs, ctx context.Context, id string, a stet.Act) (bool, error) {
				return r.Rewind(ctx, id, in.Body.Before, a)
			})
	})
}

func (s *Server) edit(ctx context.Context, c *endpoint.Call, in verb[api.Edit]) (*api.Done, error) {
	if (in.Body.Result == nil) == (in.Body.Error == nil) {
		return nil, invalid("expected one of result and error")
	}
	return decided(ctx, c, in.fromVerb(), in.Wait, func(ctx context.Context) error {
		return c.View.Verb(ctx, in.ID, in.Body.Act,
			func(r stet.Runs, ctx context.Context, id string, a stet.Act) (bool, error) {
				if in.Body.Error != nil {
					return r.EditFailure(ctx, id, in.Body.Step, errors.New(*in.Body.Error), a)
				}
				return r.EditResult(ctx, id, in.Body.Step, in.Body.Result, a)
			})
	})
}

type fork struct {
	oneRun
	Key  string   `header:"Idempotency-Key" doc:"the same key and before make the same fork, another before another one"`
	Body api.Fork `body:""`
}

func (s *Server) fork(ctx context.Context, c *endpoint.Call, in fork) (*api.Started, error) {
	keyed := in.Body.ID == "" && in.Key != ""
	if keyed {
		in.Body.ID = keyID(c.Who.Name, "fork\x00"+in.ID+"\x00"+in.Body.Before, in.Key)
	}
	id, err := c.View.Fork(ctx, in.ID, in.Body)
	if keyed && errors.Is(err, stet.ErrExists) {
		id, err = in.Body.ID, nil // this very request has made it
	}
	if err != nil {
		return nil, err
	}
	c.Answered(http.StatusCreated)
	c.Writer.Header().Set("Location", oneRun{id}.fromVerb())
	return &api.Started{ID: id}, nil
}

type removeRun struct {
	oneRun
	Body api.Act `body:""`
}

func (s *Server) remove(ctx context.Context, c *endpoint.Call, in removeRun) (*api.Deleted, error) {
	ids, err := c.View.Delete(ctx, in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	return &api.Deleted{Deleted: ids}, nil
}

type deletable struct {
	oneRun
	Children bool `query:"children" doc:"with the children, and theirs"`
}

func (s *Server) deletable(ctx context.Context, c *endpoint.Call, in deletable) (*api.Deleted, error) {
	ids, err := view.Deletable(ctx, c.View, in.ID, in.Children)
	if err != nil {
		return nil, err
	}
	return &api.Deleted{Deleted: ids}, nil
}

type previewRun struct {
	oneRun
	Verb   string `query:"verb" doc:"retry, rewind or edit"`
	Before string `query:"before" doc:"of a rewind, its location; of an edit, the step's"`
}

func (s *Server) preview(ctx context.Context, c *endpoint.Call, in previewRun) (*api.Preview, error) {
	kinds := map[string]store.ItemKind{"retry": store.ItemRetry, "rewind": store.ItemRewind, "edit": store.ItemEdit}
	kind, ok := kinds[in.Verb]
	if !ok {
		return nil, invalid("verb: expected retry, rewind or edit, found %.100q", in.Verb)
	}
	return c.View.Preview(ctx, in.ID, kind, in.Before)
}

// maxStarts bounds the starts of one request.
const maxStarts = 1000

type start struct {
	Key  string     `header:"Idempotency-Key" doc:"the same key, identity and workflow give the same run"`
	Body api.Starts `body:""`
}

// keyID is the ID of a run that is named by an idempotency key alone.
func keyID(identity, workflow, key string) string {
	sum := sha256.Sum256([]byte(identity + "\x00" + workflow + "\x00" + key))
	return "k-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

func (s *Server) start(ctx context.Context, c *endpoint.Call, in start) (*api.Started, error) {
	starts := in.Body.List
	switch {
	case len(starts) == 0 || len(starts) > maxStarts:
		return nil, invalid("expected a start, or an array of 1 to %d, found %d", maxStarts, len(starts))
	case in.Key != "" && !in.Body.One:
		return nil, invalid("Idempotency-Key is for one start; give each of several an id")
	case in.Key != "" && starts[0].ID == "":
		starts[0].ID = keyID(c.Who.Name, starts[0].Workflow, in.Key)
	}
	ids, errs, err := c.View.Start(ctx, starts)
	if err != nil {
		return nil, err
	}
	c.Answered(http.StatusCreated)
	if in.Body.One {
		c.Writer.Header().Set("Location", "runs/"+api.PathSegment(ids[0]))
		return &api.Started{ID: ids[0]}, nil
	}
	answer := &api.Started{Runs: make([]api.StartedRun, len(ids))}
	for i := range ids {
		answer.Runs[i].ID = ids[i]
		if errs[i] != nil {
			answer.Runs[i].Code = api.ErrorOf(errs[i]).Code
		}
	}
	return answer, nil
}

type send struct {
	oneRun
	Name string   `path:"name" doc:"of the message or update"`
	Key  string   `header:"Idempotency-Key" doc:"one key of an identity and name: one delivery; another value is refused"`
	Body api.Send `body:""`
}

func (s *Server) send(ctx context.Context, c *endpoint.Call, in send) (*api.Done, error) {
	if err := c.View.Send(ctx, in.ID, in.Name, in.Key, in.Body); err != nil {
		return nil, err
	}
	return &api.Done{Done: true}, nil
}

type update struct {
	send
	Wait time.Duration `query:"wait" doc:"how long to wait for the answer; default 10s, at most 60s"`
}

func (s *Server) update(ctx context.Context, c *endpoint.Call, in update) (*api.Answer, error) {
	wait, err := within(in.Wait, decideWithin)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answer, err := c.View.Update(ctx, in.ID, in.Name, in.Key, in.Body)
	if errors.Is(err, stet.ErrPending) {
		c.Answered(http.StatusAccepted)
		c.Writer.Header().Set("Location", "../../"+api.PathSegment(in.ID))
		return &api.Answer{Pending: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return &api.Answer{Answer: answer}, nil
}

type resolve struct {
	Body api.Resolve `body:""`
}

func (s *Server) resolve(ctx context.Context, c *endpoint.Call, in resolve) (*api.Done, error) {
	if err := c.View.Resolve(ctx, in.Body); err != nil {
		return nil, err
	}
	return &api.Done{Done: true}, nil
}

type reject struct {
	Body api.Reject `body:""`
}

func (s *Server) reject(ctx context.Context, c *endpoint.Call, in reject) (*api.Done, error) {
	if err := c.View.Reject(ctx, in.Body); err != nil {
		return nil, err
	}
	return &api.Done{Done: true}, nil
}
