// Package verbs says what may be asked of a run: cancel, terminate, pause, resume,
// retry, rewind, edit, nudge, and to be notified of its end. These requests are called
// verbs. They are items of the run's inbox, and the owner decides them.
//
// [Judge] is the law, by verb, status and marks. Its users are
//
//   - a caller, before it writes a request, to save the round trip;
//   - the owner of a run that rests, see package decide;
//   - the owner of a run that executes, for the verbs in which its code has no part;
//   - the command line and dashboards, for the verbs that make sense for a run.
//
// The row of a run does not say everything. [NeedsNoCode] also reads the inbox, and
// reports whether a claimed run is decided at rest or its code is executed. Package
// decide finds what the history forbids. Package runner finds what executing code
// forbids, such as a second cancel. The texts of both stand here.
//
// A verdict is stored with the item that asked: see [Yes], [No] and [DecodeVerdict].
package verbs
