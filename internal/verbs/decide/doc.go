// Package decide makes the turn with which the owner of a run answers the verbs in its
// inbox while the run rests: its code is not executing, or need not be executed for it
// (verbs.NeedsNoCode).
//
// [AtRest] is a function of what was read: it calls a [Reader] if the history has to be
// changed, and nothing else. The engine commits the turn. If that fails, the run stays
// claimed, is loaded again, and is decided from scratch.
//
// Verbs are taken in the order of the inbox, each of the run as those before it leave
// it. What cannot be told from the row and the inbox ends the decision: after a verb
// that changes the history, the run is claimed again with the rest of its inbox.
package decide
