// Package runfile is the file that an exported run is: the run, its history and
// what its inbox holds, as JSON that can be read, compared and kept for years. It
// knows the contract's types and nothing of who wrote or replays them.
//
// # The form
//
// The file is one JSON object. "format" is "stet run", and "version" grows when
// a reader of the former version could not understand the file any more: fields
// that a reader does not know are skipped within one version, and refused if the
// version is a later one. Locations stand in their text form, times in RFC 3339,
// kinds and states by their names; what is zero is left out.
//
// A stored value is bytes. One that is JSON (format 1 of the codecs, written as
// compactly as encoding/json does) stands as such, so that a person can read it;
// any other stands in base64. Both give the same bytes again.
package runfile
