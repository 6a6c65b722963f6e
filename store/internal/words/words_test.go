package words_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
)

// TestSQL: words of a statement become the numbers of the contract, and what is no word
// stays.
func TestSQL(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1 WHERE a = '{}'":                             "SELECT 1 WHERE a = '{}'",
		"status={suspended} AND marks & {pausedOrHeld} = 0":   "status=3 AND marks & 17 = 0",
		"status IN {ended} OR status IN {live}":               "status IN (4,5,6) OR status IN (1,2,3,7)",
		"ready={idle} OR ready={ready} OR ready={claimed}":    "ready=0 OR ready=1 OR ready=2",
		"state<{consumed} AND kind IN ({cancel},{terminate})": "state<3 AND kind IN (3,4)",
	} {
		if got := words.SQL(text); got != want {
			t.Errorf("expected %q, found %q", want, got)
		}
	}
}

// TestAnswered: {answered} lists the kinds of which no dead letter is made.
func TestAnswered(t *testing.T) {
	list := strings.Trim(words.SQL("{answered}"), "()")
	in := map[string]bool{}
	for n := range strings.SplitSeq(list, ",") {
		in[n] = true
	}
	for _, k := range words.Kinds() {
		if in[fmt.Sprintf("%d", k)] == k.CanBeDead() {
			t.Errorf("%s is a letter: %v, and answered: %v", k, k.CanBeDead(), !k.CanBeDead())
		}
	}
}

// TestLua: words of a script become constants as the server keeps them.
func TestLua(t *testing.T) {
	for text, want := range map[string]string{
		"if r.st == STATUS.suspended then":        "if r.st == '3' then",
		"marked(r, MARK.held)":                    "marked(r, 16)",
		"'l:' .. STATUS.running .. ':'":           "'l:' .. '2' .. ':'",
		"k == KIND.grant and s == STATE.new":      "k == '31' and s == '1'",
		"return VERDICT.committed, OUTCOME.ended": "return '1', '5'",
		"co = CONDITION.claimed, x.STATUS":        "co = '2', x.STATUS",
		"WAY.look and Status.running":             "'l' and Status.running",
		"NEXT.stalled .. NEXT.succeeded":          "'26' .. '2'",
	} {
		if got := words.Lua(text, map[string]words.Table{"WAY": {"look": "'l'"}}); got != want {
			t.Errorf("expected %q, found %q", want, got)
		}
	}
}

// TestUnknownWord: a word that names no number is a mistake of the text.
func TestUnknownWord(t *testing.T) {
	for what, fn := range map[string]func(){
		"SQL": func() { words.SQL("status={sleeping}") },
		"Lua": func() { words.Lua("STATUS.sleeping", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: an unknown word was accepted", what)
				}
			}()
			fn()
		}()
	}
}

// TestAllAreNamed: each status and each kind of items has a word.
func TestAllAreNamed(t *testing.T) {
	for _, s := range store.AllStatuses() {
		if got, want := words.SQL("{"+s.String()+"}"), fmt.Sprintf("%d", s); got != want {
			t.Errorf("%s: expected %s, found %s", s, want, got)
		}
	}
	renamed := map[store.ItemKind]string{store.ItemEnd: "ending", store.ItemReturn: "returned",
		store.ItemGiveBack: "giveBack"}
	for _, k := range words.Kinds() {
		word := k.String()
		if other, ok := renamed[k]; ok {
			word = other
		}
		if got, want := words.Lua("KIND."+word, nil), fmt.Sprintf("'%d'", k); got != want {
			t.Errorf("%s: expected %s, found %s", k, want, got)
		}
	}
}
