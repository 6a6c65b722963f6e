package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// byName sorts operations as their tree shows them: by location, numbers by value.
func byName(operations []operation) {
	slices.SortStableFunc(operations, func(a, b operation) int {
		return slices.CompareFunc(strings.Split(a.Location, "/"), strings.Split(b.Location, "/"), compareNatural)
	})
}

// byTime sorts operations as their tree shows them: what the code has asked for first comes
// first, and what it has asked for at the same moment is sorted by location. A branch
// stands where its first operation does.
func byTime(operations []operation) {
	paths := make(map[string][]string, len(operations)) // a location and those above it, the outermost first
	born := map[string]int64{}                          // of the first operation at or below a location
	for i := range operations {
		o := &operations[i]
		for end := range o.Location {
			if o.Location[end] == '/' {
				paths[o.Location] = append(paths[o.Location], o.Location[:end])
			}
		}
		paths[o.Location] = append(paths[o.Location], o.Location)
		for _, at := range paths[o.Location] {
			if first, ok := born[at]; !ok || o.Born < first {
				born[at] = o.Born
			}
		}
	}
	slices.SortStableFunc(operations, func(a, b operation) int {
		return slices.CompareFunc(paths[a.Location], paths[b.Location], func(a, b string) int {
			return cmp.Or(cmp.Compare(born[a], born[b]), compareNatural(a, b))
		})
	})
}

// asRecorded sorts operations by completion number; those without one follow, by the time
// at which they began.
func asRecorded(operations []operation) {
	number := func(o *operation) int64 {
		if o.Number == 0 {
			return math.MaxInt64
		}
		return o.Number
	}
	slices.SortStableFunc(operations, func(a, b operation) int {
		return cmp.Or(cmp.Compare(number(&a), number(&b)), a.Started.Compare(b.Started))
	})
}

// compareNatural compares texts in which runs of digits count by their value: "a9" comes
// before "a10". Texts that differ only in leading zeros are compared as texts.
func compareNatural(a, b string) int {
	restA, restB := a, b
	for restA != "" && restB != "" {
		var partA, partB string
		partA, restA = cutPart(restA)
		partB, restB = cutPart(restB)
		order := strings.Compare(partA, partB)
		if isDigit(partA[0]) && isDigit(partB[0]) {
			numberA, numberB := strings.TrimLeft(partA, "0"), strings.TrimLeft(partB, "0")
			order = cmp.Or(cmp.Compare(len(numberA), len(numberB)), strings.Compare(numberA, numberB))
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Or(cmp.Compare(len(restA), len(restB)), strings.Compare(a, b))
}

// cutPart cuts the digits, or the text without digits, with which a text begins.
func cutPart(text string) (part, rest string) {
	digits := isDigit(text[0])
	end := strings.IndexFunc(text, func(r rune) bool { return (r >= '0' && r <= '9') != digits })
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
