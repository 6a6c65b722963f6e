package server_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stet-run/stet/server"
)

// milliseconds calls a function with each path of names that leads to a field of milliseconds in the JSON of a type.
// A list is "[]".
func milliseconds(of reflect.Type, path []string, each func(path []string)) {
	switch of.Kind() {
	case reflect.Pointer:
		milliseconds(of.Elem(), path, each)
	case reflect.Slice:
		if of.Elem().Kind() != reflect.Uint8 {
			milliseconds(of.Elem(), append(path, "[]"), each)
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || len(f.Index) > 1 && f.Tag.Get("json") == "" || name == "-" {
				continue
			}
			if !f.IsExported() {
				continue
			}
			if name != "" {
				milliseconds(f.Type, append(path[:len(path):len(path)], name), each)
			} else {
				milliseconds(f.Type, path, each)
			}
		}
	case reflect.Int64:
		if strings.HasSuffix(path[len(path)-1], "_ms") {
			each(path)
		}
	}
}

// TestMillisecondsThatNoDurationHolds: each field of milliseconds of each body is refused with a number that would
// become another time.
func TestMillisecondsThatNoDurationHolds(t *testing.T) {
	w := newWorld(t, false)
	fields := 0
	for _, row := range server.TableOf(w.handler) {
		for _, f := range reflect.VisibleFields(row.In) {
			if _, ok := f.Tag.Lookup("body"); !ok {
				continue
			}
			milliseconds(f.Type, nil, func(path []string) {
				fields++
				for _, number := range []string{"18446744073710551", "9223372036854775807", "-9223372036854775807"} {
					body := json.RawMessage(number)
					for i := len(path) - 1; i >= 0; i-- {
						if path[i] == "[]" {
							body = json.RawMessage("[" + string(body) + "]")
						} else {
							body = json.RawMessage(`{"` + path[i] + `":` + string(body) + `}`)
						}
					}
					at := strings.NewReplacer("{number}", "1", "{id}", "a", "{name}", "a", "{lease}", "a").Replace(row.Path)
					p := w.refused("admin", row.Method, at, string(body), "invalid", "Content-Type", "application/json")
					if !strings.Contains(p.Detail, path[len(path)-1]+": expected at most 9223372036854 milliseconds") {
						t.Errorf("%s %s with %s: the field is not named: %s", row.Method, row.Path, body, p.Detail)
					}
				}
			})
		}
	}
	if fields < 20 {
		t.Errorf("expected the 20 fields of milliseconds at least, found %d", fields)
	}
	two := `[{"workflow":"a"},{"workflow":"a","after_ms":18446744073710551}]`
	w.refused("admin", http.MethodPost, "runs", two, "invalid")
}
