package stored

import "github.com/stet-run/stet/store"

// Lead says what an attempt of a step waited for before it began. All times are 0 if they are
// not known, or if it did not wait.
type Lead struct {
	Due     store.Time `cbor:"1,keyasint,omitempty"` // when it was to begin, after the pause before it
	Asked   store.Time `cbor:"2,keyasint,omitempty"` // when it asked for a permit, or was offered to workers
	Granted store.Time `cbor:"3,keyasint,omitempty"` // when the run had the permit
	Queue   string     `cbor:"4,keyasint,omitempty"` // of the permit, or of the task
	Task    bool       `cbor:"5,keyasint,omitempty"` // a worker executed it
	Placed  store.Time `cbor:"6,keyasint,omitempty"` // when it asked its node for a place
	// Began is of the last attempt of a step that has succeeded. A failed attempt has it in its Failure.
	Began store.Time `cbor:"7,keyasint,omitempty"`
}

// Since returns when the attempt began to wait; 0: it did not, l is nil.
func (l *Lead) Since() store.Time {
	switch {
	case l == nil:
		return 0
	case l.Due != 0:
		return l.Due
	case l.Asked != 0:
		return l.Asked
	case l.Placed != 0:
		return l.Placed
	}
	return l.Began
}

// noticeable is the shortest wait that is recorded.
const noticeable = store.Time(1000)

// Notice returns l as it is recorded for an attempt that began at a time: nil if it did not wait for long.
func (l Lead) Notice(began store.Time) *Lead {
	if l.Placed != 0 && began < l.Placed+noticeable {
		l.Placed = 0
	}
	switch {
	case l.Task || l.Due != 0:
	case l.Asked != 0 && max(l.Granted, l.Placed, began) < l.Asked+noticeable:
		l.Asked, l.Granted, l.Queue = 0, 0, ""
	}
	if l.Due|l.Asked|l.Placed == 0 && !l.Task {
		return nil
	}
	noticed := l // the others need no memory of their own
	return &noticed
}
