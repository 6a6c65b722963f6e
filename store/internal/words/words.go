// Package words names the numbers of the contract in the texts that stores give to their
// servers. A statement says {suspended} and a script STATUS.suspended where the server
// gets 3, so that both read like the Go code beside them and cannot drift from it.
//
// Migrations do not use it: they say for ever what they said first.
package words

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/stet-run/stet/store"
)

// The conditions of a run, as stores keep them: only an idle or ready run can be claimed.
const (
	Idle    = 0 // it waits for its wake time or an item, or has ended
	Ready   = 1 // it is to be claimed
	Claimed = 2 // the owner of its shard works on it
)

// table is the numbers of one type, by name.
type table map[string]int

var (
	statuses = table{
		"queued": int(store.Queued), "running": int(store.Running), "suspended": int(store.Suspended),
		"succeeded": int(store.Succeeded), "failed": int(store.Failed), "cancelled": int(store.Cancelled),
		"stalled": int(store.Stalled),
	}
	marks = table{
		"paused": int(store.Paused), "cancelling": int(store.Cancelling), "undoing": int(store.Undoing),
		"expiring": int(store.Expiring), "held": int(store.Held), "pausedOrHeld": int(store.Paused | store.Held),
		"admitted": int(store.Admitted),
	}
	conditions = table{"idle": Idle, "ready": Ready, "claimed": Claimed}
	kinds      = table{
		"message": int(store.ItemMessage), "resolution": int(store.ItemResolution), "cancel": int(store.ItemCancel),
		"terminate": int(store.ItemTerminate), "resume": int(store.ItemResume), "ending": int(store.ItemEnd),
		"watch": int(store.ItemWatch), "update": int(store.ItemUpdate), "pause": int(store.ItemPause),
		"retry": int(store.ItemRetry), "rewind": int(store.ItemRewind), "edit": int(store.ItemEdit),
		"nudge": int(store.ItemNudge),
		"event": int(store.ItemEvent), "wait": int(store.ItemWait), "withdraw": int(store.ItemWithdraw),
		"ack": int(store.ItemAck), "returned": int(store.ItemReturn), "delivery": int(store.ItemDelivery),
		"ask": int(store.ItemAsk), "grant": int(store.ItemGrant), "giveBack": int(store.ItemGiveBack),
	}
	itemStates = table{
		"new": int(store.New), "seen": int(store.Seen), "consumed": int(store.Consumed), "dead": int(store.Dead),
	}
	entryStates = table{
		"open": int(store.Open), "done": int(store.Done), "failed": int(store.FailedEntry),
		"withdrawn": int(store.Withdrawn),
	}
	verdicts = table{
		"committed": int(store.Committed), "stillReady": int(store.StillReady), "fenced": int(store.Fenced),
		"refused": int(store.Refused), "busy": int(store.Busy),
	}
	outcomes = table{
		"applied": int(store.Applied), "exists": int(store.Exists), "duplicate": int(store.Duplicate),
		"notFound": int(store.NotFound), "ended": int(store.Ended), "undecided": int(store.Undecided),
	}
	policies = table{"replaceFailed": int(store.ReplaceFailed), "replaceEnded": int(store.ReplaceEnded)}
)

// inSQL are the words of statements: those of the columns status, marks, ready, kind and
// state, which have no word in common, and lists of them.
var inSQL = func() map[string]string {
	all := map[string]string{
		"ended": In(store.AllStatuses(), store.Status.Terminal),
		"live":  In(store.AllStatuses(), func(s store.Status) bool { return !s.Terminal() }),
		// Kinds of which no dead letter is made, and states of entries that may be overwritten.
		"answered":  In(Kinds(), func(k store.ItemKind) bool { return !k.CanBeDead() }),
		"unsettled": In([]store.EntryState{store.Open, store.Withdrawn}, func(store.EntryState) bool { return true }),
	}
	for _, t := range []table{statuses, marks, conditions, kinds, itemStates} {
		for name, n := range t {
			if _, twice := all[name]; twice {
				panic("words: " + name + " names two numbers")
			}
			all[name] = fmt.Sprint(n)
		}
	}
	return all
}()

// Kinds returns the kinds of items.
func Kinds() []store.ItemKind {
	var all []store.ItemKind
	for k := store.ItemKind(1); k < 255; k++ {
		if k.Valid() {
			all = append(all, k)
		}
	}
	return all
}

// In returns the numbers for which is holds, as the right side of IN.
func In[T ~uint8](all []T, is func(T) bool) string {
	var numbers []string
	for _, n := range all {
		if is(n) {
			numbers = append(numbers, fmt.Sprintf("%d", n))
		}
	}
	return "(" + strings.Join(numbers, ",") + ")"
}

var sqlWord = regexp.MustCompile(`\{[a-zA-Z]+\}`)

// SQL returns a statement with the number of each word in its place. It panics at a word
// that it does not know.
func SQL(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	return sqlWord.ReplaceAllStringFunc(text, func(word string) string {
		number, ok := inSQL[word[1:len(word)-1]]
		if !ok {
			panic("words: no number is called " + word + " in: " + text)
		}
		return number
	})
}

// Table is the words of one type in scripts, each with the constant that it stands for.
type Table map[string]string

// inLua are the words of scripts, by type. What a Redis server keeps and compares is
// text, except marks, which are bits. NEXT are the statuses that may follow one.
var inLua = map[string]Table{
	"STATUS": constants(statuses, "'%d'"), "MARK": constants(marks, "%d"), "CONDITION": constants(conditions, "'%d'"),
	"KIND": constants(kinds, "'%d'"), "STATE": constants(itemStates, "'%d'"), "ENTRY": constants(entryStates, "'%d'"),
	"VERDICT": constants(verdicts, "'%d'"), "OUTCOME": constants(outcomes, "'%d'"), "NEXT": next(),
	"EXISTING": constants(policies, "%d"),
}

func constants(numbers table, form string) Table {
	all := make(Table, len(numbers))
	for name, n := range numbers {
		all[name] = fmt.Sprintf(form, n)
	}
	return all
}

// next returns of each status the others that it can become, as digits.
func next() Table {
	all := Table{}
	for _, s := range store.AllStatuses() {
		digits := ""
		for _, t := range store.AllStatuses() {
			if t != s && s.CanBecome(t) {
				digits += fmt.Sprintf("%d", t)
			}
		}
		all[s.String()] = "'" + digits + "'"
	}
	return all
}

var luaWord = regexp.MustCompile(`\b[A-Z]{2,}\.\w+`)

// Lua returns a script with the constant of each word in its place. own are words of the
// store alone, by type. It panics at a word that it does not know.
func Lua(text string, own map[string]Table) string {
	return luaWord.ReplaceAllStringFunc(text, func(word string) string {
		kind, name, _ := strings.Cut(word, ".")
		constant, ok := inLua[kind][name]
		if !ok {
			constant, ok = own[kind][name]
		}
		if !ok {
			panic("words: nothing is called " + word)
		}
		return constant
	})
}
