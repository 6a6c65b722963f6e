package script_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/stettest"
)

// TestLongNumbersKeepTheirDigits: a number that JavaScript would change is passed on with all its digits; to compute
// with it is refused and not wrong.
func TestLongNumbersKeepTheirDigits(t *testing.T) {
	const order = `{"account":9007199254740993,"of":[-12345678901234567890,1],"price":1.10,"id":9007199254740992,` +
		`"text":"9007199254740993","nested":{"\"9007199254740993":{"n":90071992547409931}}}`
	for _, row := range []struct{ name, input, body, want, fails string }{
		{"a value", order, `return input`, strings.Replace(order, "1.10", "1.1", 1), ""},
		{"the input itself", `9007199254740993`, `return input`, `9007199254740993`, ""},
		{"through a task", order, `return Task.run("echo", { a: input.account, ...input.nested })`,
			`{"a":9007199254740993,"\"9007199254740993":{"n":90071992547409931}}`, ""},
		{"as a text", order, "return [`${input.account}`, String(input.of[0]), 'no ' + input.text]",
			`["9007199254740993","-12345678901234567890","no 9007199254740993"]`, ""},
		{"written by the script", order, `return JSON.stringify({ a: input.account })`, `"{\"a\":\"9007199254740993\"}"`, ""},
		{"one that is exact", order, `return input.id / 2`, `4503599627370496`, ""},
		{"computing", order, `return input.account + 1`, "", "9007199254740993 has more digits than a number may have"},
		{"comparing", order, `return input.account < 1`, "", "9007199254740993 has more digits than a number may have"},
		{"computing, caught", order, `try { return input.account * 2 } catch (e) { return e.name }`, `"RangeError"`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			source, err := bundle.Source("case.js", "export default async (input) => { "+row.body+" }")
			if err != nil {
				t.Fatal(err)
			}
			w := compiled(t, "case", source, tasks)
			stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
				run, err := w.Start(t.Context(), env.Engine, json.RawMessage(row.input))
				if err != nil {
					t.Fatal(err)
				}
				if row.fails != "" {
					env.Settle()
					info, err := env.Engine.Runs().Info(t.Context(), run.ID())
					if err != nil || !strings.Contains(info.Reason, row.fails) {
						t.Errorf("found %+v, %v", info, err)
					}
					return
				}
				if out, err := run.Wait(t.Context()); err != nil || string(out) != row.want {
					t.Errorf("found %s, %v\nwant %s", out, err, row.want)
				}
			})
		})
	}
}
