// Package runfile is the file form of an exported run: the run, its history and its
// inbox, as JSON that can be read, compared and kept for years. It knows the types of
// the contract, and nothing of the programs that write or replay them.
//
// # The form
//
// The file is one JSON object. "format" is "stet run". "version" grows when a reader of
// the former version can no longer understand the file. Within its own version a reader
// skips the fields that it does not know; a later version it refuses. Locations have
// their text form, times are in RFC 3339, kinds and states are names. Zero values are
// left out.
//
// A stored value is bytes. If it is JSON (format 1 of the codecs, as compact as
// encoding/json writes it), the file contains that JSON, so that a person can read it.
// Any other value is in base64. Both give the same bytes again.
package runfile
