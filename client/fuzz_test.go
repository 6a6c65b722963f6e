package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
)

// answers is a server that answers one thing to all.
type answers struct {
	status int
	media  string
	body   string
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"Content-Type": {a.media}},
		Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func (a answers) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New("http://stet.example", client.Options{HTTP: &http.Client{Transport: a}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// FuzzAnswers: whatever a server answers, the client returns an error or what the answer says,
// and an answer that is no success is never taken for one.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `null`, `[]`, `{"code":"not_found","status":404}`, `{"id":"o-1","status":"failed"}`, `{"runs":[null]}`,
		`{"done":true}`, `{"end":true,"done":1}`, "{\"id\":\"a\"}\n{\"end\":true}\n", "{\"id\":\"a\"}\n", `<html>`, "\xff",
	} {
		f.Add(200, "application/json", body)
		f.Add(404, "application/problem+json", body)
		f.Add(202, "application/problem+json", body)
	}
	f.Add(503, "text/html", "no upstream")
	f.Fuzz(func(t *testing.T, status int, media, body string) {
		if status < 200 || status > 599 || status >= 300 && status < 400 {
			return // net/http does not return them
		}
		c, ctx := answers{status, media, body}.client(t), t.Context()
		failed := status >= 300
		for what, call := range map[string]func() error{
			"run":   func() error { _, err := c.Run(ctx, "o-1"); return err },
			"runs":  func() error { _, err := c.Runs(ctx, "", client.Page{}); return err },
			"start": func() error { _, err := c.Start(ctx, "k", api.Start{Workflow: "w"}); return err },
			"send":  func() error { return c.Send(ctx, "o-1", "m", "k", api.Send{}) },
			"act":   func() error { _, err := c.Act(ctx, client.Retry, "o-1", api.Act{}, time.Second); return err },
			"bulk":  func() error { _, err := c.Bulk(ctx, "token", func(api.BulkResult) {}); return err },
			"follow": func() error {
				return c.Follow(ctx, client.Subjects{Runs: []string{"o-1"}}, func(client.Event) error { return nil })
			},
		} {
			err := call()
			if err == nil && failed {
				t.Errorf("%s: status %d is taken for a success: %q", what, status, body)
			}
			var refused *client.Error
			if errors.As(err, &refused) && refused.Code == "" {
				t.Errorf("%s: a refusal without a code: %q", what, body)
			}
		}
	})
}

// FuzzEvents: the events of a stream are those that stand in it whole, whatever is around them.
func FuzzEvents(f *testing.F) {
	f.Add("retry: 2000\n\n", "run", "AAAA", `{"id":"o-1"}`, "event: run\nid: x")
	f.Add(": \n\n", "entry", "", `null`, "\n\n")
	f.Add("", "", "", "", "")
	f.Add("event:x\ndata:1\n\n", "page", "1", `[1,2]`, "id: 9\n\n")
	f.Add("data: lost\nevent: \n", "item", "é", `"a: b"`, "data")
	f.Fuzz(func(t *testing.T, before, name, id, data, after string) {
		if strings.ContainsAny(name+id+data, "\r\n") || name == "" {
			return // the server writes JSON, which has no line ends, and names of its own
		}
		stream := before + "\n\nevent: " + name + "\nid: " + id + "\ndata: " + data + "\n\n" + after
		if len(stream) > 60<<10 {
			return
		}
		seen := 0
		err := answers{200, "text/event-stream", stream}.client(t).Follow(t.Context(), client.Subjects{Nodes: true},
			func(e client.Event) error {
				if e.Name == "" {
					t.Errorf("an event without a name: %+v", e)
				}
				if e.Name == name && e.ID == id && string(e.Data) == data {
					seen++
				}
				return nil
			})
		if err == nil || seen == 0 {
			t.Errorf("%q: seen %d times, %v", stream, seen, err)
		}
	})
}
