package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/api"
)

// TestStoreAudit: what is done to the store by the API stands in its audit, by identity, for
// administrators alone.
func TestStoreAudit(t *testing.T) {
	w := newWorld(t, true)
	w.started("order", "o-1", "apple")
	because := map[string]any{"reason": "moving"}
	w.ask("operator", "PUT", "queues/mail", map[string]any{"create": true, "concurrency": 1, "reason": "new"}, 200, nil)
	w.ask("operator", "POST", "queues/mail/pause", because, 200, nil)
	w.ask("operator", "PUT", "schedules/nightly", map[string]any{"workflow": "order", "cron": "0 0 * * *"}, 200, nil)
	w.ask("operator", "POST", "schedules/nightly/pause", because, 200, nil, api.ViaHeader, api.ViaMCP)
	w.ask("admin", "POST", "tokens", map[string]any{"name": "eve", "role": "viewer", "reason": "wall"}, 201, nil)
	var p api.BulkPreview
	w.ask("operator", "POST", "bulk/preview", map[string]any{"query": "workflow=order", "verb": "pause"}, 200, &p)
	w.ask("operator", "POST", "bulk", map[string]any{"token": p.Token}, 200, nil)
	w.ask("", "POST", "login", map[string]any{"token": "viewer"}, 200, nil)
	w.refused("operator", "POST", "queues/none/pause", because, "no_queue") // nothing has happened

	var page api.Audits
	w.get("admin", "audit", &page)
	var found []string
	for _, a := range page.Audit {
		found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %.16s %s", a.Who, a.Verb, a.About, a.Why)))
		if a.Time.IsZero() {
			t.Errorf("an act without a time: %+v", a)
		}
	}
	token := ""
	for _, a := range page.Audit {
		if strings.HasPrefix(a.About, "token ") {
			token = fmt.Sprintf("%.16s", a.About)
		}
	}
	want := []string{"vera login session", "olga bulk pause runs workflow=or", "ada create " + token + " wall",
		"mcp:olga pause schedule nightly moving", "olga set schedule nightly", "olga pause queue mail moving",
		"olga create queue mail new"}
	slices.Sort(found) // a token counts before its entity, and so the audit, has entered it
	slices.Sort(want)
	if strings.Join(found, "\n") != strings.Join(want, "\n") {
		t.Errorf("expected\n%s\nfound\n%s", strings.Join(want, "\n"), strings.Join(found, "\n"))
	}
	var some api.Audits
	w.get("admin", "audit?limit=4", &some)
	if len(some.Audit) != 4 || some.Next == "" {
		t.Fatalf("a page: %+v", some)
	}
	next := some.Next
	some = api.Audits{}
	w.get("admin", "audit?limit=4&cursor="+next, &some)
	if len(some.Audit) != 3 || some.Next != "" || some.Audit[2].About != "queue mail" {
		t.Errorf("the next page: %+v", some)
	}
	w.get("admin", "audit?who=olga&about=queue%20&verb=pause", &some)
	if len(some.Audit) != 1 {
		t.Errorf("one act: %+v", some)
	}
	for _, who := range []string{"viewer", "caller", "operator", "limited"} {
		w.refused(who, http.MethodGet, "audit", nil, "forbidden")
	}
	w.refused("admin", "GET", "audit?cursor=x", nil, "bad_cursor")
}
