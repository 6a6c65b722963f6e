package develop

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/cmd/stet/internal/inprocess"
)

const style = `body{font:14px system-ui;margin:1rem;color-scheme:light dark}pre{white-space:pre-wrap}` +
	`.err{color:#c62828}.stet{font-weight:bold}`

// page is markup of our own; what a program prints becomes text.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>stet dev: {{.State.Phase}}</title>
<style>` + style + `</style></head><body>
<h1>{{.State.Phase}}</h1>
<p>since {{.State.Since.Format "15:04:05"}}{{if .State.PID}}, process {{.State.PID}}{{end}},
started {{.State.Starts}} times.
<a href="./">dashboard</a></p>
{{if .State.Problem}}<pre class="err" role="alert">{{.State.Problem}}</pre>{{end}}
<form><label>lines with <input name="run" value="{{.Run}}"></label> <button>show</button></form>
<pre>{{range .Lines}}<span class="{{.From}}">{{.At.Format "15:04:05.000"}} {{.Text}}
</span>{{end}}</pre>
</body></html>
`))

// view is what the page shows, and dev.json has.
type view struct {
	State State  `json:"state"`
	Run   string `json:"run,omitempty"`
	Lines []Line `json:"lines"`
}

// saysOnce leaves out of the lines what the last build has printed, if it has failed: the page has it above them.
func (v *view) saysOnce() {
	for i := len(v.Lines) - 1; v.State.Phase == BuildFailed && i >= 0; i-- {
		if l := &v.Lines[i]; l.From == "stet" && strings.HasPrefix(l.Text, buildHasFailed) {
			l.Text = buildHasFailed
			return
		}
	}
}

// Page serves how the program stands and what it has printed: as a page, or as JSON where
// the address ends with .json. The parameter run leaves only lines that have its text. It is
// for those who may see values, as the handler of the API says.
func (p *Program) Page(api http.Handler) http.Handler {
	sum := sha256.Sum256([]byte(style))
	policy := "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "expected GET", http.StatusMethodNotAllowed)
			return
		}
		if status, text := mayLook(api, r); status != http.StatusOK {
			http.Error(w, text, status)
			return
		}
		v := view{Run: r.URL.Query().Get("run")}
		v.State, _ = p.State()
		v.Lines = p.Lines(v.Run)
		if r.URL.Path == "/dev.json" {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v) // the client has gone
			return
		}
		v.saysOnce()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, v) // the client has gone
	})
}

// mayLook asks the API who makes the request.
func mayLook(api http.Handler, r *http.Request) (status int, text string) {
	c, err := inprocess.Client(api, r, nil)
	if err != nil {
		return http.StatusInternalServerError, "internal"
	}
	info, err := c.Info(r.Context())
	if refused := (*client.Error)(nil); errors.As(err, &refused) {
		return refused.Status, refused.Error() + ": open the dashboard first, by the address that stet dev has printed"
	}
	switch {
	case err != nil:
		return http.StatusServiceUnavailable, "the API does not answer"
	case !slices.Contains(info.Identity.Rights, "values"):
		return http.StatusForbidden, "what a program prints is for those who may see values"
	}
	return http.StatusOK, ""
}
