package redis

import (
	"fmt"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
)

// The letters that this package and the scripts use in arguments, answers and stored
// values. They never change meaning.
const (
	// The forms of a turn: entries alone; entries and an update; all parts.
	entriesTurn = "E"
	updateTurn  = "U"
	wholeTurn   = "F"

	// The forms of a command: an item; a start; a start that says no more than most.
	itemCommand  = "i"
	startCommand = "s"
	smallStart   = "p"

	// How a command names the run that an item is for.
	byID     = "="
	byNumber = "#"

	// The classes of items.
	verbItem   = "v"
	updateItem = "u"
	letterItem = "l"
	otherItem  = "n"

	// The purposes of claim.lua: look and claim; only look; claim the given runs.
	lookAndClaim = "a"
	onlyLook     = "l"
	claimGiven   = "c"

	// How list.lua finds runs: by indexes, shards in which they are claimed, numbers, IDs.
	byIndexes = "i"
	byClaimed = "k"
	byNumbers = "n"
	byIDs     = "d"
	// And by the lists of workflows and statuses, and by those of ends.
	byListings = "l"
	byEnds     = "e"

	// putOut is the outcome of a command that was put into the outbox for another part.
	putOut = "0"
)

// The flags of an update.
const (
	isolateFlag      = 'a'
	endIsolationFlag = 's'
	discardFlag      = 'd'
	unclaimFlag      = 'b'
	anyBuildFlag     = 'f'
	moreFlag         = 'm' // reason, waits, queue and time to keep it follow
)

// forgetAfter is how long a node that ended uncleanly and holds no lease is remembered.
const forgetAfter = 24 * time.Hour

// sweepLook is how many runs and items one call of sweep.lua examines.
const sweepLook = 2000

// protocol are the words of the scripts that are this store's own.
var protocol = map[string]words.Table{
	"OUTCOME": quoted(map[string]string{"putOut": putOut}), // beside those of the contract
	"TURN":    quoted(map[string]string{"entries": entriesTurn, "update": updateTurn, "whole": wholeTurn}),
	"COMMAND": quoted(map[string]string{
		"item": itemCommand, "start": startCommand, "small": smallStart, "byNumber": byNumber,
	}),
	"CLASS": quoted(map[string]string{
		"verb": verbItem, "update": updateItem, "letter": letterItem, "other": otherItem,
	}),
	"CLAIM": quoted(map[string]string{"lookAndClaim": lookAndClaim, "look": onlyLook, "given": claimGiven}),
	"LIST": quoted(map[string]string{"indexes": byIndexes, "claimed": byClaimed, "numbers": byNumbers, "ids": byIDs,
		"listings": byListings, "ends": byEnds}),
	"FLAG": quoted(map[string]string{
		"isolate": string(isolateFlag), "endIsolation": string(endIsolationFlag), "discard": string(discardFlag),
		"unclaim": string(unclaimFlag), "anyBuild": string(anyBuildFlag), "more": string(moreFlag),
	}),
	// The indexes of runs by condition, and the classes of candidates in their order.
	"INDEX":     quoted(map[string]string{"claimed": "k", "ready": "y", "waking": "z"}),
	"CANDIDATE": quoted(map[string]string{"due": "1", "called": "2", "ready": "3"}),
	// Entries with a large value have a letter for their state, from largeState on.
	"ENTRYLARGE": quoted(map[string]string{
		"open": string(largeState(store.Open)), "withdrawn": string(largeState(store.Withdrawn)),
	}),
	"BYTE": {
		"new": fmt.Sprint('0' + int(store.New)), "large": fmt.Sprint(int(largeState(store.Open))),
		"byID": fmt.Sprint(int(byID[0])), "newline": fmt.Sprint(int('\n')),
	},
	"TEXT": quoted(map[string]string{"unanswered": value([]byte(store.Unanswered))}),
	"MAX": {
		"claim": fmt.Sprint(store.MaxClaim), "runID": fmt.Sprint(store.MaxRunID), "sweepLook": fmt.Sprint(sweepLook),
		"seed": fmt.Sprint(len(store.Seed{})), "largeValue": fmt.Sprint(store.LargeValue),
		// Of one call of a command: fields of a hash that are read, values that unpack may
		// give it, members of a sorted set and items of a stream in a page.
		"fields": "1000", "unpacked": "4000", "page": "100", "streamPage": "20",
		// Runs that one claim examines which the node cannot load: ready ones, and sleepers.
		"unfitLook": "5000", "unfitSort": "250", "sleepers": "1000",
		// Runs that one script gives back before it leaves the other shards, and items that a claim
		// has: so many keep the server busy for some milliseconds.
		"given": "2000", "items": "2000",
		// Bytes of entries, or of items, that one script returns, about.
		"load": "1048576",
	},
	"MICROS": {
		"dedupWindow":  fmt.Sprint(int64(store.DedupWindow)),
		"repeatWindow": fmt.Sprint(int64(store.RepeatWindow)), "forgetAfter": fmt.Sprint(forgetAfter.Microseconds()),
		"minRetention": fmt.Sprint(int64(store.MinKeep)), "second": "1000000", "millisecond": "1000",
	},
}

func quoted(texts map[string]string) words.Table {
	all := make(words.Table, len(texts))
	for name, text := range texts {
		all[name] = "'" + text + "'"
	}
	return all
}
