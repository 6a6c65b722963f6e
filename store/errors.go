package store

import "errors"

// Errors that a store returns, wrapped with the act and the object.
var (
	// ErrUnavailable: the store cannot be reached now, or has no room. The act did not
	// happen, unless ErrUnknown is wrapped too.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUnknown: the act may have happened or not.
	ErrUnknown = errors.New("outcome unknown")
	// ErrWentBack: the store is in an earlier state than it was, as after a restored backup
	// or a failover that lost writes: a batch that it had acknowledged to the caller is not
	// there. Nothing changed. What the caller knows of leases and runs is void.
	ErrWentBack = errors.New("store went back")
	// ErrTooLarge: the act is larger than the store can take, or takes longer than the store
	// allows. It did not happen; parts of it may be tried. It comes with ErrInvalid if the
	// act alone is the reason, and with ErrUnavailable if the store may be.
	ErrTooLarge = errors.New("too large")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store closed")
	// ErrBadCursor: the cursor was not made by this store's List.
	ErrBadCursor = errors.New("bad cursor")
	// ErrInvalid: the input breaks the contract (an empty location, an unset
	// status, a missing item ID). Nothing changed.
	ErrInvalid = errors.New("invalid")
	// ErrSchema: the store's schema is newer or older than this binary can use.
	ErrSchema = errors.New("schema mismatch")
	// ErrDamaged: stored data is not what a store writes.
	ErrDamaged = errors.New("store damaged")
)
