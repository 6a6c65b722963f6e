// Package verbs says what may be asked of a run: cancel, terminate, pause, resume,
// retry, rewind, edit, and to be notified of its end. These requests are called
// verbs. They are items of the run's inbox, and the owner decides them.
//
// [Judge] is the law, by verb, status and marks. All who have to know it ask here:
//
//   - a caller before it writes a request, to save the round trip;
//   - the owner of a run that rests, see package decide;
//   - the owner of a run that executes, for the verbs that its code has no part in;
//   - the command line, which picks the runs of a query that a verb makes sense for.
//
// The row of a run does not tell everything. [NeedsNoCode] also looks at the inbox,
// and says whether a claimed run is decided at rest or its code is executed. What
// the history forbids is found by package decide, and what code forbids that
// executes, such as a second cancel, by package runner. The texts of both stand here.
//
// A verdict is stored with the item that asked: see [EncodeVerdict].
package verbs
