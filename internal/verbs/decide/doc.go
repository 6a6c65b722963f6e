// Package decide makes the turn with which the owner of a run answers the verbs in its
// inbox while the run rests. A run rests if its code is not executing, or if what is
// asked needs no code (verbs.NeedsNoCode).
//
// [AtRest] is a function of its arguments. It calls a [Reader] if a verb changes the
// history, and nothing else. The engine commits the turn. If that fails, the run stays
// claimed, is loaded again, and is decided from scratch.
//
// Verbs are taken in the order of the inbox. Each meets the run as the verbs before it
// leave it. A verb that changes the history ends the decision: the run is loaded again,
// and the rest of its inbox is asked of it as it is then.
package decide
