package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// BulkPreview returns which runs a verb would reach on all that match. Nothing happens yet;
// Bulk takes the token.
func (c *Client) BulkPreview(ctx context.Context, b api.BulkRequest) (*api.BulkPreview, error) {
	return post[api.BulkPreview](ctx, c, "bulk/preview", "", nil, b)
}

// Bulk acts on the runs of a preview that match still, and calls each with what became of
// one, as it is known; each may be nil. It returns the sums. An error that wraps
// store.ErrUnknown says that the answer was cut off: some runs were acted on that each was
// not called for. The same token may be used again: a run that is done is refused, or
// matches no more.
func (c *Client) Bulk(ctx context.Context, token string, each func(api.BulkResult)) (*api.BulkEnd, error) {
	answer, err := c.send(ctx, call{method: http.MethodPost, path: "bulk", body: api.Bulk{Token: token}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			End bool `json:"end"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("bulk: the answer: %w", err)
		}
		if line.End {
			end := &api.BulkEnd{}
			return end, json.Unmarshal(lines.Bytes(), end)
		}
		var r api.BulkResult
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("bulk: the answer: %w", err)
		}
		if each != nil {
			each(r)
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnknown, context.Cause(ctx))
	}
	return nil, fmt.Errorf("bulk: the answer was cut off: %w", store.ErrUnknown)
}
