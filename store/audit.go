package store

// Audit documents an operator's act on a run, or that the engine has paused or stalled it by
// itself. A refused request leaves none.
type Audit struct {
	No     int  // in the run, from 1
	Time   Time // by the store's clock
	Who    string
	Verb   string // "pause", "rewind", …
	Why    string
	Detail string // what it did, in words; "": the verb says it
}

// The bounds of an Audit.
const (
	MaxWhy    = 4 << 10 // bytes
	MaxDetail = 16 << 10
)

func (a *Audit) check() error {
	for _, field := range []struct {
		what, text string
		limit      int
		emptyOK    bool
	}{{"audit: who", a.Who, MaxName, true}, {"audit: verb", a.Verb, MaxName, false}} {
		if err := checkText(field.what, field.text, field.limit, field.emptyOK); err != nil {
			return err
		}
	}
	if len(a.Why) > MaxWhy || len(a.Detail) > MaxDetail {
		return invalid("audit of %s: expected at most %d and %d bytes of why and detail, found %d and %d",
			a.Verb, MaxWhy, MaxDetail, len(a.Why), len(a.Detail))
	}
	return nil
}
