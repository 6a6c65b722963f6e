package store

import "slices"

// Pair is a key with its value: a tag of a run.
type Pair struct {
	Key   string // 1 to MaxKey bytes without spaces, quotes, commas and =<>*
	Value string // at most MaxPairValue bytes
}

// The bounds of tags and headers that every store keeps.
const (
	MaxKey       = 64
	MaxPairValue = 255
	MaxTags      = 64      // of one start or one turn
	MaxHeaders   = 4 << 10 // bytes of the headers of a start or an item
)

// Setting gives a named value of a run its new content.
type Setting struct {
	Name  string // 1 to MaxName bytes
	Value []byte // nil: no value
}

// Append adds an item to a stream of a run.
type Append struct {
	Name  string // 1 to MaxName bytes
	Value []byte // nil: no value
	// Keep drops the items of the stream that stand Keep or more before this one, marks too;
	// 0: none.
	Keep int64
}

// Feed is a named value or a stream that a run shows to readers outside.
type Feed struct {
	Run    RunNo
	Stream bool
	Name   string
	// Last is the position of the stream's last item, or the number of times the value was
	// set. It only grows.
	Last int64
	// Dropped is the position of the stream's last item that was dropped (Append.Keep): the
	// items from 1 to it are gone. 0: none, or a value.
	Dropped int64
	At      Time   // of the last change
	Size    int    // of the value in bytes; 0 for a stream
	Value   []byte // of a value, if the query requests it; nil: no value
}

// FeedQuery selects feeds.
type FeedQuery struct {
	Runs   []RunNo
	Name   string // "": of every name
	Values bool   // with values
}

// StreamItem is one item of a stream.
type StreamItem struct {
	Pos int64 // from 1, without gaps behind those that were dropped
	At  Time
	// Rewound marks the place at which the run was rewound: the items before it stay, and
	// those after it may repeat some of them. It has no value.
	Rewound bool
	Value   []byte // nil: no value
}

// MaxStreamRead is the most bytes of values that one call of Stream returns, unless the
// first item alone has more.
const MaxStreamRead = 4 << 20

// StreamQuery selects items of one stream, in the order of their positions. The answer may
// hold fewer than match: only an empty answer says that none is left.
type StreamQuery struct {
	Run   RunNo
	Name  string
	After int64 // only positions above
	Limit int   // 0: DefaultPage; at most MaxPage
}

// Unanswered is the verdict of an update whose run ends before the code answers, or continues
// as new after the code has received it and before it answers.
const Unanswered = "x"

// MergeTags returns tags after a turn has set some; an empty value removes its tag. The
// result is sorted by key and shares nothing with the arguments. It is nil if it is empty.
func MergeTags(tags, set []Pair) []Pair {
	merged := slices.Clone(tags)
	for _, p := range set {
		i, found := slices.BinarySearchFunc(merged, p.Key, func(have Pair, key string) int {
			switch {
			case have.Key < key:
				return -1
			case have.Key > key:
				return 1
			}
			return 0
		})
		switch {
		case p.Value == "" && found:
			merged = slices.Delete(merged, i, i+1)
		case p.Value == "":
		case found:
			merged[i].Value = p.Value
		default:
			merged = slices.Insert(merged, i, p)
		}
	}
	if len(merged) == 0 {
		return nil
	}
	return merged
}
