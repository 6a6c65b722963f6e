package stet

import (
	"fmt"
	"slices"
	"strings"
)

// Enumerations are written as words, in JSON and wherever a text is asked for. A number without a
// word has no text, and a text that is no word is refused and changes nothing; both errors wrap
// ErrInvalid and list the words.

var (
	existingWords     = []string{"use", "refuse", "replace-failed", "replace-ended"}
	parentCloseWords  = []string{"cancel", "leave"}
	childFailureWords = []string{FailAwaiter: "awaiter", FailScope: "scope"}
	onBugWords        = []string{StallOnBug: "stall", FailOnBug: "fail"}
	onFailureWords    = []string{EndOnFailure: "end", StallOnFailure: "stall"}
	overlapWords      = []string{SkipOverlap: "skip", BufferOne: "buffer-one", AllowOverlap: "allow",
		CancelPrevious: "cancel-previous"}
	topicModeWords  = []string{"broadcast", "consumed"}
	visibilityWords = []string{"since-run", "since-wait", "retained"}
	requireWords    = []string{"nothing", "encrypted", "bound"}
	undoOnWords     = []string{"failure", "cancel", "rollback"} // of its bits
)

// MarshalText returns "use", "refuse", "replace-failed" or "replace-ended".
func (x Existing) MarshalText() ([]byte, error) { return wordOf("Existing", existingWords, x) }

// UnmarshalText is the inverse of MarshalText.
func (x *Existing) UnmarshalText(text []byte) error {
	return fromWord("Existing", existingWords, x, text)
}

// MarshalText returns "cancel" or "leave".
func (p ParentClose) MarshalText() ([]byte, error) { return wordOf("ParentClose", parentCloseWords, p) }

// UnmarshalText is the inverse of MarshalText.
func (p *ParentClose) UnmarshalText(text []byte) error {
	return fromWord("ParentClose", parentCloseWords, p, text)
}

// MarshalText returns "awaiter" or "scope".
func (f ChildFailure) MarshalText() ([]byte, error) {
	return wordOf("ChildFailure", childFailureWords, f)
}

// UnmarshalText is the inverse of MarshalText.
func (f *ChildFailure) UnmarshalText(text []byte) error {
	return fromWord("ChildFailure", childFailureWords, f, text)
}

// MarshalText returns "stall" or "fail".
func (b OnBug) MarshalText() ([]byte, error) { return wordOf("OnBug", onBugWords, b) }

// UnmarshalText is the inverse of MarshalText.
func (b *OnBug) UnmarshalText(text []byte) error { return fromWord("OnBug", onBugWords, b, text) }

// MarshalText returns "end" or "stall".
func (f OnFailure) MarshalText() ([]byte, error) { return wordOf("OnFailure", onFailureWords, f) }

// UnmarshalText is the inverse of MarshalText.
func (f *OnFailure) UnmarshalText(text []byte) error {
	return fromWord("OnFailure", onFailureWords, f, text)
}

// MarshalText returns the word that String returns.
func (o Overlap) MarshalText() ([]byte, error) { return wordOf("overlap policy", overlapWords, o) }

// UnmarshalText is the inverse of MarshalText.
func (o *Overlap) UnmarshalText(text []byte) error {
	return fromWord("overlap policy", overlapWords, o, text)
}

// MarshalText returns the word that String returns.
func (m TopicMode) MarshalText() ([]byte, error) { return wordOf("mode of a topic", topicModeWords, m) }

// UnmarshalText is the inverse of MarshalText.
func (m *TopicMode) UnmarshalText(text []byte) error {
	return fromWord("mode of a topic", topicModeWords, m, text)
}

// MarshalText returns "since-run", "since-wait" or "retained".
func (v Visibility) MarshalText() ([]byte, error) { return wordOf("Visibility", visibilityWords, v) }

// UnmarshalText is the inverse of MarshalText.
func (v *Visibility) UnmarshalText(text []byte) error {
	return fromWord("Visibility", visibilityWords, v, text)
}

// MarshalText returns "nothing", "encrypted" or "bound".
func (r PayloadRequire) MarshalText() ([]byte, error) {
	return wordOf("PayloadRequire", requireWords, r)
}

// UnmarshalText is the inverse of MarshalText.
func (r *PayloadRequire) UnmarshalText(text []byte) error {
	return fromWord("PayloadRequire", requireWords, r, text)
}

// MarshalText returns the ends, separated by commas: "failure,cancel". The zero UndoOn, which is
// the default, is an empty text.
func (u UndoOn) MarshalText() ([]byte, error) {
	if u >= 1<<len(undoOnWords) {
		return nil, fmt.Errorf("UndoOn: expected %s, found the bits %b: %w", oneOf(undoOnWords), u, ErrInvalid)
	}
	var ends []string
	for i, word := range undoOnWords {
		if u&(1<<i) != 0 {
			ends = append(ends, word)
		}
	}
	return []byte(strings.Join(ends, ",")), nil
}

// UnmarshalText is the inverse of MarshalText.
func (u *UndoOn) UnmarshalText(text []byte) error {
	var all UndoOn
	if len(text) > 0 {
		for end := range strings.SplitSeq(string(text), ",") {
			i := slices.Index(undoOnWords, end)
			if i < 0 {
				return fmt.Errorf("UndoOn: expected %s, found %q: %w", oneOf(undoOnWords), end, ErrInvalid)
			}
			all |= 1 << i
		}
	}
	*u = all
	return nil
}

// wordOf returns the word of a number of an enumeration, which what names in errors.
func wordOf[T ~uint8 | ~int](what string, words []string, v T) ([]byte, error) {
	if v >= 0 && int(v) < len(words) && words[v] != "" {
		return []byte(words[v]), nil
	}
	return nil, fmt.Errorf("%s: expected %s, found number %d: %w", what, oneOf(words), int(v), ErrInvalid)
}

// fromWord is the inverse of wordOf.
func fromWord[T ~uint8 | ~int](what string, words []string, v *T, text []byte) error {
	if i := slices.Index(words, string(text)); i >= 0 && len(text) > 0 {
		*v = T(i)
		return nil
	}
	return fmt.Errorf("%s: expected %s, found %q: %w", what, oneOf(words), text, ErrInvalid)
}

// oneOf lists words for an error: "a, b or c".
func oneOf(words []string) string {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
